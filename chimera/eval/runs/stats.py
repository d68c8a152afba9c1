"""The statistics of results: pure functions over counts and scores, standard library only."""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from statistics import NormalDist, fmean

from chimera.eval.filed import Coded, Picked

Interval = tuple[float, float]

#: Up to here binomials are summed as whole numbers; beyond, that takes the square of the time.
EXACT_PAIRS = 1000
#: Of fewer tasks a bootstrap is too narrow; of one it has no width at all.
FEW_TASKS = 10
#: Up to here whatever is drawn at random is drawn; beyond, the normal distribution that the draws
#: tend to is taken, in the time of one of them. These are 1,000 tasks, resampled 2,000 times.
MOST_DRAWS = 2_000_000
#: No sum of signed numbers has a heavier tail than this many normal ones (Bentkus, Dzindzalieta).
SIGNS_TO_NORMAL = 3.179


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that at least one of k samples drawn from n, of which c passed, passed (unbiased)."""
    _check_counts(n, c, k)
    return 1.0 - _all_drawn_from(n - c, n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Chance that all of k samples drawn from n, of which c passed, passed (pass^k, unbiased)."""
    _check_counts(n, c, k)
    return _all_drawn_from(c, n, k)


def _all_drawn_from(some: int, n: int, k: int) -> float:
    """Chance that k draws from n without return are all among `some` of them."""
    return math.prod((some - i) / (n - i) for i in range(k)) if k <= some else 0.0


def _check_counts(n: int, c: int, k: int) -> None:
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"need 0 <= c <= n and 1 <= k <= n, got n={n}, c={c}, k={k}")


