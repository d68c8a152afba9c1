"""Reports of JavaScript runners: mocha's and jest's JSON, TAP."""

from __future__ import annotations

import json
import re
from typing import Any

from chimera.eval.kits.reports.types import Report, Status

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
        for test in document.get(field) or ():
            name = str(test.get("fullTitle", ""))
            statuses[f"{test.get('file', '')}->{name}" if with_file else name] = status
    failures = document["stats"].get("failures")
    counted = sum(1 for status in statuses.values() if status == "FAILED")
    return Report(statuses, complete=not (failures and not counted))


def jest(log: str, *, title: str = "fullName") -> Report:
    """`--json`: names are `file->name`, as the data sets list them."""
    document = _document(log, _JEST_START)
    if document is None:
        return Report(complete=False)
    statuses: dict[str, Status] = {}
    for suite in document.get("testResults") or ():
        file = str(suite.get("name") or suite.get("testFilePath") or "")
        for test in suite.get("assertionResults") or suite.get("testResults") or ():
            name = f"{file}->{test.get(title, '')}"
            statuses[name] = _JEST.get(str(test.get("status")), "ERROR")
    return Report(statuses, complete=not document.get("wasInterrupted", False))


_TAP = re.compile(r"^(not ok|ok)\s+(\d+)?\s*-?\s*(.*)$")
_TAP_PLAN = re.compile(r"^1\.\.(\d+)$")


def tap(log: str) -> Report:
    """Test Anything Protocol: complete when as many results came as the plan announced."""
    statuses: dict[str, Status] = {}
    announced: int | None = None
    seen = 0
    lines = log.split("\n")
    for line in lines[:-1]:  # what follows the last line end was cut
        if plan := _TAP_PLAN.match(line):
            announced = int(plan[1])
        elif result := _TAP.match(line):
            seen += 1
            name, _, directive = result[3].partition(" # ")
            word = directive.strip().split(" ")[0].upper()
            if word in ("SKIP", "TODO"):
                statuses[name] = "SKIPPED"
            else:
                statuses[name] = "PASSED" if result[1] == "ok" else "FAILED"
    return Report(statuses, complete=announced is not None and announced == seen)


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
