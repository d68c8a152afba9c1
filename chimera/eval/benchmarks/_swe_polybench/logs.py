"""Test logs as SWE-PolyBench names tests; written anew from a description of its behaviour."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from chimera.errors import GraderError
from chimera.eval.kits.apart import SHORT, Ended, apart
from chimera.eval.kits.reports import javascript, junit
from chimera.eval.kits.reports.report import Report, Status


@dataclass(frozen=True, slots=True)
class Results:
    """Names that passed and names that failed; one name can be in both."""

    passed: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.passed or self.failed)


LogReader = Callable[[str], Results]
SECONDS = 20

_SESSION = re.compile(r"=+ test session starts =+|collecting \.\.\.")
_END_OF_SESSION = re.compile(r"=+ (?:warnings summary|short test summary info) ")
_SUMMARY = re.compile(r"=+ short test summary info =+")
_PYTEST = re.compile(
    r"(?P<file>[\w./-]+\.py)::(?:(?P<group>\w+)::)?(?P<test>\w+(?:\[[\w-]+\])?)"
    r".*?\b(?P<status>PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b",
    re.DOTALL,
)
_UNITTEST = re.compile(
    r"(?P<test>\w+)(?: \((?P<group>[\w.]+)\))?(?: \((?P<more>[^)]*)\))?"
    r" \.\.\. (?P<status>ok|FAIL)\b"
)


def python(log: str) -> Results:
    """pytest where its banner is there, else unittest."""
    if _SESSION.search(log) or _SUMMARY.search(log):
        return _pytest(log)
    passed: set[str] = set()
    failed: set[str] = set()
    for found in _UNITTEST.finditer(log):
        name = f"{found['group'] or ''}:{found['test']}:{found['more'] or ''}"
        (passed if found["status"] == "ok" else failed).add(name)
    return Results(frozenset(passed), frozenset(failed))


def _pytest(log: str) -> Results:
    start = _SESSION.search(log)
    if start is not None:
        text = log[start.end() :]
        end = _END_OF_SESSION.search(text)
        text = text[: end.start()] if end else text
    else:
        summary = _SUMMARY.search(log)
        text = log[summary.end() :] if summary else ""
    passed: set[str] = set()
    failed: set[str] = set()
    for found in _PYTEST.finditer(text):
        name = f"{found['file']}:{found['group']}:{found['test']}"
        if found["status"] == "PASSED":
            passed.add(name)
        elif found["status"] == "FAILED":
            failed.add(name)
    return Results(frozenset(passed), frozenset(failed))


_BUILD_BROKEN = re.compile(r"build failure|compilation error", re.IGNORECASE)


def java(log: str) -> Results:
    """The JUnit suites that the test command prints into its log."""
    if _BUILD_BROKEN.search(log) and "there are test failures" not in log.lower():
        return Results()
    text = "\n".join(line for line in log.split("\n") if not line.startswith("+ read -r file"))
    readable = [junit.read(block) for block in junit.suites_in(text.encode("utf-8", "replace"))]
    passed = {name for report in readable for name in report.passed()}
    failed = {name for report in readable for name in report.failed()}
    return Results(frozenset(passed), frozenset(failed))


def mocha_or_tap(log: str) -> Results:
    if re.search(r"(?m)^> .*mocha.*--reporter json", log) or '"stats"' in log:
        return _results(javascript.mocha(log))
    statuses = javascript.tap_whole_lines(log)
    return _results(Report(statuses))


def mocha(log: str) -> Results:
    return _results(javascript.mocha(log))


def mocha_with_files(log: str) -> Results:
    return _results(javascript.mocha(log, with_file=True))


def jest_full_names(log: str) -> Results:
    return _results(javascript.jest(log))


def jest_titles(log: str) -> Results:
    return _results(javascript.jest(log, title="title"))


def status_lines(log: str) -> Results:
    """Any line with PASSED or FAILED: what stands before it is the name."""
    passed: set[str] = set()
    failed: set[str] = set()
    for line in log.split("\n"):
        if found := re.match(r"(.*?)(PASSED|FAILED)", line):
            name = found[1].strip().removeprefix("/")
            (passed if found[2] == "PASSED" else failed).add(name)
    return Results(frozenset(passed), frozenset(failed))


def javascript_by_form(log: str) -> Results:
    """For repositories that the benchmark does not know: by what the log looks like."""
    if '"numFailedTestSuites"' in log:
        return jest_full_names(log)
    return mocha_or_tap(log)


_BY_REPOSITORY: Mapping[str, LogReader] = {
    "mrdoob/three.js": mocha_or_tap,
    "sveltejs/svelte": mocha_or_tap,
    "prettier/prettier": jest_full_names,
    "tailwindlabs/tailwindcss": jest_titles,
    "coder/code-server": jest_full_names,
    "serverless/serverless": mocha,
    "microsoft/vscode": mocha,
    "mui/material-ui": mocha_with_files,
    "angular/angular": status_lines,
}
_BY_LANGUAGE: Mapping[str, LogReader] = {
    "python": python,
    "java": java,
    "javascript": javascript_by_form,
    "typescript": javascript_by_form,
}


def reader(repo: str, language: str) -> LogReader:
    """How logs of a repository are read; long ones in a process of their own, and one that cannot
    be read in time holds nothing."""
    _reader(repo, language)  # if there is none, that is said at once

    def read(log: str) -> Results:
        if len(log) <= SHORT:
            return _reader(repo, language)(log)
        try:
            return Results(*map(frozenset, apart(names, repo, language, log, seconds=SECONDS)))
        except Ended:
            return Results()

    return read


def names(repo: str, language: str, log: str) -> list[list[str]]:
    """The names that passed and those that failed; for a worker."""
    found = _reader(repo, language)(log)
    return [sorted(found.passed), sorted(found.failed)]


def _reader(repo: str, language: str) -> LogReader:
    found = _BY_REPOSITORY.get(repo) or _BY_LANGUAGE.get(language.lower())
    if found is None:
        raise GraderError(f"no log reader for {repo} ({language})")
    return found


def _results(report: Report) -> Results:
    """A damaged report holds nothing."""
    if not report.complete and not report.statuses:
        return Results()
    kinds: dict[str, set[str]] = {"PASSED": set(), "FAILED": set()}
    for name, status in report.statuses.items():
        key: Status = "FAILED" if status == "ERROR" else status
        if key in kinds:
            kinds[key].add(name)
    return Results(frozenset(kinds["PASSED"]), frozenset(kinds["FAILED"]))
