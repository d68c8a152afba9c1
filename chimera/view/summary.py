"""A run in numbers, out of its index: rates with intervals, groups, reasons, what is plotted."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import NormalDist
from typing import NamedTuple

from chimera.eval.runs import stats
from chimera.types import JSON
from chimera.view.index import GROUNDS, PROOFS, STATUSES, Index

BUCKETS = 60
COST_PARTS = 8
MOST_REASONS = 30
MOST_GROUPS = 60
#: Beyond, what a bootstrap over tasks tends to is taken, there as here.
MOST_RESAMPLED = 5000
_Z95 = NormalDist().inv_cdf(0.975)


class Shape(NamedTuple):
    """How many trials a task has, how many passed, and how many have no verdict."""

    trials: int
    passed: int
    errors: int


class Counted:
    """Tasks counted by their shapes: enough for every rate and interval.

    A rate is over all trials, so that an error never raises it; its interval has room for what
    those without a verdict could have been.
    """

    def __init__(self) -> None:
        self.shapes: defaultdict[Shape, int] = defaultdict(int)
        self.unpriced, self.cost, self.seconds = 0, 0.0, 0.0

    def add(
        self, shape: Shape, tasks: int, unpriced: int = 0, cost: float = 0.0, seconds: float = 0.0
    ) -> None:
        """Add tasks of one shape, with the cost and the seconds of all of them."""
        self.shapes[shape] += tasks
        self.unpriced += unpriced
        self.cost, self.seconds = self.cost + cost, self.seconds + seconds

    def join(self, other: Counted) -> None:
        for shape, tasks in other.shapes.items():
            self.shapes[shape] += tasks
        self.unpriced += other.unpriced
        self.cost, self.seconds = self.cost + other.cost, self.seconds + other.seconds

    @property
    def tasks(self) -> int:
        return sum(self.shapes.values())

    def _sum(self, place: int) -> int:
        return sum(shape[place] * tasks for shape, tasks in self.shapes.items())

    @property
    def trials(self) -> int:
        return self._sum(0)

    @property
    def passed(self) -> int:
        return self._sum(1)

    @property
    def errors(self) -> int:
        return self._sum(2)

    @property
    def rate(self) -> float | None:
        return self.passed / self.trials if self.trials > self.errors else None

    def interval(self) -> stats.Interval | None:
        """Wilson's for one sample a task, else by the standard error over whole tasks."""
        if self.rate is None:
            return None
        lowest = self._interval([(n, c, count) for (n, c, _), count in self.shapes.items()])
        highest = self._interval([(n, c + e, count) for (n, c, e), count in self.shapes.items()])
        return (lowest[0], highest[1])

    def _interval(self, shapes: Iterable[tuple[int, int, int]]) -> stats.Interval:
        """By trials, passes and how many tasks have these."""
        found = list(shapes)
        tasks, trials = self.tasks, self.trials
        rate = sum(passed * count for _, passed, count in found) / trials
        squares = math.fsum(count * (passed - rate * n) ** 2 for n, passed, count in found)
        if tasks < stats.FEW_TASKS or tasks == trials or not squares:
            return stats.wilson(rate * tasks, tasks)
        spread = _Z95 * math.sqrt(squares) / trials
        return (max(0.0, rate - spread), min(1.0, rate + spread))

    def curve(self, most: int = 32) -> list[JSON]:
        """pass@k and pass^k for each k that every task has trials for."""
        shapes = {shape: tasks for shape, tasks in self.shapes.items() if shape.trials}
        if not shapes:
            return []
        least, total = min(shape.trials for shape in shapes), sum(shapes.values())
        return [
            {
                "k": k,
                "at": math.fsum(n * stats.pass_at_k(*s[:2], k) for s, n in shapes.items()) / total,
                "hat": math.fsum(n * stats.pass_hat_k(*s[:2], k) for s, n in shapes.items())
                / total,
            }
            for k in range(1, min(least, most) + 1)
        ]

    def described(self) -> dict[str, JSON]:
        return {
            "tasks": self.tasks,
            "trials": self.trials,
            "passed": self.passed,
            "errors": self.errors,
            "rate": self.rate,
            "interval": self.interval(),
            "cost": None if self.unpriced else self.cost,
            "seconds": self.seconds,
        }


