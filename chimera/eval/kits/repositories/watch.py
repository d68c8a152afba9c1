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
from typing import Literal, cast

from chimera.environments.base import Machine
from chimera.errors import EnvironmentFault
from chimera.eval.kits.reports.types import Status

Runner = Literal["pytest", "unittest", "sympy"]
VARIABLE = "CHIMERA_WATCH"

#: Runs under every CPython that a repository may need (2.7 and 3.5 to 3.14), without imports that
#: the code under test could have replaced by then.
WITNESS = r"""
import json
import os
import sys

_place = os.environ.pop("CHIMERA_WATCH", None)
_account = os.open(_place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if _place else None
_owner, _process = os.getpid(), os.getpid
_dumps, _write = json.dumps, os.write


def _tell(**event):
    if _account is not None and _process() == _owner:
        _write(_account, (_dumps(event) + "\n").encode("ascii"))


_tell(started=True)


# pytest: this module is loaded with -p

_config = []


def pytest_configure(config):
    _config.append(config)


def _name(nodeid):
    relative = getattr(_config[0], "cwd_relative_nodeid", None) if _config else None
    return relative(nodeid) if relative is not None else nodeid


def pytest_runtest_logreport(report):
    _tell(id=_name(report.nodeid), when=report.when, outcome=report.outcome,
          xfail=hasattr(report, "wasxfail"))


def pytest_collectreport(report):
    if report.outcome == "failed":
        _tell(id=_name(report.nodeid), when="collect", outcome="failed", xfail=False)


def pytest_sessionfinish(session, exitstatus):
    _tell(finished=int(exitstatus))


# unittest and what is built on it: the base class hears of every result

def _watch_unittest():
    import unittest
    kinds = {"addSuccess": "PASSED", "addFailure": "FAILED", "addError": "ERROR",
             "addSkip": "SKIPPED", "addExpectedFailure": "XFAIL", "addUnexpectedSuccess": "FAILED"}

    def wrap(method, status):
        original = getattr(unittest.TestResult, method)

        def told(self, test, *rest, **more):
            _tell(id=str(test), text=_first_line(test), status=status)
            return original(self, test, *rest, **more)
        setattr(unittest.TestResult, method, told)

    for method, status in kinds.items():
        wrap(method, status)
    original_subtest = getattr(unittest.TestResult, "addSubTest", None)
    if original_subtest is not None:
        def told_subtest(self, test, subtest, error):
            if error is not None:
                _tell(id=str(test), text=_first_line(test), status="FAILED")
            return original_subtest(self, test, subtest, error)
        unittest.TestResult.addSubTest = told_subtest
    original_run = unittest.TextTestRunner.run

    def told_run(self, test):
        result = original_run(self, test)
        _tell(finished=0 if result.wasSuccessful() else 1, run=result.testsRun)
        return result
    unittest.TextTestRunner.run = told_run


def _first_line(test):
    describe = getattr(test, "shortDescription", None)
    return (describe() if describe is not None else None) or ""


# sympy's own runner: its reporter hears of every result

class _SympyFinder(object):
    names = ("sympy.testing.runtests", "sympy.utilities.runtests")

    def find_spec(self, name, path=None, target=None):
        if name not in self.names:
            return None
        import importlib.util
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            _watch_sympy(module)
        spec.loader.exec_module = exec_module
        return spec


def _watch_sympy(module):
    reporter = getattr(module, "PyTestReporter", None)
    if reporter is None or getattr(reporter, "_watched", False):
        return
    reporter._watched = True
    state = {}
    entering = reporter.entering_test

    def told_entering(self, function):
        state["id"] = function.__name__
        return entering(self, function)
    reporter.entering_test = told_entering
    kinds = {"test_pass": "PASSED", "test_fail": "FAILED", "test_exception": "ERROR",
             "test_xfail": "XFAIL", "test_xpass": "FAILED", "test_skip": "SKIPPED"}

    def wrap(method, status):
        original = getattr(reporter, method, None)
        if original is None:
            return

        def told(self, *rest, **more):
            _tell(id=state.get("id", ""), text="", status=status)
            return original(self, *rest, **more)
        setattr(reporter, method, told)
    for method, status in kinds.items():
        wrap(method, status)
    finish = reporter.finish

    def told_finish(self):
        successful = finish(self)
        _tell(finished=0 if successful else 1)
        return successful
    reporter.finish = told_finish
"""

#: A run that also measures coverage brings a module of this name.
_COVERAGE = "try:\n    import chimera_coverage\nexcept ImportError:\n    pass\n"
_START_UNITTEST = (
    f"{_COVERAGE}import chimera_watch\nif chimera_watch._account is not None:\n"
    "    chimera_watch._watch_unittest()\n"
)
#: sympy runs its tests in a child of its own, which must find the account too.
_START_SYMPY = (
    f"{_COVERAGE}import os, sys\nplace = os.environ.get('{VARIABLE}')\nimport chimera_watch\n"
    f"if place:\n    os.environ['{VARIABLE}'] = place\n"
    "    sys.meta_path.insert(0, chimera_watch._SympyFinder())\n"
)


@dataclass(frozen=True, slots=True)
class Watch:
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


def place_watch(env: Machine, runner: Runner) -> Watch:
    watch = Watch(runner, f"/tmp/{secrets.token_hex(8)}")
    env.run_command(["mkdir", "-p", watch.folder])
    env.write_file(f"{watch.folder}/chimera_watch.py", WITNESS)
    if runner != "pytest":
        start = _START_SYMPY if runner == "sympy" else _START_UNITTEST
        env.write_file(f"{watch.folder}/sitecustomize.py", start)
    return watch


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


def read_account(env: Machine, watch: Watch) -> Account:
    """The witness's account; none at all when it never started."""
    try:
        text = env.read_file(watch.account).decode("utf-8", "replace")
    except (EnvironmentFault, FileNotFoundError):
        return Account()
    events = [_event(line) for line in text.split("\n")[:-1]]
    known = [event for event in events if event is not None]
    finished = bool(known) and "finished" in known[-1]
    if watch.runner == "pytest":
        return Account(tuple(_pytest_results(known)), finished, bool(known))
    results: dict[str, Status] = {}
    for event in known:
        if "status" in event:
            name = str(event.get("text") or event["id"])
            status = cast(Status, event["status"])
            if results.get(name) not in ("FAILED", "ERROR"):
                results[name] = status
    return Account(tuple(results.items()), finished, bool(known))


def _pytest_results(events: Iterable[Mapping[str, object]]) -> Iterable[tuple[str, Status]]:
    """One status a test out of its set-up, call and tear-down."""
    results: dict[str, Status] = {}
    for event in events:
        if "outcome" not in event:
            continue
        name, when, outcome = str(event["id"]), event["when"], event["outcome"]
        if outcome == "failed":
            status: Status = "FAILED" if when == "call" else "ERROR"
        elif outcome == "skipped":
            status = "XFAIL" if event["xfail"] else "SKIPPED"
        elif when == "call":
            status = "PASSED"
        else:
            continue
        if results.get(name) not in ("FAILED", "ERROR"):
            results[name] = status
    return results.items()


def _event(line: str) -> Mapping[str, object] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None
