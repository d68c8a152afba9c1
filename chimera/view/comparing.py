"""Two or more runs on the tasks that all of them have trials of: who passes what others do not."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence

from chimera.eval.runs import stats
from chimera.types import JSON
from chimera.view.grid import trials_of
from chimera.view.index import Index

PAGE = 50
MOST_RUNS = 8
MOST_RESAMPLED = 1000
ALPHA = 0.05

#: What of the shared tasks is listed: those in which the runs differ, or …
LISTS = ("flipped", "better", "worse", "none", "all")


class Together:
    """The indexes of several runs, joined by the names of their tasks."""

    def __init__(self, indexes: Sequence[Index]) -> None:
        self.indexes = tuple(indexes)
        self._connection = sqlite3.connect(":memory:", check_same_thread=False, uri=True)
        for place, index in enumerate(self.indexes):
            self._connection.execute(f"ATTACH ? AS r{place}", (f"{index.path.as_uri()}?mode=ro",))
        self._from = "r0.task t0 " + " ".join(
            f"JOIN r{place}.task t{place} ON t{place}.name = t0.name"
            for place in range(1, len(self.indexes))
        )
        self._shared = " AND ".join(f"t{place}.trials" for place in range(len(self.indexes)))

    def close(self) -> None:
        self._connection.close()

    def shapes(self) -> list[tuple[tuple[float, ...], int]]:
        """How often the shared tasks have these rates, one for each run."""
        columns = ", ".join(f"t{n}.passed, t{n}.trials" for n in range(len(self.indexes)))
        query = (
            f"SELECT {columns}, count(*) FROM {self._from} WHERE {self._shared} GROUP BY {columns}"
        )
        return [
            (tuple(p / n for p, n in zip(row[:-1:2], row[1:-1:2], strict=True)), row[-1])
            for row in self._connection.execute(query)
        ]

    def spent(self) -> list[dict[str, float]]:
        """What each run took for the shared tasks."""
        columns = ", ".join(
            f"total(t{n}.cost), total(t{n}.seconds), total(t{n}.errors), total(t{n}.trials)"
            for n in range(len(self.indexes))
        )
        query = f"SELECT {columns} FROM {self._from} WHERE {self._shared}"
        row = self._connection.execute(query).fetchone()
        names = ("cost", "seconds", "errors", "trials")
        return [
            dict(zip(names, row[start : start + 4], strict=True)) for start in range(0, len(row), 4)
        ]

    def tasks(self, listed: str, text: str, page: int, size: int = PAGE) -> dict[str, JSON]:
        """One page of the shared tasks, those that differ most first."""
        rates = [f"(t{n}.passed * 1.0 / t{n}.trials)" for n in range(len(self.indexes))]
        where, arguments = f"{self._shared} AND {_condition(listed, rates)}", []
        if text:
            where += " AND instr(lower(t0.name), lower(?))"
            arguments.append(text)
        count = f"SELECT count(*) FROM {self._from} WHERE {where}"
        (found,) = self._connection.execute(count, arguments).fetchone()
        pages = max(1, -(-found // size))
        page = min(page, pages)
        ids = ", ".join(f"t{n}.id" for n in range(len(self.indexes)))
        spread = f"max({', '.join(rates)}) - min({', '.join(rates)})"
        query = (
            f"SELECT t0.name, {ids}, {', '.join(rates)} FROM {self._from} WHERE {where} "
            f"ORDER BY {spread} DESC, {rates[-1]} - {rates[0]}, t0.id LIMIT ? OFFSET ?"
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
                "runs": [
                    {"rate": row[1 + runs + n], "samples": samples[n].get(row[1 + n], [])}
                    for n in range(runs)
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


def comparison(together: Together) -> dict[str, JSON]:
    """What the shared tasks say of the runs, each against the first."""
    shapes = together.shapes()
    tasks = sum(count for _, count in shapes)
    runs = len(together.indexes)
    pairs = [_pair(shapes, 0, other) for other in range(1, runs)] if tasks else []
    for pair, adjusted in zip(pairs, _holm([pair["p"] for pair in pairs]), strict=True):
        pair["p_adjusted"] = adjusted
        pair["sentence"] = _sentence(pair)
    return {
        "tasks": tasks,
        "runs": [
            {
                "rate": math.fsum(rates[n] * count for rates, count in shapes) / max(1, tasks),
                **spent,
            }
            for n, spent in enumerate(together.spent())
        ],
        "pairs": pairs,
        "agreeing": sum(count for rates, count in shapes if len(set(rates)) == 1),
    }


def _pair(
    shapes: Sequence[tuple[tuple[float, ...], int]], first: int, second: int
) -> dict[str, JSON]:
    differences: dict[float, int] = {}
    table = {"both": 0, "first": 0, "second": 0, "neither": 0}
    binary = True
    for rates, count in shapes:
        a, b = rates[first], rates[second]
        differences[b - a] = differences.get(b - a, 0) + count
        binary = binary and {a, b} <= {0.0, 1.0}
        table["first" if a > b else "second" if b > a else "both" if a else "neither"] += count
    tasks = sum(differences.values())
    mean = math.fsum(value * count for value, count in differences.items()) / tasks
    p = (
        stats.mcnemar_exact(table["first"], table["second"])
        if binary
        else stats.paired_permutation(_expanded(differences))
    )
    return {
        "first": first,
        "second": second,
        "tasks": tasks,
        "difference": mean,
        "interval": list(_interval(differences, tasks, mean)),
        "test": "McNemar's exact test" if binary else "paired permutation test",
        "p": p,
        "table": table,
        "binary": binary,
    }


def _expanded(differences: dict[float, int]) -> list[float]:
    return [value for value, count in sorted(differences.items()) for _ in range(count)]


def _interval(differences: dict[float, int], tasks: int, mean: float) -> stats.Interval:
    if tasks <= MOST_RESAMPLED:
        return stats.clustered_bootstrap([[d] for d in _expanded(differences)], bounds=(-1.0, 1.0))
    squares = math.fsum(count * (value - mean) ** 2 for value, count in differences.items())
    spread = 1.959964 * math.sqrt(squares) / tasks
    return (max(-1.0, mean - spread), min(1.0, mean + spread))


def _holm(values: Sequence[float]) -> list[float]:
    """p-values of several tests, so that one false alarm among all of them is as rare as said."""
    order = sorted(range(len(values)), key=values.__getitem__)
    adjusted, least = [0.0] * len(values), 0.0
    for rank, place in enumerate(order):
        least = max(least, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = least
    return adjusted


def _sentence(pair: dict[str, JSON]) -> str:
    """What can be concluded, for people who read one sentence."""
    low, high = pair["interval"]
    names = {"first": "A", "second": chr(ord("A") + pair["second"])}
    more = names["second"] if pair["difference"] > 0 else names["first"]
    less = names["first"] if pair["difference"] > 0 else names["second"]
    points = f"{abs(pair['difference']) * 100:.1f} points"
    if pair["p_adjusted"] < ALPHA:
        chance = "less than 0.1 %" if pair["p_adjusted"] < 0.001 else f"{pair['p_adjusted']:.1%}"
        return (
            f"{more} passes {points} more than {less} on the {pair['tasks']:,} tasks they share; "
            f"were they equally good, so large a difference would be seen in {chance} of cases."
        )
    return (
        f"No difference is shown: on the {pair['tasks']:,} tasks they share, "
        f"{names['second']} may be anything from {_signed(low)} to {_signed(high)} points "
        f"beside {names['first']}."
    )


def _signed(value: float) -> str:
    return f"{value * 100:+.1f}".replace("-", "−")
