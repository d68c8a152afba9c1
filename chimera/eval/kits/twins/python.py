"""Tests in Python, by Python's own syntax tree.

No expected value changes in the text. Each comparison and assertion in a file's functions, and each
function that asserts, is made to go through an object that its head makes (`programs/checks.py`),
which tries it with other values. What differs between the two forms are two numbers at each test.
"""

from __future__ import annotations

import ast
import re
import tokenize
import unittest
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from io import BytesIO
from itertools import count, pairwise
from pathlib import Path

from chimera.eval.kits.twins.cases import Case, Insertion

Function = ast.FunctionDef | ast.AsyncFunctionDef

#: How well-known functions that assert are tried, by their names in lower case without underscores;
#: those without a rule are only called with what must fail.
_RULES = {
    "assertin": "in", "assertgreater": ">", "assertless": "<", "assertgreaterequal": ">=",
    "assertlessequal": "<=", "fail": "", "isinstance": "", "issubclass": "",
    **dict.fromkeys(("raises", "assertraises", "assertraisesregex", "assertraisesregexp"),
                    "raises"),
    **dict.fromkeys(("warns", "assertwarns", "assertwarnsregex", "assertlogs"), "block"),
    **dict.fromkeys(("isclose", "allclose", "arrayequal", "arrayequiv"), "equal"),
    **dict.fromkeys(("assertcalled", "assertcalledonce", "assertawaited", "assertawaitedonce"),
                    "called"),
    **dict.fromkeys(("assertcalledwith", "assertcalledoncewith", "assertawaitedwith",
                     "assertawaitedoncewith"), "given"),
    **dict.fromkeys(("assertanycall", "asserthascalls"), "noted"),
    **dict.fromkeys(("assertcountequal", "assertitemsequal"), "alike"),
}  # fmt: skip
#: Modules whose functions are tried.
_KNOWN = frozenset({"math", "numpy", "numpy.testing", "pandas.testing", "pytest", "unittest"})
_METHODS = frozenset(dir(unittest.TestCase)) | {"assertItemsEqual", "assertEquals", "assert_"}
_BUILTIN = frozenset({"isinstance", "issubclass"})
_MOCKED = frozenset(name for name, rule in _RULES.items() if rule in ("called", "given", "noted"))
_OPERATORS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


def python_cases(source: bytes, *, plain: bool) -> tuple[list[Case], list[Insertion]]:
    """The tests of a file (none when it cannot be read as Python here), and what is put into it
    whichever form is made; in a plain form that is nothing."""
    try:
        encoding, _ = tokenize.detect_encoding(BytesIO(source).readline)
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return [], []
    if not source.isascii() and not encoding.startswith("utf-8"):
        return [], []  # places are counted in UTF-8
    lines, wild = _Lines(source), _wild_names(tree)
    head = None if plain else _head(tree, lines)
    if head is None:
        return [_case(function, lines, wild) for function in _tests(tree)], []
    sites, said = dict(_sites(tree)), set[int]()
    insertions = [(head, head, _program()), *_rewritten(tree, lines, sites, said)]
    asserting = _asserting_names(tree, said)
    cases = [
        _case(
            function,
            lines,
            wild,
            ([*_certain(function, sites, said)], _asserts(function, asserting)),
        )
        for function in _tests(tree)
    ]
    return cases, insertions


