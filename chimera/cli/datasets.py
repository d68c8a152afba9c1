"""`chimera datasets`: which data sets are here, where they belong, and how to fetch them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from chimera.cli.options import json_option, option
from chimera.errors import DatasetError, UsageError
from chimera.eval.data.datasets import DatasetBenchmark, datasets_dir
from chimera.eval.data.pull import SOURCES
from chimera.eval.data.pull import pull as fetch
from chimera.eval.registry import BENCHMARKS, benchmark_class


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
    found = []
    for slug in sorted(BENCHMARKS):
        place, hint = _place(slug)
        found.append({"benchmark": slug, "path": place, "pull": slug in SOURCES, "setup": hint})
    if as_json:
        click.echo(json.dumps(found))
        return
    for row in found:
        state = row["path"] or ("absent; pull fetches it" if row["pull"] else "absent")
        click.echo(f"{row['benchmark']:<20} {state}")


@command.command("path")
@click.argument("name")
def path(*, name: str) -> None:
    """The file or directory the data of NAME is read from; exit code 2 when it is absent."""
    benchmark = _dataset_benchmark(name)
    if benchmark is None:
        raise UsageError(f"'{name}' reads no data set")
    click.echo(benchmark.source())


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
        slug = getattr(benchmark_class(name), "slug", name)
        for file in fetch(slug, target=to):
            click.echo(file)


def _dataset_benchmark(name: str) -> DatasetBenchmark[Any] | None:
    cls = benchmark_class(name)
    return cls() if issubclass(cls, DatasetBenchmark) else None


def _place(slug: str) -> tuple[str | None, str]:
    """Where a benchmark's data is, and how to get it when it is nowhere."""
    try:
        cls = benchmark_class(slug)
    except UsageError:
        return None, ""
    hint = getattr(cls, "setup", "")
    if not issubclass(cls, DatasetBenchmark):
        folder = datasets_dir() / slug
        return (str(folder) if folder.exists() else None), hint
    try:
        return str(cls().place()), hint
    except (DatasetError, TypeError):
        return None, hint
