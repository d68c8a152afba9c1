"""Test code in the judge, the program in another process: what tests see of it, and what not."""

# ruff: noqa: E501 - the tables are easier to read with a program a line

from __future__ import annotations

import subprocess
import sys

import pytest

from chimera.errors import GraderError
from chimera.eval.proof.attack.values import forging
from chimera.sandbox import Limits, call_function, replaying, run_tests
from chimera.sandbox.launch import interpreter

ADD = "def add(a, b):\n    return a + b\n"
CHANGING = (
    "class Changing:\n    count = 0\n    def __float__(self):\n        Changing.count += 1\n"
    "        return float(Changing.count)\n    def __len__(self):\n        return int(float(self))\n"
    "    def __str__(self):\n        return str(len(self))\n"
    "    def __getitem__(self, key):\n        return len(self)\n"
    "    value = property(__len__)\ndef f():\n    return Changing()"
)


@pytest.mark.parametrize(
    ("program", "tests", "passed", "why"),
    [
        (ADD, "assert add(1, 2) == 3", True, ""),
        (ADD, "assert add(1, 2) == 4", False, "called add(1, 2) → got 3, expected 4"),
        (
            ADD,
            "assert add(1, b=2) > 4, 'sum'",
            False,
            "4, 'sum' → AssertionError: sum; called add(1, b=2) → got 3",
        ),
        (
            ADD,
            "assert len(str(add(1, 2))) == 4",
            False,
            "== 4 → AssertionError; called add(1, 2) → got 3",
        ),
        (
            ADD,
            "for n in (1, 2):\n    assert (\n        len(str(add(n, 2)))\n        == 4\n    ), 'long'",
            False,
            "assert ( len(str(add(n, 2))) == 4 ), 'long' → AssertionError: long; called add(1, 2) → got 3",
        ),
        (
            ADD,
            f"assert {'not ' * 201} add(1, 2), 'the cause'",
            False,
            "not  add(1, 2), 'the cause' → AssertionError: the cause; called add(1, 2) → got 3",
        ),
        (ADD, "assert substract(1, 2) == -1", False, "NameError"),
        (ADD, "assert add(1, [2])", False, "TypeError"),
        ("def add(a, b) return", "assert add(1, 2) == 3", False, "SyntaxError"),
        ("import nothing_of_the_kind", "assert add(1, 2) == 3", False, "ModuleNotFoundError"),
        ("raise SystemExit(0)", "assert True", False, "SystemExit"),
        ("import os; os._exit(0)", "assert True", False, "ended before"),
        (ADD + "x\x00", "assert add(1, 2) == 3", False, "null bytes"),
        (ADD.replace("\n", "\r\n"), "assert add(1, 2) == 3", True, ""),
        (ADD + "assert __name__ == 'builtins'", "assert add(1, 2) == 3", True, ""),
        (ADD + "if __name__ == '__main__': 1 / 0", "assert add(1, 2) == 3", True, ""),
        (ADD + "open('f', 'w').write('x')", "assert add(1, 2) == 3", True, ""),
        (ADD + "def f(x): return input()", "assert f(1)", False, "EOFError"),
        ("def f(): return f()", "assert f()", False, "RecursionError"),
        (
            ADD + "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()",
            "assert add(1, 2) == 3",
            True,
            "",
        ),
    ],
)
def test_the_judge_decides(program: str, tests: str, passed: bool, why: str) -> None:
    outcome = run_tests(program, tests)

    assert outcome.passed is passed
    assert why in outcome.why
    assert outcome.isolation in ("namespaces", "process")


