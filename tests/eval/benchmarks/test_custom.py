"""Custom tasks: each check decides, several must all hold, a task without one is refused."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field

import pytest

from chimera.errors import DatasetError
from chimera.eval.benchmarks import CustomBenchmark
from chimera.eval.harness import Harness
from chimera.eval.kits.patches.disarming import EQUALS_EVERYTHING, disarming
from chimera.types import AgentResult


@dataclass
class Writes:
    """Leaves files in the environment and says something."""

    files: dict = field(default_factory=dict)
    says: str = ""
    needs_environment = True

    def run(self, prompt, env):
        for path, content in self.files.items():
            env.write_file(path, content)
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
        ({"expected": "12", "regex": "1"}, "12", True),
        ({"expected": "12", "regex": "3"}, "12", False),
    ],
)
def test_text_checks(check, reply, passed):
    assert verdict(check, Writes(says=reply)).passed is passed


def test_a_regular_expression_that_takes_for_ever_does_not():
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
        ({"id": "t", "prompt": "p", "expected": "x", "chekc": "y"}, "unknown field 'chekc'"),
        ({"id": "t", "prompt": "p", "expected": "x", "files": {"a": 1}}, "files must map"),
        ({"prompt": "p", "expected": "x"}, "no field 'id'"),
    ],
)
def test_tasks_that_decide_nothing_are_refused(row, says):
    with pytest.raises(DatasetError, match=says):
        CustomBenchmark(tasks_list=[row]).tasks()


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
        "test_command": f"{sys.executable} -m pytest -q test_it.py",
        "test_files": {"test_it.py": TEST_FILE},
    }
    result = verdict(task, Writes(files), "local")

    assert result.passed is passed, result.why
    assert not passed or result.metrics["twin"] == {"tests": 1, "twinned": 1}
    if "conftest.py" in files:
        assert result.metrics["removed"] == ["conftest.py", "pytest.ini"]


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
