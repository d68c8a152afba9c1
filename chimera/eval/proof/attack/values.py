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


def forging(change: str, to: str = "call") -> str:
    """An answer that speaks for itself: what its end of the link says to the judge is changed."""
    which = {
        "greeting": "reply[0] == 'loaded'",
        "names": "reply[0] == 'done' and reply[1] == 1",
        "call": "reply[0] == 'done' and reply[1] > 1",
    }[to]
    return patching(
        "import sys\nLink = sys.modules['inner.link'].Link\nsend = Link.send\n"
        f"def lie(self, reply):\n    if {which}:\n        {change}\n    send(self, reply)\n"
        "Link.send = lie\n"
    )


def forged_bytes(expression: str) -> str:
    """An answer that writes these bytes where its first reply to a call belongs."""
    write = f"data = {expression}; os.write(3, len(data).to_bytes(8, 'big')); written = 0"
    loop = "while written < len(data): written += os.write(3, data[written:written + 65536])"
    return forging(f"import os; {write}\n        {loop}\n        return")


CHANGING = (
    "class Changing:\n    count = 0\n    def __float__(self):\n        Changing.count += 1\n"
    "        return float(Changing.count)\n    def __len__(self):\n        return int(float(self))\n"
    "    __int__ = __index__ = __hash__ = __len__\n"
    "    def __str__(self):\n        return str(len(self))\n"
    "    def __bool__(self):\n        return len(self) % 2 == 0\n"
    "    def __getitem__(self, key):\n        return len(self)\n"
    "    def __iter__(self):\n        return iter(range(len(self)))\n"
    "    def __getattr__(self, name):\n        return len(self)\n"
)
FORGED: dict[str, str] = {
    "forged-greeting": forging("reply[1] = 5", "greeting"),
    "forged-greeting-error": forging("reply[1] = [[], 5]", "greeting"),
    "forged-greeting-twice": forging("send(self, reply)", "greeting"),
    "forged-names-of-builtins": forging(
        "reply[2]['d'] += [[name, {'object': [0, 'function']}] for name in "
        "('abs', 'all', 'any', 'isinstance', 'len', 'range', 'set', 'sorted')]",
        "names",
    ),
    "forged-names-of-all-builtins": forging(
        "reply[2]['d'].append(['__builtins__', {'object': [0, 'dict']}])", "names"
    ),
    "forged-names-of-the-tests": forging(
        "reply[2]['d'] += [[name, {'object': [0, 'function']}] for name in "
        "('check', 'candidate', 'data', 'expected', 'input', 'matches')]",
        "names",
    ),
    "forged-names-twice": forging("reply[2]['d'] *= 2", "names"),
    "forged-names-list": forging("reply[2] = [0]", "names"),
    "forged-names-numbers": forging("reply[2]['d'].append([7, 7])", "names"),
    "forged-number": forging("reply[1] += 1"),
    "forged-number-true": forging("reply[1] = True"),
    "forged-reply-twice": forging("send(self, reply)"),
    "forged-reply-short": forging("reply[:] = ['done']"),
    "forged-reply-empty": forging("reply[:] = []"),
    "forged-question": forging("reply[:] = ['ask', 1, 'call', 0, []]"),
    "forged-question-of-names": forging("reply[:] = ['ask', 1, 'names', ['check']]"),
    "forged-error": forging("reply[2:4] = [None, [[5], {}]]"),
    "forged-error-empty": forging("reply[2:4] = [None, [[], '']]"),
    "forged-error-and-value": forging("reply[3] = [['AssertionError'], '']"),
    "forged-error-impossible": forging("reply[2:4] = [None, [['UnicodeDecodeError'], '']]"),
    "forged-error-arguments": forging("reply[2:4] = [None, [['ValueError'], '', [{'r': 0}, [1]]]]"),
    "forged-changes": forging("reply[4] = 7"),
    "forged-changes-elsewhere": forging("reply[4] = [[99, [1]], [0, [1]]]"),
    "forged-changes-unhashable": forging("reply[4] = [[0, [[1], [2]]], [1, [{'d': []}]]]"),
    "forged-reference": forging("reply[2] = {'r': 10**9}"),
    "forged-own-object": forging("reply[2] = {'own': 0}"),
    "forged-builtin": forging("reply[2] = {'builtin': 'eval'}"),
    "forged-handle": forging("reply[2] = {'object': [-1, 'x' * 10**6]}"),
    "forged-two-tags": forging("reply[2] = {'t': [1], 'd': []}"),
    "forged-type": forging("reply[2] = {'type': 'object'}"),
    "forged-key": forging("reply[2] = {'d': [[[1], 2]]}"),
    "forged-range": forging("reply[2] = {'range': [0, 10**18, 1]}"),
    "forged-number-in-hex": forging("reply[2] = {'i': 'f' * 10**6}"),
    "forged-decimal": forging("reply[2] = [{'decimal': 'sNaN'}]"),
    "forged-fraction": forging("reply[2] = {'fraction': [1, 0]}"),
    "forged-aware-datetime": forging("reply[2] = {'datetime': '2020-01-01T00:00:00+00:00'}"),
    "forged-date": forging("reply[2] = {'timedelta': [10**18, 0, 0]}"),
    "forged-dtype": "import numpy\n" + forging("reply[2] = {'numpy': [' u,[', [1], False, '00']}"),
    "forged-dtype-of-name": (
        "import numpy\n"
        + forging("reply[2]['d'][0][1] = {'numpy': [' u,[', [1], False, '00']}", "names")
    ),
    "forged-dtype-of-objects": (
        "import numpy\n" + forging("reply[2] = {'numpy': ['O', [1], False, '00' * 8]}")
    ),
    "forged-dtype-of-text": (
        "import numpy\n" + forging("reply[2] = {'numpy': ['<U1', [1], False, 'ff' * 4]}")
    ),
    "forged-shape": (
        "import numpy\n" + forging("reply[2] = {'numpy': ['<i8', [-1, 10**9], True, '00' * 8]}")
    ),
    "forged-doubling": forging(
        "reply[2] = []; level = reply[2]; "
        "[(level.extend([[], {'r': 0}]), level := level[0]) for _ in range(90)]"
    ),
    "bytes-not-text": forged_bytes("b'\\xff' * 99"),
    "bytes-after-message": forged_bytes("b'[\"done\",2,0,null,[]]]'"),
    "bytes-deep": forged_bytes("b'[' * 10**6"),
    "bytes-many": forged_bytes("b'[\"done\",2,[' + b'0,' * 10**7 + b'0],null,[]]'"),
    "bytes-half-a-message": forged_bytes("b'[\"done\",'") + "import os\nos.closerange(3, 4)\n",
}

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
    **FORGED,
    "changing-value": returning("Changing()", CHANGING),
    "changing-values": returning("[Changing()] * 3", CHANGING),
    "surrogate-in-error": "def NAME(*given, **named):\n    raise ValueError(chr(0xD800))\n",
    "surrogate-in-value": returning("chr(0xD800)"),
    "surrogates-in-value": returning("chr(0xD83D) + chr(0xDE00)"),
    "surrogate-in-program": returning("'\ud800'"),
    "surrogate-at-loading": "raise ValueError(chr(0xDFFF))\n",
    "odd-dtype": returning(
        "numpy.array([(1, 2.0)], dtype='i4,f4')[0] if given else numpy.array([object()])",
        "import numpy\n",
    ),
    "odd-date": returning("[numpy.datetime64('NaT')]", "import numpy\n"),
    "aware-datetime": returning("datetime.now(timezone.utc)", "from datetime import *\n"),
    "signalling-nan": returning("Decimal('sNaN')", "from decimal import Decimal\n"),
    "signalling-nans": returning("[Decimal('sNaN')] * 3", "from decimal import Decimal\n"),
    "vast-decimal": returning("Decimal('1e999999')", "from decimal import Decimal\n"),
    "own-module": "class math:\n    isclose = fabs = lambda *given: True\n" + returning("0"),
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
