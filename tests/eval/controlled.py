"""Small tasks whose verdicts rest on controls, and how they are tried."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from chimera.eval.benchmarks import SWEBench
from chimera.eval.benchmarks.swe_bench import SWEBenchInstance
from chimera.eval.controls import Controls
from chimera.eval.submitters import OracleAgent, Stored
from chimera.eval.trial import Submitter, TrialSpec
from chimera.eval.values import Submission

#: A custom task; right as it is.
CALC = {
    "id": "t",
    "prompt": "p",
    "files": {"calc.py": "def add(a, b):\n    return a + b\n"},
    "test_files": {
        "test_calc.py": "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
    },
    "test_command": "python3 -m pytest -q test_calc.py",
    "gold": "it is right as it is",
}


@dataclass(frozen=True)
class Spoils(Submitter):
    """Makes right code wrong."""

    def submit(self, benchmark, task, sample, env):
        env.write_file("calc.py", "def add(a, b):\n    return a - b\n")
        return Submission("done")

    def identity(self):
        return "spoils"


def tried(benchmark, answer, start, controls=None):
    """A trial of an answer; of the reference, where None is handed in."""
    agent = OracleAgent() if answer is None else answer
    if isinstance(agent, Submission):
        agent = Stored(agent)
    spec = TrialSpec(benchmark, benchmark.tasks()[0], 0, agent, start, attempts=1)
    return (controls or Controls()).run(spec)


#: An instance of SWE-bench that does not say how it is tested.
INSTANCE = SWEBenchInstance(
    instance_id="own__calc-1", repo="own/calc", base_commit="", problem_statement="add() subtracts"
)
CODE = "def add(a, b):\n    return a - b\n\n\ndef keep(a):\n    return a\n"
TESTS = """\
import iniconfig

from calc import add, keep


def test_add():
    assert add(1, 2) == 3


def test_keep():
    assert keep(1) == 1
"""
PINS = ("pytest==8.3.5", "iniconfig==2.0.0", "pluggy==1.5.0", "packaging==24.2")


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=n", "-c", "user.email=e@x")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@dataclass
class Instance:
    """A SWE-bench instance of one's own, in a virtual environment that can be broken."""

    folder: Path
    benchmark: SWEBench = field(init=False)

    def __post_init__(self):
        clone = self.folder / "clones" / "own" / "calc"
        clone.mkdir(parents=True)
        git(clone, "init", "-q")
        self._commit(clone, "calc.py", CODE)
        base = git(clone, "rev-parse", "HEAD").strip()
        self._commit(clone, "calc.py", CODE.replace("a - b", "a + b"))
        fix = git(clone, "diff", "HEAD~1", "HEAD")
        self._commit(clone, "test_calc.py", TESTS)
        self.wrong = Submission(fix.replace("a + b", "a * b"), "model_patch")
        version = "{}.{}".format(*sys.version_info[:2])
        self.benchmark = SWEBench(repositories=str(self.folder / "clones"))
        self.benchmark.add_instance(
            replace(
                INSTANCE,
                base_commit=base,
                patch=fix,
                test_patch=git(clone, "diff", "HEAD~1", "HEAD"),
                fail_to_pass=("test_calc.py::test_add",),
                pass_to_pass=("test_calc.py::test_keep",),
                test_command="pytest -rA test_calc.py",
                log_parser="pytest",
                python=version,
                pins=PINS,
            )
        )

    @staticmethod
    def _commit(clone: Path, name: str, content: str) -> None:
        (clone / name).write_text(content)
        git(clone, "add", ".")
        git(clone, "commit", "-qm", name)

    @property
    def tree(self) -> Path:
        (task,) = self.benchmark.tasks()
        return self.benchmark.setup_of(task["instance"]).tree().path

    @property
    def environment(self) -> Path:
        (task,) = self.benchmark.tasks()
        return self.benchmark.setup_of(task["instance"]).environment().path
