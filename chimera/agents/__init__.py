"""Agents by name: `create_agent("react", model="openai/gpt-4o")`, a preset, or one's own code."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from chimera.agents.base import Agent, BaseAgent, as_agent
from chimera.agents.coding import CODING_AGENTS
from chimera.errors import UsageError
from chimera.plugins import constructor_values, load_class
from chimera.providers.settings import ModelSettings

__all__ = [  # and those of _LAZY
    "AGENTS",
    "Agent",
    "BaseAgent",
    "about",
    "agent_needs_environment",
    "as_agent",
    "create_agent",
]

_LAZY: Mapping[str, str] = {
    "CommandAgent": "chimera.agents.command",
    "DirectAgent": "chimera.agents.direct",
    "LoopConfig": "chimera.agents.react",
    "ReactAgent": "chimera.agents.react",
    "SummaryCompaction": "chimera.agents.compaction",
}

#: Every shipped agent and preset, with what it is for.
AGENTS: Mapping[str, str] = {
    "direct": "one call: the model's reply is the answer",
    "react": "a loop with tools: bash, files, IPython, submit",
    "claude_code": "react with the manners of a coding assistant: our own loop, not Claude Code",
    "mink": "react with the full tool set",
    "otter": "react with the default tool set",
    "weasel": "react with bash only",
    "shrew": "react for small models: four tools, 30 steps",
    "ferret": "react that refuses to work outside a confined environment",
    "mini": "mini-swe-agent's bash-only protocol: one fenced command a step",
    "terminal": "a loop over a tmux session in the task's environment",
    "command": "any command-line agent, as in 'command:claude -p {prompt}'",
    "acp": "any agent of the Agent Client Protocol, as in 'acp:opencode acp'",
}
ENTRY_POINT_GROUP = "chimera.agents"
_CLASSES: Mapping[str, str] = {
    **dict.fromkeys(AGENTS, "chimera.agents.react:ReactAgent"),
    "direct": "chimera.agents.direct:DirectAgent",
    "mini": "chimera.agents.mini:MiniAgent",
    "terminal": "chimera.agents.terminal.agent:TerminalAgent",
    "command": "chimera.agents.command:CommandAgent",
    "acp": "chimera.agents.acp:ACPAgent",
    **{name: path for name, (path, _) in CODING_AGENTS.items()},
}
#: Those whose name is followed by a command, and what they call it.
_BY_COMMAND: Mapping[str, str] = {"command": "template", "acp": "command"}
#: What an agent is made with that no option can name.
_RESERVED = ("provider", "loop")
#: Options that belong to the model rather than to the agent.
_PROVIDER_OPTIONS = ("attempts", "price", "timeout")


def about(name: str) -> str | None:
    """What a shipped agent is, in a line for people and records; None of any other."""
    return AGENTS.get(name.partition(":")[0])


def __getattr__(name: str) -> Any:
    """The classes by name, imported when they are asked for."""
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'chimera.agents' has no attribute '{name}'")


def create_agent(
    name: str,
    *,
    model: str | None = None,
    temperature: float | None = None,
    max_steps: int | None = None,
    max_tokens: int | None = None,
    seed: int | None = None,
    api_key: str | None = None,
    base_url: str | None = None,
    cache: str | Path | None = None,
    options: Mapping[str, str] | None = None,
    others: Collection[str] = (),
    model_settings: ModelSettings | None = None,
    max_connections: int | None = None,
    summary_model: str | None = None,
    mcp: Sequence[str] = (),
    batches: Path | None = None,
) -> Any:
    """An agent from command-line values: a shipped one, or any class of one's own.

    `options` are the agent's own settings by name, converted by its annotations; `attempts`,
    `price` and `timeout` among them are the model's. `others` are names that the caller knows
    beside these, for the message about an unknown one. `model_settings` and `max_connections` are
    the model's, `summary_model` is another that condenses conversations, `mcp` are commands of MCP
    servers, `batches` is the file of a run whose calls go out in batches.
    """
    settings = {key.replace("-", "_"): value for key, value in (options or {}).items()}
    head, _, rest = name.partition(":")
    kind = _kind(name, head)
    cls = _agent_class(kind, others)
    parameters = inspect.signature(cls).parameters
    sampling = {
        "temperature": temperature,
        "max_steps": max_steps,
        "max_tokens": max_tokens,
        "seed": seed,
    }
    values: dict[str, Any] = {**_preset(kind)}
    if kind in _BY_COMMAND:
        values[_BY_COMMAND[kind]] = rest
    if kind in CODING_AGENTS:
        sampling.pop("max_steps")  # the trial's limit is kept by the gateway
    if kind not in _BY_COMMAND:
        values |= {key: value for key, value in sampling.items() if value is not None}
    if "provider" in parameters and (kind not in _BY_COMMAND or _by_gateway(model, settings)):
        values["provider"] = _provider(
            settings, model, api_key, base_url, cache, model_settings, max_connections
        )
    if "model" in parameters and model and (kind in _BY_COMMAND or "provider" not in parameters):
        values["model"] = model
    if batches is not None:
        values["provider"] = _in_batches(kind, values.get("provider"), batches)
    if "loop" in parameters:
        from chimera.agents.react import loop_with

        values["loop"] = loop_with(values.get("loop"), settings, _summarizer(summary_model))
    elif summary_model is not None:
        raise UsageError(f"agent '{name}' condenses nothing: it has no --role summary=MODEL")
    if mcp:
        values["mcp"] = tuple(mcp)
    values |= constructor_values(cls, settings, owner=f"agent '{name}'", reserved=_RESERVED)
    for key in values:
        if key not in parameters:
            raise UsageError(f"agent '{name}' takes no '{key}'")
    try:
        return cls(**values)
    except TypeError as error:
        raise UsageError(f"agent '{name}' cannot be made: {error}") from None


def _kind(name: str, head: str) -> str:
    """The shipped agent that a name means; `claude-code` is the product, `claude_code` our loop."""
    if head in CODING_AGENTS:
        return head
    kind = head.replace("-", "_")
    return kind if kind in AGENTS else name


def _by_gateway(model: str | None, settings: Mapping[str, str]) -> bool:
    """Whether a command is offered its model; one that is handed keys has its own way to it."""
    default = "false" if settings.get("pass_env") else "true"
    return bool(model) and settings.get("gateway", default) != "false"


def agent_needs_environment(name: str) -> bool:
    """Whether an agent is of little use where no command can be run."""
    return bool(getattr(_agent_class(name), "needs_environment", False))


def _agent_class(name: str, others: Collection[str] = ()) -> type[Any]:
    return load_class(
        name,
        object,
        what="agent",
        shipped=_CLASSES,
        group=ENTRY_POINT_GROUP,
        others=others,
        members=("run", "submit"),
    )


def _preset(kind: str) -> Mapping[str, Any]:
    """The settings that a name stands for."""
    if _CLASSES.get(kind) != _CLASSES["react"]:
        return {}
    from chimera.agents.presets import PRESETS

    return PRESETS[kind]


def _provider(
    settings: dict[str, str],
    model: str | None,
    api_key: str | None,
    base_url: str | None,
    cache: str | Path | None,
    model_settings: ModelSettings | None,
    max_connections: int | None,
) -> Any:
    """The model's provider; the options that are its own are taken out of `settings`."""
    from chimera.providers import create_provider
    from chimera.providers.base import DEFAULT_ATTEMPTS

    own = {key: settings.pop(key) for key in _PROVIDER_OPTIONS if key in settings}
    return create_provider(
        model,
        api_key=api_key,
        base_url=base_url,
        cache=cache,
        attempts=int(own.get("attempts", DEFAULT_ATTEMPTS)),
        timeout=float(own.get("timeout", 600.0)),
        price=own.get("price"),
        settings=model_settings,
        max_connections=max_connections,
    )


def _in_batches(kind: str, provider: Any, file: Path) -> Any:
    from chimera.providers.batch import in_batches

    if kind != "direct":
        raise UsageError("--batch is for the agent 'direct', which asks a task's model once")
    return in_batches(provider, file)


def _summarizer(model: str | None) -> Any:
    from chimera.providers import create_provider

    return None if model is None else create_provider(model)
