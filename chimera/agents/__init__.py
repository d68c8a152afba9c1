"""Agents by name: `create_agent("react", model="openai/gpt-4o")`, a preset, or `module:Class`."""

from __future__ import annotations

import importlib
import inspect
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chimera.agents.base import Agent
from chimera.errors import UsageError

__all__ = ["AGENTS", "Agent", "create_agent", "needs_model"]  # and those of _LAZY

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
    "claude_code": "react with the tools and manners of a coding assistant",
    "mink": "react with the full tool set",
    "otter": "react with the default tool set",
    "weasel": "react with bash only",
    "shrew": "react for small models: four tools, 30 steps",
    "ferret": "react that refuses to work outside a confined environment",
    "terminal": "a loop over a tmux session in the task's environment",
    "command": "any command-line agent, as in 'command:claude -p {prompt}'",
    "oracle": "hands in the reference answer",
    "nop": "hands in nothing",
    "replay": "hands in stored predictions",
}
_WITHOUT_MODEL = ("oracle", "nop", "replay", "command")
#: Options that belong to the model rather than to the agent.
_PROVIDER_OPTIONS = ("attempts", "price", "timeout")


def __getattr__(name: str) -> Any:
    """The classes by name, imported when they are asked for."""
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'chimera.agents' has no attribute '{name}'")


def needs_model(name: str) -> bool:
    """Whether an agent of this name is useless without a model."""
    head = name.partition(":")[0].replace("-", "_")
    return head in AGENTS and head not in _WITHOUT_MODEL


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
) -> Any:
    """An agent (or one that submits by itself: oracle, replay) from command-line values.

    `options` are the agent's own settings by name, converted by its annotations; `attempts`,
    `price` and `timeout` among them are the model's.
    """
    settings = {key.replace("-", "_"): value for key, value in (options or {}).items()}
    head, _, rest = name.partition(":")
    kind = head.replace("-", "_")
    if kind in ("oracle", "nop"):
        from chimera.eval.submitters import NopAgent, OracleAgent

        _refuse(settings, kind)
        return OracleAgent() if kind == "oracle" else NopAgent()
    if kind == "replay":
        from chimera.eval.submitters import replay_agent

        path = settings.pop("path", rest or None)
        _refuse(settings, kind, "path")
        return replay_agent(path)
    if kind == "command":
        from chimera.agents.command import CommandAgent

        return _made(CommandAgent, name, settings, {"template": rest, "model": model})
    cls, fixed = _class(kind, name)
    provided = {
        "temperature": temperature,
        "max_steps": max_steps,
        "max_tokens": max_tokens,
        "seed": seed,
    }
    values = fixed | {key: value for key, value in provided.items() if value is not None}
    if "provider" in inspect.signature(cls).parameters:
        from chimera.providers import create_provider
        from chimera.providers.base import DEFAULT_ATTEMPTS

        own = {key: settings.pop(key) for key in _PROVIDER_OPTIONS if key in settings}
        values["provider"] = create_provider(
            model,
            api_key=api_key,
            base_url=base_url,
            cache=cache,
            attempts=int(own.get("attempts", DEFAULT_ATTEMPTS)),
            timeout=float(own.get("timeout", 600.0)),
            price=own.get("price"),
        )
    elif model is not None:
        values["model"] = model
    if "loop" in inspect.signature(cls).parameters:
        from chimera.agents.react import loop_with

        values["loop"] = loop_with(values.get("loop"), settings)
    return _made(cls, name, settings, values)


def _class(kind: str, name: str) -> tuple[Any, dict[str, Any]]:
    """The class behind a name and the settings that the name stands for."""
    if kind == "direct":
        from chimera.agents.direct import DirectAgent

        return DirectAgent, {}
    if kind == "terminal":
        from chimera.agents.terminal.agent import TerminalAgent

        return TerminalAgent, {}
    if kind in AGENTS:
        from chimera.agents.presets import PRESETS
        from chimera.agents.react import ReactAgent

        return ReactAgent, dict(PRESETS[kind])
    if ":" not in name:
        raise UsageError(
            f"unknown agent '{name}'\n  Known: {', '.join(AGENTS)}\n"
            "  Your own: --agent package.module:ClassName"
        )
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute), {}
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise UsageError(f"agent '{name}': no module '{module}' can be imported") from None
    except AttributeError:
        raise UsageError(f"agent '{name}': module '{module}' has no '{attribute}'") from None


def _made(cls: Any, name: str, options: Mapping[str, str], values: Mapping[str, Any]) -> Any:
    """An agent from its class: values its signature has no place for are an error, not ignored."""
    from chimera.plugins import convert

    parameters = inspect.signature(cls).parameters
    hints = typing.get_type_hints(cls.__init__)
    arguments = dict(values)
    for key, value in options.items():
        if key not in parameters or key in ("provider", "loop"):
            known = ", ".join(p for p in parameters if p not in ("provider", "loop")) or "none"
            raise UsageError(f"agent '{name}' has no option '{key}'; it has: {known}")
        arguments[key] = convert(value, hints.get(key, str), key)
    for key in [key for key in arguments if key not in parameters]:
        if arguments[key] is not None and key != "model":
            raise UsageError(f"agent '{name}' takes no '{key}'")
        del arguments[key]
    try:
        return cls(**arguments)
    except TypeError as error:
        raise UsageError(f"agent '{name}' cannot be made: {error}") from None


def _refuse(settings: Mapping[str, str], name: str, *known: str) -> None:
    for key in settings:
        raise UsageError(
            f"agent '{name}' has no option '{key}'; it has: {', '.join(known) or 'none'}"
        )
