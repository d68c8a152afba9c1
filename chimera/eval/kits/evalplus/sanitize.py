"""EvalPlus's way of getting code out of a reply, kept exact so that numbers compare.

It is lossy: decorated functions, helpers without a `return`, loops and plain statements at the top
level are dropped. `extract.python_program` is the careful reading of the same reply.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator

from chimera.eval.kits.replies import Effort, parse_python

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
#: Longer replies are cut to this many lines around their fences before the search over all ranges.
_MAX_LINES = 400


def sanitize(text: str, entry_point: str) -> str:
    """What EvalPlus's sanitizer keeps of a reply for one function."""
    code = longest_valid_part(_ANSI.sub("", text))
    tree = parse_python(code)
    if tree is None:
        return code
    lines = code.encode().splitlines(keepends=True)
    imports: list[str] = []
    definitions: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, ast.Import) or (
            isinstance(node, ast.ImportFrom) and node.module != "__future__"
        ):
            imports.append(_source(lines, node))
        elif (name := _defined_name(node)) is not None and name not in definitions:
            definitions[name] = node
    reachable = _reachable(entry_point, definitions)
    kept = [_source(lines, node) for name, node in definitions.items() if name in reachable]
    return "\n".join([*imports, *kept]) or code


def longest_valid_part(text: str) -> str:
    """Of all ranges of two or more lines, the valid Python with most lines that are not blank."""
    lines = text.split("\n")
    if len(lines) > _MAX_LINES and (fence := _fenced_range(lines)):
        lines = lines[fence[0] : fence[1]]
    filled = [0]
    for line in lines:
        filled.append(filled[-1] + bool(line.strip()))
    best, kept, effort = 0, (0, 0), Effort()
    joined = [lines[0], *(f"\n{line}" for line in lines[1:])]
    for first in range(len(lines)):
        if filled[-1] - filled[first] <= best or effort.characters <= 0:
            break
        least = max(2, bisect_right(filled, filled[first] + best) - first)
        end = next(effort.ends([lines[first], *joined[first + 1 :]], least=least), 0)
        if end:
            last = first + end - 1
            while last > first + 1 and filled[last] == filled[last + 1]:
                last -= 1
            best, kept = filled[first + end] - filled[first], (first, last)
    return "\n".join(lines[kept[0] : kept[1] + 1])


def _fenced_range(lines: list[str]) -> tuple[int, int] | None:
    fences = [index for index, line in enumerate(lines) if line.lstrip().startswith("```")]
    if len(fences) < 2:
        return None
    return max(0, fences[0]), fences[-1] + 1


def _defined_name(node: ast.stmt) -> str | None:
    """The name a top-level statement defines, if it is of a kind that is kept."""
    if isinstance(node, ast.ClassDef):
        return None if node.decorator_list else node.name
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        returns = any(isinstance(inner, ast.Return) for inner in ast.walk(node))
        return node.name if returns and not node.decorator_list else None
    parts: list[ast.expr | None] = []
    if isinstance(node, ast.Assign):
        parts = [node.targets[0], node.value if len(node.targets) == 1 else None]
    elif isinstance(node, ast.AnnAssign):
        parts = [node.target, node.value]
    return next((part.id for part in parts if isinstance(part, ast.Name)), None)


def _reachable(entry_point: str, definitions: dict[str, ast.stmt]) -> set[str]:
    reached, waiting = {entry_point}, [entry_point]
    while waiting:
        node = definitions.get(waiting.pop())
        for name in _mentioned(node) if node is not None else ():
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return reached


def _mentioned(node: ast.stmt) -> Iterator[str]:
    """Every identifier inside a statement, whatever its role."""
    for inner in ast.walk(node):
        for field in ("id", "attr", "arg", "name", "asname"):
            value = getattr(inner, field, None)
            if isinstance(value, str):
                yield value
        if isinstance(inner, ast.Global | ast.Nonlocal):
            yield from inner.names


def _source(lines: list[bytes], node: ast.stmt) -> str:
    """The text of a statement (columns of a syntax tree count bytes)."""
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    part = lines[first : last + 1]
    part[-1] = part[-1][: node.end_col_offset]
    part[0] = part[0][node.col_offset :]
    return b"".join(part).decode()
