"""unittest's verbose output (`python -m unittest -v`)."""

from __future__ import annotations

import re

from chimera.eval.kits.reports.types import Report, Status

_WORD = re.compile(r"(ok|FAIL|ERROR|expected failure|unexpected success|skipped .*)$")
_END = re.compile(r"^Ran (\d+) tests? in [\d.]+s$")
_VERDICT = re.compile(r"^(OK|FAILED)( \(.*\))?$|^NO TESTS RAN")
_STATUS: dict[str, Status] = {
    "ok": "PASSED", "FAIL": "FAILED", "ERROR": "ERROR", "expected failure": "XFAIL",
    "unexpected success": "FAILED",
}  # fmt: skip


def read(log: str) -> Report:
    """Results by `test (class)`; complete when the closing count and verdict are there."""
    statuses: dict[str, Status] = {}
    counted = decided = False
    name = ""
    for line in log.split("\n")[:-1]:
        if found := re.match(r"^(\S+ \([\w.]+\))", line):
            name = found[1]
        if name and (word := _WORD.search(line)) and (" ... " in line or line == word[1]):
            statuses[name] = _STATUS.get(word[1], "SKIPPED")
            name = ""
        elif counted and _VERDICT.match(line):
            decided = True
        elif _END.match(line):
            counted = True
    return Report(statuses, complete=decided)
