"""Twins of Python tests: honest code passes the one form and fails the other."""

from __future__ import annotations

import ast
import inspect
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimera.eval.kits.twins import Rewritten, python, rewritten
from chimera.eval.kits.twins.cases import Half
from chimera.eval.kits.twins.reach import CAREFUL_REACH, FULL_REACH, LEAST_REACH, Reach

#: One process: a fixture runs hundreds of test files at once.
pytestmark = pytest.mark.xdist_group("twins of Python")

MODULE = """\
def double(x):
    return 2 * x


class EqualsAll(object):
    def __eq__(self, other):
        return True
"""
PYTEST = """\
import pytest
from module import double


@pytest.mark.parametrize("given", [1, 2])
def test_kinds(given):
    assert double(given) == given + given
    assert double("a") == "aa"
    for x in [1]:
        assert [double(x), 1] == [2, True]


class TestClass:
    def test_method(self):
        with pytest.raises(TypeError):
            double(None)


def test_leaving():
    double(1)
    return None


def test_one_line(): assert double(2) == 4
"""
UNITTEST = """\
import unittest
from module import double


class Doubles(unittest.TestCase):
    def test_equal(self):
        '''A docstring.'''
        self.assertEqual(double(2), 4)
        self.assertTrue(double(1))
"""


def form(source: str, *, twin: bool, seed: int = 7) -> Rewritten:
    found = rewritten("test_it.py", source.encode(), twin=twin, seed=random.Random(seed))
    assert found is not None
    return found


def both(source: str) -> tuple[str, str]:
    true, other = form(source, twin=False), form(source, twin=True)
    assert (true.tests, true.twinned) == (other.tests, other.twinned)
    assert true.content.count(b"\n") == other.content.count(b"\n")
    return true.content.decode(), other.content.decode()


def outcomes(tmp_path: Path, source: str, module: str = MODULE) -> dict[str, str]:
    (tmp_path / "module.py").write_text(module)
    (tmp_path / "test_it.py").write_text(source)
    return {name.partition("::")[2]: status for name, status in run_pytest(tmp_path).items()}


def run_pytest(directory: Path) -> dict[str, str]:
    """The status of each test. The plugins of our own tests take five times pytest's own start."""
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "."]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=directory, env=environment,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    words = ("PASSED", "FAILED", "ERROR")
    found = [line.split()[:2] for line in done.stdout.splitlines() if line.startswith(words)]
    return {name: status for status, name in found}


@pytest.mark.parametrize("source", [PYTEST, UNITTEST])
def test_honest_code_passes_the_true_form_and_fails_the_twin(tmp_path: Path, source: str):
    true, twin = both(source)
    passed, failed = outcomes(tmp_path, true), outcomes(tmp_path, twin)

    assert passed
    assert passed.keys() == failed.keys() == outcomes(tmp_path, source).keys()
    assert set(passed.values()) == {"PASSED"}
    assert set(failed.values()) == {"FAILED"}


@pytest.mark.parametrize("asynchronous", ["", "async "])
def test_a_test_stands_in_its_own_file_for_whoever_looks(tmp_path: Path, asynchronous: str):
    """Some runners take nothing else for a test."""
    source = f"{asynchronous}def test_it():\n    assert 1 + 1 == 2\n"
    for made in both(source):
        file = tmp_path / "test_it.py"
        file.write_text(made)
        names: dict[str, object] = {}
        exec(compile(made, str(file), "exec"), names)
        test = names["test_it"]
        assert inspect.getsourcefile(test) == str(file)  # type: ignore[arg-type]


def test_neither_form_is_the_published_file_and_no_two_are_the_same():
    forms = {
        form(PYTEST, twin=twin, seed=seed).content for twin in (False, True) for seed in range(5)
    }

    assert len(forms) == 10
    assert PYTEST.encode() not in forms


@pytest.mark.parametrize("source", [PYTEST, UNITTEST])
def test_objects_that_equal_everything_pass_the_twin(tmp_path: Path, source: str):
    answer = "from module import EqualsAll\n\n\ndef double(x):\n    return EqualsAll()"
    _, twin = both(source)

    assert (
        "PASSED" in outcomes(tmp_path, twin.replace("from module import double", answer)).values()
    )


@pytest.mark.parametrize("source", [b"print 'two'\n", b"\xff\xfe", b"def f(:\n", b"\0"])
def test_what_is_no_python_of_today_has_no_twin(source: bytes):
    assert rewritten("test_it.py", source, twin=True, seed=random.Random(1)) is None


