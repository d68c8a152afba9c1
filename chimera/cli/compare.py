"""`chimera compare`: two runs over the same tasks, task by task."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from chimera.cli.names import COMPLETERS
from chimera.cli.options import json_option, option, runs_dir_option
from chimera.cli.terminal import echo
from chimera.errors import UsageError
from chimera.eval.runs.files import find_run, runs_dir
from chimera.eval.runs.result import benchmark_of
from chimera.eval.runs.stats import PairedComparison, compare_paired
from chimera.eval.runs.store import RunStore, StoredStatus
from chimera.text import one_line


@click.command("compare")
@click.argument("first", shell_complete=COMPLETERS["resume"])
@click.argument("second", shell_complete=COMPLETERS["resume"])
@option("--show", type=click.IntRange(0), default=20, help="How many differing tasks to list.")
@runs_dir_option
@json_option
def command(*, first: str, second: str, show: int, runs_dir: Path | None, as_json: bool) -> None:
    """Compare run FIRST with run SECOND on the tasks that both have trials of.

    A trial without a verdict counts as not passed. The interval is a bootstrap over tasks;
    McNemar's exact test and a paired permutation test say how likely such a difference is when the
    two are equally good.
    """
    scores = [_scores(name, runs_dir) for name in (first, second)]
    if scores[0][0] != scores[1][0]:
        raise UsageError(f"these are runs of different benchmarks: {scores[0][0]}, {scores[1][0]}")
    comparison = compare_paired(scores[0][1], scores[1][1])
    if comparison.tasks == 0:
        raise UsageError("the two runs have no task in common")
    if as_json:
        echo(msgspec.json.encode(comparison).decode())
        return
    _print(comparison, first, second, show)


def _scores(name: str, runs: Path | None) -> tuple[str, dict[str, list[float]]]:
    scores: dict[str, list[float]] = {}
    with RunStore(find_run(name, runs_dir(runs))) as store:
        query = "SELECT task_id, status FROM trials"
        for task, status in store.rows(tuple[str, StoredStatus], query):
            scores.setdefault(task, []).append(float(status == "passed"))
        return benchmark_of(store.manifest()), scores


def _print(comparison: PairedComparison, first: str, second: str, show: int) -> None:
    low, high = comparison.interval
    echo(f"{comparison.tasks} tasks in both")
    echo(f"  A {comparison.first_rate:6.1%}  {first}")
    echo(f"  B {comparison.second_rate:6.1%}  {second}")
    echo(f"  B − A {comparison.difference:+.1%}  (95% interval {low:+.1%} to {high:+.1%})")
    if comparison.mcnemar is not None:
        echo(f"  McNemar exact p = {comparison.mcnemar:.4f}")
    echo(f"  paired permutation p = {comparison.permutation:.4f}")
    for title, tasks in (
        ("better in A", comparison.only_first),
        ("better in B", comparison.only_second),
    ):
        more = f", … ({len(tasks) - show} more)" if len(tasks) > show else ""
        echo(f"  {title}: {len(tasks)}  {', '.join(map(one_line, tasks[:show]))}{more}")
