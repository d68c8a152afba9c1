"""The rule by which swebench (5.0, or 4.1) decides an instance, from its log."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from chimera.eval.kits.reports.report import FAILING, PASSING, Status
from chimera.eval.kits.reports.swebench_logs import LogParser, UnreadableLog, Version, parser

START = ">>>>> Start Test Output"
END = ">>>>> End Test Output"
EXIT_CODE = ">>>>> Test Exit Code"
_BAD_MARKS = (
    ">>>>> Patch Apply Failed",
    ">>>>> Reset Failed",
    ">>>>> Tests Errored",
    ">>>>> Tests Timed Out",
)
_EXIT_LINE = re.compile(rf"(?m)^{re.escape(EXIT_CODE)}:[ \t]*(-?\d+)\n")
_EXIT_ANYWHERE = re.compile(rf"{re.escape(EXIT_CODE)}:\s*(-?\d{{1,9}})")
#: Signs that a suite ran although no result could be read: its counts, none of them zero. Runners
#: that name only failures (`fail_only`) leave nothing else when all is well.
_SUITE_RAN = re.compile(
    r"Executed [1-9]\d* of \d+|TOTAL: [1-9]\d* (?:SUCCESS|FAILED)|(?<!\d)0*+[1-9]\d*+ passing"
    r"|Tests:\s+[1-9]\d*|Test Suites:\s+(?:\d+ \w+, )*[1-9]\d* total|^# tests [1-9]\d*"
    r"|(?<!\d)0*+[1-9]\d*+ specs?, \d+ failures?|': ok$",
    re.MULTILINE,
)

EvalType = Literal["pass_and_fail", "fail_only"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Which expected tests held. `ungradable` says why a log could not be used."""

    fail_to_pass: Mapping[str, bool]
    pass_to_pass: Mapping[str, bool]
    ungradable: str = ""

    @property
    def resolved(self) -> bool:
        held = all(self.fail_to_pass.values()) and all(self.pass_to_pass.values())
        return not self.ungradable and held

    @property
    def status(self) -> Literal["FULL", "PARTIAL", "NO"]:
        if self.resolved:
            return "FULL"
        some = any(self.fail_to_pass.values()) and not all(self.fail_to_pass.values())
        return "PARTIAL" if some and all(self.pass_to_pass.values()) else "NO"

    def failures(self) -> list[str]:
        both = [*self.fail_to_pass.items(), *self.pass_to_pass.items()]
        return [name for name, held in both if not held]


def decide(
    statuses: Mapping[str, Status],
    fail_to_pass: Sequence[str],
    pass_to_pass: Sequence[str],
    eval_type: EvalType = "pass_and_fail",
    version: Version = "5.0",
) -> Decision:
    """Every FAIL_TO_PASS test passes; every PASS_TO_PASS test passes or is skipped.

    In 4.1 a skipped test of either list does not count, and ids that were cut match nothing.
    """
    if eval_type == "fail_only":
        return Decision(
            {name: statuses.get(name) != "FAILED" for name in fail_to_pass},
            {name: statuses.get(name) != "FAILED" for name in pass_to_pass},
        )
    if version == "4.1":
        return Decision(_counted(statuses, fail_to_pass), _counted(statuses, pass_to_pass))
    return Decision(
        {name: status_of(name, statuses) in PASSING for name in fail_to_pass},
        {name: status_of(name, statuses) in (*PASSING, "SKIPPED") for name in pass_to_pass},
    )


def _counted(statuses: Mapping[str, Status], names: Sequence[str]) -> dict[str, bool]:
    """4.1: a listed test holds, or it is absent or failed; with any other status it is left out."""
    found = {name: statuses.get(name) for name in names}
    known = {None, *PASSING, *FAILING}
    return {name: status in PASSING for name, status in found.items() if status in known}


def undecided(reason: str, fail_to_pass: Sequence[str], pass_to_pass: Sequence[str]) -> Decision:
    """No test is known to hold."""
    return Decision(dict.fromkeys(fail_to_pass, False), dict.fromkeys(pass_to_pass, False), reason)


def status_of(name: str, statuses: Mapping[str, Status]) -> Status | None:
    """The status of a listed id. Ids that were cut inside their brackets match by prefix."""
    if name in statuses:
        return statuses[name]
    if name.count("[") > name.count("]"):
        found = [status for key, status in statuses.items() if key.startswith(name)]
        if found and len({status in PASSING for status in found}) == 1:
            return found[0]
    return None


@dataclass(frozen=True, slots=True)
class LogReading:
    statuses: Mapping[str, Status]
    ungradable: str = ""


def write_log(output: str, exit_code: int) -> str:
    """A test command's output in the form the official evaluation log has."""
    return f"{START}\n{output}\n{END}\n{EXIT_CODE}: {exit_code}\n"


def read_log(log: str, log_parser: str, version: Version = "5.0") -> LogReading:
    """What the log of a run of ours says, or why it says nothing.

    Stricter than upstream: the exit status must stand after the last end mark and results between
    the marks, so that no log cut short can be graded and nothing printed by a test counts.
    """
    log = _lines(log)
    if refused := _refused(log):
        return LogReading({}, refused)
    exit_line = _EXIT_LINE.search(log.rsplit(END, 1)[1])
    if exit_line is None:
        return LogReading({}, "the log was cut before the exit status")
    code = int(exit_line[1])
    reading = _reading([_between_marks(log)], code, parser(log_parser, version), version)
    if not reading.statuses and not reading.ungradable and (code != 0 or version == "4.1"):
        return LogReading({}, f"the test command ended with {code}, and the log has no results")
    return reading


def read_official_log(log: str, log_parser: str, version: Version = "5.0") -> LogReading:
    """What swebench reads in a log of its own making (`test_output.txt`), no more, no less.

    Logs of older versions have no exit status; some runners print outside of the marks.
    """
    log = _lines(log)
    if refused := _refused(log):
        return LogReading({}, refused)
    exit_line = _EXIT_ANYWHERE.search(log)
    code = int(exit_line[1]) if exit_line else 0
    return _reading([_between_marks(log), log], code, parser(log_parser, version), version)


def _lines(log: str) -> str:
    """A log as upstream reads it from its file: every kind of line end is one."""
    return log.replace("\r\n", "\n").replace("\r", "\n")


def _refused(log: str) -> str:
    if bad := next((mark for mark in _BAD_MARKS if mark in log), None):
        return f"the log says {bad.removeprefix('>>>>> ')!r}"
    if START not in log or END not in log:
        return "the log has no start or no end mark: the tests did not run to the end"
    return ""


def _between_marks(log: str) -> str:
    return log.split(START)[1].split(END)[0]


def _reading(
    parts: Sequence[str], exit_code: int, parse: LogParser, version: Version
) -> LogReading:
    """The first of `parts` that has results, unless (in 5.0) the exit status belies it."""
    try:
        statuses = next(filter(None, map(parse, parts)), {})
    except UnreadableLog as error:
        return LogReading({}, str(error))
    if version == "4.1":
        return LogReading(statuses)
    if not statuses and not _SUITE_RAN.search(parts[-1]):
        return LogReading({}, "the log has no test results")
    if statuses and exit_code != 0 and not any(s in FAILING for s in statuses.values()):
        return LogReading(
            {}, f"the test command ended with {exit_code}, but the log has no failed test"
        )
    return LogReading(statuses)
