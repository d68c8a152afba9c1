"""Reports of JavaScript runners: mocha's and jest's JSON, node's TAP."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from chimera.eval.kits.reports.report import Report, Status

_MOCHA_START = re.compile(r'\{\s*"stats"')
_JEST_START = re.compile(r'\{\s*"numFailedTestSuites"')
_MOCHA: dict[str, Status] = {"passes": "PASSED", "pending": "SKIPPED", "failures": "FAILED"}
_JEST: dict[str, Status] = {
    "passed": "PASSED", "failed": "FAILED", "pending": "SKIPPED", "skipped": "SKIPPED",
    "todo": "SKIPPED", "disabled": "SKIPPED",
}  # fmt: skip


def mocha(log: str, *, with_file: bool = False) -> Report:
    """`--reporter json`: one object, found wherever it starts in the log."""
    document = _document(log, _MOCHA_START)
    if document is None or not isinstance(document.get("stats"), dict):
        return Report(complete=False)
    statuses: dict[str, Status] = {}
    for field, status in _MOCHA.items():
        tests = _objects(document.get(field))
        if tests is None:
            return Report(complete=False)
        for test in tests:
            name = str(test.get("fullTitle", ""))
            statuses[f"{test.get('file', '')}->{name}" if with_file else name] = status
    failures = document["stats"].get("failures")
    counted = sum(1 for status in statuses.values() if status == "FAILED")
    return Report(statuses, complete=not (failures and not counted))


def jest(log: str, *, title: str = "fullName", suites: bool = False) -> Report:
    """`--json`: names are `file->name`, as the data sets list them.

    With `suites`, one that failed without a failed test (it cannot be loaded) is an error itself.
    """
    document = _document(log, _JEST_START)
    if document is None:
        return Report(complete=False)
    statuses: dict[str, Status] = {}
    results = _objects(document.get("testResults"))
    for suite in results or ():
        file = str(suite.get("name") or suite.get("testFilePath") or "")
        tests = _objects(suite.get("assertionResults") or suite.get("testResults"))
        if tests is None:
            return Report(complete=False)
        if suites and suite.get("status") == "failed" and not _any_failed(tests):
            statuses[file] = "ERROR"
        for test in tests:
            name = f"{file}->{test.get(title, '')}"
            statuses[name] = _JEST.get(str(test.get("status")), "ERROR")
    whole = results is not None and not document.get("wasInterrupted", False)
    return Report(statuses, complete=whole)


def _objects(value: object) -> list[Mapping[str, Any]] | None:
    """The entries of a list; none when there is no list, None when it holds anything else."""
    entries = value or []
    if isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries):
        return entries
    return None


def _any_failed(tests: Iterable[Mapping[str, Any]]) -> bool:
    return any(test.get("status") == "failed" for test in tests)


def tap_whole_lines(log: str) -> dict[str, Status]:
    """TAP as SWE-PolyBench reads it: the rest of the line, number and all, is the name."""
    statuses: dict[str, Status] = {}
    for line in log.split("\n"):
        if line.startswith("ok "):
            statuses[line[3:]] = "PASSED"
        elif line.startswith("not ok "):
            statuses[line[7:]] = "FAILED"
    return statuses


def _document(log: str, start: re.Pattern[str]) -> dict[str, Any] | None:
    found = start.search(log)
    if found is None:
        return None
    try:
        document, _ = json.JSONDecoder().raw_decode(log, found.start())
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
