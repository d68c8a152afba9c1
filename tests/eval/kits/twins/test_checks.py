"""What tries objects in Python tests: code under test cannot break it, and honest code does not."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from chimera.eval.kits.twins import python, rewritten
from tests.eval.kits.twins.test_python import run_pytest

pytestmark = pytest.mark.xdist_group("twins of Python")

LIES = """
class Lie(int):
    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = int.__hash__


def double(x):
    return Lie(7)
"""
#: What could keep a lie from being tried.
BREAKS = {
    "the limits of memory": "import resource\nvars(resource).clear()\n",
    "chance": "import os, random\nrandom.Random.shuffle = random.Random.sample = None\n"
    "os.urandom = random.random = None\n",
    "clocks and threads": "import threading, time\nhours = iter(range(0, 10**9, 3600))\n"
    "time.monotonic = time.clock_gettime = lambda *_: next(hours)\nthreading.get_ident = object\n"
    "threading.main_thread = lambda: threading.Thread()\n",
    "what wraps and asks": "import functools, inspect, signal\n"
    "functools.wraps = lambda f: lambda g: f\n"
    "inspect.isfunction = inspect.iscoroutinefunction = lambda f: False\n"
    "signal.setitimer = signal.signal = None\n",
}
#: Lies of which the trying itself fails.
EVADES = {
    "how deep it may go": LIES.replace(
        "    return",
        "    import sys\n    sys.setrecursionlimit(len(inspect.stack(0)) + 12)\n    return",
    ),
    "how deep it may go while it is tried": LIES.replace(
        "lambda self, other: True",
        "lambda self, other: sys.setrecursionlimit(len(inspect.stack(0)) + 9) or True",
    ).replace("class Lie", "import sys\nclass Lie"),
    "its name": LIES.replace("Lie", "SimpleNamespace").replace(
        "    __eq__", "    __slots__ = ()\n    __eq__"
    ),
    "its size": LIES.replace("    __eq__", "    __module__, size = 'numpy', 0\n    __eq__"),
    "its class's names": "class Kind(type):\n    __mro__ = property(lambda self: 1 / 0)\n"
    + LIES.replace("(int)", "(int, metaclass=Kind)"),
}
TEST = "from module import double\n\n\ndef test_it():\n    assert double(2) == 4\n"


#: No runner, since most of this breaks one.
RUNS = """
import os, sys
sys.path.insert(0, ".")
for name in ("test_0", "test_1"):
    try:
        __import__(name).test_it()
        print("passed")
    except AssertionError:
        print("failed")
    except BaseException as error:
        print("error")
    sys.setrecursionlimit(1000)
sys.stdout.flush()
os._exit(0)
"""


def written(directory: Path, module: str, tests: tuple[str, ...]) -> None:
    (directory / "module.py").write_text("import inspect\n" + module)
    for number, text in enumerate(tests):
        made = rewritten("test.py", text.encode(), twin=True, seed=random.Random(number))
        assert made is not None
        (directory / f"test_{number}.py").write_bytes(made.content)


@pytest.mark.parametrize(
    "module",
    [
        *(pytest.param(breaks + LIES, id=name) for name, breaks in BREAKS.items()),
        *(pytest.param(module, id=name) for name, module in EVADES.items()),
    ],
)
def test_what_code_changes_before_or_beside_it_saves_no_lie(tmp_path: Path, module: str):
    """In the file that loads the code; in one that comes after it a test may not run either."""
    written(tmp_path, module, (TEST, TEST))
    (tmp_path / "resource.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-c", RUNS], cwd=tmp_path, check=True, capture_output=True, timeout=60
    )
    first, second = done.stdout.split()

    assert first == b"passed"
    assert second in (b"passed", b"error")


HONEST = """
import itertools


class Ring(list):
    def __iter__(self):
        return itertools.cycle(list.copy(self))


class Node:
    def __init__(self, rest):
        self.rest = rest

    def __eq__(self, other):
        return isinstance(other, Node) and self.rest == other.rest


class Asked(type):
    def __getattr__(cls, name):
        raise KeyError(name)


class Minus(metaclass=Asked):
    def __init__(self, of):
        self.of = of

    def __sub__(self, other):
        return Minus(self.of - getattr(other, "of", other))

    def __lt__(self, other):
        return self.of < getattr(other, "of", other)


def nested(depth):
    made = []
    for _ in range(depth):
        made = [made]
    return made


def chain(depth):
    made = None
    for _ in range(depth):
        made = Node(made)
    return made
"""
ODD = """
import threading
import unittest

from module import Ring, chain, nested


def test_ring():
    assert Ring([4]) == [4]


def test_deep():
    assert nested(400) == nested(400)
    assert chain(150) == chain(150)


class TestThreads(unittest.TestCase):
    def test_threads(self):
        stop, seen = threading.Event(), []

        def poll():
            while not stop.is_set():
                seen.append(chain(2) == chain(2))

        thread = threading.Thread(target=poll)
        thread.start()
        for _ in range(30):
            self.assertEqual(chain(1), chain(1))
        self.assertEqual(chain(3), chain(3))
        stop.set()
        thread.join()
        self.assertTrue(all(seen))
"""
#: Tests that meet the end of the stack, and classes that cannot be asked.
ENDS = """
import sys

import pytest

from module import Minus, Node


def test_no_end():
    def deep(number):
        return deep(number + 1) if Node(number) != Node(-1) else 0

    with pytest.raises(RecursionError):
        deep(0)


def test_low_limit():
    limit, depth, frame = sys.getrecursionlimit(), 0, sys._getframe()
    while frame:
        depth, frame = depth + 1, frame.f_back
    low = depth + 12
    sys.setrecursionlimit(low)
    try:
        assert Node(3) == Node(3)
        assert sys.getrecursionlimit() == low
    finally:
        sys.setrecursionlimit(limit)


def test_class():
    assert Minus(3) - Minus(1) < 3
"""
SHADOWED = """
from store import square


def test_it():
    assert square(2) == 4
"""


def test_it_breaks_for_no_honest_code(tmp_path: Path):
    """Endless or deep objects, threads, the end of the stack, odd classes, a module that
    is named like one of the interpreter's."""
    written(tmp_path, HONEST, (ODD, SHADOWED, ENDS))
    (tmp_path / "store.py").write_text(
        "class Base: pass\nfrom resource import Square\ndef square(x): return Square(x).of\n"
    )
    (tmp_path / "resource.py").write_text(
        "from store import Base\n\nclass Square(Base):\n"
        "    def __init__(self, x): self.of = x * x\n"
    )
    assert [*run_pytest(tmp_path).values()] == ["FAILED"] * 7


def test_the_program_runs_where_others_own_the_handlers_and_the_module_of_limits():
    program = (Path(python.__file__).parent / "programs" / "checks.py").read_text()
    script = (
        "import signal, sys\nsys.modules['resource'] = kept = object()\n"
        f"exec({program!r})\n"
        "assert sys.modules['resource'] is kept and Checks.limit_memory\n"
        "signal.signal(signal.SIGALRM, print); signal.setitimer(signal.ITIMER_REAL, 1000)\n"
        "assert Checks.holds(lambda: None)\n"
        "assert not Checks.holds(lambda: [each for each in iter(int, 1)])\n"
        "assert signal.getsignal(signal.SIGALRM) is print\n"
        "assert signal.getitimer(signal.ITIMER_REAL)[0] > 900\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
