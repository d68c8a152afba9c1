"""Loaded into a test process before any code of the repository; writes each result to an account.

Runs under every CPython that a repository may need (2.7 and 3.5 to 3.14), without imports that the
code under test could have replaced by then.
"""

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
    _tell(
        id=_name(report.nodeid),
        when=report.when,
        outcome=report.outcome,
        xfail=hasattr(report, "wasxfail"),
    )


def pytest_collectreport(report):
    if report.outcome == "failed":
        _tell(id=_name(report.nodeid), when="collect", outcome="failed", xfail=False)


def pytest_sessionfinish(session, exitstatus):
    _tell(finished=int(exitstatus))


# unittest and what is built on it: the base class hears of every result


def _watch_unittest():
    import unittest

    kinds = {
        "addSuccess": "PASSED",
        "addFailure": "FAILED",
        "addError": "ERROR",
        "addSkip": "SKIPPED",
        "addExpectedFailure": "XFAIL",
        "addUnexpectedSuccess": "FAILED",
    }

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
    kinds = {
        "test_pass": "PASSED",
        "test_fail": "FAILED",
        "test_exception": "ERROR",
        "test_xfail": "XFAIL",
        "test_xpass": "FAILED",
        "test_skip": "SKIPPED",
    }

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
