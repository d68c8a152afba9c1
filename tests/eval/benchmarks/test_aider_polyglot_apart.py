"""Aider Polyglot in Python: tests that never meet the solution, and which exercises have them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chimera.eval.benchmarks._aider_polyglot.apart import checks_of
from chimera.eval.benchmarks._aider_polyglot.attacks import hostile
from chimera.eval.benchmarks.aider_polyglot import AiderPolyglot
from chimera.eval.kits.python.grading import rederived
from chimera.eval.trial import StartBackend
from chimera.eval.values import Submission

STUB = "def double(number):\n    pass\n"
GOLD = """def double(number):
    if number is None:
        raise ValueError("no number", 3)
    return 2 * number


class Doubler:
    def __init__(self, number):
        self.number = double(number)
"""
HEAD = "import unittest\nfrom twice import double, Doubler\n\nclass T(unittest.TestCase):\n"
TESTS = (
    HEAD
    + """    def test_two(self):
        self.assertEqual(double(2), 4)
        self.assertEqual(Doubler(2).number, 4)

    def test_zero(self):
        self.assertEqual(double(0), 0)

    def test_none(self):
        with self.assertRaises(ValueError) as caught:
            double(None)
        self.assertEqual(caught.exception.args, ("no number", 3))
"""
)
EQUAL = """class Equal:
    def __eq__(self, other):
        return True

def double(number):
    if number is None:
        raise ValueError("no number", 3)
    return Equal()

Doubler = double
"""
#: Meets the first test, and replaces what the runner would say of the others.
FORGED = """import unittest
unittest.TestCase.assertEqual = lambda *given: None
unittest.TestResult.wasSuccessful = lambda self: True
unittest.TestResult.addError = unittest.TestResult.addFailure = lambda *given: None

def double(number):
    return 4

class Doubler:
    number = 4
