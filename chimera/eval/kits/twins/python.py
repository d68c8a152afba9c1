"""Python tests rewritten: a check at the end of each, and, in the twin, other expected values.

Only constants change their text and only whole lines are added, so that the file stays one for the
interpreter it was written for, and both forms have the same lines.
"""

from __future__ import annotations

import ast
import random
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from chimera.eval.kits.twins.edits import Edit, Lines, edited

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A test file in one of its two forms.

    `checks` are the lines of the checks that were added, `changed` those of the expectations that
    have other values in the twin; both are the same in the two forms.
    """

    content: bytes
    tests: int
    checks: frozenset[int] = frozenset()
    changed: frozenset[int] = frozenset()


def rewritten(source: bytes, *, twin: bool, seed: random.Random) -> Rewritten | None:
    """The file for a true run or for its twin; None when it cannot be read as Python here."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    if not source.endswith(b"\n"):
        source += b"\n"
    lines = Lines(source)
    functions = list(_tests(tree))
    ends = sorted({_end(function) for function in functions if _has_room(function)})
    edits = [
        Edit(place, place, _check(function, twin=twin, seed=seed))
        for function in functions
        if _has_room(function)
        for place in (lines.end_of(_end(function)),)
    ]
    changed = set()
    for function in functions:
        for constant in _expected_constants(function):
            changed.add(constant.lineno)
            if twin:
                edits.append(_other_value(constant, lines, seed))
    return Rewritten(
        edited(source, edits),
        len(functions),
        frozenset(end + 1 + count for count, end in enumerate(ends)),
        frozenset(line + bisect_left(ends, line) for line in changed),
    )


def _tests(tree: ast.Module) -> Iterator[Function]:
    """Test functions and methods; not those inside of other functions."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, Function):
            if node.name.startswith("test"):
                yield node
        elif isinstance(node, (ast.ClassDef, ast.If, ast.Try, ast.With)):
            for block in ("body", "orelse", "finalbody"):
                waiting += getattr(node, block, [])


def _end(function: Function) -> int:
    end = function.body[-1].end_lineno
    assert end is not None
    return end


def _has_room(function: Function) -> bool:
    """Whether a line can be added at the end of the body, and would be reached."""
    last = function.body[-1]
    own_line = function.body[0].lineno > function.lineno and last.lineno > function.lineno
    yields = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(function))
    return own_line and not yields and not isinstance(last, (ast.Return, ast.Raise))


def _check(function: Function, *, twin: bool, seed: random.Random) -> bytes:
    """A line that holds in the true run and fails in the twin, by the test's own means."""
    number = seed.randrange(10**6, 10**9)
    other = seed.randrange(10**6, 10**9) if twin else number
    indent = " " * function.body[0].col_offset
    if (name := _asserting(function)) is not None:
        return f"{indent}{name}.assertEqual({number}, {other})\n".encode()
    return f"{indent}assert {number} == {other}\n".encode()


def _asserting(function: Function) -> str | None:
    """What a method calls its `self`, where it asserts through that."""
    arguments = function.args.posonlyargs + function.args.args
    if not arguments:
        return None
    name = arguments[0].arg
    asserting = any(
        isinstance(node, ast.Attribute)
        and node.attr.startswith("assert")
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        for node in ast.walk(function)
    )
    return name if asserting else None


def _expected_constants(function: Function) -> Iterator[ast.Constant]:
    """Constants that something is compared with for equality."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            for comparison in ast.walk(node.test):
                if isinstance(comparison, ast.Compare) and all(
                    isinstance(operator, ast.Eq) for operator in comparison.ops
                ):
                    for side in (comparison.left, *comparison.comparators):
                        yield from _constants(side)
        elif isinstance(node, ast.Call) and _compares(node.func) and len(node.args) >= 2:
            for argument in node.args[:2]:
                yield from _constants(argument)


def _compares(called: ast.expr) -> bool:
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    words = ("assertEqual", "assertEquals", "assert_equal", "assertListEqual", "assertDictEqual")
    more = ("assertTupleEqual", "assertSequenceEqual", "assertSetEqual", "assertMultiLineEqual")
    return name in words + more


def _constants(side: ast.expr) -> Iterator[ast.Constant]:
    """The constants of a literal; what a call is given belongs to the question."""
    if isinstance(side, ast.Constant):
        if _changeable(side):
            yield side
    elif isinstance(side, (ast.List, ast.Tuple, ast.Set)):
        for element in side.elts:
            yield from _constants(element)
    elif isinstance(side, ast.Dict):
        for value in side.values:
            yield from _constants(value)
    elif isinstance(side, ast.UnaryOp) and isinstance(side.op, ast.USub):
        yield from _constants(side.operand)


def _changeable(constant: ast.Constant) -> bool:
    """Numbers, truths and texts that stand on one line."""
    one_line = constant.lineno == constant.end_lineno
    finite = not isinstance(constant.value, float) or abs(constant.value) < 1e300
    return one_line and finite and isinstance(constant.value, (int, float, str, bytes))


def _other_value(constant: ast.Constant, lines: Lines, seed: random.Random) -> Edit:
    assert constant.end_lineno is not None
    assert constant.end_col_offset is not None
    start = lines.place(constant.lineno, constant.col_offset)
    end = lines.place(constant.end_lineno, constant.end_col_offset)
    return Edit(start, end, ascii(_another(constant.value, seed)).encode())


def _another(value: object, seed: random.Random) -> object:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + seed.randrange(2, 90) if abs(value) < 10**9 else value * 2
    suffix = "".join(seed.choices("abcdefghijklmnopqrstuvwxyz", k=6))
    return value + suffix.encode() if isinstance(value, bytes) else f"{value}{suffix}"
