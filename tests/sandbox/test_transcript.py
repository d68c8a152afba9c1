"""A verdict is a function of its record: held against it alone, the same tests end the same way."""

from __future__ import annotations

import pytest

from chimera.errors import GraderError
from chimera.eval.kits.python.grading import EQUAL, python_calls, python_tests, rederived
from chimera.sandbox import Outcome, judge_calls, replaying, run_tests

ADD = "def f(a, b=2):\n    return a + b\n"


@pytest.mark.parametrize(
    ("program", "tests", "passed"),
    [
        (ADD, "assert f(1) == 3", True),
        (ADD, "assert f(1) == 4", False),
        (ADD, "import random\nx = random.random()\nassert f(x) == x + 2", True),
        ("def f(x):\n    x.append(4)", "x = [1]\nf(x)\nassert x == [1, 4]", True),
        (
            "def f(g, x):\n    return [g(x), g(x + 1)]",
            "assert f(lambda n: n * n, 2) == [4, 9]",
            True,
        ),
        ("def f(n):\n    yield from range(n)", "assert list(f(3)) == [0, 1, 2]", True),
        ("def f():\n    raise ValueError(chr(0xD800))", "f()", False),
        ("import os\ndef f():\n    os._exit(0)", "f()", False),
        ("1 / 0", "assert f()", False),
        ("x = 1", "assert f()", False),
    ],
)
def test_a_record_gives_the_outcome_again(program: str, tests: str, passed: bool) -> None:
    first = run_tests(program, tests)

    with replaying(first.records):
        again = run_tests(program, tests)

    assert first.passed is again.passed is passed
    assert first.why == again.why


def test_calls_are_derived_again() -> None:
    def judged() -> Outcome:
        return judge_calls(ADD, "f", [[1], [2, 3]], [3, 6], oracle=EQUAL)

    first = judged()
    with replaying(first.records):
        again = judged()

    assert first.results == again.results == (True, False)
    assert first.why == again.why == "input 1: called f(2, 3) → got 5, expected 6"


@pytest.mark.parametrize(
    "tampered",
    [
        lambda lines: lines[:-1],
        lambda lines: [*lines[:-1], lines[-1].replace("3", "4")],
        lambda lines: [*lines[:-2], lines[-2].replace("[1]", "[7]"), lines[-1]],
        lambda lines: [*lines[:3], *lines[5:], *lines[3:5]],
        lambda lines: [*lines[:2], *lines[4:]],
        lambda lines: [lines[0], '<["loaded",[["E"],"x"]]', *lines[2:]],
    ],
)
def test_a_record_that_was_changed_bears_no_pass(tampered) -> None:  # type: ignore[no-untyped-def]
    outcome = run_tests(ADD, "assert f(1) == 3")
    ((key, lines),) = outcome.records.items()

    with replaying({key: tampered(list(lines))}):
        assert not run_tests(ADD, "assert f(1) == 3", reference=ADD).passed


def test_a_record_is_of_one_program_and_its_checks() -> None:
    outcome = run_tests(ADD, "assert f(1) == 3")

    with replaying(outcome.records):
        for program, tests in ((ADD + "\n", "assert f(1) == 3"), (ADD, "assert f(1) == 3\n")):
            with pytest.raises(GraderError, match="no whole record"):
                run_tests(program, tests)


def test_a_long_record_is_cut_and_proves_nothing() -> None:
    program, tests = "def f(n):\n    return 'x' * n", "assert len(f(10**6)) == 10**6"
    outcome = run_tests(program, tests)

    assert outcome.passed
    assert sum(map(len, *outcome.records.values())) < 100_000
    with replaying(outcome.records), pytest.raises(GraderError, match="no whole record"):
        run_tests(program, tests)


def test_a_verdict_keeps_its_record_and_names_what_is_no_plain_data() -> None:
    verdict = python_tests(ADD, "assert f(1) == 3")
    assert '>["ask",2,"call",0,[1]]' in str(verdict.evidence["transcripts"])
    assert "handles" not in verdict.metrics
    assert rederived(verdict, lambda: python_tests(ADD, "assert f(1) == 3")).passed

    counting = python_tests("def f(n):\n    yield n", "assert list(f(1)) == [1]")
    assert counting.metrics["handles"] == ["generator"]


def test_the_fault_is_the_answers_unless_a_right_answer_breaks_the_judge_too() -> None:
    """The tests end their own process when the answer is wrong, or whatever it is."""
    only_then = "import os\nif f(1) != 3:\n    os._exit(1)"
    wrong = "def f(a):\n    return 0"

    assert run_tests(ADD, only_then).passed
    outcome = run_tests(wrong, only_then, reference=ADD)
    assert not outcome.passed
    assert "under test" in outcome.why
    for reference in (None, ADD):
        with pytest.raises(GraderError, match="broken"):
            run_tests(wrong, "import os\nf(1)\nos._exit(1)", reference=reference)


def test_tests_that_ask_differently_each_time_are_broken() -> None:
    with pytest.raises(GraderError, match="did not ask the same"):
        run_tests(ADD, "import time\nassert f(time.time_ns())", reference=ADD)


def test_a_broken_oracle_is_not_the_answers_fault() -> None:
    with pytest.raises(GraderError, match="broken"):
        python_calls(ADD, "f", [[1]], [3], oracle="1 / 0")
