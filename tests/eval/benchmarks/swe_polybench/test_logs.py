"""Test logs as SWE-PolyBench names tests."""

from __future__ import annotations

import pytest

from chimera.eval.benchmarks._swe_polybench import logs
from tests.eval.kits.reports.test_runner_reports import JUNIT

SESSION = "===== test session starts =====\n"


@pytest.mark.parametrize(
    ("log", "passed", "failed"),
    [
        (
            f"{SESSION}a.py::T::x PASSED\na.py::y FAILED\na.py::z ERROR\n",
            {"a.py:T:x"},
            {"a.py:None:y"},
        ),
        (f"{SESSION}a.py::x[1.5] PASSED\n", {"a.py:None:x"}, set()),
        (
            "=== short test summary info ===\nPASSED a.py::T::x\nFAILED a.py::y - m\n",
            set(),
            {"a.py:T:x"},
        ),
        (f"{SESSION}\n=== short test summary info ===\nPASSED a.py::x\n", set(), set()),
        ("test_a (m.T) ... ok\ntest_b (m.T) ... FAIL\nSome doc ... ok\n",
         {"m.T:test_a:", ":doc:"}, {"m.T:test_b:"}),
    ],
)  # fmt: skip
def test_polybench_python_names(log, passed, failed):
    results = logs.python(log)

    assert (set(results.passed), set(results.failed)) == (passed, failed)


def test_polybench_java_needs_a_build():
    assert logs.java(f"x {JUNIT} y").passed == {"c.T.a"}
    assert logs.java(f"x {JUNIT} y").failed == {"c.T.b", "c.T.e"}
    assert not logs.java(f"BUILD FAILURE {JUNIT}")
    assert logs.java(f"BUILD FAILURE There are test failures {JUNIT}")


def test_polybench_tap_and_status_lines():
    assert logs.mocha_or_tap("ok 4 baz # SKIP\n").passed == {"4 baz # SKIP"}
    lines = logs.status_lines("Executed 2 tests: 1 PASSED\n//a:b FAILED in 2s\n")
    assert lines.passed == {"Executed 2 tests: 1"}
    assert lines.failed == {"/a:b"}
