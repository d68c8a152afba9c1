"""Plots of runs for notebooks and papers: each function draws on a matplotlib axis and returns it.

from chimera.eval.runs.plots import plot_rates, read_runs
plot_rates(read_runs(["runs/a.chi", "runs/b.chi"]))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chimera.errors import UsageError
from chimera.eval.runs.comparison import Comparison
from chimera.eval.runs.formats.tables import COLUMNS, trial_rows
from chimera.eval.runs.overview import RunSummary
from chimera.eval.runs.result import EvalResult
from chimera.eval.runs.store import RunStore
from chimera.text import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def read_runs(paths: Iterable[Path | str]) -> list[RunSummary]:
    """What runs came to, by the paths of their files."""
    found = []
    for path in paths:
        with RunStore(Path(path)) as store:
            found.append(RunSummary.of(store))
    return found


def trials_frame(paths: Iterable[Path | str]) -> Any:
    """The trials of several runs as one pandas DataFrame; the column `run` tells them apart."""
    try:
        import pandas
    except ImportError:
        raise UsageError(
            "this needs pandas, which is not installed: pip install 'chimera-eval[pandas]'"
        ) from None
    rows: list[Any] = []
    for path in paths:
        with RunStore(Path(path)) as store:
            rows.extend(trial_rows(store))
    return pandas.DataFrame(rows, columns=list(COLUMNS))


def plot_rates(runs: Sequence[RunSummary], axis: Axes | None = None) -> Axes:
    """Pass rates with their intervals; a faint line where trials without a verdict could lie."""
    axis = _axis(axis)
    for place, run in enumerate(runs):
        if run.rate is None or run.interval is None:
            continue
        low, high = run.interval
        axis.plot(run.bounds, [place, place], color="0.8", linewidth=6, zorder=1)
        axis.plot([low, high], [place, place], color="C0", zorder=2)
        axis.plot(run.rate, place, "o", color="C0", zorder=3)
    axis.set_yticks(range(len(runs)), [_plain(f"{run.who}, {run.benchmark}") for run in runs])
    axis.set_xlim(0, 1)
    axis.set_xlabel("passed")
    axis.invert_yaxis()
    return axis


def plot_differences(comparison: Comparison, axis: Axes | None = None) -> Axes:
    """Paired differences with their intervals; those that are beyond doubt are filled."""
    axis = _axis(axis)
    axis.axvline(0, color="0.6", linewidth=1)
    names = []
    for place, pair in enumerate(comparison.pairs):
        first, second = comparison.runs[pair.first], comparison.runs[pair.second]
        fill = "C0" if pair.differs else "none"
        axis.plot(pair.paired.interval, [place, place], color="C0")
        axis.plot(pair.paired.difference, place, "o", markerfacecolor=fill, color="C0")
        names.append(_plain(f"{second.name} − {first.name}"))
    axis.set_yticks(range(len(names)), names)
    axis.set_xlabel("difference of pass rates")
    axis.invert_yaxis()
    return axis


def plot_costs(runs: Sequence[RunSummary], axis: Axes | None = None) -> Axes:
    """Pass rate against what the run cost; runs of unknown cost are not shown."""
    axis = _axis(axis)
    for run in runs:
        if run.rate is None or run.interval is None or run.cost is None:
            continue
        axis.plot([run.cost, run.cost], run.interval, color="C0")
        axis.plot(run.cost, run.rate, "o", color="C0")
        axis.annotate(
            _plain(run.who), (run.cost, run.rate), xytext=(4, 4), textcoords="offset points"
        )
    axis.set_xlabel("cost (US dollars)")
    axis.set_ylabel("passed")
    return axis


def plot_pass_curves(result: EvalResult, axis: Axes | None = None) -> Axes:
    """pass@k and pass^k, up to the number of samples that every task has."""
    axis = _axis(axis)
    counts = [trials for trials, _ in result.samples_by_task().values()]
    numbers = range(1, min(counts, default=0) + 1)
    axis.plot(numbers, [result.pass_at(k) or 0.0 for k in numbers], "o-", label="pass@k")
    axis.plot(numbers, [result.pass_hat(k) or 0.0 for k in numbers], "s--", label="pass^k")
    axis.set_xlabel("k")
    axis.set_ylim(0, 1)
    axis.legend()
    return axis


def _axis(axis: Axes | None) -> Axes:
    if axis is not None:
        return axis
    try:
        from matplotlib import pyplot
    except ImportError:
        raise UsageError(
            "plots need matplotlib, which is not installed: pip install 'chimera-eval[plots]'"
        ) from None
    return pyplot.subplots()[1]


def _plain(text: str) -> str:
    """A name as text: matplotlib takes what is between two $ for mathematics."""
    return one_line(text).replace("$", r"\$")
