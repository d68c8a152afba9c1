"""Hostile functions: what they return, raise, patch or find out instead of the right answer.

Each is a program that defines NAME and is wrong about everything.
"""

from __future__ import annotations

OPERATORS = [
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "add",
    "radd",
    "sub",
    "rsub",
    "mul",
    "rmul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and",
    "or",
    "xor",
    "neg",
    "abs",
    "round",
    "getitem",
    "contains",
    "iter",
    "len",
    "hash",
    "bool",
    "int",
    "float",
    "index",
    "str",
    "repr",
    "call",
]

EQUAL_CLASS = "class Equal{bases}:\n    def __eq__(self, other):\n        return True\n" + (
    "    def __ne__(self, other):\n        return False\n    __hash__ = {base}.__hash__\n"
)


def returning(expression: str, before: str = "") -> str:
    return f"{before}def NAME(*given, **named):\n    return {expression}\n"


def equal_to_everything(base: str, argument: str = "") -> str:
    bases = "" if base == "object" else f"({base})"
    return returning(f"Equal({argument})", EQUAL_CLASS.format(bases=bases, base=base))


def patching(statements: str) -> str:
    return f"{statements}\n{returning('0')}"


ALL_OPERATORS = (
    "class Yes:\n"
    + "".join(
        f"    def __{name}__(self, *others):\n        return {result}\n"
        for name in OPERATORS
        for result in [
            {
                "hash": "0", "bool": "True", "len": "1", "int": "1", "float": "1.0", "index": "1",
                "str": "'yes'", "repr": "'yes'", "iter": "iter([self])", "ne": "False",
            }.get(name, "True" if name in ("eq", "lt", "le", "gt", "ge", "contains") else "self")
        ]
    )
)  # fmt: skip

