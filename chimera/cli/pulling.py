"""Fetching data sets for a person: what, how large, under which licence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chimera.cli.terminal import echo
from chimera.errors import DatasetError
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.data.pull import pull


def fetch(
    adapter: type[DatasetBenchmark[Any]], target: Path | None = None, mirror: str | None = None
) -> None:
    """Pull a data set and print its files; size and licence are told first."""
    licence = f"licence: {adapter.licence or 'see its publisher'}"
    facts = [each for each in (adapter.download_size(), licence) if each]
    if adapter.sources:
        echo(f"{adapter.slug}: {', '.join(facts)}", err=True)
    for file in pull(adapter, target=target, mirror=mirror):
        echo(file)


def fetch_absent(benchmark: DatasetBenchmark[Any]) -> None:
    """Pull the data of a benchmark unless it is here."""
    try:
        echo(f"data: {benchmark.dataset().source()}")
    except DatasetError:
        fetch(type(benchmark))
