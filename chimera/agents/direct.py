"""`direct`: the prompt goes to the model, and what it says is the answer.

Where the environment replies (a second attempt after failed tests), the conversation goes on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from chimera.agents.base import BaseAgent
from chimera.environments.base import Environment
from chimera.errors import LimitReached
from chimera.providers.base import Provider
from chimera.types import JSON, AgentResult, Message, Step, Usage

#: A conversation that has not ended by then never will.
MAX_ROUNDS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectAgent(BaseAgent):
    provider: Provider
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    system_prompt: str = ""

    name = "direct"
    replies_are_kept = False

    def identity(self) -> dict[str, JSON]:
        """Everything of this agent that can change an outcome."""
        return {
            "agent": self.name,
            **self.provider.identity(),
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "system_prompt": self.system_prompt,
        }

    def providers(self) -> Sequence[Provider]:
        return (self.provider,)

    def run(self, prompt: str, env: Environment) -> AgentResult:
        system = "\n\n".join(part for part in (self.system_prompt, env.system_prompt) if part)
        messages = [Message.system(system)] if system else []
        messages.append(Message.user(prompt))
        trajectory = [Step(message, timestamp=time.time()) for message in messages]
        usage, cost, output, steps, cut = Usage(), Cost(), "", 0, False
        while steps < MAX_ROUNDS:
            try:
                response = self.provider.complete(
                    messages,
                    temperature=self.temperature,
                    max_tokens=self.max_tokens,
                    seed=self.seed,
                )
            except LimitReached as limit:
                stop = f"limit:{limit.limit}"
                return AgentResult(output, usage, cost.total, steps, tuple(trajectory), stop)
            steps += 1
            output, cut = response.content, response.stop_reason == "length"
            usage = usage + response.usage
            cost.add(response.cost)
            answer = response.message()
            trajectory.append(
                Step(
                    answer,
                    usage=response.usage,
                    cost=response.cost,
                    timestamp=time.time(),
                    metadata={"stop_reason": response.stop_reason},
                )
            )
            reply = env.reply(response.content)
            if reply is None:
                break
            messages += [answer, Message.user(reply)]
            trajectory.append(Step(messages[-1], timestamp=time.time()))
        stop = "length" if cut else "done"
        return AgentResult(output, usage, cost.total, steps, tuple(trajectory), stop)


@dataclass(slots=True)
class Cost:
    """A sum that is unknown as soon as one part of it is."""

    total: float | None = 0.0

    def add(self, cost: float | None) -> None:
        self.total = None if cost is None or self.total is None else self.total + cost
