"""Wrong answers made from right ones: what a grader must tell apart from the gold.

A mutant differs from the gold in one place. Some mutants happen to behave like the gold (a bound
that no input reaches); validation lists those that pass instead of hiding them.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from typing import Any

from chimera.eval.kits.replies import parse_python

_COMPARISONS: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_OPERATORS: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


def python(source: str, *, limit: int | None = None) -> Iterator[str]:
    """Programs that differ from `source` in one return, comparison, operator or constant.

    Kinds take turns, so that a small `limit` still meets each of them; the order is fixed.
    """
    tree = parse_python(source)
    if tree is None:
        return
    sites: dict[str, list[int]] = defaultdict(list)
    skipped = _skipped(tree)
    for index, node in enumerate(ast.walk(tree)):
        if id(node) not in skipped:
            for kind, (fits, _) in _MUTATIONS.items():
                if fits(node):
                    sites[kind].append(index)
    turns = zip_longest(*([(kind, index) for index in sites[kind]] for kind in sites))
    original = ast.unparse(tree)
    made = 0
    for kind, index in (site for turn in turns for site in turn if site is not None):
        if limit is not None and made >= limit:
            return
        copy = ast.parse(source)
        for position, node in enumerate(ast.walk(copy)):
            if position == index:
                _MUTATIONS[kind][1](node)
                break
        mutant = ast.unparse(ast.fix_missing_locations(copy))
        if mutant != original:
            made += 1
            yield mutant + "\n"


def _skipped(tree: ast.Module) -> set[int]:
    """Nodes that cannot change what a program computes: docstrings, annotations, main guards."""
    roots: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            roots.append(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns:
            roots.append(node.returns)
        elif isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
            roots.append(node.annotation)
        elif isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)
        ):
            roots.append(node)
    return {id(node) for root in roots for node in ast.walk(root)}


def _returns_something(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Return)
        and node.value is not None
        and not (isinstance(node.value, ast.Constant) and node.value.value is None)
    )


def _return_nothing(node: ast.AST) -> None:
    assert isinstance(node, ast.Return)
    node.value = ast.Constant(None)


def _is_comparison(node: ast.AST) -> bool:
    return isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS


def _negate_comparison(node: ast.AST) -> None:
    assert isinstance(node, ast.Compare)
    node.ops[0] = _COMPARISONS[type(node.ops[0])]()


def _is_operation(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _OPERATORS


def _swap_operator(node: ast.AST) -> None:
    assert isinstance(node, ast.BinOp | ast.AugAssign)
    node.op = _OPERATORS[type(node.op)]()


def _is_constant(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str)


def _change_constant(node: ast.AST) -> None:
    assert isinstance(node, ast.Constant)
    if isinstance(node.value, bool):
        node.value = not node.value
    elif isinstance(node.value, int | float):
        node.value = node.value + 1
    elif isinstance(node.value, str):
        node.value = node.value + "x"


def _is_logic(node: ast.AST) -> bool:
    return isinstance(node, ast.BoolOp)


def _swap_logic(node: ast.AST) -> None:
    assert isinstance(node, ast.BoolOp)
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()


_MUTATIONS: Mapping[str, tuple[Callable[[ast.AST], bool], Callable[[ast.AST], None]]] = {
    "return": (_returns_something, _return_nothing),
    "comparison": (_is_comparison, _negate_comparison),
    "operator": (_is_operation, _swap_operator),
    "constant": (_is_constant, _change_constant),
    "logic": (_is_logic, _swap_logic),
}


def answers(gold: str) -> Iterator[str]:
    """Mathematical answers that are near the gold and differ from it in value."""
    numbers = list(re.finditer(r"\d+", gold))
    if numbers:
        last = numbers[-1]
        yield gold[: last.start()] + str(int(last[0]) + 1) + gold[last.end() :]
        first = numbers[0]
        if first.start() != last.start():
            yield gold[: first.start()] + str(int(first[0]) + 2) + gold[first.end() :]
    if re.fullmatch(r"[^,]*\d[^,]*", gold) and gold.strip() != "0":
        yield gold[1:] if gold.startswith("-") else f"-{gold}"
    if not numbers:
        yield f"{gold}+1"
        yield "\\text{neither}"


def numbers(gold: int) -> Iterator[str]:
    """Whole numbers, and near misses of them, that are not the gold."""
    yield str(gold + 1)
    yield str(-gold) if gold else "-1"
    yield f"{gold}.5"
    yield f"{gold} or {gold + 1}"
    yield ""


def values(gold: Any) -> Iterator[Any]:
    """Plain values that are not the gold."""
    if isinstance(gold, bool):
        yield not gold
    elif isinstance(gold, int | float):
        yield gold + 1
    elif isinstance(gold, str):
        yield gold + "x"
    elif isinstance(gold, list):
        yield [*gold, 0]
        if gold:
            yield gold[:-1]
    yield (gold,)
    yield None if gold is not None else 0
