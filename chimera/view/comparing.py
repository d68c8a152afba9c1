"""Two or more runs on the tasks that all of them have trials of: who passes what others do not."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

from chimera.eval.runs import stats
from chimera.eval.runs.power import detectable
from chimera.types import JSON
from chimera.view.grid import task_link, trials_of
from chimera.view.index import Index

MOST_RUNS = 8
#: Beyond, a bootstrap takes longer than a page may.
MOST_RESAMPLED = 300
ALPHA = 0.05
_Z95 = NormalDist().inv_cdf(0.975)

#: Comparisons whose counts are kept.
MOST_KEPT = 32
_kept: dict[tuple[tuple[Path, str], ...], list[Shape]] = {}
#: What of the shared tasks is listed: those in which the runs differ, or …
LISTS = ("flipped", "better", "worse", "none", "all")


class Shape(NamedTuple):
    """Tasks of which the same came, in each run; `spent` is the cost, the seconds and the trials
    without a known cost of each run for all of them."""

    rates: tuple[float, ...]
    highest: tuple[float, ...]  # if all trials without a verdict had passed
    errors: tuple[int, ...]
    tasks: int
    spent: tuple[float, ...]


class Together:
    """The indexes of several runs, joined by the names of their tasks."""

    def __init__(self, indexes: Sequence[Index]) -> None:
        self.indexes = tuple(indexes)
        self._connection = sqlite3.connect(":memory:", check_same_thread=False, uri=True)
        for place, index in enumerate(self.indexes):
            self._connection.execute(f"ATTACH ? AS r{place}", (f"{index.path.as_uri()}?mode=ro",))
        self._from = "r0.task t0 " + " ".join(
            f"CROSS JOIN r{place}.task t{place} ON t{place}.{column} = t0.{column}"
            for place in range(1, len(self.indexes))
            for column in ["id" if self._is_aligned(place) else "name"]
        )
        self._shared = " AND ".join(f"t{place}.trials" for place in range(len(self.indexes)))

    def close(self) -> None:
        self._connection.close()

    def _is_aligned(self, place: int) -> bool:
        """Whether a run has the tasks of the first under the same numbers: the quicker way."""
        query = (
            f"SELECT EXISTS (SELECT 1 FROM r0.task a LEFT JOIN r{place}.task b ON b.id = a.id "
            "WHERE b.name IS NOT a.name)"
        )
        return not self._connection.execute(query).fetchone()[0]

    @cached_property
    def shapes(self) -> list[Shape]:
        """The shared tasks, counted by what came of them.

        Kept until a run changes: a page and the next need not count a million tasks again.
        """
        key = tuple((index.path, repr(index.fact("state"))) for index in self.indexes)
        if key not in _kept:
            if len(_kept) >= MOST_KEPT:
                _kept.clear()
            _kept[key] = self._count()
        return _kept[key]

    def _count(self) -> list[Shape]:
        runs = range(len(self.indexes))
        columns = ", ".join(f"t{n}.passed, t{n}.trials, t{n}.errors" for n in runs)
        sums = ", ".join(
            f"total(t{n}.cost), total(t{n}.seconds), total(t{n}.unpriced)" for n in runs
        )
        query = (
            f"SELECT {columns}, count(*), {sums} FROM {self._from} WHERE {self._shared} "
            f"GROUP BY {columns}"
        )
        return [self._shape(row) for row in self._connection.execute(query)]

    def _shape(self, row: Sequence[Any]) -> Shape:
        end = 3 * len(self.indexes)
        passed, trials, errors = row[:end:3], row[1:end:3], row[2:end:3]
        return Shape(
            tuple(c / n for c, n in zip(passed, trials, strict=True)),
            tuple((c + e) / n for c, n, e in zip(passed, trials, errors, strict=True)),
            tuple(errors),
            row[end],
            tuple(row[end + 1 :]),
        )

    def spent(self) -> list[dict[str, JSON]]:
        """What each run took for the shared tasks; a cost of which a part is not known is not."""
        found: list[dict[str, JSON]] = []
        for run in range(len(self.indexes)):
            cost, seconds, unpriced = (
                math.fsum(shape.spent[3 * run + place] for shape in self.shapes)
                for place in range(3)
            )
            errors = sum(shape.errors[run] * shape.tasks for shape in self.shapes)
            known = None if unpriced else cost
            found.append({"cost": known, "seconds": seconds, "errors": errors})
        return found

    def tasks(self, listed: str, text: str, page: int, size: int) -> dict[str, JSON]:
        """One page of the shared tasks, those that differ most first."""
        columns = [f"(t{n}.passed * 1.0 / t{n}.trials)" for n in range(len(self.indexes))]
        where, arguments = f"{self._shared} AND {_condition(listed, columns)}", []
        if text:
            where += " AND instr(lower(t0.name), lower(?))"
            arguments.append(text)
        if text:
            count = f"SELECT count(*) FROM {self._from} WHERE {where}"
            (found,) = self._connection.execute(count, arguments).fetchone()
        else:
            found = sum(shape.tasks for shape in self.shapes if _LISTED[listed](shape.rates))
        pages = max(1, -(-found // size))
        page = min(page, pages)
        ids = ", ".join(f"t{n}.id" for n in range(len(self.indexes)))
        spread = f"max({', '.join(columns)}) - min({', '.join(columns)})"
        query = (
            f"SELECT t0.name, {ids}, {', '.join(columns)} FROM {self._from} WHERE {where} "
            f"ORDER BY {spread} DESC, {columns[-1]} - {columns[0]}, t0.id LIMIT ? OFFSET ?"
        )
        rows = self._connection.execute(query, (*arguments, size, (page - 1) * size)).fetchall()
        return {"found": found, "page": page, "pages": pages, "rows": self._listed(rows)}

    def _listed(self, rows: Sequence[tuple[JSON, ...]]) -> list[JSON]:
        runs = len(self.indexes)
        samples = [
            trials_of(index, [row[1 + place] for row in rows])
            for place, index in enumerate(self.indexes)
        ]
        return [
            {
                "name": row[0],
                "link": task_link(self.indexes[0], row[0]),
                "runs": [
                    {
                        "rate": row[1 + runs + n],
                        "samples": samples[n].get(row[1 + n], []),
                        "link": task_link(index, row[0]),
                    }
                    for n, index in enumerate(self.indexes)
                ],
            }
            for row in rows
        ]


def _condition(listed: str, rates: Sequence[str]) -> str:
    """Which shared tasks a list is of. Better and worse are the last run's, against the first."""
    most, least = f"max({', '.join(rates)})", f"min({', '.join(rates)})"
    return {
        "flipped": f"{most} > {least}",
        "better": f"{rates[-1]} > {rates[0]}",
        "worse": f"{rates[-1]} < {rates[0]}",
        "none": f"{most} = 0",
        "all": "true",
    }[listed]