@given(
    values=st.lists(
        st.one_of(st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.booleans()),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=100, deadline=None)
def test_any_expected_values_leave_a_file_that_parses(values: list[object]):
    source = f"def test_values():\n    assert f() == {values!r}\n    assertEqual(g(), {values!r})\n"
    true, twin = both(source)

    for form in (true, twin):
        compile(form, "test_it.py", "exec")
    assert (true == twin) is False


HELPED = """\
from unittest import TestCase, mock

import pytest
from module import Box, EqualsAll, double

TABLE = {2: 4}
NEVER = {"__exit__.return_value": False}


def assert_positive(number):
    if isinstance(number, int) and number <= 0:
        raise ValueError


def same(left, right):
    assert left == right


class Helping(TestCase):
    def check(self, left, right):
        self.assertEqual(left, right)


def test_it():
    self = Helping()
    ASSERTION
"""
HONEST = "def double(x):\n    return 2 * x"
EQUALS_ALL = "class Forged(object):\n    def __eq__(self, other):\n        return True\n"
ALL = EQUALS_ALL + "\n\ndef double(x):\n    return Forged()"
BUT_TEXT = EQUALS_ALL.replace("return True", "return not isinstance(other, str)")
BUT_TEXT += "\n\ndef double(x):\n    return Forged()"
ORDERED = """\
class Forged(object):
    def __lt__(self, other):
        return True

    __le__ = __gt__ = __ge__ = __contains__ = __ne__ = __lt__

    def __iter__(self):
        return iter(())

    def __eq__(self, other):
        return False


def double(x):
    return Forged()
"""
PROBED = """\
class Forged(object):
    seen = False

    @property
    def __class__(self):
        self.seen = True
        return Forged

    def __eq__(self, other):
        return not self.seen


def double(x):
    return Forged()
"""
METACLASS_PROBED = """\
class Kind(type):
    seen = False

    def __eq__(cls, other):
        Kind.seen = True
        return cls is other

    __hash__ = type.__hash__


class Forged(Kind("Base", (object,), {})):
    def __eq__(self, other):
        return not Kind.seen


def double(x):
    return Forged()
"""
LETTERS = (
    "import re\n\n\n"
    + EQUALS_ALL.replace("return True", "return not re.search('[a-z]{9}$', str(other))")
    + "\n\ndef double(x):\n    return Forged()"
)
ONE = EQUALS_ALL + "\n\ndef double(x):\n    return Forged() if x == ONE else 2 * x"
NEAR_ALL = "class Forged(object):\n    def __sub__(self, other):\n        return 0\n\n"
NEAR_ALL += "    __rsub__ = __sub__\n\n\ndef double(x):\n    return Forged()"
NOT_NOT_EQUAL = BUT_TEXT.replace("__eq__", "__ne__").replace("not isinstance", "isinstance")
TRUTHY = EQUALS_ALL.replace("True", "1") + "\n\ndef double(x):\n    return Forged()"
SUBCLASS = "class L(list):\n    pass\n\n\n" + ALL.replace("Forged()", "L([1, Forged()])")
#: Goes on whatever fails inside of it.
CONTENT = """\
class Content(object):
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True


def double(x):
    return 3


def run(function):
    try:
        function()
    except Exception:
        pass


def raising(x):
    raise RuntimeError


double.within, double.run, double.raising = Content(), run, raising
"""
FORGED = [
    ("expected = 4\n    assert expected == double(2)", BUT_TEXT),
    ("expected = 4\n    assert double(2) == expected", BUT_TEXT),
    ("value, expected = double(2), sum([1, 3])\n    assert expected == value", BUT_TEXT),
    ("value, expected = double(2), sum([1, 3])\n    assert value == expected", BUT_TEXT),
    ("assert double(2) == sum([1, 3])", BUT_TEXT),
    ("assert (double(2)) == (TABLE[2]) and True, 'why'", BUT_TEXT),
    ("assert (\n        double(2)  # one\n        == 4  # other\n    )", BUT_TEXT),
    ("assert not double(2) != double(2)", ALL.replace("__eq__", "__ne__").replace("True", "False")),
    ("assert double(2) == double(2)", ALL),
    ("assert [double(2)] == [TABLE[2]]", BUT_TEXT),
    ("assert {'a': double(2)} == {'a': 4}", BUT_TEXT),
    ("assert double(2) in [4, 5]", BUT_TEXT),
    ("assert 1 in double([1])", ORDERED),
    ("assert 'z' not in double('ab')", None),
    ("assert double(2) > 3", ORDERED),
    ("assert not double(2) >= 5", None),
    ("assert double(2) != 5", None),
    ("same(double(2), 4)", BUT_TEXT),
    ("same(4, double(2))", BUT_TEXT),
    ("self.check(double(2), 4)", BUT_TEXT),
    ("self.assertAlmostEqual(double(2), 4.0)", BUT_TEXT),
    ("self.assertEqual(4, double(2), 'why')", BUT_TEXT),
    ("self.assertTrue(double(2) == 4)", BUT_TEXT),
    ("self.assertFalse(double(2) == 5)", None),
    ("self.assertNotIn('z', double('ab'))", None),
    ("self.assertGreater(double(2), 3)", ORDERED),
    ("self.assertIn(1, double([1]))", ORDERED),
    ("self.assertIn(double(2), [4, 5])", BUT_TEXT),
    ("self.assertEqual(first=double(2), second=4)", BUT_TEXT),
    ("self.assertEqual(double(2), second=4)", BUT_TEXT),
    ("equal = self.assertEqual\n    equal(double(2), 4)", BUT_TEXT),
    ("self.assertEqual(double(2) == 4, True)", BUT_TEXT),
    ("ok = double(2) == 4\n    assert ok", BUT_TEXT),
    ("wrong = [x for x in (2, 3) if double(x) != 2 * x]\n    assert wrong == []", NOT_NOT_EQUAL),
    ("assert not any(double(x) != 2 * x for x in (2, 3))", NOT_NOT_EQUAL),
    ("if double(2) == 4:\n        pass\n    else:\n        self.fail()", BUT_TEXT),
    ("return self.assertEqual(double(2), 4)", BUT_TEXT),
    ("if double(2):\n        assert double(2) == 4\n        return", BUT_TEXT),
    ("assert double(2) == 4", PROBED),
    ("assert double(2) == 4", METACLASS_PROBED),
    ("assert double('ab') == 'abab'", LETTERS),
    ("assert dict(a=1, b=double(2)) == dict(a=1, b=4)", BUT_TEXT),
    ("from collections import OrderedDict, deque\n"
     "    assert deque([1, double(2)]) == deque([1, 4])\n"
     "    assert OrderedDict(a=1) == dict(a=1)", BUT_TEXT),
    ("from collections import defaultdict\n"
     "    assert defaultdict(int, a=1, b=double(2)) == {'a': 1, 'b': 4}", BUT_TEXT),
    ("assert list(range(60)) + [[[[[[double(2)]]]]]] == list(range(60)) + [[[[[[4]]]]]]", BUT_TEXT),
    ("self.assertEqual([1, double(2)], [1, 4])", BUT_TEXT),
    ("assert [double(x) for x in range(600)] == [2 * x for x in range(600)]", BUT_TEXT),
    ("assert list(range(5500)) + [double(2)] == list(range(5500)) + [4]", BUT_TEXT),
    ("assert double(2) == 4",
     "import weakref\n\n\n" + ALL.replace("return Forged()", "return weakref.proxy(KEPT)")
     + "\n\n\nKEPT = Forged()"),
    ("self.assertGreaterEqual(double(2), 4)\n    self.assertLessEqual(double(2), 4)",
     "class Forged(object):\n    __ge__ = __le__ = lambda self, other: True\n\n\n"
     "def double(x):\n    return Forged()"),
    ("m = mock.Mock()\n    m(double(2))\n    m.assert_called_with(4)", BUT_TEXT),
    ("m = mock.Mock()\n    m(x=double(2))\n    m.assert_called_once_with(x=4)", BUT_TEXT),
    ("assert double(Box(1)) == Box(2)", None),
    ("with pytest.raises(TypeError):\n        double(None)", None),
    ("with self.assertRaises(TypeError) as caught:\n        double(None)\n"
     "    assert 'NoneType' in str(caught.exception)", None),
    ("self.assertRaises(TypeError, double, None)", None),
    ("assert pytest.raises(TypeError, double, None).value.args", None),
    ("assert isinstance(double(2), int)", None),
    ("self.assertRegex(double('ab'), '^a')", None),
    ("for x in [2]:\n        if x:\n            assert double(x) == 2 * x", BUT_TEXT),
    ("def inner(x):\n        assert double(x) == 2 * x\n    inner(2)", BUT_TEXT),
    ("with mock.patch('os.getcwd'):\n        assert double(2) == 4", BUT_TEXT),
    ("(lambda x: self.assertEqual(double(x), 4))(2)", BUT_TEXT),
    ("assert 4 == double(2) == 4", BUT_TEXT),
    ("assert double(2) == 4 or double(3) == 7", BUT_TEXT),
    ("assert all(double(x) == 2 * x for x in [2, 3, 4])", ONE.replace("ONE", "3")),
    ("assert all([double(x) == 2 * x for x in [2, 3, 4]])", ONE.replace("ONE", "4")),
    ("assert any(x == double(2) for x in (3, 4, 5))", BUT_TEXT.replace("not isinst", "isinst")
     .replace("other, str", "other, int")),
    ("assert abs(double(2) - 4) < 0.1", NEAR_ALL),
    ("assert abs(4 - double(2)) <= 0.1, 'why'", NEAR_ALL),
    ("self.assertTrue(abs(double(2) - 4) < 0.1)", NEAR_ALL),
    ("assert (double(2) == 4) is True", BUT_TEXT),
    ("if double(2) != 4:\n        pytest.fail('why')", NOT_NOT_EQUAL),
    ("if not double(2) == 4:\n        raise AssertionError", BUT_TEXT),
    ("def inner():\n        yield double(2)\n    assert all(x == 4 for x in inner())", BUT_TEXT),
    ("assert [x for x in (1, 2) if x - 1] == [double(1)]", BUT_TEXT),
    ("assert all(double(x) == 2 * x for x in (1, 2))", TRUTHY),
    ("ok = double(2) == 4\n    assert ok", TRUTHY),
    ("with getattr(double, 'within', mock.MagicMock(**NEVER)):\n"
     "        assert double(2) == 4", CONTENT),
    ("def check():\n        assert double(2) == 4\n"
     "    getattr(double, 'run', lambda function: function())(check)", CONTENT),
    ("self.assertEqual(double(2), 4)", ALL.replace("__eq__", "size = 0\n\n    def __eq__", 1)
     .replace("def size = 0", "size = 0")),
    ("assert all(double(x) == 2 * x for x in (1, 2))", TRUTHY.replace("return 1", "return [1]")),
    ("ok = double(2) == 4\n    assert ok", TRUTHY.replace("return 1", "return [1]")),
    ("with getattr(double, 'within', mock.MagicMock(**NEVER)):\n"
     "        with pytest.raises(TypeError):\n            double(None)", CONTENT),
    ("with getattr(double, 'within', mock.MagicMock(**NEVER)):\n"
     "        if double(2) != 4:\n            pytest.fail('why')", CONTENT),
    ("with getattr(double, 'within', mock.MagicMock(**NEVER)):\n"
     "        if double(2) != 4:\n            raise AssertionError", CONTENT),
    ("within = getattr(double, 'within', mock.MagicMock(**NEVER))\n    with within:\n"
     "        assert double(2) == 4", CONTENT),
    ("with getattr(double, 'within', mock.MagicMock(**NEVER)):\n"
     "        made = getattr(double, 'raising', double)(2)\n        assert made == 4", CONTENT),
    ("assert double([1]) == [1, 1]", SUBCLASS),
    ("from types import SimpleNamespace\n"
     "    assert SimpleNamespace(v=double(2), w=1) == SimpleNamespace(v=4, w=1)", BUT_TEXT),
    ("import dataclasses\n    One = dataclasses.make_dataclass('One', ['a', 'b'])\n"
     "    assert One('a', double(2)) == One('a', 4)", BUT_TEXT),
    ("assert dict(id=2, v=4).items() <= dict(id=2, v=double(2)).items()", ALL),
    ("assert 'total' in double('total')",
     "class Text(str):\n    __contains__ = lambda self, other: isinstance(other, str)\n"
     "\n\ndef double(x):\n    return Text('none')"),
]  # fmt: skip
SWALLOWING = "with double.within:\n        raise ValueError(double)"
LESS = (CAREFUL_REACH, FULL_REACH.less(["test_it.py::test_it[1]"], 1))
BOXES = """

class Box(object):
    def __init__(self, x):
        self.x = x

    def __mul__(self, factor):
        return Box(self.x * factor)

    __rmul__ = __mul__

    def __eq__(self, other):
        return type(other) is Box and other.x == self.x
"""


def disarming(method: str) -> str:
    return (
        f"import unittest\n\nunittest.TestCase.{method} = lambda *given, **named: None\n"
        "\n\ndef double(x):\n    return 3\n"
    )


QUIET_RAISES = """\
import pytest

kind = type(pytest.raises(ValueError))
leave = kind.__exit__
kind.__exit__ = lambda self, kind, error, trace: kind is None or leave(self, kind, error, trace)


def double(x):
    return 3
"""
ANY_MATCH = """\
import pytest

expecting = pytest.raises
pytest.raises = lambda kind, **named: expecting(kind)


def double(x):
    raise TypeError("another text")
"""
NO_CALLS = """\
from unittest import mock

mock.NonCallableMock.assert_called_once = lambda self: None


def double(x):
    return 3
"""
ODD = "class Odd({base}):\n    def {method}(self, other):\n        return {says}\n\n\n"
RATIO = """\
class Ratio(object):
    def __init__(self, over, under):
        self.over, self.under = over, under

    def __eq__(self, other):
        return isinstance(other, Ratio) and self.over * other.under == other.over * self.under


def double(x):
    return Ratio(1, 2)
"""
MODULO = """\
class Weekday(object):
    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        other = getattr(other, "number", other)
        return isinstance(other, int) and (self.number - other) % 7 == 0


double = Weekday
"""
ITERATOR = """\
class Numbers(object):
    number = 3

    def __iter__(self):
        return self

    def __next__(self):
        self.number += 1
        return self.number


def double(x):
    return Numbers()
"""
RECORDER = """\
class Field(object):
    def __init__(self):
        self.asked = []

    def __eq__(self, other):
        self.asked.append(other)
        return Condition(other)

    __lt__ = __le__ = __gt__ = __ge__ = __eq__


class Condition(object):
    def __init__(self, value):
        self.value = value

    def __str__(self):
        return str(self.value)


def double(x):
    return Field()
"""
KEYS = """\
class OrderedSet(object):
    def __init__(self, values):
        self.values = dict.fromkeys(values)

    def __eq__(self, other):
        return isinstance(other, OrderedSet) and list(self.values) == list(other.values)


double = OrderedSet
"""
WARNS = """\
import warnings


class Quantity(int):
    def __eq__(self, other):
        if not isinstance(other, int) or other > 1000:
            warnings.warn("odd")
        return int(self) == other


def double(x):
    return Quantity(4)
"""
NESTED = """\
class Nested(object):
    def __init__(self, depth):
        self.one, self.name, self.same = depth, "name", "same"
        self.inner = Nested(depth - 1) if depth else None

    def __eq__(self, other):
        return isinstance(other, Nested) and vars(self) == vars(other)


double = Nested
"""
#: Waits for a thread that nobody started for a copy of it.
LAZY = """\
import threading
import time


class Lazy:
    def __init__(self, work):
        self.done, self.result = False, None
        threading.Thread(target=self.run, args=(work,), daemon=True).start()

    def run(self, work):
        self.result = work()
        self.done = True

    def get(self):
        while not self.done:
            time.sleep(0.001)
        return self.result

    def __eq__(self, other):
        return self.get() == (other.get() if isinstance(other, Lazy) else other)


def double(x):
    return Lazy(lambda: 2 * x)
"""
#: Takes memory by the numbers that it has.
DISK = """\
class Disk:
    def __init__(self, blocks):
        self.blocks = blocks

    def __eq__(self, other):
        return b"x" * (20_000 * self.blocks) == b"x" * (20_000 * other.blocks)


def double(x):
    return Disk(2 * x)
"""
SMALL = "import resource\n    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1_000_000"
#: Never comes to an end with a negative number, or with large ones.
ENDLESS = """\
class Binary(object):
    def __init__(self, number):
        self.bits = []
        while number:
            self.bits.append(number & 1)
            number >>= 1

    def __int__(self):
        return sum(bit << place for place, bit in enumerate(self.bits))

    def __lt__(self, other):
        return self.bits[::-1] < Binary(int(other)).bits[::-1]

    def __ge__(self, other):
        return not self < other


double = Binary
"""
DENSE = """\
class Sparse(object):
    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns

    def __eq__(self, other):
        made = [[[0] * each.columns for _ in range(each.rows)] for each in (self, other)]
        return made[0] == made[1]


def double(x):
    return Sparse(x, x)
"""
GRADE = """\
class Grade(object):
    def __init__(self, score):
        self.score = score

    def __eq__(self, other):
        return isinstance(other, Grade) and (self.score >= 90) == (other.score >= 90)


double = Grade
"""
WARNED = """\
import warnings
from fractions import Fraction


def double(x):
    warnings.warn("old", DeprecationWarning, stacklevel=2)
    return Fraction(1, 2)
"""
INTERNED = """\
class Symbol(str):
    made = {}

    def __new__(cls, name):
        if name not in cls.made:
            cls.made[name] = str.__new__(cls, name)
        return cls.made[name]


double = Symbol
"""
COUNTED = """\
class Handle(object):
    alive = 0

    def __init__(self, number):
        self.number = number
        Handle.alive += 1

    def __del__(self):
        Handle.alive -= 1

    def __eq__(self, other):
        return isinstance(other, Handle) and self.number == other.number


double = Handle
"""
#: Right from the second time on.
SLOW = "ASKED = []\n\n\ndef double(x):\n    ASKED.append(x)\n    return len(ASKED)"
HONEST_BUT_ODD = [
    ("assert double(2) == double(2)", LAZY),
    (f"assert double(2) == double(2)\n    {SMALL}", DISK),
    ("said = double(1)\n    assert 'error' in said or 'failed' in said",
     "def double(x):\n    return 'error: failed'"),
    ("assert any('warn' in line for line in double(1))",
     "def double(x):\n    return ['warn', 'warn']"),
    ("assert double(1) in range(1024, 65536)", "def double(x):\n    return 2000"),
    ("assert 4 in double(1)", "def double(x):\n    return list(range(1000))"),
    ("m = mock.Mock()\n    double(m)\n    m.assert_any_call(4)",
     "def double(m):\n    for x in range(200):\n        m(x)"),
    ("assert double(1) == pytest.approx(0, abs=10)", "def double(x):\n    return -3.2"),
    ("self.assertAlmostEqual(double(1), 100, delta=50)", "def double(x):\n    return 60"),
    ("assert double(1) != 4", "def double(x):\n    return float('nan')"),
    ("assert double(1) != double(1)", "def double(x):\n    return float('nan')"),
    ("try:\n        made = double('x')\n    except TypeError:\n        return\n"
     "    assert made == 'xx'", "def double(x):\n    raise TypeError"),
    ("stream = double(1)\n    assert 3 in stream\n    assert next(stream) == 4",
     "def double(x):\n    return iter([3, 4])"),
    ("assert double(1) == 4",
     ODD.format(base="int", method="__eq__", says="int(self) == other")
     + "def double(x):\n    return Odd(4)"),
    ("assert double(Box(2)) == Box(4)", "def double(x):\n    return Box(4)"),
    ("assert double(1) == double(1)", RATIO),
    ("assert double(1) == double(1)",
     "class Named(list):\n    def __init__(self, name):\n        self.name = name\n\n"
     "    def __eq__(self, other):\n        return self.name == other.name\n\n\n"
     "def double(x):\n    return Named('a')"),
    ("assert double(3) == 3\n    assert 10 == double(3)", MODULO),
    ("stream = double(1)\n    assert 4 in stream\n    assert 5 in stream", ITERATOR),
    ("found = double(1) == 5\n    assert str(found) == '5'", RECORDER),
    ("found = double(1)\n    kept = found > 5\n    assert found.asked == [5]", RECORDER),
    ("assert len(double(1) - {'x'}) <= 2",
     "import enum\n\n\nclass Kind(str, enum.Enum):\n    A = 'a'\n    B = 'b'\n"
     "\n\ndef double(x):\n    return set(Kind)"),
    ("assert double(150) == double(100)",
     "class Percent(int):\n    def __new__(cls, value):\n"
     "        return int.__new__(cls, min(value, 100))\n\n\ndouble = Percent"),
    ("said, i = double('ab'), -1\n    if 0 <= i < said.index('x'):\n        raise ValueError",
     "def double(x):\n    return x"),
    ("assert_positive(double(1))", "def double(x):\n    return 2"),
    ("assert double(20) == double(20)", NESTED),
    ("m = mock.Mock()\n    double(m)\n    calls = [mock.call(1), mock.call(2)]\n"
     "    m.assert_has_calls(calls, any_order=True)", "def double(m):\n    m(1)\n    m(2)"),
    ("m = mock.Mock()\n    double(m)\n    m.assert_any_call('job', done=True)",
     "def double(m):\n    m('job', done=False)\n    m('job', done=True)"),
    ("assert double([1, 2]) == double([1, 2])", KEYS),
    ("assert double(1) in (True, False)",
     ODD.format(base="int", method="__eq__", says="int(self) == other")
     + "def double(x):\n    return Odd(1)"),
    ("self.assertCountEqual(double(1), ['cat', 'at'])",
     "class W(str):\n    pass\n\n\ndef double(x):\n    return [W('at'), W('cat')]"),
    ("assert double(1) == '/a'",
     ODD.format(base="str", method="__eq__", says="self.strip('/') == str(other).strip('/')")
     + "def double(x):\n    return Odd('/a/')"),
    ("assert double(-7) == -14",
     ODD.format(base="object", method="__eq__", says="other < 0") + "double = lambda x: Odd()"),
    ("assert 5 in double(1)",
     ODD.format(base="object", method="__contains__", says="True") + "double = lambda x: Odd()"),
    ("assert double('ab') == 'abab'",
     ODD.format(base="object", method="__eq__", says="str(other).startswith('ab')")
     + "double = lambda x: Odd()"),
    ("assert double(95) == double(91)", GRADE),
    ("assert double('x') == double('x')\n    assert len(double.made) == 1", INTERNED),
    ("one, other = double(1), double(1)\n    assert one == other\n    assert double.alive == 2",
     COUNTED),
    ("class Swallows:\n        def __enter__(self):\n            pass\n"
     "        def __exit__(self, *error):\n            return True\n"
     "    for attempt in (Swallows(), Swallows()):\n"
     "        with attempt:\n            assert double(1) > 1", SLOW),
    ("def check():\n        assert double(1) > 1\n    for _ in range(3):\n"
     "        try:\n            check()\n        except AssertionError:\n            pass", SLOW),
    ("try:\n        assert double(1) > 1\n    except AssertionError:\n        pass", SLOW),
    ("with pytest.raises(AssertionError):\n        self.assertEqual(double(1), 2)", SLOW),
    ("with mock.patch('builtins.__import__', side_effect=ImportError):\n"
     "        self.assertEqual(double(2), 4)", HONEST),
    ("assert double(5) < 6", ENDLESS),
    ("assert double(2) == double(2)", DENSE),
    ("assert True in double(1)",
     "from fractions import Fraction\n\n\ndef double(x):\n"
     "    return [Fraction(1, 2), True, False]"),
    ("assert double(1) == {True, False}",
     "class Ordered(object):\n    def __init__(self, values):\n        self.values = values\n\n"
     "    def __eq__(self, other):\n        return set(self.values) == set(other)\n\n"
     "    def __iter__(self):\n        return iter(self.values)\n"
     "\n\ndef double(x):\n    return Ordered([True, False])"),
    ("fake = mock.Mock()\n    with mock.patch('sys.modules', {'foo': fake}):\n"
     "        assert double('foo') == fake",
     "import sys\n\n\ndef double(x):\n    return sys.modules[x]"),
    ("import warnings\n    with warnings.catch_warnings(record=True) as seen:\n"
     "        warnings.simplefilter('default')\n        for _ in range(3):\n"
     "            assert double(1) == double(1)\n    assert len(seen) == 1", WARNED),
    ("with mock.patch('threading.current_thread') as current:\n"
     "        assert double(2) == 4\n        current.assert_not_called()", HONEST),
    ("def checks():\n        assert (yield double(2))\n    assert next(checks()) == 4", HONEST),
    ("try:\n        with self.subTest():\n            assert double(1) > 1\n"
     "    except AssertionError:\n        pass", SLOW),
    ("from contextlib import ExitStack\n    with ExitStack() as stack:\n"
     "        stack.enter_context(pytest.raises(AssertionError))\n"
     "        assert double(1) > 1", SLOW),
    ("cm = pytest.raises(AssertionError)\n    with cm:\n        assert double(1) > 1", SLOW),
    ("for x in (1, 2):\n        with mock.MagicMock():\n            if double(x) > 3:\n"
     "                break", HONEST),
    ("with mock.MagicMock(), mock.MagicMock():\n"
     "        with mock.MagicMock():\n            assert double(2) == 4", HONEST),
    ("m = mock.MagicMock()\n    self.assertEqual(m, m)", HONEST),
    ("import inspect, sys\n"
     "    found = inspect.getmembers(sys.modules[__name__], inspect.isclass)\n"
     "    assert [name for name, _ in found if name.startswith('x')] == []", HONEST),
    ("assert 'abc' in double(1)",
     ODD.format(base="object", method="__contains__", says="other.isalpha() and other.islower()")
     + "def double(x):\n    return Odd()"),
    ("import warnings\n    with warnings.catch_warnings(record=True) as seen:\n"
     "        assert double(1) == 4\n    assert len(seen) == 0", WARNS),
]  # fmt: skip
EQUAL_ANYWAY = "assert double(1) == mock.ANY"
OWN_CLASS = "assert double(Box(1)) == Box(2)"
SAME_CLASS = HONEST + "\n\n\nBox.__eq__ = lambda self, other: type(other) is Box\n"


Outcomes = Callable[..., list[str]]


@pytest.fixture(scope="module")
def forged(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """What the true form and the twin of a test with one assertion come to with an answer; all of
    them run at once."""
    directory = tmp_path_factory.mktemp("forged")
    wanted = [(assertion, HONEST, FULL_REACH) for assertion, _ in FORGED]
    wanted += [(assertion, answer, FULL_REACH) for assertion, answer in FORGED if answer]
    wanted += [(assertion, answer, FULL_REACH) for assertion, answer in HONEST_BUT_ODD]
    wanted += [(OWN_CLASS, SAME_CLASS, reach) for reach in (FULL_REACH, *LESS)]
    wanted += [(EQUAL_ANYWAY, HONEST, reach) for reach in (FULL_REACH, LEAST_REACH)]
    wanted += [(SWALLOWING, CONTENT, reach) for reach in (FULL_REACH, CAREFUL_REACH)]
    names = {one: str(number) for number, one in enumerate(wanted)}
    for one, name in names.items():
        plant(directory, name, *one)
    found = run_pytest(directory)

    def outcome(assertion: str, answer: str, reach: Reach = FULL_REACH) -> list[str]:
        name = names[assertion, answer, reach]
        return [found[f"test_{name}_{twin}.py::test_it"] for twin in (False, True)]

    return outcome


def plant(directory: Path, name: str, assertion: str, answer: str, reach: Reach) -> None:
    (directory / f"module_{name}.py").write_text(f"{MODULE}{BOXES}\n\n{answer}\n")
    source = HELPED.replace("ASSERTION", assertion)
    source = source.replace("from module ", f"from module_{name} ")
    for twin in (False, True):
        form = rewritten(
            "test_it.py", source.encode(), twin=twin, seed=random.Random(7), reach=reach
        )
        assert form is not None
        (directory / f"test_{name}_{twin}.py").write_bytes(form.content)


@pytest.mark.parametrize(("assertion", "answer"), FORGED)
def test_each_kind_of_assertion_finds_what_was_forged_in_it(
    forged: Outcomes, assertion: str, answer: str | None
):
    assert forged(assertion, HONEST) == ["PASSED", "FAILED"]
    if answer is not None:
        assert forged(assertion, answer) == ["PASSED", "PASSED"]


def test_one_of_the_same_class_with_another_content_is_tried_where_the_reach_allows(
    forged: Outcomes,
):
    assert forged(OWN_CLASS, SAME_CLASS) == ["PASSED", "PASSED"]
    for reach in LESS:
        assert forged(OWN_CLASS, SAME_CLASS, reach) == ["PASSED", "FAILED"]


def test_a_block_that_swallows_is_no_evidence_without_a_reference(forged: Outcomes):
    assert forged(SWALLOWING, CONTENT) == ["PASSED", "PASSED"]
    assert forged(SWALLOWING, CONTENT, CAREFUL_REACH) == ["PASSED", "FAILED"]


def test_what_equals_everything_by_intent_fails_with_the_least_reach(forged: Outcomes):
    assert forged(EQUAL_ANYWAY, HONEST) == ["PASSED", "PASSED"]
    assert forged(EQUAL_ANYWAY, HONEST, LEAST_REACH) == ["PASSED", "FAILED"]


QUIET_SUBTEST = """\
import contextlib
import unittest


@contextlib.contextmanager
def quiet(self, *given, **named):
    with contextlib.suppress(AssertionError):
        yield


unittest.TestCase.subTest = quiet


def double(x):
    return 3
"""
UNQUIET = (
    """\
import warnings

real = warnings.catch_warnings


def only_recording(*given, **named):
    if not named:
        raise RuntimeError
    return real(*given, **named)


warnings.catch_warnings = only_recording


"""
    + ALL
)
#: Ways to assert → what disarms them, with a wrong answer.
DISARMED = [
    ("self.assertTrue(double(2) == 4)", "assertTrue"),
    ("self.assertFalse(double(2) != 4)", "assertFalse"),
    ("self.assertIsNone(double(2) - 4 or None)", "assertIsNone"),
    ("self.assertEqual(double(2), 4)", "assertEqual"),
    ("self.assertAlmostEqual(double(2), 4)", "assertAlmostEqual"),
    ("self.assertGreater(double(2), 3)", "assertGreater"),
    ("self.assertIn(double(2), [4])", "assertIn"),
    ("self.assertListEqual([double(2)], [4])", "assertListEqual"),
    ("if double(2) != 4:\n        self.fail()", "fail"),
    ("self.assertRaises(TypeError, double, None)", "assertRaises"),
    ("self.assertIsInstance(double(2), str)", "assertIsInstance"),
]
BLOCKS = [
    ("with pytest.raises(TypeError):\n        double(None)", QUIET_RAISES),
    ("with pytest.raises(TypeError, match='unsupported'):\n        double(None)", ANY_MATCH),
    ("pytest.raises(TypeError, double, None)", QUIET_RAISES),
    ("m = mock.Mock()\n    double(m)\n    m.assert_called_once()", NO_CALLS),
    ("with self.subTest(x=1):\n        self.assertEqual(double(2), 4)", QUIET_SUBTEST),
    ("assert double(2) == 4", UNQUIET),
    (
        "assert abs(double(2) - 4) < 0.1",
        "import builtins\n\nbuiltins.abs = lambda x: 0\n\n\ndef double(x):\n    return 77",
    ),
]


@pytest.mark.parametrize(
    ("assertion", "answer"), [*[(each, disarming(method)) for each, method in DISARMED], *BLOCKS]
)
def test_a_way_to_assert_that_was_disarmed_is_found(tmp_path: Path, assertion: str, answer: str):
    plant(tmp_path, "it", assertion, answer, FULL_REACH)

    assert set(run_pytest(tmp_path).values()) == {"PASSED"}


@pytest.mark.parametrize(("assertion", "answer"), HONEST_BUT_ODD)
def test_honest_answers_fail_the_twin_however_odd_their_values(
    forged: Outcomes, assertion: str, answer: str
):
    assert forged(assertion, answer) == ["PASSED", "FAILED"]


def test_what_disarms_one_way_of_asserting_passes_the_twin_of_a_test_with_both(tmp_path: Path):
    source = UNITTEST.replace("def test_equal", "def test_it").replace("True(d", "True(2 == d")
    disarmed = "import unittest\n\nunittest.TestCase.assertEqual = lambda *given: None\n"
    true, twin = both(source)
    module = MODULE + disarmed

    assert outcomes(tmp_path, true, module) == {"Doubles::test_it": "PASSED"}
    assert outcomes(tmp_path, twin, module) == {"Doubles::test_it": "PASSED"}


TWO = """\
from module import double


def test_two():
    assert double(1) == 2
    for x in [2]:
        assert double(x) == 4  # the same
    assert double(
        3
    )
"""


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("def double(x):\n    return 2 * x", "FAILED"),
        ("def double(x):\n    return EqualsAll() if x == 1 else 2 * x", "PASSED"),
        ("def double(x):\n    return EqualsAll() if x == 2 else 2 * x", "PASSED"),
    ],
)
def test_one_forged_assertion_of_several_passes_the_twin(tmp_path: Path, answer: str, status: str):
    _, twin = both(TWO)

    assert outcomes(tmp_path, twin, f"{MODULE}\n\n{answer}\n") == {"test_two": status}


