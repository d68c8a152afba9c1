"""The rule by which swebench 5.0 decides an instance, from a map of test id to status."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from chimera.eval.reports.swebench_logs import LogParser
from chimera.eval.reports.types import FAILING, PASSING, Status

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
) -> Decision:
    """Every FAIL_TO_PASS test passes; every PASS_TO_PASS test passes or is skipped."""
    if eval_type == "fail_only":
        return Decision(
            {name: statuses.get(name) != "FAILED" for name in fail_to_pass},
            {name: statuses.get(name) != "FAILED" for name in pass_to_pass},
        )
    return Decision(
        {name: _status(name, statuses) in PASSING for name in fail_to_pass},
        {name: _status(name, statuses) in (*PASSING, "SKIPPED") for name in pass_to_pass},
    )


def undecided(reason: str, fail_to_pass: Sequence[str], pass_to_pass: Sequence[str]) -> Decision:
    """No test is known to hold."""
    return Decision(dict.fromkeys(fail_to_pass, False), dict.fromkeys(pass_to_pass, False), reason)


def _status(name: str, statuses: Mapping[str, Status]) -> Status | None:
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


def read_log(log: str, parse: LogParser) -> LogReading:
    """What an evaluation log says, or why it says nothing.

    Stricter than upstream in one point: the exit status after the end mark must be there, so that
    no log cut short can be graded.
    """
    if bad := next((mark for mark in _BAD_MARKS if mark in log), None):
        return LogReading({}, f"the log says {bad.removeprefix('>>>>> ')!r}")
    if START not in log or END not in log:
        return LogReading(
            {}, "the log has no start or no end mark: the tests did not run to the end"
        )
    after = log.rsplit(END, 1)[1]
    exit_line = _EXIT_LINE.search(after)
    if exit_line is None:
        return LogReading({}, "the log was cut before the exit status")
    statuses = parse(log.split(START)[1].split(END)[0])
    if not statuses:
        return LogReading({}, "the log has no test results")
    if int(exit_line[1]) != 0 and not any(status in FAILING for status in statuses.values()):
        return LogReading(
            {}, f"the test command ended with {exit_line[1]}, but the log has no failed test"
        )
    return LogReading(statuses)
