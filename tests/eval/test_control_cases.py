"""Environments that cannot run the checks: the reference fails there too, and nobody is judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from chimera.environments import EnvironmentSpec, start_environment
from chimera.environments.bubblewrap import BubblewrapEnvironment
from chimera.environments.identity import fingerprint, interpreter, this_process
from chimera.environments.local import LocalEnvironment
from chimera.eval.benchmark import StartEnvironment
from chimera.eval.benchmarks import CustomBenchmark, FeatureBench, SWEBench, TauBench
from chimera.eval.benchmarks.swe_bench import SWEBenchInstance
from chimera.eval.controls import Controls
from chimera.eval.harness import Harness
from chimera.eval.kits.repositories import source
from chimera.eval.proof.attack.repositories import FIXTURES, Repository
from chimera.eval.run import choose_backend
from chimera.eval.submitters import NopAgent, OracleAgent, Stored
from chimera.eval.trial import StartBackend, Submitter, TrialSpec
from chimera.eval.values import Submission
from chimera.types import AgentResult


@dataclass(frozen=True)
class Without(StartEnvironment):
    """Bubblewrap on this machine, with nothing but an empty file where a program was."""

    program: str
    empty: Path
    backend = "bubblewrap"

    def __call__(self, spec):
        return start_environment("bubblewrap", self._covered(spec))

    def identity(self, spec):
        return [*BubblewrapEnvironment.identity(self._covered(spec)), self.program]

    def _covered(self, spec: EnvironmentSpec):
        return replace(spec, mounts={**spec.mounts, str(self.empty): self.program})


@pytest.fixture
def without(tmp_path, require):
    require("bwrap")

    def make(program: str) -> Without:
        empty = tmp_path / "nothing"
        empty.touch()
        return Without(str(Path(require(program)).resolve()), empty)

    return make


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))


def tried(benchmark, submission, start):
    """A trial of an answer; of the reference, where None is handed in."""
    agent = OracleAgent() if submission is None else Stored(submission)
    spec = TrialSpec(benchmark, benchmark.tasks()[0], 0, agent, start, attempts=1)
    return Controls().run(spec)


# --- what was seen


@pytest.fixture
def polybench(tmp_path):
    def make(runner: str, command: str = "{}") -> Repository:
        fixture = FIXTURES[runner]
        return Repository(replace(fixture, command=command.format(fixture.command)), tmp_path / "f")

    return make


def test_a_row_whose_command_needs_what_is_not_here_gives_no_verdict(polybench, require):
    require("bwrap", "node")
    made = polybench("node", ". /usr/local/nvm/nvm.sh && {}")
    wrong = Submission(FIXTURES["node"].gold.replace("a + b", "a * b"), "model_patch")

    for submission in (None, wrong):
        record = tried(made.benchmark, submission, StartBackend("bubblewrap"))

        assert record.status == "error", record.why
        assert "the reference answer does not pass here either" in record.why


PYTEST_TASK = {
    "id": "t",
    "prompt": "p",
    "test_command": f"{Path(sys.executable).name} -m pytest -q test_it.py",
    "test_files": {"test_it.py": "def test_it():\n    assert True\n"},
    "gold": "anything",
}


@pytest.mark.parametrize("submission", [None, Submission("an answer")])
def test_a_custom_task_without_its_runner_gives_no_verdict(submission, tmp_path, require):
    require("bwrap")
    command = "/nowhere/bin/pytest -q test_it.py"
    benchmark = CustomBenchmark(tasks_list=[{**PYTEST_TASK, "test_command": command}])

    record = tried(benchmark, submission, StartBackend("bubblewrap"))

    assert record.status == "error"


def test_a_custom_task_without_a_reference_says_so_and_gives_no_verdict(require):
    require("bwrap")
    task = {**PYTEST_TASK, "test_command": "/nowhere/bin/pytest -q test_it.py"}
    del task["gold"]

    record = tried(CustomBenchmark(tasks_list=[task]), Submission("x"), StartBackend("bubblewrap"))

    assert (record.status, record.control.positive) == ("error", "none")
    assert "nothing shows that the checks ran" in record.why


def test_passes_that_doing_nothing_gets_are_uninformative(dataset):
    benchmark = TauBench(dataset("tau-bench"), domain="airline")

    result = Harness(benchmark, NopAgent()).run()

    assert (result.passed, result.uninformative) == (19, 19)
    assert result.informative_pass_rate == 0.0
    assert (result.failed, result.errored) == (31, 0)


def test_drafts_run_where_they_can_be_decided_whatever_else_runs_here(dataset):
    benchmark = FeatureBench(dataset("feature-bench"))
    drafts = [task for task in benchmark.tasks() if task["metadata"]["draft"]]

    assert choose_backend(benchmark, drafts) == "bubblewrap"


@dataclass
class Paid:
    asked: int = 0

    def run(self, prompt, env):
        self.asked += 1
        return AgentResult("")


def test_a_row_that_does_not_say_how_it_is_tested_costs_nothing():
    benchmark = SWEBench()
    benchmark.add_instance(INSTANCE)
    agent = Paid()

    result = Harness(benchmark, agent, env_factory="none").run()

    assert (result.errored, agent.asked) == (1, 0)
    assert "its test command is not known" in result.results[0].why


# --- one thing broken


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
        self.wrong = fix.replace("a + b", "a * b")
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

    def place(self, what: str) -> Path:
        """What is broken: part of the virtual environment."""
        (task,) = self.benchmark.tasks()
        root = self.benchmark.setup_of(task["instance"]).environment().path
        found = {
            "the interpreter": root / "bin" / "python",
            "the runner": next(root.glob("lib/python3*/site-packages")) / "_pytest",
            "a pinned package": next(root.glob("lib/python3*/site-packages/iniconfig")),
            "what the runner needs": next(root.glob("lib/python3*/site-packages/pluggy")),
        }
        return found[what]


@pytest.fixture(scope="module")
def instance(tmp_path_factory, require):
    require("bwrap", "git")
    return Instance(tmp_path_factory.mktemp("instance"))


@pytest.mark.parametrize(
    "broken",
    ["the interpreter", "the runner", "a pinned package", "what the runner needs"],
)
def test_a_virtual_environment_that_breaks_turns_no_verdict(broken, instance, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(instance.folder / "cache"))
    answers = (None, Submission(instance.wrong, "model_patch"))
    start = StartBackend("bubblewrap")
    assert [tried(instance.benchmark, a, start).status for a in answers] == ["passed", "failed"]
    place = instance.place(broken)
    place.rename(place.with_name(".gone"))

    after = [tried(instance.benchmark, a, start) for a in answers]

    place.with_name(".gone").rename(place)
    assert [record.status for record in after] == ["error", "error"], after[0].why


@pytest.mark.parametrize(
    ("runner", "program"),
    [("node", "node"), ("unittest", "python3"), ("node", "git"), ("unittest", "git")],
)
def test_a_machine_without_a_program_turns_no_verdict(runner, program, polybench, without, require):
    require("bwrap", *FIXTURES[runner].programs)
    made = polybench(runner)
    wrong = Submission(FIXTURES[runner].gold.replace("a + b", "a * b"), "model_patch")

    for submission, verdict in ((None, "passed"), (wrong, "failed")):
        record = tried(made.benchmark, submission, without(program))

        assert record.status in (verdict, "error"), record.why


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


@dataclass(frozen=True)
class Damaged(StartEnvironment):
    """A backend whose every environment lacks one thing."""

    backend: str = "local"
    broken: str = ""
    image: str | None = None

    def __call__(self, spec):
        if self.backend == "docker":
            spec = replace(spec, image=self.image)
        env = start_environment(self.backend, replace(spec, variables=self._variables()))
        if self.backend == "docker" and self.broken:
            done = env.run_command(f"rm -rf {DAMAGE[self.broken]}", cwd="/")
            assert done.success, done.output
        return env

    def identity(self, spec):
        return [self.backend, self.broken]

    def _variables(self):
        """Where there is no root to remove things, a program of the same name comes first."""
        if self.backend == "docker" or not self.broken:
            return {}
        hiding = Path(os.environ["CHIMERA_CACHE_DIR"]) / "hiding"
        if self.broken == "pytest":
            (hiding / "pytest").mkdir(parents=True, exist_ok=True)
            (hiding / "pytest" / "__init__.py").write_text("raise ImportError('gone')\n")
            return {"PYTHONPATH": str(hiding)}
        return {"PATH": "/nowhere"}


DAMAGE = {
    "pytest": "/usr/lib/python3*/*/pytest /usr/lib/python3*/*/_pytest",
    "python": "/usr/bin/python3*",
    "library": "/usr/lib/python3*/json /usr/lib/python3*/argparse.py",
}


@pytest.mark.parametrize(
    ("backend", "broken"),
    [
        *((backend, broken) for backend in ("local", "docker") for broken in ("", "python")),
        ("docker", "pytest"),
        ("docker", "library"),
        ("local", "pytest"),
    ],
)
def test_whatever_breaks_turns_no_verdict(backend, broken, request):
    image = request.getfixturevalue("image") if backend == "docker" else None
    benchmark, start = CustomBenchmark(tasks_list=[CALC]), Damaged(backend, broken, image)

    found = []
    for agent in (OracleAgent(), Spoils()):
        spec = TrialSpec(benchmark, benchmark.tasks()[0], 0, agent, start, attempts=1)
        found.append(Controls().run(spec).status)

    assert found == (["error", "error"] if broken else ["passed", "failed"])


@pytest.fixture(scope="session")
def image(require):
    client = require("docker")
    for name in (os.environ.get("CHIMERA_TEST_IMAGE") or "none", "chimera-base:bookworm"):
        command = [client, "image", "inspect", name]
        if subprocess.run(command, capture_output=True).returncode == 0:
            return name
    pytest.skip("no base image: scripts/docker-base.sh makes one")


@pytest.fixture
def library(tmp_path):
    """A Python of one's own, as far as it lies on the disk."""
    inside = tmp_path / "lib" / "python3.1" / "site-packages" / "package"
    (inside / "__pycache__").mkdir(parents=True)
    (inside / "a.py").write_text("a = 1\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "python").chmod(0o755)
    return inside


def test_an_identity_does_not_change_with_compiled_files(library):
    before = fingerprint(library)

    (library / "__pycache__" / "a.pyc").touch()

    assert fingerprint(library) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.rename(file.with_name("b.py")),
        lambda file: file.chmod(0o000),
        lambda file: file.parent.chmod(0o700),
        lambda file: file.write_text("a = 22\n"),
    ],
    ids=["renamed", "unreadable", "hidden", "rewritten"],
)
@pytest.mark.parametrize("of", ["fingerprint", "process"])
def test_an_identity_changes_with_every_file(of, change, library, monkeypatch):
    monkeypatch.syspath_prepend(library.parent)

    def seen():
        return fingerprint(library.parent) if of == "fingerprint" else this_process.__wrapped__()

    before = seen()
    change(library / "a.py")

    assert seen() != before


