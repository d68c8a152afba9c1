"""Tests in Python, by Python's own syntax tree.

No expected value changes in the text. Each assertion of a file, in tests and beside them, is made
to go through the class that is put at its head (`programs/checks.py`), which tries it with other
values while a twin runs. What differs between the two forms are numbers at the head and the end of
each test.
"""

from __future__ import annotations

import ast
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from chimera.eval.kits.twins.cases import Case, Insertion

Function = ast.FunctionDef | ast.AsyncFunctionDef

_RAISING = frozenset({"raises", "assertraises", "assertraisesmessage", "assertraisesregex",
                      "assertraisesregexp"})  # fmt: skip
#: By names in lower case without underscores. Rules are those of the program; none: left alone.
_RULES = {
    "assertgreater": "assertLessEqual", "assertlessequal": "assertGreater",
    "assertless": "assertGreaterEqual", "assertgreaterequal": "assertLess",
    "assertin": "member", "assertnotin": "absent", "assertisinstance": "instance",
    "assertcontains": "second", "assertredirects": "second",
    "assertregex": "regex", "assertregexpmatches": "regex", "assertregexpmatch": "regex",
    **dict.fromkeys(_RAISING, "raises"),
    **dict.fromkeys(
        ("assert", "asserttrue", "assertfalse", "assertis", "assertisnot", "assertisnone",
         "assertisnotnone", "assertnotisinstance", "assertnotregex", "assertnotregexpmatches",
         "assertnotcontains", "assertlogs", "assertnologs", "assertnumqueries", "assertwarns",
         "assertwarnsregex", "assertwarnsmessage"),
        "",
    ),
}  # fmt: skip
#: Of calls whose truth is asserted.
_TRUTHS = {
    "isinstance": "instance", "issubclass": "instance", "isclose": "equal", "allclose": "equal",
    "array_equal": "equal", "array_equiv": "equal", "equals": "given", "identical": "given",
}  # fmt: skip
_OPERATORS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


def python_cases(source: bytes, *, plain: bool) -> tuple[list[Case], list[Insertion]]:
    """The tests of a file (none when it cannot be read as Python here), and what is put into it
    whichever form is made; in a plain form that is nothing."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return [], []
    lines = _Lines(source)
    head = None if plain else _head(tree, lines)
    cases = [_case(function, lines, plain=head is None) for function in _tests(tree)]
    if head is None:
        return cases, []
    return cases, [(head, head, _program()), *_rewritten(tree, lines)]


class _Lines:
    """Where lines begin, to turn line and column (of bytes) into a place."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._starts = [0]
        for line in source.split(b"\n")[:-1]:
            self._starts.append(self._starts[-1] + len(line) + 1)
        if source.startswith(BOM_UTF8):
            self._starts[0] = len(BOM_UTF8)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def start(self, statement: ast.stmt) -> int:
        """Where a statement begins, its decorators included."""
        first = min(
            (each.lineno for each in getattr(statement, "decorator_list", ())),
            default=statement.lineno,
        )
        return self._starts[first - 1] + statement.col_offset

    def indent(self, statement: ast.stmt) -> str:
        """What stands before a statement on its line."""
        start = self._starts[statement.lineno - 1]
        return self.source[start : start + statement.col_offset].decode("utf-8", "replace")


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