def wilson(passed: float, total: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion; (0, 1) when nothing was observed.

    `passed` may have a fraction: a task of several samples that counts once.
    """
    if not 0 <= passed <= total:
        raise ValueError(f"need 0 <= passed <= total, got {passed} of {total}")
    if total == 0:
        return (0.0, 1.0)
    z = _z(confidence)
    rate = passed / total
    scale = 1 + z * z / total
    centre = rate + z * z / (2 * total)
    spread = z * math.sqrt(rate * (1 - rate) / total + z * z / (4 * total * total))
    # At the edges the bound is the edge itself; subtraction would leave a rounding error there.
    low = 0.0 if passed == 0 else (centre - spread) / scale
    high = 1.0 if passed == total else (centre + spread) / scale
    return (max(0.0, low), min(1.0, high))


def clustered_bootstrap(
    clusters: Sequence[Sequence[float]],
    *,
    bounds: Interval = (0.0, 1.0),
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Percentile interval of the mean over all trials, resampling whole tasks.

    Samples of one task are alike, so the task is the unit that is drawn, and there are cases in
    which drawing says little. Of few tasks, it is Wilson's interval with each task as one trial.
    Of tasks that are all the same, as many could be otherwise as Wilson's interval leaves open. Of
    very many tasks, it is the interval by the standard error that is robust to clusters.
    """
    filled = [(float(sum(cluster)), len(cluster)) for cluster in clusters if len(cluster)]
    return _bootstrap(Coded.of(filled), bounds, confidence, resamples=resamples, seed=seed)


def mean_interval(values: Sequence[float], bounds: Interval = (0.0, 1.0)) -> Interval:
    """The same of clusters of one value each."""
    return _bootstrap(Coded.of((float(value), 1) for value in values), bounds)


def _bootstrap(
    clusters: Coded[tuple[float, int]],
    bounds: Interval,
    confidence: float = 0.95,
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Of the sum and the size of each cluster."""
    low, high = bounds
    count = len(clusters)
    if not count:
        return bounds
    mean = math.fsum(part for part, _ in clusters) / sum(size for _, size in clusters)
    if count < FEW_TASKS:
        share = min(1.0, max(0.0, (mean - low) / (high - low)))
        start, end = wilson(share * count, count, confidence)
        return (low + start * (high - low), low + end * (high - low))
    if len({part / size for part, size in clusters.values}) == 1:
        unseen = wilson(0, count, confidence)[1]
        return (mean - unseen * (mean - low), mean + unseen * (high - mean))
    if count * resamples > MOST_DRAWS:
        return _normal_interval(clusters, confidence)
    sums, sizes = [part for part, _ in clusters], [size for _, size in clusters]
    generator = random.Random(seed)
    drawn_means = []
    for _ in range(resamples):
        drawn = generator.choices(range(count), k=count)
        drawn_means.append(sum(map(sums.__getitem__, drawn)) / sum(map(sizes.__getitem__, drawn)))
    drawn_means.sort()
    tail = (1 - confidence) / 2
    return (_quantile(drawn_means, tail), _quantile(drawn_means, 1 - tail))


def _normal_interval(clusters: Coded[tuple[float, int]], confidence: float) -> Interval:
    """What the bootstrap of a mean over clusters tends to; within what single clusters have."""
    total = sum(size for _, size in clusters)
    mean = math.fsum(part for part, _ in clusters) / total
    squares = math.fsum(clusters.mapped(lambda each: (each[0] - mean * each[1]) ** 2))
    spread = _z(confidence) * math.sqrt(squares) / total
    means = [part / size for part, size in clusters.values]
    return (max(min(means), mean - spread), min(max(means), mean + spread))


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Two-sided exact p-value that the discordant pairs split evenly."""
    if only_first < 0 or only_second < 0:
        raise ValueError("counts of discordant pairs cannot be negative")
    n, least = only_first + only_second, min(only_first, only_second)
    if n == 0:
        return 1.0
    if n > EXACT_PAIRS:
        return min(1.0, 2 * _binomial_tail(n, least))
    tail = sum(math.comb(n, i) for i in range(least + 1))
    return min(1.0, float(2 * tail / (1 << n)))


def _binomial_tail(n: int, most: int) -> float:
    """Chance of at most `most` heads in `n` throws, for large n: from the largest term down."""
    log_term = math.lgamma(n + 1) - math.lgamma(most + 1) - math.lgamma(n - most + 1)
    ratio = total = 1.0
    for i in range(most, 0, -1):
        ratio *= i / (n - i + 1)
        total += ratio
        if ratio < total * 1e-17:
            break
    return math.exp(log_term - n * math.log(2) + math.log(total))


def paired_permutation(
    differences: Sequence[float], *, resamples: int = 10_000, seed: int = 0
) -> float:
    """Two-sided p-value that the mean paired difference is zero, by flipping signs.

    Exact (every sign pattern) up to 16 non-zero differences, else sampled with a fixed seed, and
    by the normal distribution where there are very many. What draws cannot show, because it is
    rarer than one in all of them, is bounded from above.
    """
    values: Sequence[float] = Coded.of(d for d in differences if d)
    if not values:
        return 1.0
    observed = abs(math.fsum(values))
    observed -= 1e-12 * max(1.0, observed)  # rounding must not tell equals apart
    if len(values) <= 16:
        patterns = 2 ** len(values)
        extreme = sum(
            abs(math.fsum(v if pattern >> i & 1 else -v for i, v in enumerate(values))) >= observed
            for pattern in range(patterns)
        )
        return float(extreme / patterns)
    normal = math.erfc(observed / math.sqrt(2 * math.fsum(v * v for v in values)))
    if len(values) * resamples > 15 * MOST_DRAWS:  # a sign is a bit, and cheaper
        return normal
    if SIGNS_TO_NORMAL * normal < 1 / resamples:
        return SIGNS_TO_NORMAL * normal
    generator = random.Random(seed)
    total = _signed_sum(list(values))
    extreme = sum(
        abs(total(generator.getrandbits(len(values)))) >= observed for _ in range(resamples)
    )
    return (extreme + 1) / (resamples + 1)


def _signed_sum(values: Sequence[float]) -> Callable[[int], float]:
    """Of bits: the sum of `values`, those whose bit is not set negated.

    Differences of pass rates take few values, and those that are alike are counted at once.
    """
    if len(set(values)) > 64:
        backwards, whole = values[::-1], math.fsum(values)  # the first digit is the last bit
        digits = bytes.maketrans(b"01", b"\0\1")

        def one_by_one(signs: int) -> float:
            chosen = f"{signs:0{len(values)}b}".encode().translate(digits)
            return 2 * math.fsum(compress(backwards, chosen)) - whole

        return one_by_one
    places = {value: bytearray(len(values) // 8 + 1) for value in values}
    for i, value in enumerate(values):
        places[value][i >> 3] |= 1 << (i & 7)
    masks = [(value, int.from_bytes(bits, "little")) for value, bits in places.items()]
    groups = [(value, mask, mask.bit_count()) for value, mask in masks]
    return lambda signs: math.fsum(
        value * (2 * (signs & mask).bit_count() - count) for value, mask, count in groups
    )


def rate_interval(tasks: Iterable[tuple[int, int]]) -> Interval | None:
    """Of a pass rate, by (trials, passed) of each task: Wilson's where each was tried once."""
    clusters = Coded.of((float(passed), trials) for trials, passed in tasks)
    if not clusters:
        return None
    if all(trials == 1 for _, trials in clusters.values):
        return wilson(math.fsum(passed for passed, _ in clusters), len(clusters))
    return _bootstrap(clusters, (0.0, 1.0))


def outer_interval(tasks: Sequence[Sequence[int]]) -> Interval | None:
    """The same of (trials, passed, without a verdict): from all of these failed to all passed."""
    lowest = rate_interval((n, c) for n, c, _ in tasks)
    highest = rate_interval((n, c + unknown) for n, c, unknown in tasks)
    return lowest and highest and (lowest[0], highest[1])


def coverage_bounds(passed: int, total: int, without_verdict: int) -> Interval:
    """The pass rate if every trial without a verdict had failed, and if every one had passed."""
    if total == 0:
        return (0.0, 1.0)
    return (passed / total, (passed + without_verdict) / total)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values, adjusted so that of all those at most α the chance of a false one is α."""
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def paired_interval(
    differences: Sequence[float], *, confidence: float = 0.95, seed: int = 0
) -> Interval:
    """The interval of a mean of paired differences between -1 and 1, one for each task.

    Of tasks that are won, lost or neither, and where few differ, it is Tango's score interval: what
    is drawn from a few differing tasks knows nothing of those that did not come up.
    """
    differing = Coded.of(d for d in differences if d)
    if len(differing) < FEW_TASKS or all(abs(d) == 1 for d in differing.values):
        gained = math.fsum(d for d in differing if d > 0)
        return score_interval(
            gained, gained - math.fsum(differing), len(differences), confidence=confidence
        )
    clusters = Coded.of((float(d), 1) for d in differences)
    return _bootstrap(clusters, (-1.0, 1.0), confidence, seed=seed)


def score_interval(gained: float, lost: float, tasks: int, *, confidence: float = 0.95) -> Interval:
    """Tango's score interval of (gained - lost) / tasks; counts may have fractions."""
    if not (gained >= 0 and lost >= 0 and gained + lost <= tasks * (1 + 1e-12)):
        raise ValueError(f"need counts of at most {tasks} tasks, got {gained} and {lost}")
    if tasks == 0:
        return (-1.0, 1.0)
    z = _z(confidence)
    upper = _score_bound(gained, lost, tasks, z)
    return (-_score_bound(lost, gained, tasks, z), upper)


def _score_bound(gained: float, lost: float, tasks: int, z: float) -> float:
    """The largest difference that the observed one is at most z standard errors below."""
    low, high = (gained - lost) / tasks, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        error = math.sqrt(max(0.0, _score_variance(gained, lost, tasks, middle)))
        if tasks * middle - (gained - lost) <= z * error:
            low = middle
        else:
            high = middle
    return high


def _score_variance(gained: float, lost: float, tasks: int, difference: float) -> float:
    """Of `gained - lost`, with the likeliest rates among those that differ by `difference`."""
    linear = (2 * tasks - gained + lost) * difference - gained - lost
    product = lost * difference * (1 - difference)
    root = math.sqrt(max(0.0, linear * linear + 8 * tasks * product))
    loss_rate = max(0.0, (root - linear) / (4 * tasks))
    return tasks * (2 * loss_rate + difference * (1 - difference))


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """Two runs over the tasks both have verdicts for."""

    tasks: int
    first_rate: float
    second_rate: float
    only_first: Sequence[str]
    only_second: Sequence[str]
    difference: float
    deviation: float  # of the tasks' differences: what a task adds to the variance of their mean
    interval: Interval
    mcnemar: float | None  # None when a task has several samples: pairs are then means, not 0 or 1
    permutation: float

    @property
    def p_value(self) -> float:
        """Of the exact test where there is one."""
        return self.permutation if self.mcnemar is None else self.mcnemar


def compare_paired(
    first: Mapping[str, Sequence[float]],
    second: Mapping[str, Sequence[float]],
    *,
    confidence: float = 0.95,
    seed: int = 0,
) -> PairedComparison:
    """Compare two runs task by task; scores are lists of samples."""
    common = sorted(task for task in first.keys() & second.keys() if first[task] and second[task])
    a, b = ([fmean(scores[task]) for task in common] for scores in (first, second))
    return compare_aligned(common, a, b, confidence=confidence, seed=seed)


def compare_aligned(
    tasks: Sequence[str],
    first: Sequence[float],
    second: Sequence[float],
    *,
    confidence: float = 0.95,
    seed: int = 0,
) -> PairedComparison:
    """Compare two runs whose mean scores are given in the order of `tasks`."""
    differences = Coded.of(b - a for a, b in zip(first, second, strict=True))
    only_first = array("I", (place for place, d in enumerate(differences) if d < 0))
    only_second = array("I", (place for place, d in enumerate(differences) if d > 0))
    p_value = paired_p_value(first, second, seed=seed)
    return PairedComparison(
        tasks=len(tasks),
        first_rate=fmean(first) if tasks else 0.0,
        second_rate=fmean(second) if tasks else 0.0,
        only_first=Picked(tasks, only_first),
        only_second=Picked(tasks, only_second),
        difference=fmean(differences) if tasks else 0.0,
        deviation=deviation(differences),
        interval=paired_interval(differences, confidence=confidence, seed=seed),
        mcnemar=p_value if _are_binary(first, second) else None,
        permutation=p_value,
    )


def paired_p_value(first: Sequence[float], second: Sequence[float], *, seed: int = 0) -> float:
    """Two-sided, that two runs are equally good at each task: McNemar's, or by flipping signs."""
    differences = Coded.of(b - a for a, b in zip(first, second, strict=True))
    if _are_binary(first, second):
        return mcnemar_exact(sum(d < 0 for d in differences), sum(d > 0 for d in differences))
    return paired_permutation(differences, seed=seed)


def _are_binary(*runs: Sequence[float]) -> bool:
    return all(value in (0.0, 1.0) for values in runs for value in values)


def deviation(values: Sequence[float]) -> float:
    """The standard deviation of what `values` are a sample of; 0 for fewer than two."""
    if len(values) < 2:
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def percentile(values: Sequence[float], share: float) -> float:
    """Linear-interpolated percentile (`share` from 0 to 1); 0 for no values."""
    return _quantile(sorted(values), share) if values else 0.0


def _quantile(ordered: Sequence[float], share: float) -> float:
    position = share * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def _z(confidence: float) -> float:
    """How many standard errors an interval of that confidence reaches to either side."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    return NormalDist().inv_cdf(0.5 + confidence / 2)