def summarise(index: Index) -> dict[str, JSON]:
    """Everything that a run's page says of the whole run."""
    kinds = _by_kind(index)
    whole = _merged(kinds.values())
    totals = _totals(index)
    return {
        **totals,
        "tasks": whole.tasks,
        "interval": _interval(index, whole),
        "curve": whole.curve(),
        "groups": _groups(kinds, index.kinds()),
        "reasons": _reasons(index),
        "seconds": _percentiles(index, totals["total"]),
        "timeline": _timeline(index, totals),
        "by_cost": _by_cost(index, totals),
        "metrics": _metrics(index),
    }


def _interval(index: Index, whole: Counted) -> stats.Interval | None:
    """The one that the command line prints."""
    if whole.tasks > MOST_RESAMPLED or whole.tasks == whole.trials or whole.rate is None:
        return whole.interval()
    query = "SELECT trials, passed, errors FROM task WHERE trials ORDER BY name"
    return stats.outer_interval(index.rows(query))


def _by_kind(index: Index) -> dict[int, Counted]:
    found: dict[int, Counted] = {}
    query = (
        "SELECT kind, trials, passed, errors, count(*), sum(unpriced), total(cost), "
        "total(seconds) FROM task WHERE trials GROUP BY kind, trials, passed, errors"
    )
    for kind, trials, passed, errors, *rest in index.rows(query):
        found.setdefault(kind, Counted()).add(Shape(trials, passed, errors), *rest)
    return found


def _merged(parts: Iterable[Counted]) -> Counted:
    whole = Counted()
    for part in parts:
        whole.join(part)
    return whole


def _groups(
    kinds: Mapping[int, Counted], groups: Mapping[int, Mapping[str, str]]
) -> dict[str, JSON]:
    """key → its values with their counts, the most frequent first; keys with one value left out."""
    members: defaultdict[str, defaultdict[str, list[Counted]]]
    members = defaultdict(lambda: defaultdict(list))
    for kind, part in kinds.items():
        for key, value in groups.get(kind, {}).items():
            members[key][value].append(part)
    return {
        key: sorted(
            ({"value": value, **_merged(parts).described()} for value, parts in values.items()),
            key=lambda row: (-row["trials"], row["value"]),
        )[:MOST_GROUPS]
        for key, values in sorted(members.items())
        if len(values) > 1
    }


def _totals(index: Index) -> dict[str, JSON]:
    query = (
        "SELECT count(*), total(status = 0), total(status = 1), total(status = 2), "
        "total(status = 3), total(cost), count(cost), total(input_tokens), total(output_tokens), "
        "total(cached_tokens), total(steps), min(nullif(started, 0)), max(started + seconds), "
        "total(corrected IS NOT NULL), total(corrected), "
        "total(status = 0 AND corrected IS NOT NULL), total(rewarded), "
        "total(rewarded AND status = 0) FROM trial"
    )
    ((total, passed, failed, error, waiting, cost, priced, *rest),) = index.rows(query)
    fed, said, cached, steps, first, last, known, corrected, official, rewarded, uninformative = (
        rest
    )
    rests = _rests(index)
    changed = total and known and corrected != official
    return {
        "total": total,
        "passed": int(passed),
        "failed": int(failed),
        "error": int(error),
        "submitted": int(waiting),
        "cost": cost if priced == total else None,
        "tokens": {"input": int(fed), "output": int(said), "cached": int(cached)},
        "steps": int(steps),
        "first": first,
        "last": last,
        "corrected_rate": (passed - official + corrected) / total if changed else None,
        "uninformative": int(uninformative),
        "informative_rate": (passed - uninformative) / (total - rewarded)
        if rewarded and total > rewarded
        else None,
        "uncontrolled": sum(rests.get(f"uncontrolled-{status}", 0) for status in STATUSES[:2]),
        "rests": rests,
        "controls": index.fact("controls") or [],
    }


