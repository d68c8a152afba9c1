"""Tests in Python: functions, methods and unittest's assertions, by Python's own syntax tree.

Only the text of constants changes and only whole lines are added, so that a file stays one for the
interpreter it was written for.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator

from chimera.eval.kits.twins.cases import Case, Expectation, instead, some_text

Function = ast.FunctionDef | ast.AsyncFunctionDef
COMPARING = frozenset(
    f"assert{kind}{plural}"
    for kind in ("Equal", "_equal", "ListEqual", "DictEqual", "TupleEqual", "SequenceEqual",
                 "SetEqual", "MultiLineEqual", "CountEqual")
    for plural in ("", "s")
)  # fmt: skip

_PAIRS = (
    ("assertTrue", "assertFalse"), ("assertIn", "assertNotIn"), ("assertIs", "assertIsNot"),
    ("assertIsNone", "assertIsNotNone"), ("assertIsInstance", "assertNotIsInstance"),
)  # fmt: skip
#: Calls whose first argument is the exception that is to come.
RAISING = frozenset({"raises", "assertRaises", "assertRaisesMessage", "assertRaisesRegex"})
OPPOSITES = {**dict(_PAIRS), **{other: one for one, other in _PAIRS}}


def python_cases(source: bytes) -> list[Case]:
    """The tests of a file; none when it cannot be read as Python here."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    lines = _Lines(source)
    return [_case(function, lines) for function in _tests(tree)]


class _Lines:
    """Where lines begin, to turn line and column (of bytes) into a place."""

    def __init__(self, source: bytes) -> None:
        self._starts = [0]
        for line in source.split(b"\n")[:-1]:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def place(self, line: int | None, column: int | None) -> int:
        assert line is not None
        assert column is not None
        return self._starts[line - 1] + column


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


def _case(function: Function, lines: _Lines) -> Case:
    expectations, opposites = list(_expected(function, lines)), list(_opposites(function, lines))
    if expectations or opposites or not _has_room(function):
        further = opposites if expectations else ()
        return Case(expectations or opposites, further=further)
    last, indent = function.body[-1], " " * function.body[0].col_offset
    if isinstance(last, (ast.Return, ast.Raise)):
        place = lines.place(last.lineno, last.col_offset)
        return Case(place=place, check=f"{_check(function)}\n{indent}")
    place = lines.place(last.end_lineno, last.end_col_offset)
    return Case(place=place, check=f"\n{indent}{_check(function)}")


def _has_room(function: Function) -> bool:
    """Whether a line can be added at the end of the body, and would be reached."""
    own_lines = function.body[0].lineno > function.lineno
    yields = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(function))
    return own_lines and not yields


def _check(function: Function) -> str:
    """By the test's own means: what disarms those must meet it."""
    arguments = function.args.posonlyargs + function.args.args
    name = arguments[0].arg if arguments else ""
    asserting = any(
        isinstance(node, ast.Attribute)
        and node.attr.startswith("assert")
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        for node in ast.walk(function)
    )
    return (
        f"{name}.assertEqual({{number}}, {{other}})" if asserting else "assert {number} == {other}"
    )


def _expected(function: Function, lines: _Lines) -> Iterator[Expectation]:
    """What something is compared with for equality."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            for comparison in _conjuncts(node.test):
                if isinstance(comparison, ast.Compare) and isinstance(comparison.ops[0], ast.Eq):
                    yield from _compared(comparison.left, comparison.comparators[0], lines)
        elif isinstance(node, ast.Call) and _called(node) in COMPARING and len(node.args) >= 2:
            yield from _compared(node.args[0], node.args[1], lines)


def _opposites(function: Function, lines: _Lines) -> Iterator[Expectation]:
    """Assertions that have an opposite, and exceptions, in whose place others are expected."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and node.args and _called(node) in RAISING:
            yield Expectation(*_span(node.args[0], lines), instead(b"BufferError"))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, end = node.func.attr, _span(node.func, lines)[1]
            if name in OPPOSITES:
                yield Expectation(end - len(name), end, instead(OPPOSITES[name].encode()))


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _conjuncts(test: ast.expr) -> Iterator[ast.expr]:
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for value in test.values:
            yield from _conjuncts(value)
    else:
        yield test


def _compared(left: ast.expr, right: ast.expr, lines: _Lines) -> Iterator[Expectation]:
    """The constants of the side that is a literal, when the other one is not; where neither has
    any, the whole of the side that calls nothing, or of the second."""
    found = [list(_constants(side)) for side in (left, right)]
    if bool(found[0]) != bool(found[1]):
        yield from (_expectation(constant, lines) for constant in found[0] or found[1])
    elif not found[0]:
        whole = left if _calls(right) and not _calls(left) else right
        yield Expectation(*_span(whole, lines), some_text)


def _calls(side: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) for node in ast.walk(side))


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
    one_line = constant.lineno == constant.end_lineno
    finite = not isinstance(constant.value, float) or abs(constant.value) < 1e300
    return one_line and finite and isinstance(constant.value, (int, float, str, bytes))


def _expectation(constant: ast.Constant, lines: _Lines) -> Expectation:
    def other(text: bytes, seed: random.Random) -> bytes:
        return ascii(_another(constant.value, seed)).encode()

    return Expectation(*_span(constant, lines), other)


def _span(node: ast.expr, lines: _Lines) -> tuple[int, int]:
    end = lines.place(node.end_lineno, node.end_col_offset)
    return lines.place(node.lineno, node.col_offset), end


def _another(value: object, seed: random.Random) -> object:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + seed.randrange(2, 90) if abs(value) < 10**9 else value * 2
    letters = "".join(seed.choices("abcdefghijklmnopqrstuvwxyz", k=6))
    return value + letters.encode() if isinstance(value, bytes) else f"{value}{letters}"
