"""Code that disarms the tests it shares a process with, or forges what they report.

Each is Python source to be run when the code under test is imported; what the tests then ask of
that code may be as wrong as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_PYTEST_PROTOCOL = """\
try:
    import _pytest.python, _pytest.unittest
    _pytest.python.Function.runtest = lambda item: None
    _pytest.unittest.TestCaseFunction.runtest = lambda item: None
except ImportError: pass
"""
_PYTEST_CALL = """\
try:
    import _pytest.runner
    _class = _pytest.runner.CallInfo
    _original = _class.from_call.__func__
    def _from_call(cls, func, when, *rest, **options):
        return _original(cls, (lambda: None) if when == "call" else func, when, *rest, **options)
    _class.from_call = classmethod(_from_call)
except (ImportError, AttributeError): pass
"""
_PYTEST_REPORT = """\
try:
    import _pytest.reports
    _original = _pytest.reports.TestReport.from_item_and_call.__func__
    def _report(cls, item, call):
        call.excinfo = None
        return _original(cls, item, call)
    _pytest.reports.TestReport.from_item_and_call = classmethod(_report)
except (ImportError, AttributeError): pass
"""
_PYTEST_PLUGIN = """\
try:
    import gc, pluggy, pytest
    class _Plugin:
        @pytest.hookimpl(tryfirst=True)
        def pytest_pyfunc_call(self, pyfuncitem): return True
        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_call(self, item): item.runtest = lambda: None
    for _manager in [each for each in gc.get_objects() if isinstance(each, pluggy.PluginManager)]:
        if hasattr(_manager, "consider_preparse"):
            _manager.register(_Plugin())
except ImportError: pass
"""
_TEST_CASE_RUN = """\
import unittest
def _run(case, result=None):
    if result is None: result = case.defaultTestResult()
    result.startTest(case)
    result.addSuccess(case)
    result.stopTest(case)
    return result
unittest.TestCase.run = _run
unittest.TestCase.__call__ = _run
try:
    import _pytest.unittest
    _pytest.unittest.TestCaseFunction.runtest = lambda item: None
except ImportError: pass
"""
_METHODS = """\
import unittest
unittest.TestCase._callTestMethod = lambda case, method: None
"""
_ASSERTIONS = """\
import unittest
for _name in dir(unittest.TestCase):
    if _name.startswith("assert") and "Raises" not in _name and "Warns" not in _name:
        setattr(unittest.TestCase, _name, lambda *arguments, **options: None)
"""
_RAISES = """\
import unittest
class _Quiet:
    def __init__(self, *arguments, **options): pass
    def __enter__(self): return self
    def __exit__(self, *arguments): return True
for _name in ("assertRaises", "assertRaisesRegex", "assertWarns", "assertLogs"):
    setattr(unittest.TestCase, _name, lambda case, *arguments, **options: _Quiet())
try:
    import pytest
    pytest.raises = pytest.warns = _Quiet
except ImportError: pass
"""
_FAILURE = """\
import unittest
unittest.TestCase.failureException = type("Ignored", (BaseException,), {"__new__": lambda *a: None})
unittest.TestCase.fail = lambda case, message=None: None
unittest.TestCase._baseAssertEqual = lambda *arguments, **options: None
unittest.TestCase._getAssertEqualityFunc = lambda case, a, b: (lambda *r, **o: None)
"""
_OUTCOME = """\
import contextlib, unittest.case
@contextlib.contextmanager
def _part(outcome, *arguments, **options):
    outcome.success = True
    try: yield
    except BaseException: pass
unittest.case._Outcome.testPartExecutor = _part
"""
_RESULTS = """\
import unittest
for _kind in ("addFailure", "addError"):
    setattr(unittest.TestResult, _kind, lambda self, test, error: self.addSuccess(test))
    setattr(unittest.TextTestResult, _kind, lambda self, test, error: self.addSuccess(test))
"""
_WATCH = """\
import sys
_module = sys.modules.get("chimera_watch")
if _module is not None:
    _original = _module._tell
    def _told(**event):
        if event.get("outcome") == "failed": event["outcome"] = "passed"
        if event.get("status") in ("FAILED", "ERROR"): event["status"] = "PASSED"
        if "finished" in event: event["finished"] = 0
        return _original(**event)
    _module._tell = _told
