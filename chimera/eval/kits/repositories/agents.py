"""How an agent works on a repository: its steps, its tools, and how long talk is made short."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from chimera.agents.base import Agent
from chimera.errors import UsageError

if TYPE_CHECKING:
    from chimera.agents.compaction import SummaryCompaction
    from chimera.providers.base import Provider
    from chimera.tools.base import Tool


@dataclass(frozen=True, slots=True)
class SWEBenchConfig:
    """How an agent works on an instance."""

    variant: Literal["lite", "verified"] = "verified"
    max_steps: int = 500
    ipython: bool = True
    condense_every_n_steps: int = 25
    condense_keep_first: int = 2
    condense_keep_last: int = 20
    extra_tools: tuple[Tool, ...] = ()

    def __post_init__(self) -> None:
        if self.variant not in ("lite", "verified"):
            raise UsageError(f"variant must be 'lite' or 'verified', got {self.variant!r}")
        if self.max_steps < 1:
            raise UsageError(f"max_steps must be at least 1, got {self.max_steps}")
        for name in ("condense_every_n_steps", "condense_keep_first", "condense_keep_last"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} must not be negative, got {getattr(self, name)}")

    @classmethod
    def for_lite(cls, **changes: Any) -> SWEBenchConfig:
        """What suits the Lite set, but for `changes`."""
        lite = cls(variant="lite", max_steps=100, ipython=False, condense_every_n_steps=0)
        return replace(lite, **changes)

    @classmethod
    def for_verified(cls, **changes: Any) -> SWEBenchConfig:
        """What suits the Verified set, but for `changes`."""
        return replace(cls(), **changes)

    def should_condense(self, step: int) -> bool:
        """Whether the conversation is condensed before this step."""
        every = self.condense_every_n_steps
        return every > 0 and step > 0 and step % every == 0

    def build_ipython_tool(self) -> Tool | None:
        if not self.ipython:
            return None
        from chimera.tools.ipython import IPythonTool

        return IPythonTool()

    def build_condensation(self, provider: Provider | None = None) -> SummaryCompaction:
        """How a long conversation is made short; with a provider the model writes the summary."""
        from chimera.agents.compaction import SummaryCompaction

        return SummaryCompaction(
            provider, keep_first=self.condense_keep_first, keep_last=self.condense_keep_last
        )


def configured_agent(agent: Agent, config: SWEBenchConfig) -> Agent:
    """A copy of a react agent with the configuration's steps, tools and condensation.

    A number of steps that was asked for stays; other kinds of agents are left as they are.
    """
    from chimera.agents.react import ReactAgent

    if not isinstance(agent, ReactAgent):
        return agent
    tools = [tool for tool in agent.tools if _tool_name(tool) != "ipython"]
    ipython = config.build_ipython_tool()
    more = (*([ipython] if ipython else []), *config.extra_tools)
    default = next(f.default for f in fields(ReactAgent) if f.name == "max_steps")
    asked = agent.max_steps != default
    loop = replace(
        agent.loop,
        compaction=config.build_condensation(agent.provider),
        condense_every_n_steps=config.condense_every_n_steps,
    )
    return replace(
        agent,
        tools=(*tools, *more),
        loop=loop,
        max_steps=agent.max_steps if asked else config.max_steps,
    )


def _tool_name(tool: str | Tool) -> str:
    return tool if isinstance(tool, str) else tool.name
