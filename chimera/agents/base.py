"""What an agent is: something that turns a prompt and an environment into a result."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from chimera.activity import doing
from chimera.environments.base import Environment
from chimera.errors import UsageError
from chimera.providers.base import Provider
from chimera.types import JSON, AgentResult


@runtime_checkable
class Agent(Protocol):
    """Configuration is fixed at construction; `run` keeps no state between calls.

    One agent object serves many trials in many threads at once. `run` is all that is asked of a
    user's agent; the members of `BaseAgent` count where it has them.
    """

    def run(self, prompt: str, env: Environment) -> AgentResult: ...


class BaseAgent(ABC):
    """An agent with all that a run asks of it; the shipped ones are such."""

    __slots__ = ()

    #: Whether it is of little use where no command can be run.
    needs_environment: bool = False
    #: Whether it may ask through the gateway, which keeps replies until the trial is stored.
    replies_are_kept: bool = True

    @abstractmethod
    def run(self, prompt: str, env: Environment) -> AgentResult: ...

    def identity(self) -> JSON:
        """Everything of it that can change an outcome, as JSON; resuming matches on it."""
        return class_path(self)

    def providers(self) -> Sequence[Provider]:
        """The models it asks by itself, whose prices a limit on money needs."""
        return ()

    def mounts(self) -> Mapping[str, str]:
        """What it brings into confined environments, read-only: host path → target. Made when it
        is not there yet."""
        return {}

    def notes(self) -> Sequence[str]:
        """What a person should know before it begins."""
        return ()


@dataclass(frozen=True, slots=True)
class UsersAgent(BaseAgent):
    """A user's own object as an agent: the one place where members are looked for by name."""

    agent: Any
    needs_environment: bool

    def run(self, prompt: str, env: Environment) -> AgentResult:
        result: AgentResult = self.agent.run(prompt, env)
        return result

    def identity(self) -> JSON:
        own = getattr(self.agent, "identity", None)
        return own() if callable(own) else class_path(self.agent)

    def providers(self) -> Sequence[Provider]:
        provider = getattr(self.agent, "provider", None)
        return (provider,) if isinstance(provider, Provider) else ()


@dataclass(frozen=True, slots=True)
class FunctionAgent(BaseAgent):
    """A function of a prompt, or of a prompt and an environment, as an agent."""

    function: Callable[..., AgentResult | str]
    takes_environment: bool

    def run(self, prompt: str, env: Environment) -> AgentResult:
        answer = self.function(prompt, env) if self.takes_environment else self.function(prompt)
        return AgentResult(answer) if isinstance(answer, str) else answer

    def identity(self) -> JSON:
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return f"{getattr(self.function, '__module__', '')}.{name}"


def checked_agent(agent: object) -> Any:
    """What can answer tasks, a function as an agent; a `UsageError` says what was expected."""
    if isinstance(agent, type):
        raise UsageError(f"the agent is a class: give an object of it, {agent.__name__}(…)")
    if callable(getattr(agent, "run", None)) or callable(getattr(agent, "submit", None)):
        return agent
    if callable(agent):
        return FunctionAgent(agent, _arguments(agent) > 1)
    raise UsageError(
        f"the agent is {type(agent).__name__}: expected a name, a function of the prompt, or an "
        "object with run(prompt, env)"
    )


def _arguments(function: Callable[..., object]) -> int:
    """How many arguments a function takes by position, two at the most."""
    signature = inspect.signature(function)
    for count in (2, 1):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count
    raise UsageError(f"the agent takes {signature}: expected (prompt) or (prompt, env)")


def as_agent(agent: object) -> BaseAgent:
    """The agent with all that a run asks of it, whoever wrote it and however little it says."""
    if isinstance(agent, BaseAgent):
        return agent
    return UsersAgent(agent, bool(getattr(agent, "needs_environment", False)))


def at_step(number: int, cost: float | None) -> AbstractContextManager[None]:
    """Let whoever watches know which step goes on, and what those before it cost."""
    return doing(f"step {number}, ${cost:.4f}" if cost else f"step {number}")


def class_path(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
