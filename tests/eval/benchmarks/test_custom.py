"""Custom tasks: each check decides, several must all hold, a task without one is refused."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field

import pytest

from chimera.errors import DatasetError
from chimera.eval.benchmarks import CustomBenchmark, custom
from chimera.eval.benchmarks._custom.twins import Form, Lesson, _decided
from chimera.eval.harness import Harness
from chimera.eval.kits.patches.disarming import EQUALS_EVERYTHING, disarming
from chimera.eval.proof.validate import validate
from chimera.eval.trial import StartBackend
from chimera.types import AgentResult, TestResult


@dataclass
class Writes:
    """Leaves files in the environment and says something."""

    files: dict = field(default_factory=dict)
    says: str = ""
    last: str = ""
    needs_environment = True

    def run(self, prompt, env):
        for path, content in self.files.items():
            env.write_file(path, content)
        assert not self.last or env.run_command(self.last).success
        return AgentResult(self.says)


def verdict(task, agent, backend="none"):
    bench = CustomBenchmark(tasks_list=[{"id": "t", "prompt": "p", **task}])
    (result,) = Harness(benchmark=bench, agent=agent, env_factory=backend).run().results
    return result


@pytest.mark.parametrize(
    ("check", "reply", "passed"),
    [
        ({"expected": "Paris"}, " Paris\n", True),
        ({"expected": "Paris"}, "Paris, of course", False),
        ({"regex": r"^\d+$"}, "42", True),
        ({"regex": r"^\d+$"}, "forty-two", False),
        ({"python_check": "def check(r): return r == 'x'"}, "x", True),
        ({"python_check": "def check(r): return 'truthy'"}, "x", False),
        ({"python_check": "def check(r): return r == 'x'"}, "y", False),
        ({"python_check": "def check(r): return int(r)"}, "y", False),
        ({"expected": "12", "regex": "1"}, "12", True),
        ({"expected": "12", "regex": "3"}, "12", False),
    ],
)
def test_text_checks(check, reply, passed):
    assert verdict(check, Writes(says=reply)).passed is passed


@pytest.mark.parametrize(
    "check",
    ["import absent\ndef check(r): ...", "def check(r):\n    import absent", "checks = 1",
     # what is empty never comes to the import
     "def check(r):\n    if not r:\n        return False\n    import absent"],
)  # fmt: skip
def test_a_check_that_cannot_be_run_is_an_error(check):
    assert verdict({"python_check": check}, Writes(says="x")).status == "error"


@pytest.mark.parametrize("error", ["ImportError(\"No module named 'json'\")", "ImportError('x')"])
def test_a_reply_that_a_check_runs_cannot_break_it(error):
    check = "import json\ndef check(r):\n    scope = {}\n    exec(r, scope)\n"
    check += "    return scope['f'](2) == 4"
    wrong = verdict({"python_check": check}, Writes(says=f"raise {error}"))

    assert (wrong.status, "ImportError" in wrong.why) == ("failed", True)
    assert verdict({"python_check": check}, Writes(says="f = lambda x: x * x")).passed


def test_a_regular_expression_that_takes_for_ever_does_not(monkeypatch):
    monkeypatch.setattr(custom, "CHECK_SECONDS", 0.5)
    result = verdict({"regex": r"^(a+)+$"}, Writes(says="a" * 60 + "!"))

    assert result.status == "failed"
    assert "limit of" in result.why


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"id": "t", "prompt": "p"}, "has no check"),
        ({"id": "t", "prompt": "p", "expected": ""}, "is empty"),
        ({"id": "t", "prompt": "p", "regex": "("}, "regex"),
        ({"id": "t", "prompt": "p", "python_check": "def"}, "python_check"),
        ({"id": "t", "prompt": "p", "expected": 5}, "must be a string"),
        (
            {"id": "t", "prompt": "p", "expected": "x", "chekc": "y"},
            "field 'chekc'; it can",
        ),
        ({"id": "t", "prompt": "p", "expectd": "x"}, "did you mean 'expected'"),
        ({"id": "t", "prompt": "p", "expected": "x", "files": {"a": 1}}, "files must map"),
        ({"prompt": "p", "expected": "x"}, "no field 'id'"),
    ],
)
def test_tasks_that_decide_nothing_are_refused(row, says):
    with pytest.raises(DatasetError, match=says):
        CustomBenchmark(tasks_list=[row]).tasks()


def test_a_task_of_a_directory_that_does_not_fit_is_told_with_its_file(tmp_path):
    right = {"id": "a", "prompt": "p", "expected": "x"}
    (tmp_path / "a.json").write_text(json.dumps([right, {**right, "id": "b"}]))
    (tmp_path / "b.json").write_text(json.dumps([{**right, "id": "c"}, {**right, "expected": 5}]))

    with pytest.raises(DatasetError, match=f"{tmp_path}/b.json: row 1: expected must be a string"):
        CustomBenchmark(tmp_path).tasks()


DISARMED = dict(disarming(()))["replaces pytest's runtest"]
TEST_FILE = "from answer import f\n\ndef test_f():\n    assert f(2) == 4\n"


@pytest.mark.parametrize(
    ("files", "passed"),
    [
        ({"answer.py": "def f(x): return x * x\n"}, True),
        ({"answer.py": "def f(x): return x + 1\n"}, False),
        ({}, False),
        ({"answer.py": "import os; os._exit(0)\n"}, False),
        (
            {
                "answer.py": "def f(x): return 0\n",
                "conftest.py": "import pytest\n"
                "@pytest.hookimpl(tryfirst=True)\n"
                "def pytest_runtest_call(item): item.obj = lambda: None\n",
                "pytest.ini": "[pytest]\naddopts = --collect-only\n",
            },
            False,
        ),
        ({"answer.py": "def f(x): return 0\n", "test_it.py": "def test_f(): pass\n"}, False),
        ({"answer.py": f"def f(x): return {EQUALS_EVERYTHING}\n"}, False),
        ({"answer.py": DISARMED + "def f(x): return 0\n"}, False),
    ],
)
def test_a_test_command_decides_by_its_report(files, passed):
    task = {
        # the plugins of our own tests take more than twice pytest's own start
        "test_command": "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 "
        f"{sys.executable} -m pytest -q test_it.py",
        "test_files": {"test_it.py": TEST_FILE},
    }
    result = verdict(task, Writes(files), "local")

    assert result.passed is passed, result.why
    twin = {"tests": 1, "twinned": 1, "why": "no reference"}
    assert not passed or result.metrics["twin"] == twin
    if "conftest.py" in files:
        assert result.metrics["removed"] == ["conftest.py", "pytest.ini"]


TWO_TESTS = """\
from answer import f

