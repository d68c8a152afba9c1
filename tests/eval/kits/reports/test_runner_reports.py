"""Machine-readable reports of every runner: what they say, and that a cut one says nothing."""

from __future__ import annotations

import json

import pytest

from chimera.eval.benchmarks._swe_polybench import logs as polybench_logs
from chimera.eval.kits.reports import compiled, javascript, junit, pytest_summary, unittest_log
from chimera.eval.kits.reports.types import Report, merge

JUNIT = (
    '<testsuite name="s"><testcase classname="c.T" name="a"/><testcase classname="c.T" name="b">'
    "<failure/></testcase><testcase classname='c.T' name='e'><error/></testcase>"
    "<testcase classname='c.T' name='k'><skipped/></testcase></testsuite>"
)
MOCHA = json.dumps(
    {
        "stats": {"tests": 2, "failures": 1},
        "passes": [{"fullTitle": "adds up", "file": "/t/a.js"}],
        "failures": [{"fullTitle": "breaks", "file": "/t/a.js"}],
    }
)
JEST = json.dumps(
    {
        "numFailedTestSuites": 0,
        "testResults": [
            {
                "name": "/t/a.js",
                "assertionResults": [
                    {"fullName": "math adds", "title": "adds", "status": "passed"},
                    {"fullName": "math waits", "title": "waits", "status": "pending"},
                ],
            }
        ],
        "wasInterrupted": False,
    }
)
GO = "".join(
    json.dumps(event) + "\n"
    for event in (
        {"Action": "start", "Package": "m/p"},
        {"Action": "run", "Package": "m/p", "Test": "TestA"},
        {"Action": "pass", "Package": "m/p", "Test": "TestA"},
        {"Action": "fail", "Package": "m/p", "Test": "TestB"},
        {"Action": "fail", "Package": "m/p"},
    )
)
CARGO = (
    "running 3 tests\ntest math::adds ... ok\ntest math::breaks ... FAILED\n"
    "test slow ... ignored, why\ntest result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; "
    "0 filtered out; finished in 0.00s\n"
)
CTEST = (
    "    Start 1: adds\n1/2 Test #1: adds .....   Passed    0.01 sec\n"
    "2/2 Test #2: breaks ...***Failed    0.01 sec\n\n50% tests passed, 1 tests failed out of 2\n"
)
UNITTEST = (
    "test_a (m.T.test_a) ... ok\ntest_b (m.T.test_b)\nDoc line. ... FAIL\n"
    "test_c (m.T.test_c) ... printed\nok\ntest_d (m.T.test_d) ... skipped 'why'\n\n"
    "Ran 4 tests in 0.001s\n\nFAILED (failures=1, skipped=1)\n"
)
TAP = "TAP version 13\nok 1 - adds\nnot ok 2 - breaks\nok 3 - later # SKIP\n1..3\n"

READERS = {
    "junit": (lambda text: junit.read(text.encode()), JUNIT, "c.T.a", {"c.T.b", "c.T.e"}),
    "mocha": (javascript.mocha, "> mocha\n" + MOCHA, "adds up", {"breaks"}),
    "jest": (javascript.jest, JEST, "/t/a.js->math adds", set()),
    "go": (compiled.go_test, GO, "m/p.TestA", {"m/p.TestB"}),
    "cargo": (compiled.cargo, CARGO, "math::adds", {"math::breaks"}),
    "ctest": (compiled.ctest, CTEST, "adds", {"breaks"}),
    "unittest": (unittest_log.read, UNITTEST, "test_a (m.T.test_a)", {"test_b (m.T.test_b)"}),
    "tap": (javascript.tap, TAP, "adds", {"breaks"}),
}


@pytest.mark.parametrize("name", READERS)
def test_reports_say_what_passed_and_failed(name):
    read, text, passed, failed = READERS[name]

    report = read(text)

    assert report.complete
    assert passed in set(report.passed())
    assert set(report.failed()) == failed


@pytest.mark.parametrize("name", READERS)
def test_a_report_cut_anywhere_shows_no_pass(name):
    read, text, passed, _ = READERS[name]

    for end in range(len(text)):
        report = read(text[:end])
        assert not (report.complete and passed in set(report.passed())), text[:end][-30:]


def test_a_report_with_entities_is_refused():
    assert not junit.read(b'<!DOCTYPE x [<!ENTITY a "b">]>' + JUNIT.encode()).complete


def test_merging_keeps_failures_and_needs_a_report():
    failed = Report({"a": "FAILED"})
    assert merge([failed, Report({"a": "PASSED"})]).statuses == {"a": "FAILED"}
    assert not merge([]).complete
    assert not merge([failed, Report(complete=False)]).complete


def test_typescript_errors_are_failures():
    log = "src/a.ts(3,5): error TS2322: Type 'string' is not assignable to type 'number'.\n"
    assert compiled.tsc(log, 2).statuses == {"src/a.ts": "FAILED", "tsc": "FAILED"}
    assert compiled.tsc("", 0).statuses == {"tsc": "PASSED"}
    assert compiled.tsc("", 1).statuses == {"tsc": "FAILED"}


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
    results = polybench_logs.python(log)

    assert (set(results.passed), set(results.failed)) == (passed, failed)


def test_polybench_java_needs_a_build():
    assert polybench_logs.java(f"x {JUNIT} y").passed == {"c.T.a"}
    assert polybench_logs.java(f"x {JUNIT} y").failed == {"c.T.b", "c.T.e"}
    assert not polybench_logs.java(f"BUILD FAILURE {JUNIT}")
    assert polybench_logs.java(f"BUILD FAILURE There are test failures {JUNIT}")


def test_polybench_tap_and_status_lines():
    assert polybench_logs.mocha_or_tap("ok 4 baz # SKIP\n").passed == {"4 baz # SKIP"}
    lines = polybench_logs.status_lines("Executed 2 tests: 1 PASSED\n//a:b FAILED in 2s\n")
    assert lines.passed == {"Executed 2 tests: 1"}
    assert lines.failed == {"/a:b"}


SUMMARY = "=== short test summary info ===\n"


@pytest.mark.parametrize(
    ("lines", "rate"),
    [
        ("PASSED a\nPASSED b\n", 1.0),
        ("PASSED a\nFAILED b - m\n", 0.5),
        ("PASSED a\nSKIPPED [1] x.py:1: w\n", 1.0),
        ("SKIPPED [1] x.py:1: w\n", 0.0),
        ("ERROR t.py\n", 0.0),
        ("XPASS a\nPASSED b\n", 1.0),
        ("XFAIL a\n", 1.0),
        ("=== 1 passed ===\nPASSED a\n", 0.0),
    ],
)
def test_feature_bench_pass_rates(lines, rate):
    assert pytest_summary.pass_rate(pytest_summary.summary(SUMMARY + lines)) == rate


def test_feature_bench_names():
    assert list(pytest_summary.summary(f"{SUMMARY}PASSED a[x - y]\n")) == ["a[x"]
    subtests = pytest_summary.summary(
        f"{SUMMARY}SUBFAILED a\nSUBFAILED a\nPASSED b\n", subtests=True
    )
    assert pytest_summary.pass_rate(subtests) == 0.3333
    assert pytest_summary.verbose("p::a PASSED [ 50%]\np::b PASSED\n") == {"p::a": "PASSED"}
