"""Runs over the same tasks, two or more, set beside each other: what can be concluded of them."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from chimera.errors import UsageError
from chimera.eval.filed import Coded, Filed
from chimera.eval.runs import stats
from chimera.eval.runs.power import detectable
from chimera.eval.runs.result import benchmark_of
from chimera.eval.runs.store import Count, Money, RunStore, Seconds
from chimera.eval.values import content_digest
from chimera.text import one_line
from chimera.types import JSON

ALPHA = 0.05


class TaskCounts(NamedTuple):
    """What the trials of one task came to."""

    trials: Count
    passed: Count
    without_verdict: Count

    @property
    def rate(self) -> float:
        """With a trial without a verdict as not passed."""
        return self.passed / self.trials

    @property
    def highest_rate(self) -> float:
        """As if every trial without a verdict had passed."""
        return (self.passed + self.without_verdict) / self.trials


class StoredCounts(Mapping[str, TaskCounts]):
    """The tasks of a stored run with their counts, read from its file whenever they are asked for:
    of however many tasks, none is kept."""

    _QUERY = (
        "SELECT task_id, count(*), sum(status = 'passed'), sum(status IN ('error', 'submitted')) "
        "FROM trials"
    )

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def in_order(self) -> Iterator[tuple[str, TaskCounts]]:
        """All of them in the order of their names."""
        query = f"{self._QUERY} GROUP BY task_id ORDER BY task_id"
        last: str | None = None
        for task, *counts in self._store.rows(tuple[str, Count, Count, Count], query):
            if last is not None and task <= last:
                raise UsageError(f"{self._store.path} is damaged: its tasks are in no order")
            last = task
            yield task, TaskCounts(*counts)

    def __getitem__(self, task: str) -> TaskCounts:
        query = f"{self._QUERY} WHERE task_id = ? GROUP BY task_id"
        for _, *counts in self._store.rows(tuple[str, Count, Count, Count], query, (task,)):
            return TaskCounts(*counts)
        raise KeyError(task)

    def __iter__(self) -> Iterator[str]:
        return (task for task, _ in self.in_order())

    def __len__(self) -> int:
        ((count,),) = self._store.rows(tuple[Count], "SELECT count(DISTINCT task_id) FROM trials")
        return count


@dataclass(frozen=True, slots=True)
class RunScores:
    """What a comparison needs of a run."""

    name: str
    benchmark: str
    who: str  # the model, or the agent that has none
    tasks: Mapping[str, TaskCounts]
    not_run: int = 0
    cost: float | None = None
    seconds: float = 0.0
    #: What must be the same for scores to be comparable: the digests of tasks and grader.
    basis: Mapping[str, JSON] | None = None

    @classmethod
    def of(cls, store: RunStore) -> RunScores:
        """Of a run's file, from which the tasks are read as long as it is open."""
        total, cost, seconds, unknown = 0, 0.0, 0.0, False
        query = "SELECT cost, duration FROM trials"
        for spent, took in store.rows(tuple[Money | None, Seconds], query):
            total, cost, seconds = total + 1, cost + (spent or 0.0), seconds + took
            unknown = unknown or spent is None
        manifest = store.manifest()
        return cls(
            name=Path(store.path).stem,
            benchmark=benchmark_of(manifest),
            who=str(manifest.get("model") or manifest.get("agent") or "?"),
            tasks=StoredCounts(store),
            not_run=max(0, manifest.get("planned", total) - total),
            cost=None if unknown else cost,
            seconds=seconds,
            basis=basis_of(manifest),
        )

    def in_order(self) -> Iterator[tuple[str, TaskCounts]]:
        """The tasks with their counts, in the order of their names."""
        if isinstance(self.tasks, StoredCounts):
            return self.tasks.in_order()
        return iter(sorted(self.tasks.items()))


def basis_of(manifest: Mapping[str, JSON]) -> dict[str, JSON]:
    """By what a run was judged: as it was made, or when it was graded again."""
    identity, dataset = manifest.get("identity", {}), manifest.get("dataset")
    again = manifest.get("graded_again")
    return {
        "data set": dataset.get("sha256") if isinstance(dataset, Mapping) else None,
        "grader": identity.get("grader"),
        "options": identity.get("options"),
        **(again if isinstance(again, Mapping) else {}),
    }