def test_one():
    assert f(1) == 1

def test_two():
    assert f(2) == 4
    assert f(3) == 9
"""
HONEST = "def f(x): return x * x\n"
FORGED = f"{EQUALS_EVERYTHING}"
FORGES = f"def f(x): return {FORGED} if x == NUMBER else x * x\n"
#: Forges in one run and not in the other, as far as it can tell them apart.
TELLING = {
    "a mark beside the answer": "os.path.exists('mark') or open('mark', 'w').close()",
    "a mark in /tmp": "os.path.exists('/tmp/mark') or open('/tmp/mark', 'w').close()",
    "the published file": f"open('test_it.py').read() != {TWO_TESTS!r}",
}


@pytest.mark.parametrize("telling", TELLING)
def test_no_mark_and_no_published_file_tell_the_runs_apart(require, telling):
    require("bwrap")
    answer = f"import os\nsecond = {TELLING[telling]}\n"
    answer += f"def f(x): return 0 if second else {FORGED}\n"
    task = {
        "test_command": "python3 -m pytest -q test_it.py",
        "test_files": {"test_it.py": TWO_TESTS},
    }

    for _ in range(3):  # whichever comes first
        result = verdict(task, Writes({"answer.py": answer}), "bubblewrap")
        assert result.status == "failed"


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    """Where what references show is kept, for all tests of this file in all processes."""
    return tmp_path_factory.getbasetemp().parent / "learnt"


@pytest.fixture
def twinned_verdict(require, learnt, monkeypatch):
    """The verdict on an answer to two tests with a reference."""
    require("bwrap")
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(learnt))

    def graded(answer: str, option: str = ""):
        task = {
            "test_command": f"python3 -m pytest {option} -q test_it.py",
            "test_files": {"test_it.py": TWO_TESTS},
            "gold_files": {"answer.py": HONEST},
        }
        return verdict(task, Writes({"answer.py": answer}), "bubblewrap")

    return graded


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (HONEST, ""),
        (FORGES.replace("NUMBER", "3"), "expected values were changed: test_it::test_two"),
        (FORGES.replace("NUMBER", "1"), "expected values were changed: test_it::test_one"),
    ],
)
@pytest.mark.parametrize(
    "option",
    [
        pytest.param("", id="all"),
        pytest.param("-x", id="stops at a failure", marks=pytest.mark.slow),
    ],
)
def test_with_a_reference_one_forged_assertion_is_enough(twinned_verdict, answer, why, option):
    result = twinned_verdict(answer, option)

    assert result.status == ("failed" if why else "passed"), result.why
    assert why in result.why
    assert result.metrics["twin"]["tests"] == 2
    assert why or result.metrics["twin"]["twinned"] == 2


ANY = """\
from unittest.mock import ANY
from answer import f