@pytest.mark.parametrize(
    ("program", "tests"),
    [
        # Arguments changed in place are changed here, and are the same objects.
        ("def f(x):\n    x.append(4)", "x = [1]\nf(x)\nassert x == [1, 4]"),
        ("def f(x):\n    x.sort()\n    return x", "x = [2, 1]\nassert f(x) is x and x == [1, 2]"),
        ("def f(x):\n    x[0][0] = 9", "row = [1]\nf([row, row])\nassert row == [9]"),
        ("def f(x):\n    x[0], x[1] = x[1], x[0]", "a, b = [1], [2]\nx = [a, b]\nf(x)\nassert x[0] is b"),
        ("def f(x):\n    x['b'] = x.pop('a')", "x = {'a': 1}\nf(x)\nassert x == {'b': 1}"),
        ("def f(x):\n    x.discard(1)", "x = {1, 2}\nf(x)\nassert x == {2}"),
        ("def f(x):\n    x.append(x)", "x = []\nf(x)\nassert x[0] is x"),
        ("def f(x):\n    x.append(1)\n    raise ValueError", (
            "x = []\ntry:\n    f(x)\nexcept ValueError:\n    pass\nassert x == [1]"
        )),
        # Objects of the program's own.
        ("def f(x):\n    return tuple(x)", "x = {12, 13, 14, 15, 16}\nassert f(x) == tuple(x) == (16, 12, 13, 14, 15)"),
        ("def f(x):\n    return tuple(x)", "for n in range(40):\n    x = set(range(n, 2 * n))\n    assert f(x) == tuple(x)"),
        ("def f():\n    return {12, 13, 14, 15, 16}", "assert list(f()) == [16, 12, 13, 14, 15]"),
        ("def f(n):\n    yield from range(n)", "assert list(f(3)) == [0, 1, 2]"),
        ("def f(n):\n    return map(str, range(n))", "assert list(f(2)) == ['0', '1']"),
        ("def f(n):\n    return lambda x: x + n", "assert f(2)(3) == 5"),
        ("def f(n):\n    return iter([n])", "assert next(f(2)) == 2"),
        ("class P:\n    def __init__(self, x):\n        self.x = x\ndef f(p):\n    return p.x", (
            "assert f(P(3)) == 3\np = P(1)\np.x = 5\nassert p.x == 5 and f(p) == 5 and p == p"
        )),
        ("class S:\n    def __len__(self):\n        return 3\n    def __str__(self):\n        return 's'", (
            "s = S()\nassert len(s) == 3 and str(s) == 's' and s != S() and {s: 1}[s] == 1"
        )),
        # Functions of the tests.
        ("def f(g, x):\n    return g(x) + 1", "assert f(lambda x: 2 * x, 4) == 9"),
        ("def f(x):\n    return sorted(x, key=len)", "assert f(['aa', 'b']) == ['b', 'aa']"),
        ("def f(x):\n    return list(x)", "assert f(n * n for n in range(3)) == [0, 1, 4]"),
        ("def f(x, g=None):\n    return sorted(x, key=g if g else None)", "assert f([1, 2], lambda v: -v) == [2, 1]"),
        ("def f(kind, x):\n    return isinstance(x, kind)", "assert f(int, 3) and not f(str, 3)"),
        # Values.
        ("def f():\n    return float('nan')", "x = f()\nassert x != x"),
        ("def f():\n    return 2 ** 20000", "assert f() == 2 ** 20000"),
        ("def f(a, b=1, *, c=2):\n    return a, b, c", "assert f(0, c=5) == (0, 1, 5)"),
        ("from collections import namedtuple\nP = namedtuple('P', 'x')\ndef f():\n    return P(1)", (
            "assert f() == (1,)"
        )),
        ("from decimal import Decimal\ndef f():\n    return Decimal('0.1')", (
            "from decimal import Decimal\nassert f() == Decimal('0.1')"
        )),
        # Exceptions.
        ("def f():\n    raise KeyError('x')", (
            "try:\n    f()\n    assert False\nexcept KeyError:\n    pass"
        )),
        ("class E(ValueError):\n    pass\ndef f():\n    raise E('m')", (
            "try:\n    f()\n    assert 0\nexcept ValueError as e:\n    assert str(e) == 'm'"
        )),
        ("def f():\n    raise KeyError('x')", (
            "try:\n    f()\n    assert 0\nexcept KeyError as e:\n    assert e.args == ('x',)"
        )),
        ("def f():\n    raise ValueError('m', 3, None)", (
            "try:\n    f()\n    assert 0\nexcept ValueError as e:\n    assert e.args == ('m', 3, None)"
        )),
        ("def f():\n    raise ValueError", (
            "try:\n    f()\n    assert 0\nexcept ValueError as e:\n    assert e.args == ()"
        )),
        ("def f():\n    raise ValueError([1])", (
            "try:\n    f()\n    assert 0\nexcept ValueError as e:\n    assert e.args == ('[1]',)"
        )),
        # Names.
        ("import math\ndef f():\n    return 1.0", "assert math.isclose(f(), 1)"),
        ("TABLE = {'a': 1}", "assert TABLE['a'] == 1"),
        ("def check(candidate):\n    raise RuntimeError\ndef f():\n    return 1", (
            "def check(candidate):\n    assert candidate() == 1\ncheck(f)"
        )),
    ],
)  # fmt: skip
def test_tests_see_what_they_would_see_in_one_process(program: str, tests: str) -> None:
    outcome = run_tests(program, tests)

    assert outcome.passed, outcome.why