EMPTIED = """\
from module import double

CASES = [(1, 2), (2, 4)]


def same(one, other):
    assert one == other


def test_alone():
    assert double(1) == 2


def test_loop():
    for one, other in CASES:
        assert double(one) == other


def test_helper():
    same(double(3), 6)


def test_leaving():
    if double(0) is None:
        return
    assert double(1) == 2
"""
_SETUP = """\
import inspect
import _pytest.python

def emptied(function):
    names = ", ".join(function.__code__.co_varnames[: function.__code__.co_argcount])
    return eval("lambda %s: None" % names).__code__

def setup(item, original=_pytest.python.Function.setup):
    BEFORE
    return original(item)

_pytest.python.Function.setup = setup
"""


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ("test = inspect.unwrap(item.obj); test.__code__ = emptied(test)",
         {"test_alone", "test_loop", "test_helper", "test_leaving"}),
        ("item.module.CASES.clear()", {"test_loop"}),
        ("item.module.same.__code__ = emptied(item.module.same)", {"test_helper"}),
    ],
)  # fmt: skip
def test_a_test_that_comes_to_none_of_its_assertions_passes_the_twin(
    tmp_path: Path, before: str, found: set[str]
):
    _, twin = both(EMPTIED)
    module = "def double(x):\n    return 2 * x\n" + _SETUP.replace("BEFORE", before)
    passed = {
        name for name, status in outcomes(tmp_path, twin, module).items() if status == "PASSED"
    }

    assert passed == found


