"""`chimera datasets`: which data sets are here, where they belong, and how to fetch them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from chimera.cli.options import json_option, option
from chimera.cli.terminal import echo
from chimera.errors import DatasetError, UsageError
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.data.pull import pull as fetch
from chimera.eval.registry import adapters, benchmark_class


@click.group("datasets")
def command() -> None:
    """List, find and fetch data sets.

    \b
    Examples:
      chimera datasets list
      chimera datasets pull human-eval
      chimera datasets path mbpp
    """


@command.command("list")
@json_option
def list_(*, as_json: bool) -> None:
    """Every benchmark with the place of its data, or how to get it."""
    found = [
        {
            "benchmark": slug,
            "path": _place(adapter),
            "pull": bool(adapter.sources),
            "setup": adapter.setup,
        }
        for slug, adapter in adapters().items()
        if issubclass(adapter, DatasetBenchmark)
    ]
    if as_json:
        echo(json.dumps(found))
        return
    for row in found:
        state = row["path"] or ("absent; pull fetches it" if row["pull"] else "absent")
        echo(f"{row['benchmark']:<20} {state}")


@command.command("path")
@click.argument("name")
def path(*, name: str) -> None:
    """The file or directory the data of NAME is read from; exit code 2 when it is absent."""
    echo(_adapter(name)().dataset().source())


@command.command("pull")
@click.argument("names", nargs=-1, required=True)
@option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    help="Another directory than the data set's own.",
)
def pull(*, names: tuple[str, ...], to: Path | None) -> None:
    """Fetch the data of NAMES from its pinned source and check it."""
    for name in names:
        for file in fetch(_adapter(name), target=to):
            echo(file)


def _adapter(name: str) -> type[DatasetBenchmark[Any]]:
    cls = benchmark_class(name)
    if not issubclass(cls, DatasetBenchmark):
        raise UsageError(f"'{name}' reads no data set")
    return cls


def _place(adapter: type[DatasetBenchmark[Any]]) -> str | None:
    try:
        return str(adapter().dataset().place())
    except DatasetError:
        return None