@pytest.mark.parametrize(
    ("program", "tests"),
    [
        ("class E:\n    def __eq__(self, o):\n        return True\ndef f():\n    return E()", "assert f() == 1"),
        ("class E(int):\n    def __eq__(self, o):\n        return True\ndef f():\n    return E(2)", "assert f() == 1"),
        ("from unittest.mock import ANY\ndef f():\n    return ANY", "assert f() == 1"),
        ("def f():\n    yield 1", "assert f() == [1]"),
        ("abs = lambda x: 0\ndef f():\n    return 5", "assert abs(f() - 1) < 1e-6"),
        ("import builtins\nbuiltins.len = lambda x: 3\ndef f():\n    return []", "assert len(f()) == 3"),
        ("import math\nmath.isclose = lambda a, b: True\ndef f():\n    return 5.0", "assert math.isclose(f(), 1)"),
        ("def f():\n    raise SystemExit(0)", "assert f() == 1"),
        ("def f():\n    raise SystemExit(0)", "try:\n    f()\nexcept Exception:\n    pass"),
        ("import os\ndef f():\n    os._exit(0)", "try:\n    f()\nexcept BaseException:\n    pass"),
        ("def check(c):\n    pass\ndef f():\n    return 0", "def check(c):\n    assert c() == 1\ncheck(f)"),
        # Values that change, and errors that end a loop of the tests.
        (CHANGING, "import math\nassert math.pow(f(), 1) == 1.0 and math.pow(f(), 2) == 4.0"),
        (CHANGING, "x = f()\nassert float(x) == 1 and float(x) == 2"),
        (CHANGING, "x = f()\nassert len(x) == 1 and len(x) == 2"),
        (CHANGING, "x = f()\nassert str(x) == '1' and str(x) == '2'"),
        (CHANGING, "x = f()\nassert x.value == 1 and x.value == 2"),
        (CHANGING, "x = f()\nassert x[0] == 1 and x[0] == 2"),
        ("def f(x):\n    raise StopIteration", "assert all(map(f, [1, 2]))"),
        # Modules that are none.
        ("class math:\n    isclose = lambda a, b: True\ndef f():\n    return 5", "assert math.isclose(f(), 1)"),
        ("class np:\n    allclose = lambda a, b: True\ndef f():\n    return 5", "assert np.allclose(f(), 1)"),
        # Not-a-number equals nothing, inside of lists too.
        ("def f():\n    return [float('nan')]", "assert f() == f()"),
    ],
)  # fmt: skip
def test_what_would_forge_a_pass_in_one_process_does_not(program: str, tests: str) -> None:
    assert not run_tests(program, tests).passed