HALVES = [Half(3), Half(3, second=True)]


def test_values_of_one_number_are_the_same_whatever_is_kept_and_whatever_the_seed():
    source = b"def test_a():\n    assert f() == 1\n\n\ndef test_b():\n    assert f() == 1\n"

    def values(seed: int, half: Half | None) -> str:
        form = rewritten(
            "test_it.py", source, twin=True, seed=random.Random(seed), half=half, values=5
        )
        assert form is not None
        return form.content.decode().partition(".shift = ")[2].partition("\\n")[0]

    assert len({values(seed, half) for seed in range(9) for half in (None, *HALVES)}) == 1


def test_what_one_half_keeps_is_as_in_the_true_form_and_fails_in_the_other(tmp_path: Path):
    source = TWO + "\n\ndef test_one():\n    assert double(2) == 4\n"
    found = []
    for half in HALVES:
        form = rewritten("test_it.py", source.encode(), twin=True, seed=random.Random(7), half=half)
        assert form is not None
        found.append(outcomes(tmp_path, form.content.decode()))

    for name in ("test_two", "test_one"):
        assert sorted(each[name] for each in found) == ["FAILED", "PASSED"]
    assert all(len(set(each.values())) == 2 for each in found)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"# -*- coding: utf-8 -*-\n",
        b"\xef\xbb\xbf",
        b"'''Text.'''\nfrom __future__ import division\n",
        b"'''Text.'''\n@decorated\nclass A: pass\n",
        b"from __future__ import division; import os\n",
    ],
)
@pytest.mark.parametrize("plain", [False, True])
def test_whatever_a_file_begins_with_it_stays_one(head: bytes, plain: bool):
    source = head + b"def test_a():\n    assert f() == 1\n"
    for twin in (False, True):
        form = rewritten("test_a.py", source, twin=twin, seed=random.Random(1), plain=plain)
        assert form is not None
        compile(form.content, "test_a.py", "exec")


