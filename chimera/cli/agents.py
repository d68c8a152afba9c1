"""`chimera agents`: coding agents by name, installed once and shown to any environment."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import click
import msgspec

from chimera.agents import AGENTS
from chimera.agents.coding import CODING_AGENTS
from chimera.agents.coding.base import CodingAgent
from chimera.agents.coding.layers import Recipe
from chimera.cli.options import json_option
from chimera.cli.terminal import echo
from chimera.environments import available
from chimera.errors import ExitCode, UsageError


@click.group("agents", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """List the agents, install those that are programs of others, and check what they need.

    \b
    Examples:
      chimera agents list
      chimera agents install claude-code codex
      chimera agents install aider --version 0.86.1
      chimera agents doctor
    """
    if context.invoked_subcommand is None:
        context.invoke(list_agents)


@command.command("list")
@json_option
def list_agents(*, as_json: bool = False) -> None:
    """List the agents and which of them are installed."""
    rows = [
        {
            "name": name,
            "about": about,
            "version": agent_class(name).recipe.version,
            "installed": agent_class(name).recipe.installed() is not None,
        }
        for name, (_, about) in CODING_AGENTS.items()
    ]
    if as_json:
        echo(msgspec.json.encode(rows).decode())
        return
    echo("Programs of others (chimera agents install NAME)")
    for row in rows:
        state = "installed" if row["installed"] else "not installed yet"
        echo(f"  {row['name']:<16} {row['version']:<10} {state:<18} {row['about']}")
    echo("Our own")
    for name, about in AGENTS.items():
        echo(f"  {name:<16} {about}")


@command.command("install")
@click.argument("names", nargs=-1, required=True)
@click.option("--version", help="Another version than the one that was tried.")
def install(names: tuple[str, ...], version: str | None) -> None:
    """Install coding agents now, so that no run has to wait for it."""
    for name in names:
        for recipe in agent_class(name).recipes(version):
            layer = recipe.layer()
            echo(f"{recipe.name} {recipe.version}: {layer.path}")


@command.command("doctor")
def doctor() -> int:
    """Say what coding agents need of this machine and what is missing."""
    for backend in ("bubblewrap", "docker"):
        echo(f"  {backend:<16} {available(backend) or 'can be used'}")
    for name in CODING_AGENTS:
        echo(f"  {name:<16} {readiness(agent_class(name).recipes())}")
    usable = any(available(backend) is None for backend in ("bubblewrap", "docker"))
    return ExitCode.DONE if usable else ExitCode.GATE


def agent_class(name: str) -> type[CodingAgent]:
    if name not in CODING_AGENTS:
        raise UsageError(f"unknown coding agent '{name}'; there are: {', '.join(CODING_AGENTS)}")
    module, _, attribute = CODING_AGENTS[name][0].partition(":")
    found: type[CodingAgent] = getattr(importlib.import_module(module), attribute)
    return found


def readiness(recipes: Sequence[Recipe]) -> str:
    """Whether all of it is installed, or can be."""
    missing = [recipe for recipe in recipes if recipe.installed() is None]
    lacking = [lack for recipe in missing if (lack := recipe.lacks()) is not None]
    if lacking:
        return f"cannot be installed here: it needs {lacking[0]}"
    names = ", ".join(recipe.name for recipe in missing)
    return f"not installed yet: {names}" if missing else "ready"