YES = "lambda *given, **named: 0.0"


@pytest.mark.parametrize(
    ("change", "tests"),
    [
        (
            f"self.exported.append({YES}); "
            "reply[2]['d'].append(['abs', {'object': [len(self.exported) - 1, 'function']}])",
            "assert abs(f(1) - 5.5) < 1e-6",
        ),
        ("reply[2]['d'].append(['set', {'type': 'type'}])", "assert set(f(1)) == int"),
        ("reply[2]['d'].append(['data', 0])", "assert f(1) == data"),
        (
            "reply[2]['d'].append(['__builtins__', {'d': [['len', {'type': 'int'}]]}])",
            "assert len(f(1)) == 0",
        ),
        ("reply[2]['d'].append(['__debug__', False])", "assert __debug__ is False and f(1) == 0"),
    ],
)
def test_only_names_that_were_asked_for_are_taken(change: str, tests: str) -> None:
    outcome = run_tests(forging(change, "names").replace("NAME", "f"), tests, data=[7])

    assert not outcome.passed


def test_a_builtin_is_the_programs_only_when_asked_for() -> None:
    program = "def sum(a, b):\n    return 6"

    assert run_tests(program, "assert sum(10, 15) == 6", names=["sum"]).passed
    assert not run_tests(program, "assert sum(10, 15) == 6").passed


def test_data_are_a_global_of_the_tests_alone() -> None:
    program = "def f(x):\n    return 'data' in globals() or x"

    assert run_tests(program, "assert [f(x) for x in data] == [1, 2]", data=[1, 2]).passed


def test_tests_that_need_one_process_say_so() -> None:
    tests = "class Mine:\n    pass\nassert f(Mine()) == 'Mine'"
    program = "def f(x):\n    return type(x).__name__"

    with pytest.raises(GraderError, match="shared=True"):
        run_tests(program, tests)
    outcome = run_tests(program, tests, shared=True)
    assert outcome.passed
    assert outcome.isolation == "shared"


def test_broken_tests_are_not_the_answers_fault() -> None:
    with pytest.raises(GraderError, match="broken"):
        run_tests(ADD, "assert add(")


def test_numpy_crosses_when_it_is_offered() -> None:
    pytest.importorskip("numpy")
    program = (
        "import numpy as np\ndef f(kind):\n    return np.int64(2) if kind else np.array([1, 2])"
    )

    assert run_tests(program, "assert f(1) == 2", packages=["numpy"]).passed
    assert run_tests(program, "assert list(f(0) + 1) == [2, 3]", packages=["numpy"]).passed
    assert not run_tests(program, "assert f(0) == [1, 2]", packages=["numpy"]).passed


def test_tests_may_take_numbers_by_chance_from_numpy_too() -> None:
    pytest.importorskip("numpy")
    tests = "import numpy as np\nx = np.random.rand()\nassert f(x) == x"

    assert run_tests("def f(x):\n    return x", tests, packages=["numpy"]).passed


def test_chance_is_the_same_every_time() -> None:
    program = "import random\ndef f():\n    return random.random()"
    tests = "import random\nassert False, (f(), random.random(), hash('x'))"

    assert len({run_tests(program, tests).why for _ in range(4)}) == 1


def test_an_answer_can_import_the_standard_library() -> None:
    """Whatever this interpreter can: as root, too, where the answer runs as another user."""
    modules = sorted(sys.stdlib_module_names - {"antigravity", "this", "__main__"})
    attempt = (
        "import importlib\n"
        "def missing(modules):\n"
        "    failed = []\n"
        "    for name in modules:\n"
        "        try:\n"
        "            importlib.import_module(name)\n"
        "        except ImportError:\n"
        "            failed.append(name)\n"
        "    return failed\n"
    )
    here = subprocess.run(
        [str(interpreter()), "-sSPB", "-c", f"{attempt}print(*missing({modules!r}))"],
        capture_output=True,
        text=True,
        check=True,
    )
    (found,) = call_function(attempt, "missing", [[modules]], limits=Limits(cpu_seconds=60))
    assert found.error is None
    assert found.value == here.stdout.split()