def parses(source: bytes) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


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
    """Test functions and methods; not those inside of other functions, and no fixtures."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, Function):
            if _is_test(node):
                yield node
        elif isinstance(node, (ast.ClassDef, ast.If, ast.Try, ast.With)):
            for block in ("body", "orelse", "finalbody"):
                waiting += getattr(node, block, [])


def _is_test(function: Function) -> bool:
    called = (each.func if isinstance(each, ast.Call) else each for each in function.decorator_list)
    return function.name.startswith("test") and not any(_name(e) in _FIXTURES for e in called)


_FIXTURES = frozenset({"fixture", "yield_fixture"})


def _wild_names(tree: ast.Module) -> frozenset[str]:
    """Names of what may equal all: objects made for it, classes of the file that compare, and
    whatever of the file but a test has one of them in it."""
    found = {"ANY"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "dirty_equals":
            found |= {each.asname or each.name for each in node.names}
        elif isinstance(node, ast.ClassDef) and any(
            isinstance(each, Function) and each.name == "__eq__" for each in node.body
        ):
            found.add(node.name)
    holders = [({*_bound_names(node)}, _used_names(node)) for node in _holders(tree)]
    while more := {name for bound, used in holders if used & found for name in bound} - found:
        found |= more
    return frozenset(found)


def _holders(tree: ast.Module) -> Iterator[ast.Assign | ast.AnnAssign | Function]:
    """What may hand something on to tests: functions, and what is not a name inside of one."""
    local = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, Function)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, Function):
            if not _is_test(node):
                yield node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and not all(
            id(each) in local
            for target in _targets(node)
            for each in ast.walk(target)
            if isinstance(each, (ast.Name, ast.Attribute))
        ):
            yield node


def _targets(node: ast.Assign | ast.AnnAssign) -> Sequence[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _bound_names(node: ast.Assign | ast.AnnAssign | Function) -> frozenset[str]:
    if isinstance(node, Function):
        return frozenset({node.name})
    return frozenset().union(*map(_used_names, _targets(node)))


def _used_names(node: ast.AST) -> frozenset[str]:
    """Names, attributes and arguments, by which fixtures are asked for."""
    return frozenset(
        each.arg if isinstance(each, ast.arg) else _name(each)
        for each in ast.walk(node)
        if isinstance(each, (ast.Name, ast.Attribute, ast.arg))
    ) - {"self", "cls"}


def _case(
    function: Function,
    lines: _Lines,
    wild: frozenset[str],
    asserted: tuple[Sequence[int], bool] | None = None,
) -> Case:
    """A test, with a check at its end that holds in the true form alone; a plain one where nobody
    says which assertions it is certain to come to, and whether there are any."""
    if _yields(function):
        return Case(name=function.name)
    if asserted is None:
        return _plain_case(function, lines)
    place, indent = lines.span(function)[0], lines.indent(function)
    check = f"@{{name}}.test({{number}}, {{other}}, {{reach}}{{within}})\n{indent}"
    outer = lines.start(function) if function.decorator_list else None
    return Case(
        place=place,
        check=check,
        name=function.name,
        outer=outer,
        within=f", {asserted[0]}, {asserted[1]}",
        wild=not _used_names(function).isdisjoint(wild),
    )


def _plain_case(function: Function, lines: _Lines) -> Case:
    """The check is a statement."""
    if function.body[0].lineno == function.lineno:
        return Case(name=function.name)
    last, indent = function.body[-1], lines.indent(function.body[0])
    check = "assert {number} == {other}"
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


#: Its own assertion is the file's, so that it meets whatever is done to those.
_PROGRAM = """\
def {name}(number, other):
    assert number == other
{name} = {"same": {name}, "__name__": "{name}", "__builtins__": dict(vars(__import__("builtins")))}
exec(PROGRAM, {name})
{name} = {name}["Checks"]({name}["same"])
"""


@cache
def _program() -> str:
    text = (Path(__file__).parent / "programs" / "checks.py").read_text("utf-8")
    text += '\nChecks.letters, Checks.shift = "{letters}", {shift}\n'
    return _PROGRAM.replace("PROGRAM", repr(text))


def _head(tree: ast.Module, lines: _Lines) -> int | None:
    """The place of the first line that is neither the file's text nor an import of __future__;
    None where other statements stand on it."""
    for number, statement in enumerate(tree.body):
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not future and not (number == 0 and _is_text(statement)):
            return lines.start(statement) if not lines.indent(statement) else None
    return None


def _rewritten(
    tree: ast.Module, lines: _Lines, sites: Mapping[int, int], said: set[int]
) -> Iterator[Insertion]:
    """What is put around comparisons, and around well-known functions that assert; `said`
    has what says that the test has come to it."""
    passed_over, demanded, weighed = _passed_over(tree), _demanded(tree), set[int]()
    modules = _modules(tree)
    ends: list[Insertion] = []
    methods = _METHODS - {node.name for node in ast.walk(tree) if isinstance(node, Function)}
    for node in ast.walk(tree):
        if id(node) in passed_over:
            continue
        if isinstance(node, ast.Assert):
            start, end = lines.span(node.test)
            yield start, start, f"{{name}}.held({sites.get(id(node), 0)}, ("
            yield end, end, "))"
            said.add(id(node))
        elif isinstance(node, (ast.With, ast.AsyncWith)) and id(node) in sites:
            begins, own_ends = _watched_block(node, sites[id(node)], lines)
            yield from begins
            ends = [*own_ends, *ends]  # after all that ends there, inner blocks first
        elif isinstance(node, ast.Compare):
            operation = _operation(node, lines, demanded=id(node) in demanded)
            yield from operation
            said |= {id(node)} if operation else set()
            if isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
                weighed |= {id(inner) for inner in ast.walk(node)}
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and id(node) in weighed:
            yield from _operation(node, lines)
        else:
            function = _asserting(node)
            rule = None if function is None else _rule(function, modules, methods)
            if function is not None and rule is not None:
                (start, end), plain = lines.span(function), _plain(_name(function))
                site = sites.get(id(node), 0)
                yield start, start, f'{{name}}.calling("{rule}", "{plain}", {site}, '
                yield end, end, ")"
                said.add(id(node))
    yield from ends


def _certain(function: Function, sites: Mapping[int, int], said: Set[int]) -> Iterator[int]:
    """The assertions that a test has come to when its end is reached."""
    for statement in function.body:
        asserting = statement.value if isinstance(statement, ast.Expr) else statement
        if id(asserting) in said and id(asserting) in sites:
            yield sites[id(asserting)]
        if _leaves(statement):
            return


def _asserts(function: Function, asserting: Set[str]) -> bool:
    """Whether a test that reaches its end compares or asserts something, in all likelihood."""
    return function.name in asserting and not any(map(_leaves, function.body))


def _asserting_names(tree: ast.Module, said: Set[int]) -> set[str]:
    """The functions of a file that compare or assert something, or call one that does."""
    found, calls = set[str](), dict[str, set[str]]()
    for function in ast.walk(tree):
        if isinstance(function, Function):
            inner = [*ast.walk(function)]
            if any(id(each) in said for each in inner):
                found.add(function.name)
            called = {_name(each.func) for each in inner if isinstance(each, ast.Call)}
            calls.setdefault(function.name, set()).update(called)
    while more := {name for name in calls.keys() - found if calls[name] & found}:
        found |= more
    return found


def _leaves(statement: ast.stmt) -> bool:
    """Whether a test may end there without an error."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return):
            return True
        if not isinstance(node, (Function, ast.Lambda, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)
    return False


def _watched_block(
    block: ast.With | ast.AsyncWith, site: int, lines: _Lines
) -> tuple[list[Insertion], list[Insertion]]:
    """Says that a block's first and last lines are reached; not of one that stands on one line."""
    first, last = block.body[0], block.body[-1]
    indent = lines.indent(first)
    if indent.strip() or first.lineno == block.lineno:
        return [], []
    start, end = lines.start(first), lines.span(last)[1]
    begin = (start, start, f"{{name}}.begun({site})\n{indent}")
    return [begin], [(end, end, f"\n{indent}{{name}}.ended({site})")]


_LEAVING = (ast.Return, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom)


def _sites(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Assertions, calls that may be some, and blocks, by their numbers: negative where they stand
    outside of tests or in functions inside of them. What may be meant to fail has none."""
    own = {node.name for node in ast.walk(tree) if isinstance(node, (Function, ast.ClassDef))}
    waiting: list[tuple[ast.AST, int, frozenset[str]]] = [(tree, 0, frozenset())]
    numbers = count(1)
    while waiting:
        node, sign, given = waiting.pop()
        if isinstance(node, Function):
            sign = -1 if sign or not _is_test(node) else 1
            given = _given_names(node)
        elif isinstance(node, ast.Lambda):
            sign = -1
        elif sign and isinstance(node, (ast.Assert, ast.Call)) and not _is_constant(node):
            yield id(node), sign * next(numbers)
        if isinstance(node, (ast.Try, ast.TryStar)) and node.handlers:
            continue
        if isinstance(node, (ast.With, ast.AsyncWith)):
            if any(_may_catch(each.context_expr, own, given) for each in node.items):
                continue
            if sign > 0 and not any(isinstance(each, _LEAVING) for each in ast.walk(node)):
                yield id(node), next(numbers)
        waiting += ((inner, sign, given) for inner in ast.iter_child_nodes(node))


def _given_names(function: Function) -> frozenset[str]:
    """What a function is given, loops over, or has from what expects a failure."""
    arguments = function.args
    found = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    for node in ast.walk(function):
        if isinstance(node, (ast.For, ast.AsyncFor)):
            found |= {each.id for each in ast.walk(node.target) if isinstance(each, ast.Name)}
        elif isinstance(node, ast.Assign) and _may_catch(node.value, set(), found):
            found |= {each.id for each in node.targets if isinstance(each, ast.Name)}
    return frozenset(found)


def _is_constant(node: ast.AST) -> bool:
    return isinstance(node, ast.Assert) and isinstance(node.test, ast.Constant)


def _may_catch(block: ast.expr, own: Set[str], given: Set[str]) -> bool:
    """Whether a block goes on after a failure by the will of whoever wrote the tests."""
    if isinstance(block, ast.Call):
        name = _name(block.func)
        return name in own or _plain(name).startswith(_CATCHING)
    if isinstance(block, ast.Attribute):
        return _name(block.value) in ("self", "cls")
    return isinstance(block, ast.Name) and block.id in given


_CATCHING = ("raises", "assertraises", "suppress", "exitstack", "asyncexitstack")


def _demanded(tree: ast.Module) -> set[int]:
    """Expressions of which the truth is asked, rather than what they return."""
    asked: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assert, ast.If, ast.While, ast.IfExp)):
            asked.append(node.test)
        elif isinstance(node, ast.comprehension):
            asked += node.ifs
        elif isinstance(node, ast.Call) and _name(node.func) in ("assertTrue", "assertFalse"):
            asked += node.args[:1]
        elif isinstance(node, ast.Call) and _name(node.func) in ("all", "any"):
            made = (e for e in node.args[:1] if isinstance(e, (ast.GeneratorExp, ast.ListComp)))
            asked += (each.elt for each in made)
    names = {each.id for each in asked if isinstance(each, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(_name(each) in names for each in node.targets):
            asked.append(node.value)
    for node in asked:
        if isinstance(node, ast.BoolOp):
            asked += node.values
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            asked.append(node.operand)
    return {id(node) for node in asked}


def _modules(tree: ast.Module) -> dict[str, str]:
    """The modules that names stand for, or that they come from, by imports anywhere in a file."""
    found = {"pytest": "pytest"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                found[each.asname or each.name] = each.name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for each in node.names:
                inner = f"{node.module}.{each.name}"
                name = each.asname or each.name
                found[name] = inner if inner in _KNOWN else f"{node.module}:"
    return found


def _asserting(node: ast.AST) -> ast.expr | None:
    """A function that is called, or a method of the test's own that is given another name."""
    if isinstance(node, ast.Call):
        return node.func
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


def _rule(function: ast.expr, modules: Mapping[str, str], methods: Set[str]) -> str | None:
    """How a function is tried; None for one that does not assert, or is not known. Of those that
    other modules bring, only some can be told by their names."""
    name = _name(function)
    plain = _plain(name)
    if isinstance(function, ast.Attribute):
        owner = ast.unparse(function.value)
        own = owner in ("self", "cls") and name in methods
        source = modules.get(owner, modules.get(owner.partition(".")[0]) and owner)
    else:
        own, source = name in _BUILTIN, modules.get(name, "").removesuffix(":") or None
    known = own or plain in _MOCKED or source in _KNOWN
    if not known and source is None:
        return None
    if plain in _RULES and (known or plain == "raises"):
        return _RULES[plain]
    if plain.startswith("assert") and re.search("(equal|close|identical)s?$", plain):
        unlike = re.search("not|greater|less", plain)
        return ("equal" if known else "alike") if not unlike else "differ" if own else None
    return "" if own and plain.startswith("assert") else None


def _operation(
    node: ast.Compare | ast.BinOp, lines: _Lines, *, demanded: bool = False
) -> Sequence[Insertion]:
    """A comparison or difference as a call; none where an operator is identity, or not found, or
    where what follows in a chain might not have been asked."""
    if isinstance(node, ast.BinOp):
        operands, operators, method = [node.left, node.right], ["-"], "minus("
    else:
        operands = [node.left, *node.comparators]
        operators = [_OPERATORS.get(type(each), "") for each in node.ops]
        method = f"compared({tuple(operators)!r}, {demanded}, "
        if not all(isinstance(each, (ast.Name, ast.Constant)) for each in operands[2:]):
            return ()
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