def _rests(index: Index) -> dict[str, int]:
    """How many trials rest on what: `held-passed`, `withheld`, `tampering`, …"""
    query = "SELECT ground, status, count(*) FROM trial WHERE ground GROUP BY 1, 2"
    found = {
        f"{GROUNDS[ground]}-{STATUSES[status]}" if status < 2 else GROUNDS[ground]: count
        for ground, status, count in index.rows(query)
    }
    bits = ", ".join(f"total(proofs >> {place} & 1)" for place in range(len(PROOFS)))
    (proofs,) = index.rows(f"SELECT {bits} FROM trial")
    return found | {name: int(count) for name, count in zip(PROOFS, proofs, strict=True) if count}


def _reasons(index: Index) -> list[JSON]:
    query = (
        "SELECT reason, status > 1, count(*), min(text) FROM trial JOIN reason "
        "ON reason.id = reason WHERE status > 0 GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT ?"
    )
    return [
        {"id": number, "error": bool(error), "count": count, "text": text}
        for number, error, count, text in index.rows(query, (MOST_REASONS,))
    ]


def _percentiles(index: Index, total: int) -> dict[str, float]:
    if not total:
        return {"p50": 0.0, "p95": 0.0}
    query = "SELECT seconds FROM trial ORDER BY seconds LIMIT 1 OFFSET ?"
    places = {"p50": (total - 1) // 2, "p95": math.ceil(0.95 * (total - 1))}
    return {name: index.rows(query, (place,))[0][0] for name, place in places.items()}


def _timeline(index: Index, totals: Mapping[str, JSON]) -> list[JSON]:
    """How many trials ended in each part of the run's time, by status."""
    first, last = totals["first"], totals["last"]
    if first is None or last <= first:
        return []
    width = (last - first) / BUCKETS
    query = (
        "SELECT min(?, CAST((started + seconds - ?) / ? AS INTEGER)) AS part, "
        "sum(status = 0), sum(status = 1), sum(status > 1) "
        "FROM trial WHERE started > 0 GROUP BY part"
    )
    return [
        {"from": first + part * width, "passed": passed, "failed": failed, "errors": errors}
        for part, passed, failed, errors in index.rows(query, (BUCKETS - 1, first, width))
    ]


def _by_cost(index: Index, totals: Mapping[str, JSON]) -> list[JSON]:
    """Trials in parts of about one size, the cheapest first: what each cost, and how many passed.

    Trials of the same cost are in one part, and an interval is that of as many tasks as are in it.
    """
    if not totals["cost"] or totals["total"] < 4 * COST_PARTS:
        return []
    query = (
        "SELECT part, count(*), sum(status = 0), avg(cost), count(DISTINCT task) FROM "
        "(SELECT task, status, cost, (rank() OVER (ORDER BY cost) - 1) * ? / ? AS part FROM trial) "
        "GROUP BY part"
    )
    parts = [
        {"trials": trials, "cost": cost, "rate": passed / trials,
         "interval": list(stats.wilson(passed / trials * tasks, tasks))}
        for _, trials, passed, cost, tasks in index.rows(query, (COST_PARTS, totals["total"]))
    ]  # fmt: skip
    return parts if len(parts) > 1 else []


def _metrics(index: Index) -> dict[str, JSON]:
    """What the verdicts measured beside passing: the mean, or how often each word."""
    progress = index.fact("progress") or {}
    return {
        key: {
            "count": totals["count"],
            "mean": None if totals["words"] else totals["total"] / totals["count"],
            "truths": totals["truths"],
            "words": dict(sorted(totals["words"].items(), key=lambda item: -item[1])[:12]),
        }
        for key, totals in sorted(progress.get("metrics", {}).items())
        if totals["count"]
    }
