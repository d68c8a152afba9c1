"""Functions called on many inputs, and programs that read standard input."""

from __future__ import annotations

import pytest

from chimera.errors import GraderError
from chimera.eval.kits.python.grading import (
    EQUAL,
    python_asserts,
    python_calls,
    python_stdin,
    python_tests,
)
from chimera.sandbox import Limits, call_function, judge_calls, run_cases, run_program


def test_values_and_errors_come_back_in_order() -> None:
    calls = call_function("def f(x):\n    return 1 / x", "f", [[1], [0], [4]])

    assert [call.value for call in calls] == [1.0, None, 0.25]
    assert [call.ok for call in calls] == [True, False, True]
    assert "ZeroDivisionError" in str(calls[1].error)


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("def f(x):\n    return object()", "not plain"),
        ("def g(x):\n    return x", "defines no 'f'"),
        ("1 / 0", "does not load"),
        ("import os\ndef f(x):\n    os._exit(0)", "ended before"),
    ],
)
def test_every_input_has_an_entry_when_the_program_does_not_serve(program: str, error: str) -> None:
    calls = call_function(program, "f", [[1], [2]])

    assert len(calls) == 2
    assert all(error in str(call.error) for call in calls)


def test_the_oracle_decides_and_sees_inputs_as_they_were() -> None:
    oracle = (
        "seen = []\n"
        "def matches(input, expected, actual):\n"
        "    seen.append(actual)\n"
        "    return input == [[2, 1]] and len(seen) <= 2 and actual == expected\n"
    )
    program = "def f(x):\n    x.clear()\n    return 7"
    inputs = [[[2, 1]], [[2, 1]]]

    assert judge_calls(program, "f", inputs, [7, 7], oracle=oracle).passed
    third = judge_calls(program, "f", [*inputs, [[2, 1]]], [7, 7, 7], oracle=oracle)
    assert not third.passed
    assert third.results == (True, True, False)


def test_a_slow_call_is_named() -> None:
    program = "def f(x):\n    while x:\n        pass\n    return 1"

    outcome = judge_calls(
        program, "f", [[0], [1], [0]], [1, 1, 1], oracle=EQUAL, seconds_per_call=0.3
    )

    assert not outcome.passed
    assert outcome.limit == "CPU time of a call"
    assert outcome.results == (True, False)


def test_a_program_runs_as_a_script() -> None:
    result = run_program(
        "import sys\nprint(__name__, input())\nprint('e', file=sys.stderr)\nsys.exit(3)", "line\n"
    )

    assert result.stdout == b"__main__ line\n"
    assert result.stderr == b"e\n"
    assert result.exit_code == 3
    assert result.why == "exit code 3"


@pytest.mark.parametrize(
    ("program", "stdout", "exit_code"),
    [
        ("import sys\nfor line in sys.stdin:\n    print(line.strip()[::-1])", b"ba\ndc\n", 0),
        ("import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read())", b"ab\ncd\n", 0),
        ("print(open(0).read().split())", b"['ab', 'cd']\n", 0),
        ("import atexit\natexit.register(print, 'last')\nprint('first')", b"first\nlast\n", 0),
        ("import threading\nthreading.Timer(0.05, print, ['late']).start()", b"late\n", 0),
        ("print('x', end='')\nexit()", b"x", 0),
        ("print('x')\n1 / 0", b"x\n", 1),
        ("raise SystemExit('message')", b"", 1),
        ("def (", b"", 1),
    ],
)
def test_programs_end_as_python_would_end_them(program: str, stdout: bytes, exit_code: int) -> None:
    result = run_program(program, b"ab\ncd\n")

    assert (result.stdout, result.exit_code) == (stdout, exit_code)


def test_cases_stop_when_told() -> None:
    results = run_cases("print(input())", ["a", "b", "c"], stop=lambda n, r: r.stdout == b"b\n")

    assert [result.stdout for result in results] == [b"a\n", b"b\n"]


@pytest.mark.parametrize(
    ("program", "passed", "why"),
    [
        ("print(int(input()) * 2)", True, ""),
        ("print(int(input()) * 2, ' ')", True, ""),
        ("print(int(input()) + 1)", False, "case 1: wrote"),
        ("print(2)\nraise SystemExit(1)", False, "exit code 1"),
        ("import os\nos._exit(0)", False, "case 0: wrote nothing more"),
    ],
)
def test_python_stdin(program: str, passed: bool, why: str) -> None:
    verdict = python_stdin(program, [("1\n", "2\n"), ("2\n", "4\n")])

    assert verdict.passed is passed
    assert why in verdict.why


def test_a_comparison_that_breaks_is_the_answers_fault_unless_it_breaks_on_the_expected_too() -> (
    None
):
    def same(written: str, expected: str) -> bool:
        return float(written) == float(expected)

    assert python_stdin("print('1.0')", [("", "1")], same=same).passed
    assert not python_stdin("print('one')", [("", "1")], same=same).passed
    with pytest.raises(GraderError, match="comparison is broken"):
        python_stdin("print('one')", [("", "one")], same=same)


def test_nothing_to_check_is_no_pass() -> None:
    with pytest.raises(GraderError, match="no tests"):
        python_tests("x = 1", "\n")
    with pytest.raises(GraderError, match="no asserts"):
        python_asserts("x = 1", [])
    with pytest.raises(GraderError, match="no cases"):
        python_stdin("x = 1", [])
    with pytest.raises(GraderError, match="not plain data"):
        python_calls("x = 1", "f", [[object()]], [1])


@pytest.mark.parametrize(
    ("program", "limit"),
    [
        ("while True:\n    pass", "CPU time"),
        ("import time\ntime.sleep(60)", "wall time"),
        ("x = bytearray(10**9)", "memory"),
        ("open('big', 'wb').write(bytes(10**7))", "file size"),
        (
            "import threading, time\nfor _ in range(99):\n"
            "    threading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
            "processes",
        ),
        ("print('x' * 10**6)", "output size"),
    ],
)
def test_the_limit_that_decides_is_named(program: str, limit: str) -> None:
    limits = Limits(
        cpu_seconds=0.5,
        wall_seconds=1 if limit == "wall time" else 20,
        memory_bytes=200 << 20,
        processes=8,
        file_bytes=1 << 20,
        output_bytes=100_000,
    )

    script = python_stdin(program, [("", "x")], limits=limits)
    assert script.metrics["limit"] == limit
    assert limit in script.why
    if limit != "output size":  # nobody reads what a function prints
        answer = python_asserts(program, ["assert f()"], limits=limits)
        assert answer.metrics["limit"] == limit
        assert limit in answer.why
