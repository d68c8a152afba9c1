"""Verdicts of LiveCodeBench's scenarios, as its repository gives them."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from chimera.errors import EnvironmentFault
from chimera.eval.benchmarks._livecodebench import compare, programs
from chimera.eval.benchmarks._livecodebench.cases import Case
from chimera.eval.kits.python.grading import packages_of, python_calls, python_stdin
from chimera.eval.kits.replies import parse_expression, parse_python
from chimera.eval.values import Verdict
from chimera.sandbox import Limits

#: What programs may import beside Python's own library, of the repository's locked environment.
PACKAGES: Mapping[str, Sequence[str]] = {
    "mpmath": (),
    "networkx": (),
    "numpy": (),
    "pandas": ("numpy", "six", "dateutil", "pytz"),
    "scipy": ("numpy",),
    "sympy": ("mpmath",),
}
#: What is there too and cannot be offered.
NOT_OFFERED = frozenset({"cupy", "numba", "regex", "torch"})
SECONDS = 6.0
EXECUTION_SECONDS = 3.0
_ANSWER = "answer"
#: How a verdict begins that an import decided; what an answer returned or wrote stands elsewhere.
_NO_MODULE = re.compile(
    r"(?:input \d+|the answer does not load): ModuleNotFoundError: No module named '(?P<name>\w+)"
)
_LITERAL = (
    ast.Expression, ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Starred, ast.Load,
    ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.UnaryOp,
    ast.boolop, ast.cmpop, ast.operator, ast.unaryop,
)  # fmt: skip


def program(
    source: str, cases: Sequence[Case], function: str | None, *, stand_in: programs.StandIn = "own"
) -> Verdict:
    """A program against all cases: the official verdict, and the corrected one beside it."""
    functional = cases[0]["testtype"] == "functional"
    try:
        inputs, expected = _arguments(cases) if functional else _texts(cases)
    except ValueError as error:
        return Verdict(False, f"a test is not JSON: {error}", metrics={"corrected": False})
    if functional:
        wrapped = programs.functional(source, function or "")
    else:
        wrapped = programs.official_stdin(source, stand_in)
    mode = f"\nMODE = {'functional' if functional else 'stdin'!r}\n"
    verdict = python_calls(
        wrapped,
        programs.ENTRY_POINT,
        inputs,
        expected,
        oracle=inspect.getsource(compare) + mode,
        limits=_limits(len(cases), SECONDS),
        seconds_per_call=SECONDS,
        packages=packages_of(source, PACKAGES),
    )
    corrected = verdict.passed
    if not verdict.passed and not functional and source.strip():
        corrected = _with_real_stdin(source, cases)
    if not verdict.passed and (lacking := _lacking(source, verdict.why)):
        names = " ".join(sorted(lacking))
        remedy = f": pip install {names}" if lacking <= PACKAGES.keys() else ""
        raise EnvironmentFault(
            f"the answer imports {names}, which the official environment has and this one "
            f"lacks{remedy}"
        )
    metrics = {**verdict.metrics, "corrected": corrected}
    return Verdict(verdict.passed, verdict.why, metrics=metrics, evidence=verdict.evidence)


def _with_real_stdin(source: str, cases: Sequence[Case]) -> bool:
    if parse_python(source) is None:
        return False
    verdict = python_stdin(
        programs.real_stdin(source),
        [(case["input"], case["output"]) for case in cases],
        same=compare.same_output,
        limits=Limits(cpu_seconds=SECONDS, wall_seconds=10 * SECONDS),
        packages=packages_of(source, PACKAGES),
    )
    return verdict.passed


def _lacking(source: str, why: str) -> frozenset[str]:
    """What a program imports that is in the official environment and not in this one, and whose
    absence is what ended it: an import that nothing runs explains no failure, whatever it says."""
    ended = _NO_MODULE.match(why)
    if ended is None:
        return frozenset()
    tree = parse_python(source)
    imported: set[str] = set()
    for node in () if tree is None else ast.walk(tree):
        match node:
            case ast.Import():
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            case ast.ImportFrom(module=str(module), level=0):
                imported.add(module.partition(".")[0])
    absent = {name for name in imported & PACKAGES.keys() if find_spec(name) is None}
    return frozenset({ended["name"]}) & (absent | imported & NOT_OFFERED)


def _limits(count: int, seconds: float) -> Limits:
    total = (seconds + 1) * count + 5
    return Limits(cpu_seconds=total, wall_seconds=4 * total + 10)


def _texts(cases: Sequence[Case]) -> tuple[list[list[Any]], list[Any]]:
    return [[case["input"]] for case in cases], [case["output"] for case in cases]


def _arguments(cases: Sequence[Case]) -> tuple[list[list[Any]], list[Any]]:
    inputs = [[json.loads(line) for line in case["input"].split("\n")] for case in cases]
    return inputs, [json.loads(case["output"]) for case in cases]


def code_execution(call: str, expected: str, answer: str) -> Verdict:
    """Whether a value equals the output of a call; an answer that computes it is none.

    Upstream pastes the answer behind `assert OUTPUT ==` and runs it with the code, so that there
    `[3] or True` passes, and so does the call itself in other words. The question is for a literal:
    here an answer is one value, written with constants and operators, and sees no name of the code.
    The text has to hold in the official place too: `1, 2` and `not False` do not.
    """
    if call in answer:
        return Verdict(False, "the answer repeats the call")
    tree = parse_expression(answer.strip())
    if tree is None:
        return Verdict(False, f"not a Python expression: {answer[:80]!r}")
    if not _is_value(tree):
        return Verdict(False, f"computed, where a value is asked for: {answer[:80]!r}")
    pasted = parse_python(f"assert {expected} == {answer.strip()}")
    if pasted is None or len(pasted.body) != 1 or not isinstance(pasted.body[0], ast.Assert):
        return Verdict(False, f"not an expression behind `assert … ==`: {answer[:80]!r}")
    return _equals(tree, ast.literal_eval(expected), ast.Expression(pasted.body[0].test))


def test_output(prediction: str, expected: str) -> Verdict:
    """Whether the right side of an assert (or a bare value) equals the expected JSON value."""
    statement = next(
        (
            line.strip()
            for line in reversed(prediction.split("\n"))
            if line.strip().startswith("assert")
        ),
        prediction.strip(),
    )
    tree = parse_python(statement)
    if tree is None or not tree.body:
        return Verdict(False, "the answer is not Python")
    first = tree.body[0]
    if isinstance(first, ast.Assert):
        if not isinstance(first.test, ast.Compare) or not isinstance(first.test.ops[0], ast.Eq):
            return Verdict(False, "the assertion compares nothing with ==")
        value: ast.expr = first.test.comparators[0]
    elif isinstance(first, ast.Expr):
        value = first.value
    else:
        return Verdict(False, "the answer is neither an assertion nor a value")
    return _equals(ast.Expression(value), json.loads(expected))


def _is_value(node: ast.AST) -> bool:
    """Whether an expression is constants and operators alone; `set()` is what no literal writes."""
    match node:
        case ast.Call(func=ast.Name("set"), args=[], keywords=[]):
            return True
    try:
        return isinstance(node, _LITERAL) and all(map(_is_value, ast.iter_child_nodes(node)))
    except RecursionError:
        return False


def _equals(tree: ast.Expression, expected: Any, holds: ast.Expression | None = None) -> Verdict:
    """Evaluate an expression in confinement and compare its value; another has to hold too."""
    try:
        text = ast.unparse(tree)
        asserted = "" if holds is None else f"    assert {ast.unparse(holds)}\n"
    except (RecursionError, ValueError):
        return Verdict(False, "not an expression of any answer: nested too deep")
    source = f"def {_ANSWER}():\n{asserted}    return ({text})\n"
    return python_calls(
        source,
        _ANSWER,
        [[]],
        [expected],
        limits=Limits(cpu_seconds=EXECUTION_SECONDS),
        packages=packages_of(source),
    )