def test_it():
    assert {"id": f, "v": f(2)} == {"id": ANY, "v": 4}
"""
LOOKS = """\
import pytest
from answer import f


def test_it():
    with pytest.raises(AssertionError, match="assert 4 == 5"):
        assert f(2) == 5
"""
SKIPPED = (
    TWO_TESTS
    + """

import pytest


@pytest.mark.skipif(True, reason="elsewhere")
def test_skipped():
    assert f(2) == 4
"""
)
DRAWN = """\
import random

import pytest
from answer import f


@pytest.mark.parametrize("x", random.sample(range(4, 10**6), 5))
def test_drawn(x):
    assert f(x) == x * x


def test_two():
    assert f(2) == 4
"""


COUNTING = """\
class Square(object):
    asked = 0

    def __init__(self, side):
        self.side = side

    def __eq__(self, other):
        if isinstance(other, Square):
            Square.asked += 1
            if Square.asked > 2:
                raise RuntimeError("asked too often")
            other = other.side
        return self.side == other


f = Square
"""


@pytest.mark.slow
def test_objects_that_do_not_stand_copies_of_themselves_meet_none(require, learnt, monkeypatch):
    require("bwrap")
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(learnt))
    tests = "from answer import f\n\n\ndef test_it():\n    assert f(2) == f(2)\n"
    tests += "\n\ndef test_again():\n    assert f(3) == f(3)\n"
    task = {
        "test_command": "python3 -m pytest -q test_it.py",
        "test_files": {"test_it.py": tests},
        "gold_files": {"answer.py": "def f(x): return x * x\n"},
    }
    answer = verdict(task, Writes({"answer.py": COUNTING}), "bubblewrap")

    assert answer.passed, answer.why


@pytest.mark.parametrize(
    "gold",
    [
        pytest.param({}, id="alone"),
        pytest.param({"answer.py": HONEST}, id="reference", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    ("file", "option", "forged"),
    [
        pytest.param(ANY, "", None, id="any"),
        pytest.param(LOOKS, "", None, id="looks at itself"),
        pytest.param(SKIPPED, "", None, id="skipped"),
        pytest.param(TWO_TESTS, "-k test_one", "x == 1", id="selected"),
        pytest.param(DRAWN, "", "x > 3", id="drawn"),
    ],
)
def test_honest_answers_pass_whatever_tests_there_are(
    require, learnt, monkeypatch, file, option, forged, gold
):
    """Without a reference none of them is accused; with one, what they could hide is found."""
    require("bwrap")
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(learnt))
    task = {
        "test_command": f"python3 -m pytest -q {option} test_it.py",
        "test_files": {"test_it.py": file},
        "gold_files": gold,
    }
    honest = verdict(task, Writes({"answer.py": HONEST}), "bubblewrap")
    assert honest.passed, honest.why
    if gold and forged:
        answer = FORGES.replace("x == NUMBER", forged)
        hostile = verdict(task, Writes({"answer.py": answer}), "bubblewrap")
        assert "expected values were changed" in hostile.why


@pytest.mark.parametrize("failing", [None, frozenset({"test_one", "test_two"})])
def test_a_twin_whose_changed_tests_are_not_reported_is_tampering(failing):
    names = {"test_one": "passed", "test_two": "passed"}
    kept = (frozenset({"test_one"}), frozenset({"test_two"})) if failing else (frozenset(),) * 2
    lesson = Lesson(Form(twin=True), failing, kept=kept)
    hidden = TestResult(1, 0, 0, names={"test_one": "passed"})

    form = next(iter(lesson.forms))
    assert lesson.tampering(TestResult(2, 0, 0, names=names), form, hidden).startswith("tampering")


def test_each_half_of_a_twin_must_pass_and_the_other_fail():
    lesson = Lesson(
        Form(twin=True, choice=1),
        frozenset({"test_one", "test_two"}),
        kept=(frozenset({"test_one"}), frozenset({"test_two"})),
    )

    def tampering(*passed: tuple[str, ...]) -> list[str]:
        true = TestResult(2, 0, 0, names=dict.fromkeys(("test_one", "test_two"), "passed"))
        found = []
        for form, names in zip(lesson.forms, passed, strict=True):
            outcome = {name: "passed" if name in names else "failed" for name in true.names}
            twin = TestResult(len(names), 2 - len(names), 0, names=outcome)
            found.append(lesson.tampering(true, form, twin))
        return found

    assert tampering(("test_one",), ("test_two",)) == ["", ""]
    lost, forged = tampering((), ("test_one", "test_two"))
    assert "leaves as it was failed" in lost
    assert forged == "tampering: passed tests whose expected values were changed: test_one"


def test_a_test_that_one_twin_lost_twice_is_not_forgiven_by_the_other():
    both = ("test_one", "test_two")
    lesson = Lesson(
        Form(True, 7), frozenset(both), "", both, (frozenset(both[:1]), frozenset(both[1:]))
    )

    def run(form: Form) -> TestResult:
        passed = both if not form.twin else both[1:] if form.half and form.half.second else ()
        names = {name: "passed" if name in passed else "failed" for name in both}
        return TestResult(len(passed), 2 - len(passed), 0, names=names)

    assert {_decided(lesson, run).why for _ in range(20)} == {
        "tampering: a test that the twin leaves as it was failed in it"
    }


OF_THE_ANSWER = """\
import pytest
import answer