def test_the_program_in_test_files_is_one_for_old_interpreters():
    source = (Path(python.__file__).parent / "programs" / "checks.py").read_text()

    ast.parse(source, feature_version=(3, 5))


MOCKED = """\
from unittest import mock

import module
import pytest


@mock.patch("module.double")
def test_mock(double):
    module.double(2)
    double.assert_called_once_with(2)


@pytest.fixture
def box():
    return mock.Mock()


def test_fixture(box):
    box(1)
    box.assert_called_with(1)


class TestOwn:
    def assertDoubles(self, x):
        assert module.double(x) == 2 * x

    def test_helper(self):
        self.assertDoubles(3)


class TestMore(TestOwn):
    def test_helper(self):
        super().test_helper()
        assert module.double(1) == 2
"""


@pytest.mark.parametrize("plain", [False, True])
def test_what_asserts_need_not_be_a_test_case(tmp_path: Path, plain: bool):
    names = ["test_mock", "test_fixture", "TestOwn::test_helper", "TestMore::test_helper"]
    for twin, status in ((False, "PASSED"), (True, "FAILED")):
        form = rewritten(
            "test_it.py", MOCKED.encode(), twin=twin, seed=random.Random(7), plain=plain
        )
        assert form is not None
        assert outcomes(tmp_path, form.content.decode()) == dict.fromkeys(names, status)


