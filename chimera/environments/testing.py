"""Running a test command in an environment and reading its JUnit report."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Collection, Mapping, Sequence
from xml.etree import ElementTree

from chimera.environments.base import Machine
from chimera.errors import UsageError
from chimera.types import TestResult

REPORT_BYTES = 50 * 1024**2
PYTEST = re.compile(r"(^|[\s/;&])(pytest|py\.test)(\s|$)")


def run_tests(env: Machine, command: str | Sequence[str], *, timeout: float) -> TestResult:
    """Counts and outcomes by name. No report, a broken one, or an exit code that contradicts it
    counts as an error, so that it is never a pass."""
    report = f"{secrets.token_hex(16)}.xml"
    if not isinstance(command, str):
        command = shlex.join(("python3", "-m", "pytest", "-q", *command))
    if "{report}" in command:
        command = command.replace("{report}", shlex.quote(report))
    elif PYTEST.search(command):
        command = with_options(command, f"--junitxml={report}")
    else:
        raise UsageError(
            f"no report to read from {command!r}: let it write JUnit XML to {{report}}"
        )
    result = env.run_command(command, timeout=timeout)
    try:
        content = env.read_file(report)
    except OSError:
        why = f"no test report was written\n{result.output}"
        return TestResult(0, 0, 1, why, timed_out=result.timed_out)
    finally:
        env.run_command(["rm", "-f", report])
    try:
        names = outcomes(content)
    except ValueError as error:
        why = f"the test report cannot be read: {error}\n{result.output}"
        return TestResult(0, 0, 1, why, timed_out=result.timed_out)
    counts = {kind: list(names.values()).count(kind) for kind in ("passed", "failed", "error")}
    contradicted = not result.success and not counts["failed"] and not counts["error"]
    return TestResult(
        counts["passed"],
        counts["failed"],
        counts["error"] + contradicted,
        result.output,
        names,
        result.timed_out,
    )


def with_options(command: str, options: str) -> str:
    """A line of a shell's whose last call of pytest has further options, after its own.

    (Those of PYTEST_ADDOPTS come before its own, where `-x` or another report would win.)
    """
    named = [each.end(2) for each in PYTEST.finditer(command)]
    calls = [each for each in named if not _ONLY_NAMED.search(command, 0, each)] or named
    call = calls[-1] if calls else len(command)
    end, inside, depth = len(command), _quotation(command[:call]), 0
    for part in _PARTS[inside].finditer(command, call):
        if part.lastgroup == "end" and not depth:
            end = part.start()
            break
        depth += (part[0] == "(") - (part[0] == ")")
    return f"{command[:end].rstrip()} {options} {command[end:]}".rstrip()


#: Up to a name of pytest that calls nothing: a comment, or what another program is given.
_ONLY_NAMED = re.compile(
    r"(?:(?:^|\s)\#[^\n]*|(?:^|[;&|(\n])\s*(?:echo|printf|grep|which|pip3?)\s[^;&|\n]*)\Z"
)


def _quotation(text: str) -> str:
    """The quotation mark that a text of a shell's leaves open."""
    rest = re.sub(
        r"\\.|'[^']*'|\"(?:\\.|\$\([^()]*\)|[^\"\\])*\"|`[^`'\"]*`", "", text, flags=re.DOTALL
    )
    return next((each for each in rest if each in "'\"`"), "")


def _parts(inside: str) -> re.Pattern[str]:
    """What is passed over, what opens something inside of the command, and what ends it; within a
    quotation its mark does."""
    quoted = {"'": r"'[^']*'", '"': r'"(?:\\.|\$\([^()]*\)|[^"\\])*"', "`": r"`[^`]*`"}
    others = "|".join(text for mark, text in quoted.items() if mark != inside)
    ends = r"\|\|?|;|&&|(?<!>)&(?!>)|\n|\)|(?<=\s)(?:\#|--(?=\s))"
    mark = f"{inside}|" if inside else ""
    return re.compile(rf"\\.|{others}|\$\{{[^}}]*\}}|\(|(?P<end>{mark}{ends})", re.DOTALL)


_PARTS = {inside: _parts(inside) for inside in ("", "'", '"', "`")}


def outcomes(report: bytes) -> dict[str, str]:
    """Test name → passed, failed, error or skipped; of a name seen twice the worse."""
    worse = ("passed", "skipped", "failed", "error")
    found: dict[str, str] = {}
    for group, test, outcome in junit_cases(report):
        name = "::".join(part for part in (group, test) if part)
        found[name] = max(found.get(name, "passed"), outcome, key=worse.index)
    return found


def junit_cases(report: bytes) -> list[tuple[str, str, str]]:
    """(class, test, outcome) of every case of a JUnit report; ValueError where it is none.

    A report that is cut, or that declares entities, is none.
    """
    if len(report) > REPORT_BYTES:
        raise ValueError(f"longer than {REPORT_BYTES} bytes")
    # with a zero byte it is in an encoding in which declarations look otherwise
    if any(sign in report for sign in (b"<!DOCTYPE", b"<!ENTITY", b"\0")):
        raise ValueError("it declares entities")
    cases = _Cases()
    parser = ElementTree.XMLParser(target=cases)
    try:
        parser.feed(report)
        parser.close()
    except (ElementTree.ParseError, LookupError) as error:  # the latter: no such encoding
        raise ValueError(str(error)) from None
    return cases.found()


class _Cases:
    """What is kept of a report while it is read: of its elements, the cases alone."""

    def __init__(self) -> None:
        self._depth = 0
        self._place = 0  # the depth of what stands in an open case
        self._cases: list[tuple[Mapping[str, str], set[str]]] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth == 1 and tag not in ("testsuite", "testsuites"):
            raise ValueError(f"it is a <{tag}>")
        if tag == "testcase":
            self._cases.append((attributes, set()))
            self._place = self._depth + 1
        elif tag in _OUTCOMES and self._depth == self._place:
            self._cases[-1][1].add(tag)

    def end(self, tag: str) -> None:
        self._depth -= 1
        if tag == "testcase":
            self._place = 0

    def close(self) -> None:
        """What the parser calls at the end."""

    def found(self) -> list[tuple[str, str, str]]:
        return [
            (found.get("classname", ""), found.get("name", ""), _outcome(tags))
            for found, tags in self._cases
        ]


_OUTCOMES = {"error": "error", "failure": "failed", "skipped": "skipped"}


def _outcome(tags: Collection[str]) -> str:
    return next((outcome for tag, outcome in _OUTCOMES.items() if tag in tags), "passed")
