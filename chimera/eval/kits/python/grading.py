"""Verdicts on Python programs, by checks that run in the sandbox's judge. They fail closed."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from itertools import zip_longest
from typing import Any, cast

from chimera.errors import GraderError
from chimera.eval.values import Verdict
from chimera.sandbox import Limits, Outcome, judge_calls, replaying, run_cases, run_tests
from chimera.text import one_line
from chimera.types import JSON

#: The plainest oracle: Python's own equality.
EQUAL = "def matches(input, expected, actual):\n    return actual == expected\n"
#: Third-party packages that answers may import, when they are installed, with what each imports.
OFFERED: Mapping[str, Sequence[str]] = {"numpy": ()}


def python_tests(
    program: str,
    tests: str,
    *,
    limits: Limits | None = None,
    data: Any = None,
    names: Sequence[str] = (),
    packages: Sequence[str] | None = None,
    shared: bool = False,
    reference: str | None = None,
) -> Verdict:
    """Pass when trusted test code runs to its end; see `chimera.sandbox.run_tests`."""
    if not tests.strip():
        raise GraderError("there are no tests to run")
    outcome = run_tests(
        program,
        tests,
        limits=limits or Limits(),
        data=data,
        names=names,
        packages=packages_of(program) if packages is None else packages,
        shared=shared,
        reference=reference,
    )
    return verdict(outcome)


def python_asserts(
    program: str,
    asserts: Sequence[str],
    *,
    setup: str = "",
    limits: Limits | None = None,
    names: Sequence[str] = (),
    packages: Sequence[str] | None = None,
    shared: bool = False,
    reference: str | None = None,
) -> Verdict:
    """Pass when `setup` and every assert run to their end."""
    if not any(each.strip() for each in asserts):
        raise GraderError("there are no asserts to run")
    return python_tests(
        program,
        "\n".join([setup, *asserts]),
        limits=limits,
        names=names,
        packages=packages,
        shared=shared,
        reference=reference,
    )


def python_calls(
    program: str,
    entry_point: str,
    inputs: Sequence[Sequence[Any]],
    expected: Sequence[Any],
    *,
    oracle: str = EQUAL,
    limits: Limits | None = None,
    seconds_per_call: float | Sequence[float] | None = None,
    stop_at_first_failure: bool = True,
    packages: Sequence[str] | None = None,
    reference: str | None = None,
) -> Verdict:
    """Pass when the oracle accepts what the function returns for every input."""
    outcome = judge_calls(
        program,
        entry_point,
        inputs,
        expected,
        oracle=oracle,
        limits=limits or Limits(),
        seconds_per_call=seconds_per_call,
        stop_at_first_failure=stop_at_first_failure,
        packages=packages_of(program) if packages is None else packages,
        reference=reference,
    )
    return verdict(outcome)


def python_stdin(
    program: str,
    cases: Sequence[tuple[str | bytes, str | bytes]],
    *,
    same: Callable[[str, str], bool] | None = None,
    limits: Limits | None = None,
    packages: Sequence[str] | None = None,
) -> Verdict:
    """Pass when the program writes the expected output for every (stdin, expected) case.

    `same(written, expected)` compares, outside the sandbox; by default lines are compared without
    trailing white space. A case that ends with an error or at a limit fails, whatever it wrote.
    """
    if not cases:
        raise GraderError("there are no cases to run")
    compare = same or same_lines
    whys: list[str] = []

    def stop(number: int, result: Any) -> bool:
        if not result.ok:
            last = result.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
            whys.append(f"case {number}: {one_line(': '.join([result.why, *last]), 500)}")
        elif not _compared(compare, result.stdout, as_text(cases[number][1])):
            written = result.stdout.decode("utf-8", "replace")
            whys.append(f"case {number}: {difference(written, as_text(cases[number][1]))}")
        return bool(whys)

    results = run_cases(
        program,
        [stdin for stdin, _ in cases],
        limits=limits or Limits(),
        packages=packages_of(program) if packages is None else packages,
        stop=stop,
    )
    passed = not whys and len(results) == len(cases)
    metrics = {
        "isolation": results[-1].isolation,
        "limit": results[-1].limit,
        "cpu_seconds": round(sum(result.cpu_seconds for result in results), 3),
        "cases_passed": len(results) - len(whys),
        "cases": len(cases),
    }
    return Verdict(passed, "; ".join(whys), metrics=metrics)


def _compared(same: Callable[[str, str], bool], written: bytes, expected: str) -> bool:
    """Whether they are the same. What no comparison can read is not, unless it cannot read the
    expected output either."""
    try:
        return same(written.decode("utf-8", "replace"), expected)
    except Exception:  # noqa: BLE001 - whatever an output makes of a comparison
        try:
            same(expected, expected)
        except Exception as problem:
            raise GraderError(f"the comparison is broken: {problem}") from problem
        return False


def verdict(outcome: Outcome) -> Verdict:
    """An outcome of the sandbox as a verdict."""
    metrics: dict[str, Any] = {
        "isolation": outcome.isolation,
        "limit": outcome.limit,
        "cpu_seconds": round(outcome.cpu_seconds, 3),
        **handles(outcome),
    }
    if outcome.results is not None:
        metrics["inputs_passed"] = sum(outcome.results)
    return Verdict(outcome.passed, outcome.why, metrics=metrics, evidence=evidence(outcome))


def handles(outcome: Outcome) -> dict[str, JSON]:
    """Kinds of the answer's own objects that the checks had to take its word for, if any."""
    return {"handles": list(outcome.handles)} if outcome.handles else {}


