"""Tests in Python, by Python's own syntax tree.

No expected value changes in the text. Each comparison in a file's functions, and each function that
asserts, is made to go through the class that is put at its head (`programs/checks.py`), which tries
it with other values. What differs between the two forms are two numbers at each test.
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

#: How a function that asserts is tried, by its name in lower case without underscores; those that
#: have no rule are only called with what must fail.
_RULES = {
    "assertgreater": "order", "assertless": "order",
    "assertin": "member", "assertcontains": "second", "assertredirects": "second",
    **dict.fromkeys(
        ("raises", "assertraises", "assertraisesmessage", "assertraisesregex",
         "assertraisesregexp"),
        "raises",
    ),
    **dict.fromkeys(
        ("warns", "assertwarns", "assertwarnsregex", "assertwarnsmessage", "assertlogs"), "block"
    ),
    **dict.fromkeys(("isclose", "allclose", "arrayequal", "arrayequiv"), "equal"),
    **dict.fromkeys(("equals", "identical"), "given"),
    "fail": "", "isinstance": "", "issubclass": "",
}  # fmt: skip
#: What functions of such names that assert belong to.
_OWNERS: dict[str, tuple[str, ...]] = {
    "fail": ("self", "cls", "pytest"), "raises": ("", "pytest"), "warns": ("", "pytest"),
    "isinstance": ("",), "issubclass": ("",),
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
        self._starts = [0, *(end.end() for end in re.finditer(rb"\r\n?|\n", source))]
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
    if _yields(function):
        return Case(name=function.name)
    if plain:
        return _plain_case(function, lines)
    place, indent = lines.span(function)[0], lines.indent(function)
    check = f"@{{name}}.test({{number}}, {{other}}, {{reach}}, {_own(function) != ''})\n{indent}"
    return Case(place=place, check=check, name=function.name)


def _plain_case(function: Function, lines: _Lines) -> Case:
    """The check is a statement."""
    if function.body[0].lineno == function.lineno:
        return Case(name=function.name)
    last, indent, own = function.body[-1], lines.indent(function.body[0]), _own(function)
    check = f"{own}.assertEqual({{number}}, {{other}})" if own else "assert {number} == {other}"
    if isinstance(last, (ast.Return, ast.Raise)):
        return Case(place=lines.start(last), check=f"{check}\n{indent}", name=function.name)
    return Case(place=lines.span(last)[1], check=f"\n{indent}{check}", name=function.name)


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


def _own(function: Function) -> str:
    """The first argument of a test that asserts by its methods."""
    arguments = function.args.posonlyargs + function.args.args
    name = arguments[0].arg if arguments else ""
    asserting = any(
        isinstance(node, ast.Attribute)
        and node.attr.startswith("assert")
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        for node in ast.walk(function)
    )
    return name if asserting else ""


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
    """What is put around comparisons, and around functions that assert."""
    passed_over, weighed = _passed_over(tree), set[int]()
    defined = {node.name for node in ast.walk(tree) if isinstance(node, Function)}
    for node in ast.walk(tree):
        if id(node) in passed_over:
            continue
        if isinstance(node, ast.Compare):
            yield from _operation(node, lines)
            if isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
                weighed |= {id(inner) for inner in ast.walk(node)}
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and id(node) in weighed:
            yield from _operation(node, lines)
        elif (function := _asserting(node)) is not None:
            name, rule = _name(function), _rule(_name(function))
            if rule is not None and name not in defined:
                start, end = lines.span(function)
                yield start, start, f'{{name}}.calling("{rule}", "{_plain(name)}", '
                yield end, end, ")"


def _asserting(node: ast.AST) -> ast.expr | None:
    """A function that may assert: one that is called, or a method of the test's own under another
    name."""
    if isinstance(node, ast.Call):
        owner = _name(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        owners = _OWNERS.get(_name(node.func))
        return node.func if owners is None or owner in owners else None
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute):
        return node.value if _name(node.value.value) == "self" else None
    return None


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _passed_over(tree: ast.Module) -> set[int]:
    """What stands outside of functions, or is compiled by decorators of its own; and in formatted
    texts, whose places are not known."""
    inside: set[int] = set()
    outer: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, Function):
            if id(node) in inside and node.decorator_list:
                outer.append(node)
            inside |= {id(inner) for statement in node.body for inner in ast.walk(statement)}
            outer += node.decorator_list
        elif isinstance(node, (ast.JoinedStr, ast.ClassDef)):
            outer += [node] if isinstance(node, ast.JoinedStr) else node.decorator_list
    left_out = {id(inner) for node in outer for inner in ast.walk(node)}
    return {id(node) for node in ast.walk(tree)} - inside | left_out


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _rule(written: str) -> str | None:
    """How a function is tried; None for one that does not assert."""
    name = _plain(written)
    if name in _RULES:
        return _RULES[name]
    if not re.match("assert(_|[A-Z])", written) or re.search("numqueries|nologs|raise|warn", name):
        return None
    if re.search("equal|close|identical", name) and not re.search("greater|less", name):
        return "differ" if "not" in name else "equal"
    if re.match("assert(any|has)?(called|call|await)", name):
        return "called" if re.fullmatch("assert(called|awaited)(once)?", name) else "given"
    return ""


def _operation(node: ast.Compare | ast.BinOp, lines: _Lines) -> Sequence[Insertion]:
    """A comparison or difference as a call; none where an operator is identity, or not found."""
    if isinstance(node, ast.BinOp):
        operands, operators, method = [node.left, node.right], ["-"], "minus("
    else:
        operands = [node.left, *node.comparators]
        operators = [_OPERATORS.get(type(each), "") for each in node.ops]
        method = f"compared({tuple(operators)!r}, "
    commas: list[Insertion] = []
    for operator, (left, right) in zip(operators, pairwise(operands), strict=True):
        end, start = lines.span(left)[1], lines.span(right)[0]
        written = _CLOSING + operator.replace(" ", r"\s+").encode()
        found = re.match(written, lines.source[end:start])
        if found is None or not operator:
            return ()
        commas.append((end + found.end(1), end + found.end(), ","))
    start, end = lines.span(node)
    return (start, start, f"{{name}}.{method}"), *commas, (end, end, ")")


#: What can stand between an operand and its operator.
_CLOSING = rb"((?:\s|\)|\\\n|#[^\n]*\n)*)"
