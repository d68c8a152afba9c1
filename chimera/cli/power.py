"""`chimera power`: how many tasks and samples a difference needs to be seen."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from chimera.cli.options import SHARE, Whole, json_option, option, runs_dir_option
from chimera.cli.terminal import echo
from chimera.errors import UsageError
from chimera.eval.runs import power
from chimera.eval.runs.comparison import RunScores, read_scores
from chimera.eval.runs.files import find_run, runs_dir

SAMPLES = (1, 2, 3, 5, 10)


@click.command("power")
@click.argument("runs", nargs=-1)
@option("--difference", "-d", type=SHARE, help="The difference to be seen (0.03: three points).")
@option("--margin", type=SHARE, help="Or: the margin by which a run must not be worse.")
@option("--rate", type=SHARE, default=0.5, help="Without RUNS: the pass rate to be expected.")
@option("--tasks", type=Whole(2), help="Or: the difference that so many tasks show.")
@option("--power", "chance", type=SHARE, default=power.POWER, help="Chance to see it.")
@option("--alpha", type=SHARE, default=power.ALPHA, help="Chance of a false alarm.")
@runs_dir_option
@json_option
def command(
    *,
    runs: tuple[str, ...],
    difference: float | None,
    margin: float | None,
    rate: float,
    tasks: int | None,
    chance: float,
    alpha: float,
    runs_dir: Path | None,
    as_json: bool,
) -> None:
    """How many tasks × samples show a difference between two runs over the same tasks.

    What tasks vary by is read from two RUNS that are like those planned, from one, or follows from
    the rate: then the runs are taken to be independent, and more samples of a task to be no help.

    \b
    Examples:
      chimera power --difference 0.03 --rate 0.6
      chimera power RUN_A RUN_B --difference 0.03
      chimera power RUN_A RUN_B --margin 0.02     # to show that B is not worse by two points
      chimera power RUN --tasks 500               # which difference 500 tasks show
    """
    if sum(value is not None for value in (difference, margin, tasks)) != 1:
        raise UsageError("give one of --difference, --margin and --tasks")
    paths = [find_run(name, _directory(runs_dir)) for name in runs]
    spread = _spread(read_scores(paths), rate, difference or 0.0)
    target = difference or margin
    rows = []
    for samples in SAMPLES:
        variance = spread.variance(samples)
        if target is None:
            assert tasks is not None
            found = power.detectable(variance**0.5, tasks, power=chance, alpha=alpha)
            rows.append({"samples": samples, "tasks": tasks, "difference": found})
        else:
            needed = power.tasks_needed(
                target, variance, power=chance, alpha=alpha, margin=margin is not None
            )
            rows.append({"samples": samples, "tasks": needed, "difference": target})
    if as_json:
        document = {"power": chance, "alpha": alpha, "spread": spread, "rows": rows}
        echo(msgspec.json.encode(document).decode())
        return
    what = "not to be worse by" if margin is not None else "to see a difference of"
    echo(f"{what}, with a chance of {chance:.0%} (α = {alpha:g}):")
    for row in rows:
        echo(f"  {row['difference']:6.1%}  {row['tasks']:>9,} tasks × {row['samples']} samples")
    if spread.assumed:
        echo(f"  assumed: {spread.assumed}")


def _directory(configured: Path | None) -> Path:
    return runs_dir(configured)


def _spread(scores: list[RunScores], rate: float, difference: float) -> power.Spread:
    counts = [
        {task: (count.trials, count.passed) for task, count in run.in_order()} for run in scores
    ]
    if len(counts) > 2:
        raise UsageError("give at most two runs")
    if len(counts) == 2:
        if not counts[0].keys() & counts[1].keys():
            raise UsageError("the runs have no task in common")
        return power.spread_of_runs(*counts)
    if counts:
        return power.spread_of_run(counts[0].values())
    if rate + difference > 1:
        raise UsageError(f"no run is better than {rate:.1%} by {difference:.1%}; set --rate")
    return power.spread_of_rates(rate, rate + difference)