def test_an_interpreter_without_part_of_its_library_is_another_one(library):
    program = library.parents[3] / "bin" / "python"
    before = interpreter(program)
    (library.parents[1] / "json").mkdir()
    between = interpreter(program)
    (library.parents[1] / "json" / "decoder.py").touch()

    assert len({before, between, interpreter(program)}) == 3


def test_programs_without_an_identity_of_their_own_depend_on_variables(monkeypatch):
    before = LocalEnvironment.identity(EnvironmentSpec())
    monkeypatch.setenv("TZ", "Pacific/Apia")

    assert LocalEnvironment.identity(EnvironmentSpec()) != before


@pytest.mark.parametrize("grading", ["same", "fresh"])
def test_what_the_agent_is_allowed_counts_where_it_is_graded(grading, require):
    require("bwrap")
    benchmark = CustomBenchmark(tasks_list=[CALC])
    (task,) = benchmark.tasks()
    benchmark.grading = grading
    starts = (
        StartBackend("bubblewrap"),
        StartBackend("bubblewrap", network=True),
        StartBackend("bubblewrap", mounts=lambda: {sys.executable: "/opt/python"}),
    )

    found = {Controls().identity(benchmark, task, start)[1] for start in starts}

    assert len({_without_run(details) for details in found}) == (3 if grading == "same" else 1)


