"""`chimera compare`: two or more runs over the same tasks, task by task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from chimera.cli.display import money
from chimera.cli.names import COMPLETERS
from chimera.cli.options import Number, Whole, json_option, option, runs_dir_option
from chimera.cli.terminal import echo
from chimera.errors import ExitCode, UsageError
from chimera.eval.runs.comparison import (
    ALPHA,
    Comparison,
    Gate,
    Pair,
    RunRate,
    compare_runs,
    gate,
    read_scores,
)
from chimera.eval.runs.files import find_run, runs_dir
from chimera.text import one_line


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, shell_complete=COMPLETERS["resume"])
@option("--show", type=Whole(0), default=20, help="How many differing tasks to list.")
@option("--gate", "gated", is_flag=True,
        help="Exit 1 when a run is significantly worse than the first.")  # fmt: skip
@option("--margin", type=Number(0, 1, min_open=True),
        help="With --gate: exit 1 unless shown to be worse by less (0.02: 2 points).")  # fmt: skip
@option("--alpha", type=Number(1e-9, 0.5, max_open=True), default=ALPHA,
        help="Chance of a wrong gate: a false alarm; with --margin, a false pass.")  # fmt: skip
@runs_dir_option
@json_option
def command(
    *,
    runs: tuple[str, ...],
    show: int,
    gated: bool,
    margin: float | None,
    alpha: float,
    runs_dir: Path | None,
    as_json: bool,
) -> int:
    """Compare RUNS on the tasks that all of them have trials of.

    A trial without a verdict counts as not passed, and the bounds say what that can make. The unit
    is the task: samples of one count as one. Two runs are compared by McNemar's exact test, or by
    flipping signs where tasks have several samples; of more than two, all pairs, with Holm's
    correction, and those that cannot be told apart from the best. See docs/statistics.md.

    \b
    Examples:
      chimera compare RUN_A RUN_B
      chimera compare RUN_A RUN_B RUN_C --json
      chimera compare BASELINE NEW --gate                # fails on a significant regression
      chimera compare BASELINE NEW --gate --margin 0.02  # fails unless shown to be no worse

    \b
    Exit codes: 0 done or gate passed, 1 gate not met, 2 wrong usage,
    3 the gate depends on trials without a verdict.
    """
    if len(runs) < 2:
        raise UsageError("give two runs or more: chimera compare RUN_A RUN_B")
    if margin is not None and not gated:
        raise UsageError("--margin belongs to --gate")
    scores = read_scores([find_run(name, _directory(runs_dir)) for name in runs])
    comparison = compare_runs(scores)
    decided = gate(scores, margin=margin, alpha=alpha) if gated else None
    if as_json:
        echo(msgspec.json.encode(_document(comparison, decided)).decode())
    else:
        print_comparison(comparison, show=show)
        if decided is not None:
            _print_gate(decided)
    return ExitCode.DONE if decided is None else _code(decided)


def _directory(configured: Path | None) -> Path:
    return runs_dir(configured)


def _code(decided: Gate) -> ExitCode:
    if decided.passed is None:
        return ExitCode.INCOMPLETE
    return ExitCode.DONE if decided.passed else ExitCode.GATE


def _document(comparison: Comparison, decided: Gate | None) -> dict[str, object]:
    document = {
        **msgspec.to_builtins(comparison, enc_hook=list),
        "best": comparison.best,
        "conclusion": comparison.conclusion,
    }
    return document if decided is None else {**document, "gate": msgspec.to_builtins(decided)}


def print_comparison(comparison: Comparison, *, show: int) -> None:
    """Rates, pairs, what differs, and what can be concluded."""
    letters = [_letter(place) for place in range(len(comparison.runs))]
    echo(f"{comparison.tasks} tasks in {'both' if len(letters) == 2 else 'all'}")
    for letter, run, left_out in zip(letters, comparison.runs, comparison.left_out, strict=True):
        best = "*" if len(letters) > 2 and run.among_best else " "
        echo(f" {best}{letter} {_rate(run)}  {one_line(run.name)}{_left_out(left_out)}")
    if len(letters) > 2:
        echo("  * cannot be told apart from the best")
    for pair in comparison.pairs:
        _print_pair(pair, letters, several=len(letters) > 2)
    if len(letters) == 2:
        _print_tasks(comparison.pairs[0], letters, show)
    for note in comparison.notes:
        echo(f"  note: {note}")
    echo(comparison.conclusion)


def _letter(place: int) -> str:
    return chr(ord("A") + place) if place < 26 else f"#{place + 1}"


def _rate(run: RunRate) -> str:
    low, high = run.interval
    errors = ""
    if run.without_verdict:
        errors = f", no verdict {run.without_verdict}: {run.bounds[0]:.1%} to {run.bounds[1]:.1%}"
    return f"{run.rate:6.1%}  ({low:.1%} to {high:.1%}{errors})  {money(run.cost)}"


def _left_out(count: int) -> str:
    return f"  ({count} more tasks)" if count else ""


def _print_pair(pair: Pair, letters: Sequence[str], *, several: bool) -> None:
    paired, (low, high) = pair.paired, pair.paired.interval
    p = f"p = {paired.p_value:.4f}" + (f", adjusted {pair.adjusted:.4f}" if several else "")
    test = "McNemar exact" if paired.mcnemar is not None else "sign flips"
    names = f"{letters[pair.second]} − {letters[pair.first]}"
    counts = f"{len(paired.only_second)} better, {len(paired.only_first)} worse"
    echo(
        f"  {names} {paired.difference:+.1%}  (95% interval {low:+.1%} to {high:+.1%})  "
        f"{counts}  {test} {p}"
    )
    if pair.bounds[0] < paired.difference - 1e-12 or pair.bounds[1] > paired.difference + 1e-12:
        low, high = pair.bounds
        echo(f"    with the trials that have no verdict: between {low:+.1%} and {high:+.1%}")


def _print_tasks(pair: Pair, letters: Sequence[str], show: int) -> None:
    for letter, tasks in zip(
        letters, (pair.paired.only_first, pair.paired.only_second), strict=True
    ):
        more = f", … ({len(tasks) - show} more)" if len(tasks) > show else ""
        echo(f"  better in {letter}: {len(tasks)}  {', '.join(map(one_line, tasks[:show]))}{more}")


def _print_gate(decided: Gate) -> None:
    word = {True: "gate passed", False: "gate not met", None: "gate undecided"}[decided.passed]
    for reason in decided.reasons:
        echo(f"{word}: {reason}", err=True)
