"""`chimera prepare`: everything that a benchmark needs, fetched before the first run."""

from __future__ import annotations

import click

from chimera.cli.evaluation import make_ready
from chimera.cli.names import COMPLETERS
from chimera.cli.options import option
from chimera.cli.pulling import fetch_absent
from chimera.cli.terminal import echo
from chimera.errors import ExitCode
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.run import RunSettings


@click.command("prepare")
@click.argument("name", shell_complete=COMPLETERS["benchmark"])
@option("--dataset", help="The data set's file or directory.")
@option("--option", "-o", "options", multiple=True, help="KEY=VALUE for the benchmark.")
def command(*, name: str, dataset: str | None, options: tuple[str, ...]) -> int:
    """Fetch what benchmark NAME needs: its data, and the packages that its tests use.

    What is there already is kept. What only you can bring (a compiler, a site) is listed with the
    command that installs it; exit code 3 when something is.

    \b
    Examples:
      chimera prepare humaneval-plus
      chimera prepare aider-polyglot --option language=go
    """
    benchmark = RunSettings(name, dataset=dataset, option=options).create_benchmark()
    if isinstance(benchmark, DatasetBenchmark) and dataset is None:
        fetch_absent(benchmark)
    make_ready(benchmark)
    lacks = benchmark.missing()
    for lack in lacks:
        echo(f"missing: {lack.what}: {lack.remedy}")
    if not lacks:
        echo(f"{benchmark.name()} is ready")
    return ExitCode.INCOMPLETE if lacks else ExitCode.DONE