def evidence(*outcomes: Outcome) -> dict[str, JSON]:
    """What was asked and answered, to be stored with a verdict and read by `rederived`."""
    records = {key: list(lines) for each in outcomes for key, lines in each.records.items()}
    return {"transcripts": records} if records else {}


def joined(*verdicts: Verdict) -> dict[str, JSON]:
    """The transcripts of several verdicts that make one."""
    stored = [cast("dict[str, JSON]", each.evidence.get("transcripts", {})) for each in verdicts]
    records = {key: lines for each in stored for key, lines in each.items()}
    return {"transcripts": records} if records else {}


def rederived(stored: Verdict, grade: Callable[[], Verdict]) -> Verdict:
    """What `grade` comes to by the evidence of a stored verdict alone: no answer runs."""
    with replaying(cast("Mapping[str, Sequence[str]]", stored.evidence.get("transcripts", {}))):
        return grade()


def helpers(prompt: str, entry_point: str) -> str:
    """The functions a HumanEval-like prompt defines beside the one to write, with its imports.

    Put before the tests, they are the judge's own: an answer cannot replace what its tests call.
    """
    tree = ast.parse(f"{prompt}\n    pass\n")
    kept = [
        node
        for node in tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.FunctionDef))
        and getattr(node, "name", "") != entry_point
    ]
    if not any(isinstance(node, ast.FunctionDef) for node in kept):
        return ""
    return ast.unparse(ast.Module(body=list(kept), type_ignores=[]))


def packages_of(program: str, offered: Mapping[str, Sequence[str]] = OFFERED) -> tuple[str, ...]:
    """The offered packages a program mentions and this machine has, and what these import."""
    wanted = [
        each
        for name, needed in offered.items()
        if re.search(rf"\b{name}\b", program) and find_spec(name) is not None
        for each in (*needed, name)
    ]
    return tuple(name for name in dict.fromkeys(wanted) if find_spec(name) is not None)


def same_lines(written: str, expected: str) -> bool:
    def lines(text: str) -> list[str]:
        return [line.rstrip() for line in text.rstrip().splitlines()]

    return lines(written) == lines(expected)


def difference(written: str, expected: str) -> str:
    """The first line that differs, as it was written and as it was expected."""
    ours, theirs = written.rstrip().splitlines(), expected.rstrip().splitlines()
    for number, (got, wanted) in enumerate(zip_longest(ours, theirs), 1):
        if got is None or wanted is None or got.rstrip() != wanted.rstrip():
            place = f"line {number}: " if max(len(ours), len(theirs)) > 1 else ""
            return f"{place}wrote {_quoted(got)}, expected {_quoted(wanted)}"
    return f"wrote {_quoted(written)}, expected {_quoted(expected)}"


def _quoted(text: str | None) -> str:
    return "nothing more" if text is None else repr(one_line(text, 100))


def as_text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
