"""The benchmark contract: three methods are enough, the rest has defaults."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Generic, Literal, TypeVar

from chimera.agents.base import Agent
from chimera.environments.base import Environment, EnvironmentSpec
from chimera.errors import UsageError
from chimera.eval.values import Prediction, Submission, Task, Verdict
from chimera.types import JSON, AgentResult

TaskT = TypeVar("TaskT", bound=Task)
StartEnvironment = Callable[[EnvironmentSpec], Environment]


class Benchmark(ABC, Generic[TaskT]):
    """A set of tasks and the rule that decides them.

    Implement `name`, `tasks` and `evaluate` (or `grade`, for verdicts that say why).
    """

    #: Where `grade` happens: in the agent's own environment after its processes were ended,
    #: in a fresh one, or in none (the grader confines what it runs by itself).
    grading: Literal["same", "fresh", "none"] = "same"
    #: Environment backends that fit, best first; the first one this machine has is the default.
    environments: Sequence[str] = ("none", "bubblewrap", "docker", "local")
    #: The agent that plays it when none is named.
    default_agent: ClassVar[str] = "direct"
    #: Trials at once for each core, when nobody says: few where grading compiles or runs suites.
    trials_per_core: ClassVar[int] = 4
    #: Raised when a change to the grader can change verdicts; part of what resume matches on.
    grader_version: ClassVar[int] = 1

    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def tasks(self) -> Sequence[TaskT]: ...

    def evaluate(self, task: TaskT, agent_output: str, env: Environment) -> bool:
        """Whether this reply solves the task."""
        return self.grade(task, self.extract(task, agent_output), env).passed

    def grade(self, task: TaskT, submission: Submission, env: Environment) -> Verdict:
        """Decide. Raise a `RunError` for a fault that is not the answer's."""
        if type(self).evaluate is Benchmark.evaluate:
            raise UsageError(f"{type(self).__name__} implements neither evaluate() nor grade()")
        reply = submission.text if submission.raw is None else submission.raw
        return Verdict.of(self.evaluate(task, reply, env))

    def extract(self, task: TaskT, reply: str) -> Submission:
        """The answer in a model's whole reply."""
        return Submission(text=reply, raw=reply)

    def collect(self, task: TaskT, result: AgentResult, env: Environment) -> Submission:
        """What is handed in once the agent has stopped: by default what it said."""
        return self.extract(task, result.output)

    def environment(self, task: TaskT) -> EnvironmentSpec:
        """What the task needs of its environment."""
        return EnvironmentSpec()

    def open_environment(self, task: TaskT, start: StartEnvironment) -> Environment:
        """The environment the agent works in. `start` starts one with the backend in use."""
        return start(self.environment(task))

    def open_grading_environment(self, task: TaskT, start: StartEnvironment) -> Environment:
        """The fresh environment for `grading = "fresh"`."""
        return start(self.environment(task))

    @property
    def regradable(self) -> bool:
        """Whether a stored submission is all that `grade` needs."""
        return self.grading != "same"

    def agent_seconds(self, task: TaskT) -> float | None:
        """How long the protocol lets an agent work on the task; None: as long as the run allows."""
        return None

    def gold(self, task: TaskT) -> Submission | None:
        """The reference answer, when the data set has one."""
        return None

    def oracle(self, task: TaskT, env: Environment) -> Submission:
        """Hand in the reference answer, working in `env` where the protocol wants it."""
        gold = self.gold(task)
        if gold is None:
            raise UsageError(f"{self.name()}: task {task['id']} has no reference answer")
        return gold

    def mutants(self, task: TaskT) -> Iterable[Submission]:
        """Wrong answers made from the gold one, each of which must fail."""
        return ()

    def read_predictions(self, path: Path) -> Iterable[Prediction]:
        """Stored answers for `chimera grade`; override where the official format is another."""
        from chimera.eval.data.predictions import read_predictions

        return read_predictions(self, path)

    def prepare_agent(self, agent: Agent) -> Agent:
        """A copy of the agent as the protocol wants it: a step budget, a tool."""
        return agent

    def options(self) -> dict[str, JSON]:
        """The settings that could change an outcome; part of what resume matches on."""
        return {}