"""


@pytest.fixture(autouse=True, scope="module")
def packages(prepared):
    prepared(AiderPolyglot(language="python"))


def exercise(place: Path, tests: str = TESTS, gold: str = GOLD) -> AiderPolyglot:
    files = {
        ".meta/example.py": gold,
        ".meta/config.json": json.dumps(
            {
                "files": {
                    "solution": ["twice.py"],
                    "test": ["twice_test.py"],
                    "example": [".meta/example.py"],
                }
            }
        ),
        "twice.py": STUB,
        "twice_test.py": tests,
    }
    root = place / "python/exercises/practice/twice"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return AiderPolyglot(place)


def graded(benchmark: AiderPolyglot, code: str | bytes):
    (task,) = benchmark.tasks()
    content = code if isinstance(code, bytes) else code.encode()
    with benchmark.open_grading_environment(task, StartBackend("bubblewrap")) as env:
        return benchmark.grade(task, Submission(files={"twice.py": content}), env)


def test_plain_functions_and_objects_that_are_looked_into_are_judged_apart(tmp_path):
    verdict = graded(exercise(tmp_path), GOLD)

    assert verdict.passed, verdict.why
    assert verdict.why == "3 tests passed"
    assert verdict.metrics["process"] == "apart"
    assert verdict.metrics["pass_rate_1"] == 1
    assert "twin" not in verdict.metrics


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (STUB, "test_none: ValueError not raised"),
        (GOLD.replace("2 *", "3 *"), "got 6"),
        (GOLD.replace(", 3", ""), "('no number',) != ('no number', 3)"),
        (EQUAL, "of the answer> != "),
        (FORGED, "test_none: ValueError not raised"),
        ("raise SystemExit(0)\n", "does not load"),
        ("import os\nos._exit(0)\n", "ended before"),
        (GOLD + "import os\nos.write(3, b'{}')\n", ""),
        (b"\xff" + GOLD.encode(), "does not load: SyntaxError"),
    ],
)
def test_what_does_not_solve_it_fails(tmp_path, code, why):
    verdict = graded(exercise(tmp_path), code)

    assert not verdict.passed
    assert why in verdict.why
    assert verdict.metrics["process"] == "apart"


@pytest.mark.parametrize(
    "more",
    [
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "from typing import ClassVar\n\n@dataclass\nclass Kept:\n    all: ClassVar[dict] = {}\n\n",
        "import sys\nassert vars(sys.modules[__name__]) is globals()\nassert __name__ == 'twice'\n",
        "from pathlib import Path\nassert 'def double' in Path(__file__).read_text()\n",
        "import pickle\nclass Mine:\n    pass\npickle.loads(pickle.dumps(Mine()))\n",
        "import inspect\ndef mine():\n    pass\nassert 'pass' in inspect.getsource(mine)\n",
        "from multiprocessing import Pool\ndef mine(n):\n    return n\n"
        "with Pool(2) as pool:\n    assert pool.map(mine, [1, 2]) == [1, 2]\n",
    ],
)
def test_a_solution_is_the_module_that_tests_would_import(tmp_path, more):
    verdict = graded(exercise(tmp_path), more + GOLD)

    assert verdict.passed, verdict.why
    assert verdict.metrics["process"] == "apart"


def test_hostile_solutions_have_nothing_to_forge(tmp_path):
    benchmark = exercise(tmp_path)
    found = dict(hostile("python", {"twice.py": STUB.encode()}))

    assert len(found) == 4
    for what, submission in found.items():
        assert not graded(benchmark, submission.files["twice.py"]).passed, what


def test_the_verdict_is_derived_again_from_its_record(tmp_path):
    benchmark = exercise(tmp_path)
    stored = graded(benchmark, GOLD)

    again = rederived(stored, lambda: graded(benchmark, GOLD))

    assert again.passed
    assert again.metrics["process"] == "apart"


COMPARED = GOLD + "    def __eq__(self, other):\n        return self.number == other.number\n"


@pytest.mark.parametrize(
    ("tests", "gold"),
    [
        (TESTS.replace("Doubler(2).number, 4", "Doubler(2), Doubler(2)"), COMPARED),
        ("import random\n" + TESTS, GOLD),
    ],
)
def test_where_the_reference_does_not_pass_apart_the_twin_is_asked(tmp_path, tests, gold, require):
    require("bwrap")
    verdict = graded(exercise(tmp_path, tests, gold), gold)

    assert verdict.passed, verdict.why
    assert verdict.metrics["process"] == "shared"
    assert verdict.metrics["twin"] == {"tests": 3, "twinned": 3}


@pytest.mark.parametrize(
    ("tests", "names"),
    [
        (HEAD + "    pass\n", ("double", "Doubler")),
        ("from twice import map as map_twice\nimport unittest\n", ("map",)),
        ("import twice\nimport unittest\ntwice.a, twice.b(1)\n", ("a", "b")),
        (HEAD + "    def test(self):\n        self.assertNotEqual(double(1), Doubler(1))\n", None),
        ("from twice import *\n", None),
        ("from unittest import mock\nfrom twice import double\n", None),
        ("from unittest.mock import patch\nfrom twice import double\n", None),
        ("import random\nfrom twice import double\n", None),
        ("from twice import double\ndef test_a():\n    assert double(1)\n", None),
        ("from . import twice\n", None),
        ("def", None),
    ],
)
def test_which_tests_can_be_run_apart(tests, names):
    checks = checks_of(tests, "twice", GOLD, 10.0)

    assert (None if checks is None else checks.names) == names


def test_a_built_in_function_does_not_stand_in_for_one_that_is_missing(tmp_path):
    tests = (
        "import unittest\nfrom twice import map as mapped\n\nclass T(unittest.TestCase):\n"
        "    def test_it(self):\n        self.assertEqual(list(mapped(abs, [-1])), [1])\n"
    )
    gold = "def map(function, values):\n    return [function(each) for each in values]\n"
    benchmark = exercise(tmp_path, tests, gold)

    assert graded(benchmark, gold).metrics["process"] == "apart"
    assert graded(benchmark, gold).passed
    assert not graded(benchmark, "def other():\n    pass\n").passed


def test_most_python_exercises_are_judged_apart(dataset):
    benchmark = AiderPolyglot(dataset("aider-polyglot"), language="python")
    apart = [task["id"] for task in benchmark.tasks() if benchmark.checks_apart(task) is not None]

    assert len(apart) == 24, apart
