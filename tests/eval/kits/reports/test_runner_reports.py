"""Machine-readable reports of every runner: what they say, and that a cut one says nothing."""

from __future__ import annotations

import json

import pytest

from chimera.eval.kits.reports import javascript, junit
from chimera.eval.kits.reports.report import Report, merge

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

READERS = {
    "junit": (lambda text: junit.read(text.encode()), JUNIT, "c.T.a", {"c.T.b", "c.T.e"}),
    "mocha": (javascript.mocha, "> mocha\n" + MOCHA, "adds up", {"breaks"}),
    "jest": (javascript.jest, JEST, "/t/a.js->math adds", set()),
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


@pytest.mark.parametrize(
    ("report", "statuses"),
    [
        ("<testcase name='a'/><testcase name='a'><failure/></testcase>", {"a": "FAILED"}),
        ("<testcase name='a'><failure/></testcase><testcase name='a'/>", {"a": "FAILED"}),
        ("<testcase classname='c' name='a'><skipped/></testcase>", {"a": "SKIPPED"}),
        ("", {}),
    ],
)
def test_junit_cases_by_name(report, statuses):
    read = junit.read(f"<testsuite>{report}</testsuite>".encode(), classes=False)

    assert read == Report(statuses)


@pytest.mark.parametrize("content", ["", "<open>", "<x/>", "<testsuite/>".encode("utf-16")])
def test_what_is_no_junit_report_is_incomplete(content):
    assert not junit.read(content if isinstance(content, bytes) else content.encode()).complete


def test_a_suite_that_cannot_be_loaded_is_an_error_where_asked():
    suite = {"name": "s", "status": "failed", "assertionResults": []}
    log = json.dumps({"numFailedTestSuites": 1, "testResults": [suite]})

    assert javascript.jest(log).failed() == []
    assert javascript.jest(log, suites=True).failed() == ["s"]


@pytest.mark.parametrize(
    "log",
    [
        '{"stats": {}, "passes": [1]}',
        '{"stats": {}, "passes": "text"}',
        '{"stats": {}, "passes": [{"fullTitle": "a"}], "failures": [null]}',
        '{"stats": {}, "passes": 5}',
    ],
)
def test_a_forged_report_of_mocha_shows_nothing(log: str):
    assert not javascript.mocha(log).complete


@pytest.mark.parametrize(
    "results", ["5", "[1]", '"text"', '[{"assertionResults": [1]}]', '[{"testResults": {"a": 1}}]']
)
def test_a_forged_report_of_jest_shows_nothing(results: str):
    log = f'{{"numFailedTestSuites": 0, "testResults": {results}}}'

    assert not javascript.jest(log, suites=True).complete
