"""Two or more runs on the tasks that all of them have trials of: who passes what others do not."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, combinations, compress, islice
from statistics import NormalDist
from typing import NamedTuple

from chimera.eval.runs import stats
from chimera.eval.runs.power import detectable
from chimera.types import JSON
from chimera.view import outcomes
from chimera.view.grid import names_of, task_link, trials_of
from chimera.view.index import Index

MOST_RUNS = 8
#: Beyond, a bootstrap takes longer than a page may.
MOST_RESAMPLED = 300
ALPHA = 0.05
_Z95 = NormalDist().inv_cdf(0.975)

#: What of the shared tasks is listed, by their rates in the runs: those in which the runs differ,
#: those that the last passes more or less often than the first, those that none passes, or all.
LISTS: Mapping[str, Callable[[Sequence[float]], bool]] = {
    "flipped": lambda rates: max(rates) > min(rates),
    "better": lambda rates: rates[-1] > rates[0],
    "worse": lambda rates: rates[-1] < rates[0],
    "none": lambda rates: max(rates) == 0,
    "all": lambda rates: True,
}


class Shape(NamedTuple):
    """Tasks of which the same came, in each run."""

    rates: tuple[float, ...]
    highest: tuple[float, ...]  # if all trials without a verdict had passed
    errors: tuple[int, ...]
    unpriced: tuple[int, ...]
    tasks: int

    @property
    def rank(self) -> tuple[float, float]:
        """Where in a list such tasks stand: those that differ most first."""
        return (min(self.rates) - max(self.rates), self.rates[-1] - self.rates[0])


class Together:
    """Several runs, joined by the names of their tasks.

    A task is a place in the columns, which hold a code of what came of it in each run.
    """

    def __init__(self, indexes: Sequence[Index]) -> None:
        self.indexes = tuple(indexes)
        self._runs = [outcomes.read(index.rows) for index in self.indexes]
        self._places = self._places_of_shared()
        self._columns = [
            outcomes.taken(run.codes, places)
            for run, places in zip(self._runs, self._places, strict=True)
        ]

    def _places_of_shared(self) -> list[Sequence[int]]:
        """Where in each run the shared tasks are."""
        sizes = [len(run.codes) for run in self._runs]
        if len({run.names for run in self._runs}) == 1:
            return [range(size) for size in sizes]
        return outcomes.places_of_shared(
            [outcomes.all_names(i.rows, n) for i, n in zip(self.indexes, sizes, strict=True)]
        )

    def _number(self, run: int, place: int) -> int:
        """The number of a shared task in the index of a run."""
        return 1 + self._places[run][place]

    @cached_property
    def _found(self) -> dict[tuple[int, ...], Shape]:
        """The shared tasks that every run has trials of, counted by what came of them."""
        found = {}
        for codes, tasks in Counter(zip(*self._columns, strict=True)).items():
            shapes = [run.shapes[code] for run, code in zip(self._runs, codes, strict=True)]
            if all(shape.trials for shape in shapes):
                found[codes] = Shape(
                    tuple(shape.passed / shape.trials for shape in shapes),
                    tuple((shape.passed + shape.errors) / shape.trials for shape in shapes),
                    tuple(shape.errors for shape in shapes),
                    tuple(shape.unpriced for shape in shapes),
                    tasks,
                )
        return found

    @property
    def shapes(self) -> list[Shape]:
        return list(self._found.values())

    def spent(self) -> list[dict[str, JSON]]:
        """What each run took for the shared tasks; a cost of which a part is not known is not."""
        counted = sum(shape.tasks for shape in self.shapes)
        found: list[dict[str, JSON]] = []
        for n, run in enumerate(self._runs):
            whole = counted == len(run.codes)
            cost, seconds = (
                math.fsum(column if whole else self._tried(n, column))
                for column in (run.cost, run.seconds)
            )
            known = None if any(shape.unpriced[n] for shape in self.shapes) else cost
            errors = sum(shape.errors[n] * shape.tasks for shape in self.shapes)
            found.append({"cost": known, "seconds": seconds, "errors": errors})
        return found

    def _tried(self, run: int, column: Sequence[float]) -> Iterable[float]:
        """Of a column of a run, what belongs to shared tasks that every run has trials of."""
        tried = (codes in self._found for codes in zip(*self._columns, strict=True))
        return compress(outcomes.taken(column, self._places[run]), tried)

    def tasks(self, listed: str, text: str, page: int, size: int) -> dict[str, JSON]:
        """One page of the shared tasks, those that differ most first."""
        ranked: dict[tuple[float, float], array[int]] = {}
        listing = {
            codes: ranked.setdefault(shape.rank, array("I"))
            for codes, shape in self._found.items()
            if LISTS[listed](shape.rates)
        }
        places: Iterable[tuple[int, tuple[int, ...]]] = enumerate(zip(*self._columns, strict=True))
        if text:
            query = "SELECT id FROM task WHERE instr(lower(name), lower(?))"
            named = {number for (number,) in self.indexes[0].rows(query, (text,))}
            places = (found for found in places if self._number(0, found[0]) in named)
        for place, codes in places:
            if codes in listing:
                listing[codes].append(place)
        found = sum(map(len, ranked.values()))
        pages = max(1, -(-found // size))
        page = min(page, pages)
        in_order = chain.from_iterable(ranked[rank] for rank in sorted(ranked))
        shown = list(islice(in_order, (page - 1) * size, page * size))
        return {"found": found, "page": page, "pages": pages, "rows": self._rows(shown)}

    def _rows(self, places: Sequence[int]) -> list[JSON]:
        numbers = [
            [self._number(run, place) for place in places] for run in range(len(self.indexes))
        ]
        names = names_of(self.indexes[0], numbers[0])
        samples = [trials_of(*each) for each in zip(self.indexes, numbers, strict=True)]
        rows: list[JSON] = []
        for place, *here in zip(places, *numbers, strict=True):
            if here[0] not in names or any(
                n not in of for n, of in zip(here, samples, strict=True)
            ):
                continue  # a run is counted anew just now
            name, codes = names[here[0]], tuple(column[place] for column in self._columns)
            sides = zip(self._found[codes].rates, self.indexes, here, samples, strict=True)
            rows.append(
                {
                    "name": name,
                    "link": task_link(self.indexes[0], name),
                    "runs": [
                        {"rate": rate, "samples": of[number], "link": task_link(index, name)}
                        for rate, index, number, of in sides
                    ],
                }
            )
        return rows


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
        f" Had all trials without a verdict passed, or failed, {second} would be {least} to {most} "
        f"points from {first}."
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