def _case(function: Function, lines: _Lines, *, plain: bool) -> Case:
    """A test, with a check at its end that holds in the true form alone."""
    one_line = function.body[0].lineno == function.lineno
    if _yields(function) or (plain and one_line):
        return Case(name=function.name)
    between = "; " if one_line else f"\n{lines.indent(function.body[0])}"
    last, check = function.body[-1], _check(function, plain=plain)
    if isinstance(last, (ast.Return, ast.Raise)):
        place, check = lines.start(last), f"{check}{between}"
    else:
        place, check = lines.span(last)[1], f"{between}{check}"
    first = next((each for each in function.body if not _is_text(each)), None)
    opening = None
    if first is not None and not plain:
        opening = (lines.start(first), f"{{name}}.begin({{number}}, {{other}}, {{reach}}){between}")
    return Case(place=place, check=check, opening=opening, name=function.name)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _yields(function: Function) -> bool:
    """Whether a function is a generator, whose end is not reached as that of a test."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (Function, ast.Lambda, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)
    return False


def _check(function: Function, *, plain: bool) -> str:
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
    if plain:
        equal = f"{name}.assertEqual({{number}}, {{other}})"
        return equal if asserting else "assert {number} == {other}"
    equal = f", {name}.assertEqual" if asserting else ""
    return f"{{name}}.end({{number}}, {{other}}{equal})"


@cache
def _program() -> str:
    text = (Path(__file__).parent / "programs" / "checks.py").read_text("utf-8")
    code = text[text.index("class Checks") :].replace("Checks", "{name}")
    return f'{code}\n\n{{name}}.letters, {{name}}.shift = "{{letters}}", {{shift}}\n'


def _head(tree: ast.Module, lines: _Lines) -> int | None:
    """The place of the first line that is neither the file's text nor an import of __future__;
    None where other statements stand on it."""
    for number, statement in enumerate(tree.body):
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not future and not (number == 0 and _is_text(statement)):
            return lines.start(statement) if not lines.indent(statement) else None
    return None


def _rewritten(tree: ast.Module, lines: _Lines) -> Iterator[Insertion]:
    """What is put around assertions."""
    passed_over = _passed_over(tree)
    for node in ast.walk(tree):
        if id(node) in passed_over:
            continue
        if isinstance(node, ast.Assert):
            yield from _truth(node.test, lines, wanted=True)
        elif isinstance(node, ast.If) and _fails(node.body):
            yield from _truth(node.test, lines, wanted=False)
        elif isinstance(node, ast.Call):
            name = _called(node)
            if name in ("assertTrue", "assertFalse") and node.args:
                yield from _truth(node.args[0], lines, wanted=name == "assertTrue")
            elif rule := _rule(name):
                yield from _calling(node, rule, lines)


def _fails(body: Sequence[ast.stmt]) -> bool:
    """Whether a block only says that a test has failed."""
    (statement, *others), called = body, ""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = _called(statement.value)
    return not others and (isinstance(statement, ast.Raise) or called == "fail")


def _passed_over(tree: ast.Module) -> set[int]:
    """Decorators, and what stands in formatted texts, whose places are not known."""
    outer: list[ast.AST] = []
    for node in ast.walk(tree):
        outer += getattr(node, "decorator_list", ())
        if isinstance(node, ast.JoinedStr):
            outer.append(node)
    return {id(inner) for node in outer for inner in ast.walk(node)}


def _rule(name: str) -> str:
    """How the other values of a call are chosen; empty for what does not assert."""
    plain = name.lower().replace("_", "")
    if plain in _RULES:
        return _RULES[plain]
    if not plain.startswith("assert"):
        return ""
    if re.search("equal|close|identical", plain):
        return "differ" if "not" in plain else "equal"
    if re.match("assert(any|has)?(called|call|await)", plain):
        return "given"
    return "" if re.search("warn|raise|not", plain) else "unknown"


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _truth(test: ast.expr, lines: _Lines, *, wanted: bool) -> Iterator[Insertion]:
    """What is asserted by being true, or untrue."""
    inner = list(_inner(test)) if wanted else []
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if wanted else ast.Or):
        for value in test.values:
            yield from _truth(value, lines, wanted=wanted)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _truth(test.operand, lines, wanted=not wanted)
    elif isinstance(test, ast.Call) and wanted and _called(test) in _TRUTHS:
        yield from _calling(test, _TRUTHS[_called(test)], lines)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and inner in ([], [test]):
        yield from _operation(test, lines, "compared", f", {wanted}")
    elif inner and not any(map(_binds, ast.walk(test))):
        start, end = lines.span(test)
        yield start, start, "{name}.nested(lambda: "
        for node in inner:
            yield from _operation(node, lines, "inner")
        yield end, end, ")"


def _inner(test: ast.expr) -> Iterator[ast.Compare | ast.BinOp]:
    """Comparisons anywhere in an expression, and differences that are weighed."""
    weighed = isinstance(test, ast.Compare) and not isinstance(
        test.ops[0], (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)
    )
    for node in ast.walk(test):
        if isinstance(node, ast.Compare) or (
            weighed and isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)
        ):
            yield node


def _binds(node: ast.AST) -> bool:
    """Whether something cannot stand in a function of its own."""
    named = isinstance(node, ast.Name) and node.id in ("super", "locals")
    return named or isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr))


def _operation(
    node: ast.Compare | ast.BinOp, lines: _Lines, method: str, more: str = ""
) -> Sequence[Insertion]:
    """A comparison or difference as a call; none where an operator is identity, or not found."""
    if isinstance(node, ast.BinOp):
        operands, operators = [node.left, node.right], ["-"]
    else:
        operands = [node.left, *node.comparators]
        operators = [_OPERATORS.get(type(each), "") for each in node.ops]
    commas: list[Insertion] = []
    for operator, (left, right) in zip(operators, pairwise(operands), strict=True):
        end, start = lines.span(left)[1], lines.span(right)[0]
        written = _CLOSING + operator.replace(" ", r"\s+").encode()
        found = re.match(written, lines.source[end:start])
        if found is None or not operator:
            return ()
        commas.append((end + found.end(1), end + found.end(), ","))
    start, end = lines.span(node)
    named = repr(operators[0]) if method == "compared" else repr(tuple(operators))
    return (start, start, f"{{name}}.{method}({named}{more}, "), *commas, (end, end, ")")


#: What can stand between an operand and its operator.
_CLOSING = rb"((?:\s|\)|\\\n|#[^\n]*\n)*)"


def _calling(call: ast.Call, rule: str, lines: _Lines) -> Sequence[Insertion]:
    start, end = lines.span(call.func)
    if not re.match(rb"\s*\(", lines.source[end:]):
        return ()
    return (start, start, f'{{name}}.calling("{rule}", '), (end, end, ")")
