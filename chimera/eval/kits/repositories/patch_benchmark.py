"""What benchmarks have in common whose answer is a patch of a repository."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from chimera.agents.base import Agent
from chimera.environments.base import Environment, EnvironmentSpec
from chimera.eval.benchmark import StartEnvironment, TaskT
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.kits.repositories import checkout, patches
from chimera.eval.kits.repositories.agents import SWEBenchConfig, prepared
from chimera.eval.kits.repositories.hostile import hostile_patches
from chimera.eval.kits.repositories.virtualenvs import TESTBED
from chimera.eval.values import Submission
from chimera.types import AgentResult


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a task's answer. `gold` is empty where there is none."""

    gold: str
    test_patch: str
    fail_to_pass: Sequence[str]


class PatchBenchmark(DatasetBenchmark[TaskT]):
    """An agent works on a checkout at TESTBED; what it changed is graded on a fresh one."""

    trials_per_core: ClassVar[int] = 1
    grading = "fresh"
    environments: Sequence[str] = ("docker", "bubblewrap")
    default_agent: ClassVar[str] = "react"
    config: SWEBenchConfig = SWEBenchConfig.for_lite()

    @abstractmethod
    def known(self, task: TaskT) -> Known: ...

    def environment(self, task: TaskT) -> EnvironmentSpec:
        return EnvironmentSpec(needs=frozenset({"commands"}), workdir=TESTBED)

    def open_grading_environment(self, task: TaskT, start: StartEnvironment) -> Environment:
        return self.open_environment(task, start)

    def extract(self, task: TaskT, reply: str) -> Submission:
        return checkout.reply_submission(reply)

    def collect(self, task: TaskT, result: AgentResult, env: Environment) -> Submission:
        return checkout.tree_submission(env, result.output)

    def gold(self, task: TaskT) -> Submission | None:
        gold = self.known(task).gold
        return Submission(text=gold, form="model_patch") if gold else None

    def mutants(self, task: TaskT) -> Iterable[Submission]:
        """Nothing at all, and the gold patch without its largest hunk of code."""
        yield Submission(form="model_patch")
        gold = self.known(task).gold
        shorter = patches.without_hunk(gold, patches.largest_hunk(gold))
        if shorter:
            yield Submission(text=shorter, form="model_patch")

    def attacks(self, task: TaskT) -> Iterable[tuple[str, Submission]]:
        """Patches that try to pass without a fix; each must fail."""
        known = self.known(task)
        for name, patch in hostile_patches(known.test_patch, known.fail_to_pass):
            yield name, Submission(text=patch, form="model_patch")

    def prepare_agent(self, agent: Agent) -> Agent:
        return prepared(agent, self.config)
