"""`direct`: the prompt goes to the model once, and what it says is the answer."""

from __future__ import annotations

import time
from dataclasses import dataclass

from chimera.environments.base import Environment
from chimera.errors import LimitReached
from chimera.providers.base import Provider
from chimera.types import JSON, AgentResult, Message, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectAgent:
    provider: Provider
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    system_prompt: str = ""

    name = "direct"

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

    def run(self, prompt: str, env: Environment) -> AgentResult:
        system = "\n\n".join(part for part in (self.system_prompt, env.system_prompt) if part)
        messages = [Message.system(system)] if system else []
        messages.append(Message.user(prompt))
        trajectory = [Step(message, timestamp=time.time()) for message in messages]
        try:
            response = self.provider.complete(
                messages,
                temperature=self.temperature,
                max_tokens=self.max_tokens,
                seed=self.seed,
            )
        except LimitReached as limit:
            return AgentResult("", trajectory=tuple(trajectory), stop_reason=f"limit:{limit.limit}")
        answer = Message.assistant(response.content, response.tool_calls)
        trajectory.append(
            Step(
                answer,
                usage=response.usage,
                cost=response.cost,
                timestamp=time.time(),
                metadata={"stop_reason": response.stop_reason},
            )
        )
        return AgentResult(
            response.content,
            usage=response.usage,
            cost=response.cost,
            steps=1,
            trajectory=tuple(trajectory),
            stop_reason="length" if response.stop_reason == "length" else "done",
        )
