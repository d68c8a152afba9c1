"""Test reports of six runners as one value: which tests there were and how each ended."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping

from chimera.types import TestResult

#: A suite of ours writes a few hundred kilobytes at most.
MAX_REPORT_BYTES = 50 * 1024**2

PASSED, FAILED, ERROR = "passed", "failed", "error"


def junit(content: bytes) -> TestResult | None:
    """pytest's, JUnit's and Catch2's XML. None when it is no such report."""
    if len(content) > MAX_REPORT_BYTES or b"<!ENTITY" in content:
        return None
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError:
        return None
    outcomes: dict[str, str] = {}
    for case in root.iter("testcase"):
        name = case.get("name", "")
        if case.find("skipped") is not None:
            continue
        outcome = PASSED
        if case.find("failure") is not None:
            outcome = FAILED
        elif case.find("error") is not None:
            outcome = ERROR
        _note(outcomes, name, outcome)
    return _result(outcomes)


def jest(content: bytes) -> TestResult | None:
    """`jest --json`: a suite that could not be loaded is an error of its own."""
    report = _json(content)
    if not isinstance(report, dict) or not isinstance(report.get("testResults"), list):
        return None
    outcomes: dict[str, str] = {}
    for suite in report["testResults"]:
        tests = suite.get("assertionResults", [])
        if suite.get("status") == "failed" and not any(t.get("status") == "failed" for t in tests):
            _note(outcomes, str(suite.get("name", "suite")), ERROR)
        for test in tests:
            if test.get("status") in ("passed", "failed"):
                _note(outcomes, str(test.get("fullName", "")), str(test["status"]))
    return _result(outcomes)


def go_events(content: bytes) -> tuple[TestResult | None, str]:
    """`go test -json`: the outcomes, and the text that plain `go test` would have printed."""
    outcomes: dict[str, str] = {}
    text: list[str] = []
    ended = False
    for line in content.decode("utf-8", "replace").splitlines():
        event = _json(line.encode())
        if not isinstance(event, dict):
            text.append(line + "\n")
            continue
        text.append(str(event.get("Output", "")))
        action, test = event.get("Action"), event.get("Test")
        if action in ("pass", "fail") and test is None:
            ended = True
            if action == "fail":
                _note(outcomes, str(event.get("Package", "package")), FAILED)
        elif action in ("pass", "fail"):
            _note(outcomes, str(test), PASSED if action == "pass" else FAILED)
    return (_result(outcomes) if ended else None), "".join(text)


_CARGO_TEST = re.compile(r"^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED)", re.MULTILINE)
_CARGO_SUMMARY = re.compile(r"^test result: (ok|FAILED)\. (\d+) passed; (\d+) failed", re.MULTILINE)


def cargo(text: str) -> TestResult | None:
    """`cargo test`, whose only stable form is text: each binary's summary must be there."""
    summaries = _CARGO_SUMMARY.findall(text)
    if not summaries:
        return None
    outcomes: dict[str, str] = {}
    for name, outcome in _CARGO_TEST.findall(text):
        _note(outcomes, name, PASSED if outcome == "ok" else FAILED)
    counted = _result(outcomes)
    failed = sum(int(count) for _, _, count in summaries)
    passed = sum(int(count) for _, count, _ in summaries)
    return TestResult(passed, max(failed, counted.failed), 0, names=outcomes)


def _note(outcomes: dict[str, str], name: str, outcome: str) -> None:
    """One bad outcome of a name stands, whatever else is reported under it."""
    if outcomes.get(name, PASSED) == PASSED:
        outcomes[name] = outcome


def _result(outcomes: Mapping[str, str]) -> TestResult:
    values = list(outcomes.values())
    return TestResult(
        values.count(PASSED), values.count(FAILED), values.count(ERROR), names=outcomes
    )


def _json(content: bytes) -> object:
    if len(content) > MAX_REPORT_BYTES:
        return None
    try:
        parsed: object = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return parsed
