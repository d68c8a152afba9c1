"""How many tasks and samples show a difference, and which difference so many can show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

POWER = 0.8
ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Spread:
    """Where the variance of a task's difference between two runs comes from.

    `between` stays however often a task is sampled: the runs are really not equally good at it.
    `within` is the chance of single samples, and k samples of each divide it by k.
    """

    between: float
    within: float
    assumed: str = ""  # what was not in the data

    def variance(self, samples: int) -> float:
        return self.between + self.within / samples


def spread_of_rates(first: float, second: float) -> Spread:
    """Two runs that solve tasks independently of each other: pairing helps nothing, nor do samples.

    More is needed only by runs that solve opposite tasks.
    """
    variance = first * (1 - first) + second * (1 - second)
    return Spread(variance, 0.0, "independent runs; more samples are not counted as a help")


def spread_of_runs(
    first: Mapping[str, tuple[int, int]], second: Mapping[str, tuple[int, int]]
) -> Spread:
    """From two runs: task → (trials, passed). Tasks of one sample cannot tell the two parts apart.

    What one sample leaves open counts as between tasks, so that no number of samples is promised
    to help.
    """
    pairs = [(first[task], second[task]) for task in first.keys() & second.keys()]
    differences = [d / n - c / m for (m, c), (n, d) in pairs]
    total = _variance(differences)
    if any(m < 2 or n < 2 for (m, _), (n, _) in pairs):
        return Spread(total, 0.0, "one sample a task: more samples are not counted as a help")
    chance = _mean([_within(m, c) / m + _within(n, d) / n for (m, c), (n, d) in pairs])
    within = _mean([_within(m, c) + _within(n, d) for (m, c), (n, d) in pairs])
    return Spread(max(0.0, total - chance), within)


def spread_of_run(tasks: Iterable[tuple[int, int]]) -> Spread:
    """From one run, (trials, passed) of each task: the other is taken to be its like.

    The same agent again differs by chance alone, so `between` is 0: the least there can be.
    """
    counts = list(tasks)
    if all(n >= 2 for n, _ in counts):
        return Spread(0.0, 2 * _mean([_within(n, c) for n, c in counts]), "a rival like this run")
    rate = _mean([c / n for n, c in counts])
    return spread_of_rates(rate, rate)


def _within(trials: int, passed: int) -> float:
    """The variance of one sample of a task, estimated without bias."""
    return passed * (trials - passed) / (trials * (trials - 1))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _variance(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.fsum((v - mean) ** 2 for v in values) / max(1, len(values) - 1)


def tasks_needed(
    difference: float,
    variance: float,
    *,
    power: float = POWER,
    alpha: float = ALPHA,
    margin: bool = False,
) -> int:
    """How many tasks show a difference of that size, with that chance; variance is of one task.

    With `margin`, how many show that a run which is as good is not worse by `difference`.
    """
    if not 0 < difference <= 1:
        raise ValueError(f"a difference lies between 0 and 1, got {difference}")
    doubt, sure = _quantile(1 - alpha if margin else 1 - alpha / 2), _quantile(power)
    null = variance if margin else variance + difference**2
    root = doubt * math.sqrt(null) + sure * math.sqrt(variance)
    return max(2, math.ceil((root / difference) ** 2))


def detectable(
    deviation: float, tasks: int, *, power: float = POWER, alpha: float = ALPHA
) -> float:
    """The smallest difference that so many tasks show with that chance; 0 when none is known."""
    if tasks == 0:
        return 0.0
    sure = _quantile(power)
    doubt = _quantile(1 - alpha / 2)
    # difference * sqrt(n) = doubt * sqrt(variance + difference²) + sure * sqrt(variance): a fixed
    # point, approached from below, which exists only for more tasks than doubt².
    if tasks <= doubt**2:
        return 1.0
    found = 0.0
    for _ in range(100):
        root = doubt * math.hypot(deviation, found) + sure * deviation
        found, before = min(1.0, root / math.sqrt(tasks)), found
        if found - before < 1e-9:
            break
    return found


def _quantile(share: float) -> float:
    return NormalDist().inv_cdf(share)
