"""Attacks on graders of which nothing is known: something is tried on each of them."""

from __future__ import annotations

from typing import Any

import pytest

from chimera.environments.base import EnvironmentSpec
from chimera.errors import GraderError, UsageError
from chimera.eval.benchmark import Benchmark
from chimera.eval.proof.attack.run import AttackReport, attack
from chimera.eval.run import default_backend
from chimera.eval.trial import StartBackend


class Own(Benchmark[Any]):
    """Compares words, as a first benchmark does."""

    def name(self) -> str:
        return "own"

    def tasks(self) -> list[Any]:
        return [{"id": "a", "prompt": "Capital of France?"}]

    def evaluate(self, task: Any, agent_output: str, env: Any) -> bool:
        return agent_output.strip() == "Paris"


class Runs(Own):
    """Runs what it is given where it stands."""

    def evaluate(self, task: Any, agent_output: str, env: Any) -> bool:
        space: dict[str, Any] = {}
        exec(agent_output, space)
        return bool(space.get("right"))


class Lenient(Own):
    def evaluate(self, task: Any, agent_output: str, env: Any) -> bool:
        return "pass" in agent_output.lower()


class Broken(Own):
    def evaluate(self, task: Any, agent_output: str, env: Any) -> bool:
        raise GraderError("the checks could not be run")


def attacked(benchmark: Benchmark[Any], **settings: Any) -> AttackReport:
    return attack(benchmark, benchmark.tasks(), StartBackend("none"), **settings)


def test_a_grader_that_only_compares_holds():
    report = attacked(Own())

    assert report.held
    assert len(report.findings) > 10


def test_an_answer_that_ends_the_graders_process_did_not_hold():
    found = {each.attack: each for each in attacked(Runs()).findings}

    assert found["os-exit"].status == "crash"
    assert not found["os-exit"].held
    assert "ended the process" in found["os-exit"].why


def test_a_grader_that_takes_the_word_for_the_deed_is_found():
    broke = [each.attack for each in attacked(Lenient()).findings if not each.held]

    assert "token-passed" in broke


def test_errors_show_nothing():
    report = attacked(Broken())

    assert report.errors == len(report.findings)
    assert not report.held


def test_an_attack_that_there_is_not_is_said():
    with pytest.raises(UsageError, match="no attack 'frobnicate'"):
        attacked(Own(), only=["frobnicate"])


class Needy(Own):
    def environment(self, task: Any) -> EnvironmentSpec:
        return EnvironmentSpec(files={"a": b""})


class Working(Own):
    default_agent = "react"


@pytest.mark.parametrize(
    ("benchmark", "backend"), [(Own(), "none"), (Needy(), "bubblewrap"), (Working(), "bubblewrap")]
)
def test_the_environment_is_the_one_that_a_run_would_choose(benchmark, backend, require):
    require("bwrap")

    assert default_backend(benchmark, benchmark.tasks()) == backend
