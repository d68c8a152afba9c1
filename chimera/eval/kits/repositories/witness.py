"""A second witness of a Python test run: what the runner itself was told, beside what was printed.

Printed lines can be forged by the code under test. The witness is a module that is loaded into the
test process before any code of the repository, hooks pytest, unittest or sympy's runner, and
writes each result to a file whose random name only it is told. A test counts only when log and
witness agree. Code that runs in the same process and is written against this very module can still
deceive it; that is the limit of tests that share a process with what they test.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from chimera.environments.base import Machine
from chimera.errors import EnvironmentFault
from chimera.eval.kits.reports.report import Status

Runner = Literal["pytest", "unittest", "sympy"]
VARIABLE = "CHIMERA_WATCH"
STATUSES = get_args(Status)
_PROGRAMS = Path(__file__).with_name("programs")


@dataclass(frozen=True, slots=True)
class Witness:
    """A witness placed in an environment: how to start it, and where its account will be."""

    runner: Runner
    folder: str

    @property
    def account(self) -> str:
        return f"{self.folder}/account.jsonl"

    def variables(self) -> dict[str, str]:
        return {VARIABLE: self.account, "PYTHONPATH": self.folder}

    def command(self, command: str) -> str:
        """The test command with the witness in it."""
        if self.runner == "pytest":
            return re.sub(r"(?<![\w./-])pytest(?=\s)", "pytest -p chimera_watch", command, count=1)
        return command


def runner_of(command: str, log_parser: str) -> Runner | None:
    """Which runner a test command starts, where a witness for it exists."""
    if log_parser.endswith("sympy"):
        return "sympy"
    if log_parser.endswith("django") or re.search(r"-m unittest\b", command):
        return "unittest"
    if re.search(r"(?<![\w./-])pytest(?=\s)", command):
        return "pytest"
    return None


def place_witness(env: Machine, runner: Runner) -> Witness:
    witness = Witness(runner, f"/tmp/{secrets.token_hex(8)}")
    env.run_command(["mkdir", "-p", witness.folder])
    programs = {"chimera_watch.py": "chimera_watch.py"}
    if runner != "pytest":
        programs["sitecustomize.py"] = f"start_{runner}.py"
    for name, program in programs.items():
        env.write_file(f"{witness.folder}/{name}", (_PROGRAMS / program).read_text())
    return witness


@dataclass(frozen=True, slots=True)
class Account:
    """What the witness saw: results in their order, and the runner's own end."""

    results: tuple[tuple[str, Status], ...] = ()
    finished: bool = False
    started: bool = False

    def as_log(self, runner: Runner) -> str:
        """The account in the words of the runner's log, so that one parser reads both."""
        words = {"PASSED": "ok", "FAILED": "FAIL", "ERROR": "ERROR", "XFAIL": "ok"}
        lines = []
        for name, status in self.results:
            if runner == "pytest":
                lines.append(f"{status} {name}")
            elif runner == "sympy":
                mark = {"PASSED": "ok", "FAILED": "F", "ERROR": "E"}.get(status, "f")
                lines.append(f"{name} {mark}")
            elif status == "SKIPPED":
                lines.append(f"{name} ... skipped")
            else:
                lines.append(f"{name} ... {words[status]}")
        return "\n".join(lines) + "\n"


def read_account(env: Machine, witness: Witness) -> Account:
    """The witness's account; none at all when it never started."""
    try:
        text = env.read_file(witness.account).decode("utf-8", "replace")
    except (EnvironmentFault, OSError):
        return Account()
    events = [_event(line) for line in text.split("\n")[:-1]]
    known = [event for event in events if event is not None]
    finished = bool(known) and "finished" in known[-1]
    if witness.runner == "pytest":
        return Account(tuple(_pytest_results(known)), finished, bool(known))
    results: dict[str, Status] = {}
    for event in known:
        if event.get("status") in STATUSES:
            name = str(event.get("text") or event.get("id"))
            status = cast(Status, event["status"])
            if results.get(name) not in ("FAILED", "ERROR"):
                results[name] = status
    return Account(tuple(results.items()), finished, bool(known))


def _pytest_results(events: Iterable[Mapping[str, object]]) -> Iterable[tuple[str, Status]]:
    """One status a test out of its set-up, call and tear-down."""
    results: dict[str, Status] = {}
    for event in events:
        name, when, outcome = str(event.get("id")), event.get("when"), event.get("outcome")
        if outcome == "failed":
            status: Status = "FAILED" if when == "call" else "ERROR"
        elif outcome == "skipped":
            status = "XFAIL" if event.get("xfail") else "SKIPPED"
        elif outcome == "passed" and when == "call":
            status = "PASSED"
        else:
            continue
        if results.get(name) not in ("FAILED", "ERROR"):
            results[name] = status
    return results.items()


def _event(line: str) -> Mapping[str, object] | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None
