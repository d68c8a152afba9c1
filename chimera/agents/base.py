"""What an agent is: something that turns a prompt and an environment into a result."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from chimera.environments.base import Environment
from chimera.types import AgentResult


@runtime_checkable
class Agent(Protocol):
    """Configuration is fixed at construction; `run` keeps no state between calls.

    One agent object serves many trials in many threads at once. Two members are optional:
    `identity()`, JSON of everything that can change an outcome, which resuming matches on; and
    `needs_environment`, true for an agent that is of little use where no command can be run.
    """

    def run(self, prompt: str, env: Environment) -> AgentResult: ...
