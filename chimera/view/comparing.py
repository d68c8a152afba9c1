"""Two or more runs on the tasks that all of them have trials of: who passes what others do not."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import NormalDist

from chimera.eval.runs import stats
from chimera.eval.runs.power import detectable
from chimera.types import JSON
from chimera.view.grid import trials_of
from chimera.view.index import Index

MOST_RUNS = 8
#: Beyond, a bootstrap takes longer than a page may.
MOST_RESAMPLED = 300
ALPHA = 0.05
_Z95 = NormalDist().inv_cdf(0.975)

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

    def tasks(self, listed: str, text: str, page: int, size: int) -> dict[str, JSON]:
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
    """What the shared tasks say of the runs: of all pairs, those with the first are told."""
    shapes = together.shapes()
    tasks = sum(count for _, count in shapes)
    runs = len(together.indexes)
    pairs = [_pair(shapes, a, b) for a, b in combinations(range(runs), 2)] if tasks else []
    for pair, adjusted in zip(pairs, stats.holm([pair["p"] for pair in pairs]), strict=True):
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
        "pairs": [pair for pair in pairs if pair["first"] == 0],
        "best": _best(pairs, runs),
        "agreeing": sum(count for rates, count in shapes if len(set(rates)) == 1),
    }


def _best(pairs: Sequence[dict[str, JSON]], runs: int) -> list[int]:
    """The runs that no other is shown to be better than; the best is among them."""
    beaten = {
        pair["first"] if pair["difference"] > 0 else pair["second"]
        for pair in pairs
        if pair["difference"] and pair["p"] * (runs - 1) <= ALPHA
    }
    return [place for place in range(runs) if place not in beaten]


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
    squares = math.fsum(count * (value - mean) ** 2 for value, count in differences.items())
    deviation = math.sqrt(squares / max(1, tasks - 1))
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
        "interval": list(_interval(differences, table, mean, deviation, binary=binary)),
        "detectable": detectable(deviation, tasks) if tasks > 1 else None,
        "test": "McNemar's exact test" if binary else "paired permutation test",
        "p": p,
        "table": table,
        "binary": binary,
    }


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
    if pair["p_adjusted"] <= ALPHA and pair["difference"]:
        more, less = (second, first) if pair["difference"] > 0 else (first, second)
        chance = "less than 0.1 %" if pair["p_adjusted"] < 0.001 else f"{pair['p_adjusted']:.1%}"
        return (
            f"{more} passes {abs(pair['difference']) * 100:.1f} points more than {less} on the "
            f"{pair['tasks']:,} tasks they share; were they equally good, so large a difference "
            f"would be seen in {chance} of cases."
        )
    least = pair["detectable"]
    beyond = f"; so many tasks seldom show one below {least * 100:.1f} points" if least else ""
    return (
        f"No difference between {first} and {second} is shown on the {pair['tasks']:,} tasks they "
        f"share: anything from {_signed(low)} to {_signed(high)} points is possible{beyond}."
    )


def _signed(value: float) -> str:
    return f"{value * 100:+.1f}".replace("-", "−")
