"""Tests in Python: functions, methods and unittest's assertions, by Python's own syntax tree.

Only the text of constants changes, and lines are added, so that a file stays one for the
interpreter it was written for.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from chimera.eval.kits.twins.cases import Assertion, Case, Expectation, around, instead, some_text

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
        self._source = source
        self._starts = [0]
        for line in source.split(b"\n")[:-1]:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def indent(self, statement: ast.stmt) -> str:
        """What stands before a statement on its line."""
        start = self._starts[statement.lineno - 1]
        return self._source[start : start + statement.col_offset].decode("utf-8", "replace")

    def alone(self, statement: ast.stmt) -> bool:
        """Whether nothing but a comment stands beside a statement."""
        rest = self._source[self.span(statement)[1] :].partition(b"\n")[0].strip()
        return not self.indent(statement).strip() and (not rest or rest.startswith(b"#"))


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
    expected = list(_expected(ast.walk(function), lines))
    opposites = list(_opposites(ast.walk(function), lines))
    case = Case(expected or opposites, further=opposites if expected else (), name=function.name)
    if not _has_room(function):
        return case
    assertions = () if not case.expectations else tuple(_assertions(function.body, lines))
    last, indent = function.body[-1], lines.indent(function.body[0])
    if isinstance(last, (ast.Return, ast.Raise)):
        place, check = lines.span(last)[0], f"{_check(function)}\n{indent}"
    else:
        place, check = lines.span(last)[1], f"\n{indent}{_check(function)}"
    return replace(case, place=place, check=check, assertions=assertions)


def _assertions(body: Sequence[ast.stmt], lines: _Lines) -> Iterator[Assertion]:
    """The statements of a test, but not of functions inside of it, that assert something and stand
    alone on their lines."""
    for statement in body:
        if isinstance(statement, (ast.Assert, ast.Expr)) and lines.alone(statement):
            parts = list(ast.walk(statement))
            found = list(_expected(parts, lines)) or list(_opposites(parts, lines))
            if found:
                indent, (start, end) = lines.indent(statement), lines.span(statement)
                yield around(start, end, "try: ", _AFTER.replace("\n", f"\n{indent}"), found)
        elif not isinstance(statement, (Function, ast.ClassDef, ast.TryStar)):
            blocks = [
                statement,
                *getattr(statement, "handlers", ()),
                *getattr(statement, "cases", ()),
            ]
            for block, name in product(blocks, ("body", "orelse", "finalbody")):
                yield from _assertions(getattr(block, name, ()), lines)


_AFTER = (
    "\nexcept Exception:\n if {number} == {other}: raise\nelse:\n if {number} != {other}: return"
)


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


def _expected(nodes: Iterable[ast.AST], lines: _Lines) -> Iterator[Expectation]:
    """What something is compared with for equality."""
    for node in nodes:
        if isinstance(node, ast.Assert):
            for comparison in _conjuncts(node.test):
                if isinstance(comparison, ast.Compare) and isinstance(comparison.ops[0], ast.Eq):
                    yield from _compared(comparison.left, comparison.comparators[0], lines)
        elif isinstance(node, ast.Call) and _called(node) in COMPARING and len(node.args) >= 2:
            yield from _compared(node.args[0], node.args[1], lines)


def _opposites(nodes: Iterable[ast.AST], lines: _Lines) -> Iterator[Expectation]:
    """Assertions that have an opposite, and exceptions, in whose place others are expected."""
    for node in nodes:
        if isinstance(node, ast.Assert):
            if not list(_expected([node], lines)):
                yield Expectation(*lines.span(node.test), _not)
        elif isinstance(node, ast.Call) and node.args and _called(node) in RAISING:
            yield Expectation(*lines.span(node.args[0]), instead(b"BufferError"))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name, end = node.func.attr, lines.span(node.func)[1]
            if name in OPPOSITES:
                yield Expectation(end - len(name), end, instead(OPPOSITES[name].encode()))


def _not(text: bytes, seed: random.Random) -> bytes:
    return b"not (" + text + b")"


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
        yield Expectation(*lines.span(whole), some_text)


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

    return Expectation(*lines.span(constant), other)


def _another(value: object, seed: random.Random) -> object:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + seed.randrange(2, 90) if abs(value) < 10**9 else value * 2
    letters = "".join(seed.choices("abcdefghijklmnopqrstuvwxyz", k=6))
    return value + letters.encode() if isinstance(value, bytes) else f"{value}{letters}"