@dataclass(frozen=True, slots=True)
class RunRate:
    """A run's rate over the tasks that are compared; each task counts the same."""

    name: str
    who: str
    rate: float
    interval: stats.Interval
    bounds: stats.Interval  # if all trials without a verdict failed, and if all passed
    without_verdict: int
    cost: float | None
    seconds: float
    among_best: bool


@dataclass(frozen=True, slots=True)
class Pair:
    """The second run against the first; `first` and `second` are places in the list of runs."""

    first: int
    second: int
    paired: stats.PairedComparison
    adjusted: float  # the p-value after Holm's correction for all pairs
    #: The same, whatever the trials without a verdict were.
    sure: float
    bounds: stats.Interval  # of the difference, by what trials without a verdict could have been

    @property
    def differs(self) -> bool:
        return self.sure <= ALPHA


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that is known of two or more runs over the tasks that every one of them has."""

    tasks: int
    left_out: tuple[int, ...]  # tasks of each run that another one does not have
    runs: tuple[RunRate, ...]
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...]

    @property
    def best(self) -> tuple[str, ...]:
        """The runs that cannot be told apart from the best: it is one of them, surely at 95 %."""
        return tuple(run.name for run in self.runs if run.among_best)

    @property
    def conclusion(self) -> str:
        """What can be concluded, in a sentence."""
        if len(self.runs) == 2:
            return _conclusion_of_two(self.pairs[0], [one_line(run.name) for run in self.runs])
        names = ", ".join(map(one_line, self.best))
        told = sum(pair.differs for pair in self.pairs)
        if len(self.best) == 1:
            return f"{names} is the best; {told} of {len(self.pairs)} pairs differ."
        return (
            f"The best is among {len(self.best)} runs that cannot be told apart from it ({names}); "
            f"{told} of {len(self.pairs)} pairs differ."
        )


def _conclusion_of_two(pair: Pair, names: Sequence[str]) -> str:
    paired = pair.paired
    low, high = paired.interval
    better, worse = (1, 0) if paired.difference > 0 else (0, 1)
    if pair.adjusted <= ALPHA < pair.sure:
        return (
            f"{names[better]} passed more than {names[worse]} ({abs(paired.difference):.1%}; "
            f"p = {paired.p_value:.2g}), but the trials without a verdict could turn this "
            f"({pair.bounds[0]:+.1%} to {pair.bounds[1]:+.1%})."
        )
    if pair.differs:
        sign = 1 if better else -1
        ends = sorted((sign * low, sign * high))
        return (
            f"{names[better]} is better than {names[worse]}, by {abs(paired.difference):.1%} "
            f"({ends[0]:+.1%} to {ends[1]:+.1%}; p = {paired.p_value:.2g})."
        )
    least = detectable(paired.deviation, paired.tasks)
    beyond = f" differences below about {least:.1%} are seldom seen with them." if least else ""
    return (
        f"No difference can be seen over these {paired.tasks} tasks "
        f"(p = {paired.p_value:.2g}; {low:+.1%} to {high:+.1%} are possible);{beyond}".rstrip(";")
    )


def read_scores(paths: Sequence[Path]) -> list[RunScores]:
    """The scores of stored runs, of one benchmark; their files stay open to be read from."""
    scores = [RunScores.of(RunStore(path)) for path in paths]
    stems = [run.name for run in scores]
    if len(set(stems)) < len(set(paths)):  # a sentence on two runs of one name says nothing
        scores = [
            replace(run, name=str(path) if stems.count(run.name) > 1 else run.name)
            for run, path in zip(scores, paths, strict=True)
        ]
    names = list(dict.fromkeys(run.benchmark for run in scores))
    if len(names) > 1:
        raise UsageError(f"these are runs of different benchmarks: {', '.join(names)}")
    return scores


def compare_runs(runs: Sequence[RunScores]) -> Comparison:
    """Compare all pairs over the tasks that all have; a trial without a verdict has not passed."""
    aligned = _Aligned(runs)
    pairs = list(combinations(range(len(runs)), 2))
    compared = [aligned.compare(a, b) for a, b in pairs]
    adjusted = stats.holm([paired.p_value for paired in compared])
    doubts = [aligned.doubt(a, b, paired) for (a, b), paired in zip(pairs, compared, strict=True)]
    beaten = _beaten(pairs, compared, doubts, len(runs))
    return Comparison(
        tasks=len(aligned.tasks),
        left_out=tuple(len(run.tasks) - len(aligned.tasks) for run in runs),
        runs=tuple(aligned.rate(i, among_best=i not in beaten) for i in range(len(runs))),
        pairs=tuple(
            Pair(a, b, paired, p, sure, aligned.difference_bounds(a, b))
            for (a, b), paired, p, sure in zip(
                pairs, compared, adjusted, stats.holm(doubts), strict=True
            )
        ),
        notes=tuple(notes_on(runs)),
    )


def _beaten(
    pairs: Sequence[tuple[int, int]],
    compared: Sequence[stats.PairedComparison],
    doubts: Sequence[float],
    runs: int,
) -> set[int]:
    """The runs that another one is better than, beyond doubt.

    The best run is compared with all others, so it is among these wrongly with a chance of at most
    α when each of its comparisons has the level α / (runs - 1).
    """
    return {
        a if paired.difference > 0 else b
        for (a, b), paired, doubt in zip(pairs, compared, doubts, strict=True)
        if doubt * (runs - 1) <= ALPHA
    }


Rate = Callable[[TaskCounts], float]


def _lowest(count: TaskCounts) -> float:
    return count.rate


def _highest(count: TaskCounts) -> float:
    return count.highest_rate


class _Aligned:
    """Runs by the tasks that all of them have, in one order."""

    def __init__(self, runs: Sequence[RunScores]) -> None:
        if len(runs) < 2:
            raise UsageError("a comparison needs two runs at the least")
        self.runs = runs
        self.tasks: Filed[str] = Filed()
        known: dict[tuple[TaskCounts, ...], int] = {}
        codes = array("I")
        for task, counts in _common(runs):
            self.tasks.append(task)
            codes.append(known.setdefault(counts, len(known)))
        if not self.tasks:
            raise UsageError("the runs have no task in common")
        self.counts = [
            Coded([counts[place] for counts in known], codes) for place in range(len(runs))
        ]
        self.rates = [counts.mapped(_lowest) for counts in self.counts]
        self.highest = [counts.mapped(_highest) for counts in self.counts]

    def compare(self, first: int, second: int) -> stats.PairedComparison:
        return stats.compare_aligned(self.tasks, self.rates[first], self.rates[second])

    @cached_property
    def bounds(self) -> list[stats.Interval]:
        return [
            (_mean(rates), _mean(highest))
            for rates, highest in zip(self.rates, self.highest, strict=True)
        ]

    def doubt(self, first: int, second: int, paired: stats.PairedComparison) -> float:
        """The p-value if trials without a verdict speak against the run that passed more."""
        if not paired.difference:
            return 1.0
        if all(self.rates[i].values == self.highest[i].values for i in (first, second)):
            return paired.p_value
        if paired.difference > 0:
            lower, upper = self.highest[first], self.rates[second]
        else:
            lower, upper = self.highest[second], self.rates[first]
        if _mean(upper) <= _mean(lower):
            return 1.0
        return max(paired.p_value, stats.paired_p_value(lower, upper))

    def difference_bounds(self, first: int, second: int) -> stats.Interval:
        a, b = self.bounds[first], self.bounds[second]
        return (b[0] - a[1], b[1] - a[0])

    def rate(self, place: int, *, among_best: bool) -> RunRate:
        run, rates, highest = self.runs[place], self.rates[place], self.highest[place]
        return RunRate(
            name=run.name,
            who=run.who,
            rate=_mean(rates),
            interval=(_rate_interval(rates)[0], _rate_interval(highest)[1]),
            bounds=self.bounds[place],
            without_verdict=sum(count.without_verdict for count in self.counts[place]),
            cost=run.cost,
            seconds=run.seconds,
            among_best=among_best,
        )


def _common(runs: Sequence[RunScores]) -> Iterator[tuple[str, tuple[TaskCounts, ...]]]:
    """The tasks that all runs have, in the order of their names, with their counts in each."""
    merged = heapq.merge(*(run.in_order() for run in runs), key=itemgetter(0))
    for task, found in groupby(merged, key=itemgetter(0)):
        counts = tuple(count for _, count in found)
        if len(counts) == len(runs):
            yield task, counts


def _rate_interval(rates: Coded[float]) -> stats.Interval:
    if all(rate in (0.0, 1.0) for rate in rates.values):
        return stats.wilson(sum(rates), len(rates))
    return stats.mean_interval(rates)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def notes_on(runs: Sequence[RunScores]) -> list[str]:
    """What a reader must know before believing the numbers."""
    return differences(runs) + [
        f"{one_line(run.name)}: {run.not_run} planned trials were not run"
        for run in runs
        if run.not_run
    ]


def differences(runs: Sequence[RunScores]) -> list[str]:
    """What the runs were not judged alike by; of what only some runs say, that it is not known."""
    notes = []
    for what in ("data set", "grader", "options"):
        known = [(run.basis or {}).get(what) for run in runs]
        if len({content_digest(value) for value in known if value is not None}) > 1:
            notes.append(f"the runs differ in their {what}: scores may not be comparable")
        elif None in known and any(value is not None for value in known):
            notes.append(f"the {what} of some of the runs is not known")
    return notes


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether candidates may pass; None when the runs do not show that."""

    passed: bool | None
    reasons: tuple[str, ...]


