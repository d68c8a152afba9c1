"""Wrong patches made from a right one: less of it, or one place of its code changed."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest

from chimera.eval.kits import mutate
from chimera.eval.kits.patches import diffs
from chimera.eval.kits.replies import parse_python

#: In languages whose syntax nobody reads here: a word or sign, and what stands there instead.
_WORDS = {
    "true": "false", "false": "true", "===": "!==", "!==": "===", "==": "!=", "!=": "==",
    "&&": "||", "||": "&&", "<=": ">", ">=": "<", " < ": " >= ", " > ": " <= ", " + ": " - ",
}  # fmt: skip
_WORD = re.compile(
    r"(?<![\w$'\"])(?:true|false|\d+)(?![\w$.'\"])|[!=]==?(?![=>])|&&|\|\||[<>]=| [<>+] (?!\w+>)"
)

_REMOVABLE = (ast.Assign, ast.AugAssign, ast.Expr, ast.Raise, ast.Delete)


@dataclass(frozen=True, slots=True)
class _Run:
    """Changed lines that follow each other in a hunk."""

    file: int
    hunk: int
    start: int
    lines: tuple[str, ...]

    @property
    def added(self) -> list[str]:
        return [line[1:] for line in self.lines if line.startswith("+")]


def weaker(patch: str) -> Iterator[str]:
    """Kinds take turns: a hunk is left out, a part of a hunk, an added statement is another one.

    The order is fixed. Some behave like the patch: what tests do not look at, or a message.
    """
    files = diffs.parse(patch)
    seen = {patch, ""}
    kinds = (_without_largest_hunk(patch), _without_runs(files), _other_statements(files))
    for made in (made for turn in zip_longest(*kinds) for made in turn):
        if made and made not in seen:
            seen.add(made)
            yield made


def _without_largest_hunk(patch: str) -> Iterator[str]:
    yield diffs.without_hunk(patch, diffs.largest_hunk(patch))


def _without_runs(files: Sequence[diffs.FilePatch]) -> Iterator[str]:
    """What is left of hunks that change several places."""
    runs = _runs(files)
    places = [(run.file, run.hunk) for run in runs]
    for run in runs:
        idle = all(diffs.is_idle(line[1:], files[run.file].path) for line in run.lines)
        if places.count((run.file, run.hunk)) > 1 and not idle:
            before = [" " + line[1:] for line in run.lines if line.startswith("-")]
            yield _with(files, run, before)


def _other_statements(files: Sequence[diffs.FilePatch]) -> Iterator[str]:
    """One return, condition, comparison, operator or constant of what the patch adds, or a
    statement less; places take turns."""
    runs = _runs(files)
    turns = zip_longest(
        *(
            _changed_lines(run) if path.endswith(".py") else _changed_words(run, path)
            for run, path in ((run, files[run.file].path) for run in runs)
        )
    )
    for turn in turns:
        for run, lines in zip(runs, turn, strict=True):
            if lines is not None:
                yield _with(files, run, lines)


def _changed_lines(run: _Run) -> Iterator[list[str]]:
    """The run's lines with one statement changed."""
    added = run.added
    first = next((line for line in added if line.strip()), "")
    kept = [line for line in run.lines if not line.startswith("+")]
    whole = "\n".join(added) + "\n"
    if first and parse_python(textwrap.dedent(whole)) is not None:
        indent = first[: len(first) - len(first.lstrip())]
        for other in _changed(textwrap.dedent(whole)):
            yield [*kept, *(f"+{indent}{line}" for line in other.rstrip().split("\n"))]
        return
    for number, line in enumerate(added):
        for other in _changed_header(line):
            yield [*kept, *(f"+{new}" for new in [*added[:number], other, *added[number + 1 :]])]


def _changed_words(run: _Run, path: str) -> Iterator[list[str]]:
    """The run's lines with one truth, comparison, sum or number changed."""
    for number, line in enumerate(run.lines):
        if not line.startswith("+") or diffs.is_idle(line[1:], path):
            continue
        for found in _WORD.finditer(line):
            other = _WORDS.get(found[0]) or str(int(found[0]) + 1)
            made = line[: found.start()] + other + line[found.end() :]
            yield [*run.lines[:number], made, *run.lines[number + 1 :]]


def _changed_header(line: str) -> Iterator[str]:
    """Others of a line that is a statement, or the head of one."""
    indent, text = line[: len(line) - len(line.lstrip())], line.strip()
    chained = text.startswith("elif ")
    source = text[2:] if chained else text
    for other in _changed(f"{source} pass\n" if source.endswith(":") else f"{source}\n"):
        first = other.split("\n")[0]
        yield f"{indent}{'el' if chained else ''}{first}"


def _changed(source: str) -> Iterator[str]:
    tree = parse_python(source)
    if tree is None:
        return
    yield from _negated(source)
    yield from mutate.python(source, limit=8)
    yield from _shortened(source)


def _negated(source: str) -> Iterator[str]:
    for number in range(_count(source, ast.If | ast.IfExp | ast.While)):
        tree = ast.parse(source)
        node = [n for n in ast.walk(tree) if isinstance(n, ast.If | ast.IfExp | ast.While)][number]
        node.test = ast.UnaryOp(ast.Not(), node.test)
        yield ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _shortened(source: str) -> Iterator[str]:
    """Without one statement, in whose place nothing is done."""

    class Remover(ast.NodeTransformer):
        def __init__(self, number: int) -> None:
            self.left = number

        def generic_visit(self, node: ast.AST) -> ast.AST:
            if isinstance(node, _REMOVABLE) and not _is_text(node):
                self.left -= 1
                if self.left == -1:
                    return ast.Pass()
            return super().generic_visit(node)

    for number in range(_count(source, _REMOVABLE)):
        tree = Remover(number).visit(ast.parse(source))
        yield ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _count(source: str, kinds: object) -> int:
    return sum(isinstance(n, kinds) and not _is_text(n) for n in ast.walk(ast.parse(source)))  # type: ignore[arg-type]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant | ast.Name)


def _runs(files: Sequence[diffs.FilePatch]) -> list[_Run]:
    """Runs of program code, the longest first."""
    found: list[_Run] = []
    for number, file in enumerate(files):
        for position, hunk in enumerate(file.hunks if diffs.is_code(file.path) else ()):
            start = 0
            for changed, group in groupby(hunk.lines, key=lambda line: line[:1] in ("+", "-")):
                lines = tuple(group)
                if changed and not any(line.startswith("\\") for line in hunk.lines):
                    found.append(_Run(number, position, start, lines))
                start += len(lines)
    return sorted(found, key=lambda run: -len(run.lines))


def _with(files: Sequence[diffs.FilePatch], run: _Run, lines: Sequence[str]) -> str:
    """The patch with other lines for a run; "" where nothing is left to change."""
    file = files[run.file]
    old = file.hunks[run.hunk]
    body = [*old.lines[: run.start], *lines, *old.lines[run.start + len(run.lines) :]]
    hunks = [*file.hunks]
    hunks[run.hunk] = old.with_lines(body)
    return diffs.join(
        [*files[: run.file], replace(file, hunks=tuple(hunks)), *files[run.file + 1 :]]
    )