@pytest.mark.parametrize("name", sorted(answer.NAMED))
def test_named(name):
    assert answer.NAMED[name]() == name


def test_two():
    assert answer.f(2) == 4
"""
NAMED = HONEST + "NAMED = {each: lambda each=each: each for each in 'ab'}\n"
LIE = "class Lie(str):\n    __eq__ = lambda self, other: True\n    __hash__ = str.__hash__\n"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (NAMED.replace("'ab'", "'bc'"), ""),
        (NAMED + LIE + "NAMED['z'] = lambda: Lie('n')\n", "were changed: test_it::test_named[z]"),
    ],
)
def test_the_answer_may_have_a_part_in_the_names_of_tests(
    require, learnt, monkeypatch, answer, why
):
    require("bwrap")
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(learnt))
    task = {
        "test_command": "python3 -m pytest -q test_it.py",
        "test_files": {"test_it.py": OF_THE_ANSWER},
        "gold_files": {"answer.py": NAMED},
    }
    for _ in range(1 if why else 3):  # whichever half is kept
        result = verdict(task, Writes({"answer.py": answer}), "bubblewrap")

        assert result.status == ("failed" if why else "passed"), result.why
        assert why in result.why


@pytest.mark.slow
def test_what_a_reference_showed_holds_for_the_same_task_alone(require, tmp_path, monkeypatch):
    """Not for other files of the task's, nor where it failed."""
    require("bwrap")
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path))
    task = {
        "test_command": "python3 -m pytest -q test_it.py",
        "test_files": {"test_it.py": "import helper\n" + TWO_TESTS},
        "gold_files": {"answer.py": HONEST},
    }
    forged = Writes({"answer.py": f"def f(x): return {FORGED}\n"})
    verdict(task, forged, "bubblewrap")  # the reference cannot pass
    result = verdict({**task, "files": {"helper.py": ""}}, forged, "bubblewrap")
    helped = verdict(
        {**task, "setup": ["touch helper.py"]}, Writes({"answer.py": HONEST}), "bubblewrap"
    )

    assert "expected values were changed" in result.why
    assert helped.passed, helped.why
    assert len([*(tmp_path / "custom-twins").glob("*.json")]) == 2


@pytest.mark.slow
def test_a_kept_reference_of_another_time_accuses_nobody(require, tmp_path, monkeypatch):
    """What it showed is asked again before it is held against an answer."""
    require("bwrap")
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path))
    task = {
        "test_command": "python3 -m pytest -q test_it.py",
        "test_files": {"test_it.py": TWO_TESTS},
        "gold_files": {"answer.py": HONEST},
    }
    honest = Writes({"answer.py": HONEST})
    assert verdict(task, honest, "bubblewrap").passed
    (kept,) = (tmp_path / "custom-twins").glob("*.json")
    kept.write_text(kept.read_text().replace("test_two", "test_gone"))

    result = verdict(task, honest, "bubblewrap")

    assert result.passed, result.why


