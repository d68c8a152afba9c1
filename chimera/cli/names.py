"""The names that a shell can complete: benchmarks, agents, models, environments, runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import click
from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def benchmark_names() -> list[str]:
    from importlib.metadata import entry_points

    from chimera.eval.registry import ENTRY_POINT_GROUP, adapters

    return [*adapters(), *(entry.name for entry in entry_points(group=ENTRY_POINT_GROUP))]


def agent_names() -> list[str]:
    from chimera.agents import AGENTS
    from chimera.eval.submitters import SUBMITTERS

    return [*(f"{name}:" if name == "command" else name for name in AGENTS), *SUBMITTERS]


def model_names() -> list[str]:
    """Models by whole name where they are known here, else as far as the service."""
    from chimera.providers.factory import GATEWAY, SERVICES

    return ["local/smollm2", "scripted/echo", GATEWAY, *(f"{service}/" for service in SERVICES)]


def environment_names() -> list[str]:
    from chimera.environments import BACKENDS

    return list(BACKENDS)


def run_names() -> list[str]:
    from chimera.eval.runs.files import SUFFIX, runs_dir

    folder = runs_dir(None)
    stored = sorted(file.stem for file in folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    return ["latest", *stored]


def completer(names: Callable[[], Iterable[str]]) -> Completer:
    """What a shell shows: names that begin so, or files where there are none."""

    def complete(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
        found = [CompletionItem(name) for name in names() if name.startswith(begun)]
        return found or [CompletionItem(begun, type="file")]

    return complete


#: An option's long name → how its value is completed.
COMPLETERS: Mapping[str, Completer] = {
    "benchmark": completer(benchmark_names),
    "suite": completer(benchmark_names),
    "agent": completer(agent_names),
    "model": completer(model_names),
    "environment": completer(environment_names),
    "resume": completer(run_names),
}