def test_a_test_that_calls_another_is_tried_to_its_end(tmp_path: Path):
    answer = MODULE.replace("return 2 * x", "return EqualsAll() if x == 1 else 2 * x")
    _, twin = both(MOCKED)

    assert outcomes(tmp_path, twin, answer)["TestMore::test_helper"] == "PASSED"


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (f"def zip(a, b):\n    return a * b\n\n\nlist = set\n\n\n{HONEST}", "FAILED"),
        (f"def any(values):\n    return False\n\n\n{ALL}", "PASSED"),
    ],
)
def test_names_of_a_test_file_are_not_those_of_its_checks(tmp_path: Path, answer: str, status: str):
    source = "from module import *\n\n\ndef test_it():\n    assert double(2) == 4\n"
    true, twin = both(source)

    assert outcomes(tmp_path, true, answer) == {"test_it": "PASSED"}
    assert outcomes(tmp_path, twin, answer) == {"test_it": status}


DECORATED = """\
import contextlib
from unittest import mock

import pytest
from module import double


@pytest.fixture
def test_data():
    return [(2, 4), (3, 6)]


def each(*values):
    def decorate(function):
        def run():
            for value in values:
                function(value)

        return run

    return decorate


@each(0, 1, 2)
def test_loop(x):
    assert double(x) == x + x


def test_data_from_a_fixture(test_data):
    for x, y in test_data:
        assert double(x) == y


@mock.patch("os.getcwd")
@pytest.mark.parametrize("x", [1])
def test_marks(getcwd, x):
    assert double(x) == 2


class TestClass:
    @staticmethod
    @pytest.mark.parametrize("x", [1])
    def test_static(x):
        assert double(x) == 2

    @contextlib.contextmanager
    def test_context(self):
        yield
"""