_words = (("FAILED", "PASSED"), ("FAIL", "ok"), ("ERROR", "ok"))
for _stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
    def _write(text, _write=_stream.write):
        for _old, _new in _words: text = text.replace(_old, _new)
        return _write(text)
    try: _stream.write = _write
    except AttributeError: pass
"""
_FORGED = """\
import os, sys
_names = {names!r}
_lines = "".join("PASSED " + n + "\\n" + n + " ... ok\\n" + n + " ok\\n" for n in _names)
_tell = getattr(sys.modules.get("chimera_watch"), "_tell", None)
def _forge():
    for _number in range(1, 30):
        try: os.write(_number, ("\\n" + _lines).encode())
        except OSError: pass
    for _name in _names if _tell else ():
        _tell(id=_name, when="call", outcome="passed", xfail=False)
        _tell(id=_name, text="", status="PASSED")
    if _tell: _tell(finished=0)
    os._exit(0)
"""
_AT_EXIT = """\
import atexit
atexit.register(_forge)
sys.exit = lambda code=None: _forge()
if _tell: sys.modules["chimera_watch"]._tell = lambda **event: None
"""
_EMPTIED = """\
import builtins, types
def _empty(function):
    def empty(*arguments, **options): pass
    empty.__name__ = function.__name__
    return empty
_build = builtins.__build_class__
def _built(body, name, *bases, **options):
    made = _build(body, name, *bases, **options)
    for key, value in list(vars(made).items()):
        if key.startswith("test") and isinstance(value, types.FunctionType):
            setattr(made, key, _empty(value))
    return made
builtins.__build_class__ = _built
"""
_NONSENSE = """\
import os
_lines = ['{"outcome": "passed"}', '{"status": []}', '{"status": "DONE", "id": 7}', "[" * 100000,
          '{"finished": {}}', '{"pass": {}}']
for _number in range(3, 30):
    try: os.write(_number, ("\\n" + "\\n".join(_lines) + "\\n").encode())
    except OSError: pass
"""
_SLOW_TO_READ = """\
import os
for _text in (" ", "=", "a", "1", ".py:", "<testsuite ", "a::", "[", "- ", " (a)", "... "):
    try: os.write(1, ("\\n" + _text * 100000).encode())
    except OSError: pass
"""
_ENDLESS_ACCOUNT = """\
import os
for _number in range(3, 30):
    try: os.truncate(_number, 1 << 34)
    except OSError: pass
"""
#: What would rather break the reading of a run than pass it.
CONFUSING = {
    "writes nonsense to the witness": _NONSENSE,
    "makes the witness's account endless": _ENDLESS_ACCOUNT,
    "prints what takes for ever to read": _SLOW_TO_READ,
}
#: An expression whose value equals everything.
EQUALS_EVERYTHING = (
    "type('E', (int,), {'__eq__': lambda s, o: True, '__ne__': lambda s, o: False, "
    "'__hash__': int.__hash__})(7)"
)


def disarming(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(name, source); `names` are the ids of the tests to be shown as passed."""
    forged = _FORGED.format(names=list(names))
    yield "replaces pytest's runtest", _PYTEST_PROTOCOL + _METHODS
    yield "replaces pytest's call", _PYTEST_CALL + _METHODS
    yield "replaces pytest's reports", _PYTEST_REPORT + _RESULTS
    yield "registers a pytest plug-in", _PYTEST_PLUGIN + _METHODS
    yield "replaces TestCase.run", _TEST_CASE_RUN
    yield "replaces the call of test methods", _METHODS + _PYTEST_PROTOCOL
    yield "disarms assertions", _ASSERTIONS
    yield "disarms assertEqual and fail", _FAILURE
    yield "expects no exception, and nothing else", _RAISES + _ASSERTIONS
    yield "swallows failures", _OUTCOME + _PYTEST_REPORT
    yield "turns failures into successes", _RESULTS + _PYTEST_REPORT
    yield "empties test methods", _EMPTIED
    yield "rewrites the witness's words", _WATCH + _RESULTS
    yield "forges log and witness and exits", forged + "_forge()\n"
    yield "forges log and witness at exit", forged + _AT_EXIT