def _without_run(details: str) -> str:
    return json.dumps({**json.loads(details), "run": ""})


def test_a_kept_tree_that_was_changed_gives_no_verdict(instance, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(instance.folder / "cache"))
    wrong = Submission(instance.wrong, "model_patch")
    (task,) = instance.benchmark.tasks()
    tree = instance.benchmark.setup_of(task["instance"]).tree().path
    (tree / "calc.py").write_text(CODE + "\n\nraise SystemExit\n")
    source._check_unchanged.cache_clear()

    record = tried(instance.benchmark, wrong, StartBackend("bubblewrap"))

    (tree / "calc.py").write_text(CODE)
    assert "is not what was kept there" in record.why


def test_controls_are_listed_shown_and_forgotten(tmp_path, capsys):
    from chimera.cli.main import cli

    data = tmp_path / "tasks.json"
    rows = [{"id": "t", "prompt": "p", "expected": "4"}]
    data.write_text(json.dumps(rows))

    def said(*arguments: str) -> str:
        cli.main([*arguments], standalone_mode=False)
        return capsys.readouterr().out

    assert "2 of 2 controls hold" in said("controls", "run", "custom", "--dataset", str(data))
    identity = said("controls", "list").split()[2]
    assert "reference passed: holds" in said("controls", "show", identity)
    assert "2 controls forgotten" in said("controls", "clear", "--benchmark", "custom")
    assert said("controls", "list") == ""