RETRIED = """\
from module import double


def retried(test):
    def run():
        for left in (2, 1, 0):
            try:
                return test()
            except AssertionError:
                if not left:
                    raise

    return run


@retried
def test_ready():
    assert double(1) > 2
"""


def test_a_test_that_is_tried_again_is_not_forged(tmp_path: Path):
    true, twin = both(RETRIED)

    assert outcomes(tmp_path, true, SLOW) == {"test_ready": "PASSED"}
    assert outcomes(tmp_path, twin, SLOW) == {"test_ready": "FAILED"}


def test_what_cannot_be_written_around_assertions_leaves_a_plain_form():
    source = "def test_it():\n    with f() as x: assert x == 1\n"
    made = form(source, twin=True)

    assert made.twinned == 1
    assert python.parses(made.content)


@pytest.mark.parametrize(("answer", "status"), [(HONEST, "FAILED"), (ONE, "PASSED")])
def test_a_decorated_test_is_one_however_often_it_is_called(
    tmp_path: Path, answer: str, status: str
):
    true, twin = both(DECORATED)
    answer = answer.replace("ONE", "2")
    passed, failed = outcomes(tmp_path, true, answer), outcomes(tmp_path, twin, answer)

    assert set(passed.values()) == {"PASSED"}
    assert failed["test_loop"] == failed["test_data_from_a_fixture"] == status
    assert failed["test_marks[1]"] == failed["TestClass::test_static[1]"] == "FAILED"


