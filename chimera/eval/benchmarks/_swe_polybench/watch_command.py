"""Run a test command of any language with a witness beside it, where the runner has one.

What a test run prints can be printed by the code under test as well. Python's runners and mocha and
jest are watched from inside (see `watch`); of other runners it is known at least whether the tool
itself ended well. Code that is written against the witness can still deceive it.
"""

from __future__ import annotations

import json
import re
import secrets
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from chimera.environments.base import Machine
from chimera.errors import EnvironmentFault
from chimera.eval.kits.repositories.watch import Account, Watch, place_watch, read_account
from chimera.types import CommandResult

#: Build tools and runners whose failure means something; `cat` of a missing report does not.
_TOOLS = re.compile(
    r"(?:\S+=\S* )*(?:\S*/)?"
    r"(?:mvnw?|gradlew?|npm|npx|yarn|pnpm|node|mocha|jest|tsc|pytest|python3?)\b"
)
LOG_BYTES = 64 * 1024**2

#: Loaded into every node process of the command by NODE_OPTIONS. The one that loads a runner keeps
#: the account, and hides it from what it runs.
JAVASCRIPT = r"""
'use strict';
const place = process.env.CHIMERA_WATCH_JS;
if (place) {
  const Module = require('module');
  const fs = require('fs');
  const open = fs.openSync, write = fs.writeSync, text = JSON.stringify;
  let account = null;
  const tell = (event) => { if (account !== null) write(account, text(event) + '\n'); };
  const started = () => {
    if (account !== null) return;
    account = open(place, 'a', 0o600);
    delete process.env.CHIMERA_WATCH_JS;
    delete process.env.NODE_OPTIONS;
    tell({ started: true });
  };
  const known = new WeakSet();
  const watchMocha = (Runner) => {
    if (typeof Runner !== 'function' || known.has(Runner)) return;
    known.add(Runner);
    const emit = Runner.prototype.emit;
    Runner.prototype.emit = function (event, test) {
      if (event === 'start') started();
      if (event === 'pass' || event === 'fail') {
        tell({ [event]: typeof test.fullTitle === 'function' ? test.fullTitle() : test.title });
      }
      if (event === 'end') tell({ finished: true });
      return emit.apply(this, arguments);
    };
  };
  const watchJest = (library) => {
    const format = library.formatTestResults;
    if (typeof format !== 'function' || !process.argv.some((a) => a.startsWith('--json'))) {
      return library;
    }
    started();
    return Object.assign({}, library, {
      formatTestResults(...given) {
        const results = format.apply(this, given);
        for (const suite of results.testResults) {
          for (const test of suite.assertionResults) {
            const event = test.status === 'passed' ? 'pass' : 'fail';
            tell({ [event]: test.fullName });
            tell({ [event]: test.title });
          }
        }
        tell({ finished: true });
        return results;
      },
    });
  };
  const load = Module._load;
  Module._load = function (request, parent) {
    const loaded = load.apply(this, arguments);
    const from = (parent && parent.filename) || '';
    if (/(^|\/)runner(\.js)?$/.test(request) && /[\\/]mocha[\\/]/.test(from)) {
      started();
      watchMocha(loaded);
    }
    return request === '@jest/test-result' ? watchJest(loaded) : loaded;
  };
}
"""


@dataclass(frozen=True, slots=True)
class WatchedRun:
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


def run_watched(
    env: Machine,
    command: str,
    *,
    language: str,
    root: str,
    timeout: float,
    read: Callable[[str], Collection[str]],
) -> WatchedRun:
    """Run `command` in bash; `read` gives the names that a log shows as passed."""
    folder = f"/tmp/{secrets.token_hex(8)}"
    env.run_command(["mkdir", "-p", folder])
    failures = shlex.quote(f"{folder}/failures")
    # the trap's own trace must not get into the log
    trap = f'trap \'{{ printf "%s\\n" "$BASH_COMMAND" >>{failures}; }} 2>/dev/null\' ERR'
    variables: dict[str, str] = {}
    watch: Watch | None = None
    if language == "python":
        watch = place_watch(env, "unittest" if "unittest" in command else "pytest")
        variables = watch.variables()
        if watch.runner == "pytest":
            variables["PYTEST_ADDOPTS"] = "-p chimera_watch"
    elif language in ("javascript", "typescript"):
        env.write_file(f"{folder}/watch.js", JAVASCRIPT)
        variables = {
            "NODE_OPTIONS": f"--require={folder}/watch.js",
            "CHIMERA_WATCH_JS": f"{folder}/account.jsonl",
        }
    result = env.run_command(
        ["bash", "-c", f"{trap}\nset -uxo pipefail\n{command}\n"],
        cwd=root,
        timeout=timeout,
        variables=variables,
        output_bytes=LOG_BYTES,
    )
    failed = [line for line in _lines(env, f"{folder}/failures") if _TOOLS.match(line.strip())]
    tools_failed = bool(failed) or result.exit_code != 0
    if watch is not None:
        account = read_account(env, watch)
        if not account.started:
            return WatchedRun(result, tools_failed)
        seen = frozenset(read(_log(account, watch)))
        return WatchedRun(result, tools_failed, account.finished, seen.__contains__)
    events = list(_events(_lines(env, f"{folder}/account.jsonl")))
    if not events:
        return WatchedRun(result, tools_failed)
    titles = {event["pass"] for event in events if "pass" in event}
    finished = any("finished" in event for event in events)
    return WatchedRun(
        result,
        tools_failed,
        finished,
        lambda name: name in titles or name.partition("->")[2] in titles,
    )


def _log(account: Account, watch: Watch) -> str:
    if watch.runner != "pytest":
        return account.as_log(watch.runner)
    lines = [f"{name} {status}" for name, status in account.results]
    return "\n".join(["== test session starts ==", *lines, ""])


def _events(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue  # written by another hand, or cut
        if isinstance(event, dict):
            yield event


def _lines(env: Machine, path: str) -> list[str]:
    try:
        content = env.read_file(path).decode("utf-8", "replace")
    except (EnvironmentFault, OSError):
        return []
    return [line for line in content.split("\n") if line]