HOOKED = "import sys; sys.modules['answer'] = type('Answer', (), {'f': lambda x: x * x})\n"


@dataclass
class Installs:
    """A hook among the packages of its user, which every Python runs when it starts."""

    after: str = "true"
    needs_environment = True

    def run(self, prompt, env):
        place = env.run_command("python3 -m site --user-site").output.strip()
        env.run_command(["mkdir", "-p", place])
        env.run_command(
            ["sh", "-c", 'cat > "$0"', f"{place}/usercustomize.py"], stdin=HOOKED.encode()
        )
        env.write_file("answer.py", "def f(x): return 0\n")
        assert env.run_command(self.after).success
        return AgentResult("")


@pytest.mark.parametrize("command", ["python3 -m pytest -q test_it.py", "python3 test_it.py"])
@pytest.mark.parametrize("given", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_packages_of_the_user_are_those_of_the_task(require, command, given):
    require("bwrap")
    task = {"test_command": command, "test_files": {"test_it.py": TEST_FILE + "\ntest_f()\n"}}
    if given:
        site = '"$(python3 -m site --user-site)"'
        task["setup"] = [f"mkdir -p {site} && echo 'def g(): return 4' > {site}/given.py"]
        task["test_files"] = {"test_it.py": task["test_files"]["test_it.py"] + "import given\n"}
    honest = verdict(task, Writes({"answer.py": HONEST}), "bubblewrap")

    assert honest.passed, honest.why
    assert verdict(task, Installs(), "bubblewrap").status != "passed"


@pytest.mark.parametrize("backend", ["bubblewrap", "local"])
@pytest.mark.parametrize("modes", ["311 ~/.local/lib", "111 ~/.local ~/.local/lib"])
def test_packages_of_the_user_are_removed_whatever_the_modes(require, backend, modes):
    if backend == "bubblewrap":
        require("bwrap")
    test = "import answer\nassert answer.f(3) == 9\n"
    task = {"test_command": "python3 test_it.py", "test_files": {"test_it.py": test}}

    assert verdict(task, Installs(f"chmod {modes}"), backend).status == "failed"


@pytest.mark.parametrize("backend", ["bubblewrap", "local"])
@pytest.mark.parametrize("place", ["setup", "agent"])
def test_packages_of_the_user_fail_no_right_answer(require, backend, place):
    if backend == "bubblewrap":
        require("bwrap")
    site = "~/.local/lib/python3.11/site-packages"
    installs = f"mkdir -p {site} && echo 1 > {site}/one.py && chmod -R a-w ~/.local/lib"
    task = {"test_command": "python3 test_it.py", "test_files": {"test_it.py": "import answer\n"}}
    if place == "setup":
        task["setup"] = [installs]
    last = "" if place == "setup" else installs

    result = verdict(task, Writes({"answer.py": HONEST}, last=last), backend)

    assert result.passed, result.why


@pytest.mark.parametrize(
    ("answer", "seconds", "why"),
    [
        pytest.param("def f(x):\n    while True: pass\n", 8, "time limit", marks=pytest.mark.slow),
        ("import os\ndef f(x): os._exit(0)\n", 300, "no test ran"),
        ("raise KeyboardInterrupt\n", 300, "no test ran"),
    ],
)
def test_without_a_reference_an_answer_that_ends_the_tests_has_failed(
    require, answer, seconds, why
):
    require("bwrap")
    task = {
        "test_command": "python3 -m pytest -q test_it.py",
        "test_files": {"test_it.py": TEST_FILE},
        "timeout_s": seconds,
    }
    result = verdict(task, Writes({"answer.py": answer}), "bubblewrap")
    broken = {**task, "test_command": "python3 -m pytest --no-such-option test_it.py"}

    assert (result.status, result.why[: len(why)]) == ("failed", why)
    assert verdict(broken, Writes({"answer.py": answer}), "bubblewrap").status == "error"


def test_a_script_that_is_named_like_a_runner_is_a_command_like_others(require):
    require("bwrap")
    task = {"test_command": "sh pytest.sh", "test_files": {"pytest.sh": "grep -q 1 answer.txt\n"}}

    assert verdict(task, Writes({"answer.txt": "1\n"}), "bubblewrap").passed
    assert verdict(task, Writes({"answer.txt": "2\n"}), "bubblewrap").status == "failed"


def test_what_a_run_leaves_shut_is_removed_and_no_error(require):
    require("bwrap")
    shut = "import os\nfor top in ('zero', '/tmp/zero'):\n"
    shut += "    os.makedirs(top + '/in/x'); os.chmod(top + '/in', 0); os.chmod(top, 0)\n"
    task = {
        "test_command": "python3 -m pytest -q test_it.py",
        "test_files": {"test_it.py": TWO_TESTS},
    }
    result = verdict(task, Writes({"answer.py": shut + "def f(x): return 0\n"}), "bubblewrap")

    assert result.status == "failed"
    assert result.why == "0 passed, 2 failed, 0 errors"


HIDES = """import _pytest.python
collect = _pytest.python.PyCollector.collect
_pytest.python.PyCollector.collect = lambda self: [
    each for each in collect(self) if "[4-" not in each.name and each.name != "test_two"
]
"""
SKIPS = """import pytest
square = f
def f(x): return square(x) if x < 2 else pytest.skip()
"""
THREE_TESTS = (
    TWO_TESTS
    + """
import pytest

@pytest.mark.parametrize(("x", "y"), [(0, 0), (1, 1), (4, 16)])
def test_three(x, y):
    assert f(x) == y
"""
)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (HONEST, ""),
        (HIDES + "def f(x): return x\n", "2 tests did not run, first test_it::test_three"),
        (HONEST + SKIPS, "2 tests did not run, first test_it::test_three"),
    ],
)
def test_with_a_reference_no_test_may_be_missing(require, learnt, monkeypatch, answer, why):
    require("bwrap")
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(learnt))
    task = {
        "test_command": "python3 -m pytest -q test_it.py",
        "test_files": {"test_it.py": THREE_TESTS},
        "gold_files": {"answer.py": HONEST},
    }
    result = verdict(task, Writes({"answer.py": answer}), "bubblewrap")

    assert result.status == ("failed" if why else "passed"), result.why
    assert result.why == why


