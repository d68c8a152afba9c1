"""`chimera datasets`: which data sets are here, where they belong, and how to fetch them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from chimera.cli.names import COMPLETERS
from chimera.cli.options import json_option, option
from chimera.cli.pulling import fetch
from chimera.cli.terminal import echo, fitted
from chimera.errors import DatasetError, UsageError
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.proof.status import benchmark_states
from chimera.eval.registry import adapters, benchmark_class
from chimera.text import bytes_text, first_line


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
    """Every data set: here or not, its size, tasks and licence, and how to get it."""
    known = {state.slug: state.tasks.rpartition(" ")[2] for state in benchmark_states()}
    found = [
        _described(adapter, known[slug])
        for slug, adapter in adapters().items()
        if issubclass(adapter, DatasetBenchmark)
    ]
    if as_json:
        echo(json.dumps(found))
        return
    for row in found:
        here = f"here, {bytes_text(row['bytes'])}" if row["path"] else "absent"
        line = f"{row['benchmark']:<20} {here:<16} {row['tasks']:>6} tasks  {row['licence']}"
        echo(fitted(line, 21))
        size = f"   ({row['download']})" if row["download"] else ""
        how = row["command"] and f"{row['command']}{size}"
        echo(fitted(f"{'':<20} {row['path'] or how or row['setup']}", 21))


def _described(adapter: type[DatasetBenchmark[Any]], known: str) -> dict[str, Any]:
    place = _place(adapter)
    files = [place] if place and place.is_file() else list(place.rglob("*")) if place else []
    return {
        "benchmark": adapter.slug,
        "path": str(place) if place else None,
        "bytes": sum(file.stat().st_size for file in files if file.is_file()),
        "tasks": _count(adapter) if place else known,
        "licence": adapter.licence or "see its publisher",
        "pull": bool(adapter.sources),
        "command": f"chimera datasets pull {adapter.slug}" if adapter.sources else "",
        "download": adapter.download_size(),
        "setup": adapter.setup,
    }


@command.command("path")
@click.argument("name")
def path(*, name: str) -> None:
    """The file or directory the data of NAME is read from; exit code 2 when it is absent."""
    echo(_adapter(name)().dataset().source())


@command.command("pull")
@click.argument("names", nargs=-1, required=True, shell_complete=COMPLETERS["benchmark"])
@option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    help="Another directory than the data set's own.",
)
@option(
    "--from",
    "mirror",
    envvar="CHIMERA_DATASETS_MIRROR",
    help="A directory or address that has it, in a folder of its name; asked first.",
)
def pull(*, names: tuple[str, ...], to: Path | None, mirror: str | None) -> None:
    """Fetch the data of NAMES from its pinned source and check it.

    What was interrupted goes on where it broke off; what failed leaves nothing behind.
    HF_ENDPOINT names another hub, HF_TOKEN a key for sets that need one.
    """
    for name in names:
        fetch(_adapter(name), to, mirror)


def _count(adapter: type[DatasetBenchmark[Any]]) -> str:
    """How many tasks its default options find; what cannot be read has none."""
    try:
        return str(len(adapter().tasks()))
    except UsageError as error:
        return first_line(str(error), 40)


def _adapter(name: str) -> type[DatasetBenchmark[Any]]:
    cls = benchmark_class(name)
    if not issubclass(cls, DatasetBenchmark):
        raise UsageError(f"'{name}' reads no data set")
    return cls


def _place(adapter: type[DatasetBenchmark[Any]]) -> Path | None:
    try:
        return adapter().dataset().place()
    except DatasetError:
        return None