#: The same of the rates themselves.
_LISTED: Mapping[str, Callable[[Sequence[float]], bool]] = {
    "flipped": lambda rates: max(rates) > min(rates),
    "better": lambda rates: rates[-1] > rates[0],
    "worse": lambda rates: rates[-1] < rates[0],
    "none": lambda rates: max(rates) == 0,
    "all": lambda rates: True,
}


def comparison(together: Together) -> dict[str, JSON]:
    """What the shared tasks say of the runs: of all pairs, those with the first are told."""
    shapes = together.shapes
    tasks = sum(shape.tasks for shape in shapes)
    runs = len(together.indexes)
    pairs = [_pair(shapes, a, b) for a, b in combinations(range(runs), 2)] if tasks else []
    adjusted, sure = (stats.holm([pair[name] for pair in pairs]) for name in ("p", "doubt"))
    for pair, pair["p_adjusted"], pair["sure"] in zip(pairs, adjusted, sure, strict=True):
        pair["sentence"] = _sentence(pair)
    return {
        "tasks": tasks,
        "runs": [
            {
                "rate": math.fsum(shape.rates[n] * shape.tasks for shape in shapes) / max(1, tasks),
                **spent,
            }
            for n, spent in enumerate(together.spent())
        ],
        "pairs": [pair for pair in pairs if pair["first"] == 0],
        "best": _best(pairs, runs),
        "agreeing": sum(shape.tasks for shape in shapes if len(set(shape.rates)) == 1),
    }


def _best(pairs: Sequence[dict[str, JSON]], runs: int) -> list[int]:
    """The runs that no other is shown to be better than; the best is among them."""
    beaten = {
        pair["first"] if pair["difference"] > 0 else pair["second"]
        for pair in pairs
        if pair["doubt"] * (runs - 1) <= ALPHA
    }
    return [place for place in range(runs) if place not in beaten]