def test_the_chance_of_the_tests_is_not_the_answers():
    tests = "import random\nword = random.randrange(10**9)\nassert f(-word) == word"
    guess = "import random\ndef f(x):\n    return random.randrange(10**9)"

    assert not run_tests(guess, tests).passed
    assert run_tests("import random\ndef f(x):\n    return -x", tests).passed


def test_a_record_with_chance_in_it_gives_the_same_verdict_again():
    tests = "import random\nword = random.randrange(10**9)\nassert f(word) == word"
    program = "def f(x):\n    return x"
    outcome = run_tests(program, tests)

    with replaying(outcome.records):
        assert run_tests(program, tests).passed


def test_a_half_float_does_not_equal_its_neighbours():
    pytest.importorskip("numpy")
    program = "import numpy\ndef f():\n    return numpy.float16('inf')"

    assert not run_tests(program, "assert f() == 113350", packages=["numpy"]).passed


@pytest.mark.parametrize(
    ("value", "right", "wrong"),
    [
        ("numpy.float32('inf')", "float('inf')", "10**54"),
        ("numpy.float32(16777216)", "16777216", "16777217"),
        ("[numpy.complex64(16777216)]", "[16777216]", "[16777217]"),
        ("numpy.float64(10**54)", "1e54", "10**54 + 1"),
        ("numpy.array([2.0**53])", "2**53", "2**53 + 1"),
        ("numpy.array([[1e54]])", "[[int(1e54)]]", "[[10**54 + 1]]"),
        ("numpy.longdouble('inf')", "float('inf')", "10**400"),
        ("numpy.int64(2**53 + 1)", "2**53 + 1", "2.0**53"),
        ("numpy.longdouble(2**64)", "2**64", "2**64 + 1"),
        ("numpy.str_('a\\0')", "'a\\0'", "'a'"),
    ],
)
def test_numpys_numbers_equal_no_neighbours(value, right, wrong):
    pytest.importorskip("numpy")
    program = f"import numpy\ndef f():\n    return {value}"

    assert run_tests(program, f"assert f() == {right}", packages=("numpy",)).passed
    assert not run_tests(program, f"assert f() == {wrong}", packages=("numpy",)).passed


@pytest.mark.parametrize(
    "holds",
    [
        "list(f([1e54, 1])) == [int(1e54), 1]",
        "list(f([1e54, 1])) != [10**54 + 1, 1]",
        "numpy.allclose(f([6.02e23, numpy.inf]), [6.02e23, numpy.inf])",
        "numpy.array_equal(f([2**53, numpy.nan]), [2**53, numpy.nan], equal_nan=True)",
        "(f([[1e20, 4]]) > 5).tolist() == [[True, False]]",
        "numpy.sqrt(f([1e20, 4]))[1] == 2 and f([1e20, 4]).sum() > 1e19",
        "f(f([1e20, numpy.inf])).tolist() == [1e20, numpy.inf]",
        "numpy.longdouble('inf') > 5 and f(numpy.longdouble('inf')).size == 1",
    ],
)
def test_numpy_reckons_with_large_numbers_of_an_answer(holds):
    pytest.importorskip("numpy")
    program = "import numpy\ndef f(x):\n    numpy.sqrt(x)\n    return numpy.array(x)"

    result = run_tests(program, f"import numpy\nassert {holds}", packages=("numpy",))
    assert result.passed, result


def test_what_is_told_of_a_failure_is_bounded():
    program = (
        "class E(Exception): pass\nE.__name__ = 'A' * 10**7\ndef f():\n    raise E('B' * 10**7)"
    )
    outcome = run_tests(program, "f()")

    assert not outcome.passed
    assert len(outcome.why) < 5000
