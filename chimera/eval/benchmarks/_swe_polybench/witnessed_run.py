"""Run a test command of any language with a witness beside it, where the runner has one.

What a test run prints can be printed by the code under test as well. Python's runners and mocha
and jest are watched from inside (see the kit's `witness`); of other runners it is known at least
whether the tool itself ended well. Code that is written against the witness can still deceive it.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chimera.environments.base import Machine
from chimera.errors import EnvironmentFault
from chimera.eval.kits.repositories.witness import (
    Account,
    Witness,
    place_witness,
    read_account,
)
from chimera.types import CommandResult

#: Build tools and runners whose failure means something; `cat` of a missing report does not.
_TOOLS = re.compile(
    r"(?:\S+=\S* )*(?:\S*/)?"
    r"(?:mvnw?|gradlew?|npm|npx|yarn|pnpm|node|mocha|jest|tsc|pytest|python3?)\b"
)
LOG_BYTES = 64 * 1024**2
_WATCH = Path(__file__).with_name("watch.js")
_TRACED = Path(__file__).with_name("traced.sh")


@dataclass(frozen=True, slots=True)
class WitnessedRun:
    """One run of a test command. `passed` is None where no witness was there to see it."""

    result: CommandResult
    tools_failed: bool  # a build tool or runner ended with another code than 0
    finished: bool = True
    passed: Callable[[str], bool] | None = None

    @property
    def witnessed(self) -> bool:
        return self.passed is not None

    def unconfirmed(self, names: Collection[str]) -> list[str]:
        """Names that the witness has not seen pass."""
        if self.passed is None:
            return []
        return [name for name in names if not (self.finished and self.passed(name))]


def run_witnessed(
    env: Machine,
    command: str,
    *,
    language: str,
    root: str,
    timeout: float,
    read: Callable[[str], Collection[str]],
) -> WitnessedRun:
    """Run `command` in bash; `read` gives the names that a log shows as passed."""
    folder = f"/tmp/{secrets.token_hex(8)}"
    env.run_command(["mkdir", "-p", folder])
    variables: dict[str, str] = {}
    witness: Witness | None = None
    if language == "python":
        witness = place_witness(env, "unittest" if "unittest" in command else "pytest")
        variables = witness.variables()
        if witness.runner == "pytest":
            variables["PYTEST_ADDOPTS"] = "-p chimera_watch"
    elif language in ("javascript", "typescript"):
        env.write_file(f"{folder}/watch.js", _WATCH.read_text())
        variables = {
            "NODE_OPTIONS": f"--require={folder}/watch.js",
            "CHIMERA_WATCH_JS": f"{folder}/account.jsonl",
        }
    result = env.run_command(
        ["bash", "-c", f"{_TRACED.read_text()}{command}\n", "bash", f"{folder}/failures"],
        cwd=root,
        timeout=timeout,
        variables=variables,
        output_bytes=LOG_BYTES,
    )
    failed = [line for line in _lines(env, f"{folder}/failures") if _TOOLS.match(line.strip())]
    tools_failed = bool(failed) or result.exit_code != 0
    if witness is not None:
        account = read_account(env, witness)
        if not account.started:
            return WitnessedRun(result, tools_failed)
        seen = frozenset(read(_log(account, witness)))
        return WitnessedRun(result, tools_failed, account.finished, seen.__contains__)
    events = list(_events(_lines(env, f"{folder}/account.jsonl")))
    if not events:
        return WitnessedRun(result, tools_failed)
    titles = {str(event["pass"]) for event in events if "pass" in event}
    finished = any("finished" in event for event in events)
    return WitnessedRun(
        result,
        tools_failed,
        finished,
        lambda name: name in titles or name.partition("->")[2] in titles,
    )


def _log(account: Account, witness: Witness) -> str:
    if witness.runner != "pytest":
        return account.as_log(witness.runner)
    lines = [f"{name} {status}" for name, status in account.results]
    return "\n".join(["== test session starts ==", *lines, ""])


def _events(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue  # written by another hand, or cut
        if isinstance(event, dict):
            yield event


def _lines(env: Machine, path: str) -> list[str]:
    try:
        content = env.read_file(path).decode("utf-8", "replace")
    except (EnvironmentFault, OSError):
        return []
    return [line for line in content.split("\n") if line]