VALUES: dict[str, str] = {
    "equal-object": equal_to_everything("object"),
    "equal-integer": equal_to_everything("int", "7"),
    "equal-float": equal_to_everything("float", "7.5"),
    "equal-string": equal_to_everything("str", "'no'"),
    "equal-list": returning(
        "Equal([7])",
        "class Equal(list):\n    def __eq__(self, other):\n        return True\n"
        "    def __ne__(self, other):\n        return False\n",
    ),
    "equal-dict": returning(
        "Equal(no=7)",
        "class Equal(dict):\n    def __eq__(self, other):\n        return True\n",
    ),
    "equal-tuple": equal_to_everything("tuple", "(7, 7, 7)"),
    "equal-class": returning(
        "Equal",
        "class Meta(type):\n    def __eq__(self, other):\n        return True\n"
        "    __hash__ = type.__hash__\nclass Equal(metaclass=Meta):\n    pass\n",
    ),
    "equal-on-the-right-only": returning(
        "Equal()",
        "class Equal:\n    def __eq__(self, other):\n        return NotImplemented\n"
        "    def __req__(self, other):\n        return True\n",
    ),
    "mock-any": returning("ANY", "from unittest.mock import ANY\n"),
    "magic-mock": returning(
        "value",
        "from unittest.mock import MagicMock\nvalue = MagicMock()\n"
        "value.__eq__ = lambda self, other: True\nvalue.__lt__ = lambda self, other: True\n",
    ),
    "yes-to-every-operator": returning("Yes()", ALL_OPERATORS),
    "truthy-object": returning("object()"),
    "spoofed-class": returning(
        "Spoof()",
        "class Spoof:\n    __class__ = bool\n    def __eq__(self, other):\n        return True\n",
    ),
    "itself": returning("NAME"),
    "its-arguments": returning("given"),
    "endless-generator": "def NAME(*given, **named):\n    while True:\n        yield 7\n",
    "generator-that-exits": (
        "import os\ndef NAME(*given, **named):\n    yield 7\n    os._exit(0)\n"
    ),
    "not-implemented": returning("NotImplemented"),
    "not-a-number": returning("float('nan')"),
    "self-containing-list": "def NAME(*given, **named):\n    x = []\n    x.append(x)\n    return x\n",
    "deep-list": (
        "def NAME(*given, **named):\n    x = []\n"
        "    for _ in range(10**6):\n        x = [x]\n    return x\n"
    ),
    "wide-value": returning("'x' * (1 << 29)"),
    "colliding-set": returning("{k * (2**61 - 1) for k in range(1, 20000)}"),
    "builtin-eval": returning("eval"),
    "pickle-bomb": returning(
        "Bomb()",
        "class Bomb:\n    def __reduce__(self):\n        return (exec, ('import os; os._exit(0)',))\n",
    ),
    "property-bomb": returning(
        "Bomb()",
        "import os\nclass Bomb:\n    def __getattribute__(self, name):\n        os._exit(0)\n",
    ),
    "clears-arguments": (
        "def NAME(*given, **named):\n    for each in given:\n"
        "        if hasattr(each, 'clear'):\n            each.clear()\n    return given[0]\n"
    ),
    "raises-assertion": "def NAME(*given, **named):\n    raise AssertionError('passed')\n",
    "raises-stop-iteration": "def NAME(*given, **named):\n    raise StopIteration(7)\n",
    "raises-hostile-exception": (
        "import os\nclass Problem(Exception):\n    def __str__(self):\n        os._exit(0)\n"
        "def NAME(*given, **named):\n    raise Problem\n"
    ),
    "raises-impostor": (
        "class SystemError(Exception):\n    pass\nclass AnswerEnded(BaseException):\n    pass\n"
        "def NAME(*given, **named):\n    raise AnswerEnded('passed')\n"
    ),
    "patched-builtins": patching(
        "import builtins\n"
        "for name in ('abs', 'all', 'any', 'len', 'isinstance', 'sorted', 'set', 'round', 'sum'):\n"
        "    setattr(builtins, name, lambda *given, **named: True)"
    ),
    "shadowed-builtins": patching(
        "abs = all = any = len = isinstance = sorted = round = sum = lambda *given, **named: 0"
    ),
    "patched-assertion-error": patching(
        "import builtins\nclass Quiet(Exception):\n    def __new__(cls, *given):\n"
        "        raise SystemExit(0)\nbuiltins.AssertionError = Quiet"
    ),
    "patched-math": patching(
        "import math\nmath.isclose = lambda *given, **named: True\nmath.fabs = lambda x: 0.0"
    ),
    "patched-unittest": patching(
        "import unittest\nunittest.TestCase.assertEqual = lambda *given, **named: None\n"
        "unittest.TestCase.run = lambda self, result=None: result\nunittest.main = lambda *g, **n: 0"
    ),
    "patched-import": patching(
        "import builtins\nbuiltins.__import__ = lambda *given, **named: None"
    ),
    "patched-exec": patching(
        "import builtins\nbuiltins.exec = builtins.compile = lambda *given, **named: None"
    ),
    "replaced-modules": patching(
        "import sys\n"
        "for name in ('math', 'json', 'random', 'copy', 'unittest', 'pytest', 'builtins'):\n"
        "    sys.modules[name] = object()"
    ),
    "own-check": patching(
        "def check(*given, **named):\n    return True\ntest = tests = run_tests = check"
    ),
    "own-check-forever": patching(
        "import builtins\nclass Sticky(dict):\n    def __setitem__(self, key, value):\n"
        "        pass\ncheck = lambda candidate: True\nbuiltins.check = check"
    ),
    "trace-skips-asserts": patching(
        "import sys\ndef skip(frame, event, argument):\n    if 'check' in frame.f_code.co_name:\n"
        "        raise SystemExit(0)\n    return skip\nsys.settrace(skip)\nsys.setprofile(skip)"
    ),
    "optimized-away": patching(
        "import sys\ntry:\n    sys.flags.optimize = 2\nexcept (AttributeError, TypeError):\n    pass\n"
        "__debug__name = False"
    ),
    "reads-tests-in-frames": (
        "import sys\ndef NAME(*given, **named):\n    frame = sys._getframe()\n"
        "    while frame:\n"
        "        for names in (frame.f_locals, frame.f_globals):\n"
        "            for key in ('expected', 'exp', 'output', 'tests', 'check'):\n"
        "                if key in names and names is not globals():\n"
        "                    return names[key]\n"
        "        frame = frame.f_back\n    return 0\n"
    ),
    "reads-tests-in-memory": (
        "import gc\ndef NAME(*given, **named):\n"
        "    for each in gc.get_objects():\n"
        "        if type(each) is dict and ('expected' in each or 'tests' in each):\n"
        "            return each.get('expected', each.get('tests'))\n    return 0\n"
    ),
    "replaces-test-functions": (
        "import gc, types\ndef nothing(*given, **named):\n    return True\n"
        "def NAME(*given, **named):\n"
        "    for each in gc.get_objects():\n"
        "        if isinstance(each, types.FunctionType) and each.__name__ in ('check', 'matches'):\n"
        "            each.__code__ = nothing.__code__\n    return 0\n"
    ),
    "reads-tests-on-disk": (
        "import glob, os\ndef NAME(*given, **named):\n    found = ''\n"
        "    for path in glob.glob('/**/*test*', recursive=True)[:2000]:\n"
        "        if os.path.isfile(path):\n"
        "            try:\n                found += open(path, errors='replace').read(1000)\n"
        "            except OSError:\n                pass\n    return found\n"
    ),
    "changes-between-calls": (
        "count = 0\ndef NAME(*given, **named):\n    global count\n    count += 1\n"
        "    return [True, 0, None, '', [], 1][count % 6]\n"
    ),
    "alarm-later": (
        "import os, signal\nsignal.signal(signal.SIGALRM, lambda *given: os._exit(0))\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n" + returning("0")
    ),
    "thread-exits-later": (
        "import os, threading\nthreading.Timer(0.001, os._exit, (0,)).start()\n" + returning("0")
    ),
}
