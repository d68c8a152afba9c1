"""Reports of compiled languages: go test -json, cargo test, ctest, the TypeScript check."""

from __future__ import annotations

import json
import re

from chimera.eval.kits.reports.types import Report, Status

_GO: dict[str, Status] = {"pass": "PASSED", "fail": "FAILED", "skip": "SKIPPED"}


def go_test(log: str) -> Report:
    """`go test -json`: complete when every package that started also ended."""
    statuses: dict[str, Status] = {}
    started: set[str] = set()
    ended: set[str] = set()
    lines = log.split("\n")
    for line in lines[:-1]:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # build output between the events
        if not isinstance(event, dict):
            continue
        package, action = str(event.get("Package", "")), str(event.get("Action", ""))
        if "Test" in event:
            started.add(package)
            if action in _GO:
                statuses[f"{package}.{event['Test']}"] = _GO[action]
        elif action == "start":
            started.add(package)
        elif action in _GO:
            ended.add(package)
    whole = lines[-1] == "" and bool(started) and started <= ended
    return Report(statuses, complete=whole)


_CARGO = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored.*)$")
_CARGO_DOC = re.compile(r"^test (.+) \.\.\. (ok|FAILED|ignored.*)$")
_CARGO_START = re.compile(r"^running (\d+) tests?$")
_CARGO_END = re.compile(r"^test result: (?:ok|FAILED)\. .* finished in ")


def cargo(log: str) -> Report:
    """libtest's lines: complete when each `running N tests` came to its `test result`."""
    statuses: dict[str, Status] = {}
    running = ended = 0
    lines = log.split("\n")
    for line in lines[:-1]:
        if _CARGO_START.match(line):
            running += 1
        elif _CARGO_END.match(line):
            ended += 1
        elif result := _CARGO.match(line) or _CARGO_DOC.match(line):
            word = result[2]
            status: Status = "PASSED" if word == "ok" else "FAILED"
            statuses[result[1]] = "SKIPPED" if word.startswith("ignored") else status
    return Report(statuses, complete=running > 0 and running == ended)


_CTEST = re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (\S+) \.+\s*(Passed|\*{3}\S+.*?|Not Run).*\d sec")
_CTEST_END = re.compile(r"^\d+% tests passed, \d+ tests? failed out of (\d+)$")


def ctest(log: str) -> Report:
    """ctest's lines; with `--output-junit` read its XML with `junit` instead."""
    statuses: dict[str, Status] = {}
    total: int | None = None
    for line in log.split("\n")[:-1]:
        if result := _CTEST.match(line):
            word = result[2]
            if word == "Passed":
                statuses[result[1]] = "PASSED"
            else:
                statuses[result[1]] = "SKIPPED" if "Skipped" in word else "FAILED"
        elif end := _CTEST_END.match(line):
            total = int(end[1])
    return Report(statuses, complete=total is not None and total == len(statuses))


_TSC_ERROR = re.compile(
    r"^(.+?)(?:\((\d+),(\d+)\)|:(\d+):(\d+))(?:: | - )error (TS\d+)", re.MULTILINE
)


def tsc(log: str, exit_code: int) -> Report:
    """The TypeScript check as one test a file with errors, and one for the whole."""
    statuses: dict[str, Status] = {match[1]: "FAILED" for match in _TSC_ERROR.finditer(log)}
    clean = exit_code == 0 and not statuses
    return Report({**statuses, "tsc": "PASSED" if clean else "FAILED"})
