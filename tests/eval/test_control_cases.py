"""Environments that cannot run the checks: the reference fails there too, and nobody is judged."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from chimera.environments import EnvironmentSpec, identity
from chimera.environments.identity import fingerprint, interpreter
from chimera.environments.local import LocalEnvironment
from chimera.eval.benchmarks import CustomBenchmark, FeatureBench, SWEBench, TauBench
from chimera.eval.controls import Controls
from chimera.eval.harness import Harness
from chimera.eval.proof.attack.repositories import FIXTURES, Repository
from chimera.eval.run import choose_backend
from chimera.eval.submitters import NopAgent
from chimera.eval.trial import StartBackend
from chimera.eval.values import Submission
from chimera.types import AgentResult
from tests.eval.controlled import CALC, INSTANCE, tried


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))


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
        return (
            fingerprint(library.parent)
            if of == "fingerprint"
            else identity._this_process.__wrapped__()
        )

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