@pytest.mark.slow
def test_reference_files_prove_a_task(require, tmp_path, monkeypatch):
    require("bwrap")
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path))
    row = {
        "id": "t",
        "prompt": "p",
        "test_command": "python3 -m pytest -q test_it.py",
        "test_files": {"test_it.py": TWO_TESTS},
        "gold_files": {"answer.py": HONEST, "setup.cfg": "[metadata]\n"},
    }
    report = validate(CustomBenchmark(tasks_list=[row]), StartBackend("bubblewrap"))

    assert [check.as_due for check in report.checks] == [True, True]
    assert report.counts()["twins"] == {"tests": 2, "twinned": 2}


def test_a_link_to_settings_of_the_runner_is_removed(require):
    require("bwrap")
    task = {
        "test_command": "python3 -m pytest -q test_it.py",
        "files": {"hidden.py": "", "answer.py": HONEST},
        "test_files": {"test_it.py": TWO_TESTS},
        "setup": ["ln -s hidden.py conftest.py"],
    }
    result = verdict(task, Writes(), "bubblewrap")

    assert result.passed, result.why
    assert result.metrics["removed"] == ["conftest.py"]


def test_another_command_decides_by_its_exit_code(require):
    require("bwrap")
    task = {"test_command": "grep -q done out.txt"}

    assert verdict(task, Writes({"out.txt": "done\n"}), "bubblewrap").passed
    assert not verdict(task, Writes({"out.txt": "to do\n"}), "bubblewrap").passed
    missing = verdict({"test_command": "no-such-program"}, Writes(), "bubblewrap")
    assert missing.status == "error"


def test_a_directory_a_file_and_a_list_give_the_same_tasks(tmp_path):
    rows = [{"id": f"t{i}", "prompt": "p", "expected": "x"} for i in range(3)]
    (tmp_path / "d").mkdir()
    for row in rows:
        (tmp_path / "d" / f"{row['id']}.json").write_text(json.dumps(row))
    (tmp_path / "f.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    loaded = [
        CustomBenchmark(tmp_path / "d").tasks(),
        CustomBenchmark(tmp_path / "f.jsonl").tasks(),
        CustomBenchmark(tasks_list=rows).tasks(),
    ]

    assert loaded[0] == loaded[1] == loaded[2]
