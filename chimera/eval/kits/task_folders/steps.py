"""Tasks of several steps: one container, an instruction and a verdict for each step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from chimera.agents.base import Agent, BaseAgent, as_agent
from chimera.environments.base import Environment, Machine
from chimera.errors import LimitReached
from chimera.eval.kits.task_folders.folders import HarborTask
from chimera.eval.kits.task_folders.verification import PausedAtEnd, resume, set_up
from chimera.eval.values import Verdict
from chimera.providers.base import Provider
from chimera.types import JSON, AgentResult


class SteppedMachine(PausedAtEnd):
    """An agent's container on its way through the steps of a task, each verified at its end."""

    def __init__(
        self, inner: Machine, task: HarborTask, verify: Callable[[int, Machine], Verdict]
    ) -> None:
        super().__init__(inner)
        self._task = task
        self._verify = verify
        self._verdicts: list[Verdict] = []
        self._over = False
        set_up(self.step, inner)

    @property
    def step(self) -> HarborTask:
        """The step at hand."""
        return self._task["steps"][len(self._verdicts)]

    def advance(self) -> bool:
        """Verify the step at hand and begin the next one; whether there is one."""
        least, deadline = self.step["least"], self.deadline
        self.deadline = None  # an agent's time is not that of its verifier
        self.stop_processes()
        self._verdicts.append(self._verify(len(self._verdicts), self))
        rewards = _rewards(self._verdicts[-1])
        short = any(rewards.get(name, -math.inf) < least[name] for name in least)
        self._over = short or len(self._verdicts) == len(self._task["steps"])
        if not self._over:
            resume(self)
            set_up(self.step, self.inner)
            self.deadline = deadline
        return not self._over

    def verdict(self, work: Callable[[HarborTask], object]) -> Verdict:
        """The task's verdict; `work` is done in the steps that are still to come."""
        while not self._over:
            resume(self)
            work(self.step)
            self.advance()
        return combined(self._task, self._verdicts)


def combined(task: HarborTask, verdicts: Sequence[Verdict]) -> Verdict:
    """Harbor's rule: the mean of the steps' rewards by name, or the last step's.

    Stricter in one point: a step that was never begun is no part of a pass.
    """
    every = [_rewards(verdict) for verdict in verdicts]
    names = {name for rewards in every for name in rewards}
    mean = {name: sum(each.get(name, 0.0) for each in every) / len(every) for name in names}
    rewards = every[-1] if task["strategy"] == "final" else mean
    reward = rewards.get("reward", sum(rewards.values()) / len(rewards))
    missing = len(task["steps"]) - len(verdicts)
    told: list[JSON] = [verdict.why for verdict in verdicts]
    why = "; ".join(f"step {number}: {each}" for number, each in enumerate(told, 1))
    if missing:
        why += f"; {missing} not begun"
    metrics: dict[str, JSON] = {**verdicts[-1].metrics, "steps": told}
    return Verdict(reward >= 1.0 and not missing, why, reward, metrics, verdicts[-1].evidence)


def _rewards(verdict: Verdict) -> dict[str, float]:
    """A step's rewards by name; none that was not believed."""
    named = verdict.metrics.get("rewards")
    if isinstance(named, Mapping) and "official_reward" not in verdict.metrics:
        return {str(name): float(str(value)) for name, value in named.items()}
    return {"reward": float(verdict.score or 0.0)}


@dataclass(frozen=True, slots=True)
class SteppingAgent(BaseAgent):
    """An agent that is asked anew at every step of a task, and as it is where there is but one."""

    agent: Agent
    time_factor: float

    needs_environment = True

    def run(self, prompt: str, env: Environment) -> AgentResult:
        if not isinstance(env, SteppedMachine):
            return self.agent.run(prompt, env)
        results = [self._step(env)]
        while env.advance():
            results.append(self._step(env))
        return _together(results)

    def _step(self, env: SteppedMachine) -> AgentResult:
        whole, seconds = env.deadline, env.step["agent_seconds"]
        own = None if seconds is None else time.monotonic() + seconds * self.time_factor
        env.deadline = min((each for each in (whole, own) if each is not None), default=None)
        try:
            return self.agent.run(env.step["prompt"], env)
        except LimitReached as limit:
            if limit.limit != "time" or (whole is not None and time.monotonic() >= whole):
                raise
            return AgentResult("", stop_reason="limit:time")
        finally:
            env.deadline = whole

    def _whole(self) -> BaseAgent:
        return as_agent(self.agent)

    def identity(self) -> JSON:
        return self._whole().identity()

    def providers(self) -> Sequence[Provider]:
        return self._whole().providers()

    def mounts(self) -> Mapping[str, str]:
        return self._whole().mounts()

    def notes(self) -> Sequence[str]:
        return self._whole().notes()


def _together(results: Sequence[AgentResult]) -> AgentResult:
    last, *earlier = reversed(results)
    for each in earlier:
        last = replace(
            last,
            usage=each.usage + last.usage,
            cost=None if None in (each.cost, last.cost) else (each.cost or 0) + (last.cost or 0),
            steps=each.steps + last.steps,
            trajectory=(*each.trajectory, *last.trajectory),
        )
    return last