def _pair(shapes: Sequence[Shape], first: int, second: int) -> dict[str, JSON]:
    rates = [(shape.rates[first], shape.rates[second], shape.tasks) for shape in shapes]
    worst = [(shape.highest[first], shape.rates[second], shape.tasks) for shape in shapes]
    best = [(shape.rates[first], shape.highest[second], shape.tasks) for shape in shapes]
    differences: dict[float, int] = {}
    table = {"both": 0, "first": 0, "second": 0, "neither": 0}
    for a, b, count in rates:
        differences[b - a] = differences.get(b - a, 0) + count
        table["first" if a > b else "second" if b > a else "both" if a else "neither"] += count
    tasks = sum(differences.values())
    mean = math.fsum(value * count for value, count in differences.items()) / tasks
    squares = math.fsum(count * (value - mean) ** 2 for value, count in differences.items())
    deviation = math.sqrt(squares / max(1, tasks - 1))
    binary = _are_binary(rates)
    p = _p_value(rates)
    against = worst if mean > 0 else best
    turned = mean * _mean(against) <= 0
    return {
        "first": first,
        "second": second,
        "tasks": tasks,
        "difference": mean,
        "interval": list(_interval(differences, table, mean, deviation, binary=binary)),
        "bounds": [_mean(worst), _mean(best)],
        "detectable": detectable(deviation, tasks) if tasks > 1 else None,
        "test": "McNemar's exact test" if binary else "paired permutation test",
        "p": p,
        "doubt": p if against == rates else 1.0 if turned else max(p, _p_value(against)),
        "table": table,
        "binary": binary,
    }


#: Rates of two runs, and how many tasks have these.
Rates = Sequence[tuple[float, float, int]]


def _mean(rates: Rates) -> float:
    """The second run's mean rate less the first's."""
    tasks = sum(count for _, _, count in rates)
    return math.fsum((b - a) * count for a, b, count in rates) / tasks


def _are_binary(rates: Rates) -> bool:
    return all(rate in (0.0, 1.0) for a, b, _ in rates for rate in (a, b))


def _p_value(rates: Rates) -> float:
    if _are_binary(rates):
        lost = sum(count for a, b, count in rates if a > b)
        return stats.mcnemar_exact(lost, sum(count for a, b, count in rates if b > a))
    differences: dict[float, int] = {}
    for a, b, count in rates:
        differences[b - a] = differences.get(b - a, 0) + count
    return stats.paired_permutation(_expanded(differences))


def _expanded(differences: Mapping[float, int]) -> list[float]:
    return [value for value, count in sorted(differences.items()) for _ in range(count)]


def _interval(
    differences: Mapping[float, int],
    table: Mapping[str, int],
    mean: float,
    deviation: float,
    *,
    binary: bool,
) -> stats.Interval:
    """That of the command line, where it is quick; else what it tends to."""
    tasks = sum(differences.values())
    if binary:
        return stats.score_interval(table["second"], table["first"], tasks)
    if tasks <= MOST_RESAMPLED:
        return stats.paired_interval(_expanded(differences))
    spread = _Z95 * deviation / math.sqrt(tasks)
    return (max(-1.0, mean - spread), min(1.0, mean + spread))


def _sentence(pair: Mapping[str, JSON]) -> str:
    """What can be concluded, for people who read one sentence."""
    low, high = pair["interval"]
    first, second = (chr(ord("A") + pair[name]) for name in ("first", "second"))
    least, most = map(_signed, pair["bounds"])
    if pair["p_adjusted"] <= ALPHA and pair["difference"]:
        more, less = (second, first) if pair["difference"] > 0 else (first, second)
        told = (
            f"{more} passes {abs(pair['difference']) * 100:.1f} points more than {less} on the "
            f"{pair['tasks']:,} tasks they share"
        )
        if pair["sure"] > ALPHA:
            return (
                f"{told}, but trials without a verdict could turn this: {second} is between "
                f"{least} and {most} points from {first}."
            )
        p = pair["p_adjusted"]
        chance = "less than 0.1 %" if p < 0.001 else f"at most {p * 100:.1f} %"
        return (
            f"{told}; were they equally good, so large a difference would be seen in {chance} "
            "of cases."
        )
    seen = pair["detectable"]
    beyond = f"; so many tasks seldom show one below {seen * 100:.1f} points" if seen else ""
    errors = (
        f" By what trials without a verdict were, {second} passed {least} to {most} points more."
        if least != most
        else ""
    )
    return (
        f"No difference between {first} and {second} is shown on the {pair['tasks']:,} tasks they "
        f"share: anything from {_signed(low)} to {_signed(high)} points is possible{beyond}."
        f"{errors}"
    )


def _signed(value: float) -> str:
    return f"{value * 100:+.1f}".replace("-", "−")