def gate(runs: Sequence[RunScores], *, margin: float | None = None, alpha: float = ALPHA) -> Gate:
    """Judge every further run against the first.

    Without a margin it fails on a significant regression (one-sided, Holm over the candidates).
    With one, it passes only when each candidate is shown to be worse by less than the margin. It
    is decided twice: by what trials without a verdict could have been, for and against. Runs that
    were not judged alike, not run whole, or without some of the first one's tasks decide nothing.
    """
    aligned = _Aligned(runs)
    worst, reasons = _gated(aligned, margin, alpha, first=_highest, other=_lowest)
    if any(low != high for low, high in aligned.bounds):
        best, _ = _gated(aligned, margin, alpha, first=_lowest, other=_highest)
        if worst != best:
            return Gate(None, (*reasons, "trials without a verdict could turn this"))
    doubts = notes_on(runs)
    if missing := len(runs[0].tasks) - len(aligned.tasks):
        doubts.append(f"{missing} tasks of {one_line(runs[0].name)} are not in every other run")
    return Gate(None, (*reasons, *doubts)) if doubts else Gate(worst, tuple(reasons))


def _gated(
    aligned: _Aligned, margin: float | None, alpha: float, *, first: Rate, other: Rate
) -> tuple[bool, list[str]]:
    base = aligned.counts[0].mapped(first)
    compared = [
        stats.compare_aligned(aligned.tasks, base, counts.mapped(other), confidence=1 - 2 * alpha)
        for counts in aligned.counts[1:]
    ]
    names = [one_line(run.name) for run in aligned.runs[1:]]
    if margin is not None:
        shown = [paired.interval[0] > -margin for paired in compared]
        return all(shown), [
            f"{name}: {'' if good else 'not '}shown to be worse by less than {margin:.1%} "
            f"(difference {paired.difference:+.1%}, at least {paired.interval[0]:+.1%})"
            for name, paired, good in zip(names, compared, shown, strict=True)
        ]
    adjusted = stats.holm([_worse(paired) for paired in compared])
    return all(p > alpha for p in adjusted), [
        f"{name}: {'no significant' if p > alpha else 'a significant'} regression "
        f"(difference {paired.difference:+.1%}, p = {p:.2g})"
        for name, paired, p in zip(names, compared, adjusted, strict=True)
    ]


def _worse(paired: stats.PairedComparison) -> float:
    """The p-value of the one-sided test whether the second run is worse."""
    return paired.p_value / 2 if paired.difference < 0 else 1.0
