"""`chimera benchmarks`: every adapter with its state, from the records of `chimera validate`."""

from __future__ import annotations

from importlib.metadata import entry_points

import click
import msgspec

from chimera.cli.options import json_option, option
from chimera.cli.terminal import echo
from chimera.eval.proof.status import BenchmarkStatus, benchmark_states, markdown_table
from chimera.eval.registry import ENTRY_POINT_GROUP


@click.command("benchmarks")
@json_option
@option("--markdown", is_flag=True, help="The table of docs/benchmarks.md.")
def command(*, as_json: bool, markdown: bool) -> None:
    """List the benchmarks, what they are graded by, and what was measured of the grader.

    "tasks" is how many of all a record covers, "gold" how many reference answers passed, "no
    verdict" how many answers ended in an error, "nothing" how many empty ones passed, "mutants"
    how many wrong answers made from the gold ones were caught.
    """
    states = benchmark_states()
    if as_json:
        echo(msgspec.json.encode(states).decode())
    elif markdown:
        echo(markdown_table(states), nl=False)
    else:
        _print_table(states)
        plugins = sorted(entry.name for entry in entry_points(group=ENTRY_POINT_GROUP))
        if plugins:
            echo(f"\nPlug-ins: {', '.join(plugins)}")


def _print_table(states: list[BenchmarkStatus]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("name", "state", "tasks", "gold", "no verdict", "nothing", "mutants caught"):
        table.add_column(heading, no_wrap=True)
    table.add_column("graded as")
    table.add_column("what it asks")
    for state in states:
        table.add_row(
            state.slug, state.state, state.tasks, state.gold, state.no_verdict, state.nothing,
            state.mutants, state.graded_as, state.description,
        )  # fmt: skip
    Console().print(table)