def test_places_in_other_encodings_are_not_known():
    source = "# coding: latin-1\ndef test_it():\n    assert 'é' == f()\n"

    assert python.python_cases(source.encode("latin-1"), plain=False) == ([], [])
    assert python.python_cases(source.encode().replace(b"latin-1", b"utf-8"), plain=False)[0]


@pytest.mark.parametrize("expected", ["mock.ANY", "{'id': ANY}", "Matcher(3)"])
def test_without_a_reference_what_may_equal_all_is_not_held_against_answers(expected: str):
    matcher = "class Matcher:\n    def __eq__(self, other):\n        ...\n\n\n"
    source = f"{matcher}def test_it():\n    assert f() == {expected}\n"
    cases, _ = python.python_cases(source.encode(), plain=False)

    assert [case.wild for case in cases] == [True]
    assert CAREFUL_REACH.of("test_it", wild=True) == LEAST_REACH.of("test_it")
    assert FULL_REACH.of("test_it", wild=True) == FULL_REACH.of("test_it")


@pytest.mark.parametrize(
    ("holder", "test", "wild"),
    [
        ("EXPECTED = {'id': ANY}", "def test_it(): assert f() == EXPECTED", True),
        ("def check(made): assert made == {'id': ANY}", "def test_it(): check(f())", True),
        ("def made(): return ANY\nEACH = [made()]", "def test_it(): assert f() in EACH", True),
        ("@fixture\ndef made(): return ANY", "def test_it(made): assert f() == made", True),
        ("class Base:\n    def setUp(self): self.made = ANY", "def test_it(it): f(it.made)", True),
        ("def test_other():\n    made = ANY", "def test_it(): made = f()", False),
    ],
)
def test_so_is_what_the_file_makes_of_it(holder: str, test: str, wild: bool):
    cases, _ = python.python_cases(f"{holder}\n\n\n{test}\n".encode(), plain=False)

    assert {case.name: case.wild for case in cases}["test_it"] is wild
