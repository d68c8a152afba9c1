"""Statistics against published values, and properties that must hold for all inputs."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimera.eval.runs import stats


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        (10, 3, 5, 0.916667),  # the three below: values observed from the HumanEval estimator
        (200, 10, 100, 0.999229),
        (200, 1, 1, 0.005),
        (5, 0, 1, 0.0),
        (5, 5, 5, 1.0),
    ],
)
def test_pass_at_k(n, c, k, expected):
    assert stats.pass_at_k(n, c, k) == pytest.approx(expected, abs=1e-6)


@given(st.integers(1, 9), st.data())
def test_pass_at_k_and_pass_hat_k_count_all_draws(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    draws = list(combinations([True] * c + [False] * (n - c), k))
    some = Fraction(sum(any(draw) for draw in draws), len(draws))
    every = Fraction(sum(all(draw) for draw in draws), len(draws))

    assert stats.pass_at_k(n, c, k) == pytest.approx(float(some))
    assert stats.pass_hat_k(n, c, k) == pytest.approx(float(every))


@pytest.mark.parametrize("counts", [(5, 6, 1), (5, -1, 1), (5, 2, 0), (5, 2, 6)])
def test_impossible_counts_are_refused(counts):
    with pytest.raises(ValueError, match="need"):
        stats.pass_at_k(*counts)


@pytest.mark.parametrize(
    ("passed", "total", "low", "high"),
    [  # Newcombe 1998, table I, method 3 (Wilson's score without continuity correction)
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_newcombes_published_intervals(passed, total, low, high):
    assert stats.wilson(passed, total) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(0, 500), st.integers(0, 500), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_holds_the_rate_and_stays_within_bounds(passed, failed, confidence):
    low, high = stats.wilson(passed, passed + failed, confidence)

    assert 0 <= low <= high <= 1
    if passed + failed:
        assert low <= passed / (passed + failed) <= high


@pytest.mark.parametrize(
    ("b", "c", "p"),
    [(0, 0, 1.0), (1, 0, 1.0), (0, 5, 0.0625), (1, 9, 22 / 1024), (6, 16, 0.0525)],
)
def test_mcnemar_exact(b, c, p):
    assert stats.mcnemar_exact(b, c) == pytest.approx(p, abs=5e-5)
    assert stats.mcnemar_exact(c, b) == pytest.approx(p, abs=5e-5)


def test_mcnemar_survives_thousands_of_pairs():
    assert stats.mcnemar_exact(2000, 3000) < 1e-40


def test_permutation_is_exact_for_few_differences():
    # Fisher's own example of Darwin's maize is too long for exactness; this one is by hand:
    # of 2^4 sign patterns of 1, 2, 3, 4 only the two with equal signs reach |sum| = 10.
    assert stats.paired_permutation([1, 2, 3, 4]) == pytest.approx(2 / 16)


def test_permutation_of_darwins_maize_agrees_with_fisher():
    differences = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    assert stats.paired_permutation(differences) == pytest.approx(0.05267, abs=5e-5)


@settings(deadline=None, max_examples=15)
@given(st.lists(st.integers(-5, 5), min_size=17, max_size=40))
def test_sampled_permutation_is_a_probability_and_repeats(differences):
    first = stats.paired_permutation(differences, resamples=200, seed=1)

    assert 0 < first <= 1
    assert first == stats.paired_permutation(differences, resamples=200, seed=1)


def sampled_one_by_one(differences, resamples, seed):
    """The same test as it is defined, at the square of the cost."""
    values = [d for d in differences if d]
    observed = abs(math.fsum(values)) - 1e-12
    generator, extreme = random.Random(seed), 0
    for _ in range(resamples):
        signs = generator.getrandbits(len(values))
        total = math.fsum(v if signs >> i & 1 else -v for i, v in enumerate(values))
        extreme += abs(total) >= observed
    return (extreme + 1) / (resamples + 1)


@settings(deadline=None, max_examples=25)
@given(
    st.one_of(
        st.lists(st.sampled_from([-1.0, 1.0]), min_size=17, max_size=60),
        st.lists(st.integers(1, 6).map(lambda n: n / 6 - 0.5), min_size=40, max_size=80),
        st.lists(st.floats(0.001, 1), min_size=70, max_size=90, unique=True),
    )
)
def test_counting_signs_at_once_changes_no_value(differences):
    expected = sampled_one_by_one(differences, 100, 3) if sum(map(bool, differences)) > 16 else None

    if expected is not None:
        found = stats.paired_permutation(differences, resamples=100, seed=3)
        assert found == expected or found < 1 / 100  # rarer than draws can show: bounded


@pytest.mark.parametrize(("b", "c"), [(0, 1200), (500, 501), (480, 560), (1, 3000), (700, 700)])
def test_mcnemar_of_many_pairs_is_that_of_whole_numbers(b, c):
    n = b + c
    exact = min(1.0, 2 * sum(math.comb(n, i) for i in range(min(b, c) + 1)) / (1 << n))

    assert stats.mcnemar_exact(b, c) == pytest.approx(exact, rel=1e-9, abs=1e-300)


def test_a_million_pairs_take_no_whole_numbers_of_a_million_digits():
    assert stats.mcnemar_exact(500_000, 501_000) == pytest.approx(0.3178, abs=1e-3)


def test_holm_gives_what_statsmodels_gives():
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    values = [0.01, 0.04, 0.03, 0.005, 0.8, 0.03]

    assert stats.holm(values) == pytest.approx(multitest.multipletests(values, method="holm")[1])
    assert stats.holm([]) == []


@pytest.mark.parametrize(("b", "c"), [(0, 7), (3, 9), (400, 460), (900, 1000)])
def test_mcnemar_gives_what_scipy_gives(b, c):
    scipy = pytest.importorskip("scipy.stats")

    assert stats.mcnemar_exact(b, c) == pytest.approx(scipy.binomtest(b, b + c).pvalue)


def likeliest_variance(gained, lost, tasks, difference):
    """Of gained - lost, its rates found by going through all that differ by `difference`."""
    least, most = max(0.0, -difference), (1 - difference) / 2

    def likelihood(loss):
        rates = ((gained, loss + difference), (lost, loss))
        rest = (tasks - gained - lost, 1 - 2 * loss - difference)
        return sum(count * math.log(max(rate, 1e-300)) for count, rate in (*rates, rest) if count)

    loss = max((least + (most - least) * i / 20_000 for i in range(20_001)), key=likelihood)
    return tasks * (2 * loss + difference - difference**2)


@pytest.mark.parametrize(
    ("gained", "lost", "tasks"), [(12, 2, 50), (0, 0, 30), (3, 0, 20), (5, 9, 14)]
)
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_ends_of_the_score_interval_lie_z_standard_errors_away(gained, lost, tasks, confidence):
    z = {0.9: 1.6449, 0.95: 1.95996}[confidence]
    for end in stats.score_interval(gained, lost, tasks, confidence=confidence):
        distance = abs(gained - lost - tasks * end)

        assert distance == pytest.approx(
            z * math.sqrt(likeliest_variance(gained, lost, tasks, end)), rel=2e-3
        )


def test_the_score_interval_covers_what_it_promises():
    covered, chances = [], [(0.02, 0.02), (0.1, 0.0), (0.15, 0.05), (0.01, 0.06)]
    for gain, loss in chances:
        total = 0.0
        for b in range(41):  # every outcome of 40 tasks, with its chance
            for c in range(41 - b):
                low, high = stats.score_interval(b, c, 40)
                ways = math.comb(40, b) * math.comb(40 - b, c)
                if low <= gain - loss <= high:
                    total += ways * gain**b * loss**c * (1 - gain - loss) ** (40 - b - c)
        covered.append(total)

    assert all(0.93 <= total <= 0.995 for total in covered)


def test_one_win_of_a_hundred_is_no_gain_for_sure():
    low, high = stats.paired_interval([1.0] + [0.0] * 99)

    assert low < 0 < 0.01 < high


def test_rare_sums_of_signs_are_bounded_where_draws_end():
    p = stats.paired_permutation([0.5] * 20 + [1.0] * 20)

    assert 2 / 2**40 <= p < 1e-4


def test_bootstrap_of_clusters_is_wider_than_of_single_trials():
    clusters = [[1.0] * 10 if task % 2 else [0.0] * 10 for task in range(20)]
    low, high = stats.clustered_bootstrap(clusters)
    single_low, single_high = stats.clustered_bootstrap([[v] for c in clusters for v in c])

    assert high - low > 2 * (single_high - single_low)
    assert low < 0.5 < high


@pytest.mark.parametrize("tasks", [1, 3, 9, 10, 200])
def test_a_clean_sweep_is_no_certainty(tasks):
    for value in (0.0, 1.0):
        interval = stats.clustered_bootstrap([[value] * 5] * tasks)

        assert interval == pytest.approx(stats.wilson(value * tasks, tasks))


@pytest.mark.parametrize("tasks", [1, 2, 9, 10, 50, 20_000])
@pytest.mark.parametrize("samples", [[1.0, 0.0], [1.0, 0.0, 0.0]])
def test_tasks_that_are_all_alike_are_no_certainty(tasks, samples):
    low, high = stats.clustered_bootstrap([samples] * tasks)
    _, unseen = stats.wilson(0, tasks)

    assert 0 <= low < sum(samples) / len(samples) < high <= 1
    assert high - low > 0.99 * unseen


def test_few_tasks_are_taken_for_one_trial_each():
    assert stats.clustered_bootstrap([[1.0, 0.0]]) == stats.wilson(0.5, 1)
    assert stats.clustered_bootstrap([[1.0, 0.0], [1.0, 1.0]]) == stats.wilson(1.5, 2)


@pytest.mark.parametrize("tasks", [1, 4, 100])
def test_equal_runs_differ_by_as_much_in_both_directions(tasks):
    scores = {str(task): [float(task % 2)] for task in range(tasks)}
    low, high = stats.compare_paired(scores, scores).interval

    assert -1 < low < 0
    assert high == pytest.approx(-low)


def test_opposite_differences_do_not_look_like_a_gain():
    first = {str(task): [float(task % 2)] for task in range(40)}
    second = {task: [1.0 - score] for task, (score,) in first.items()}
    low, high = stats.compare_paired(first, second).interval

    assert low < -0.2
    assert high > 0.2


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), max_size=4), max_size=12))
def test_bootstrap_stays_within_bounds_and_repeats(clusters):
    interval = stats.clustered_bootstrap(clusters, resamples=50)

    assert 0 <= interval[0] <= interval[1] <= 1
    assert interval == stats.clustered_bootstrap(clusters, resamples=50)


def clusters_of(tasks):
    """Tasks of one to four samples with rates of their own."""
    generator = random.Random(7)
    rates = [generator.random() for _ in range(tasks)]
    return [
        [float(generator.random() < rate) for _ in range(generator.randint(1, 4))] for rate in rates
    ]


@pytest.mark.parametrize("tasks", [500, 1000])
def test_the_normal_interval_is_that_of_the_bootstrap(monkeypatch, tasks):
    clusters = clusters_of(tasks)
    drawn = stats.clustered_bootstrap(clusters)
    monkeypatch.setattr(stats, "MOST_DRAWS", 0)
    limit = stats.clustered_bootstrap(clusters)

    width = drawn[1] - drawn[0]
    assert limit != drawn
    assert limit == pytest.approx(drawn, abs=0.08 * width)


def test_the_normal_p_value_is_that_of_the_permutations(monkeypatch):
    generator = random.Random(5)
    differences = [generator.gauss(0.02, 1) for _ in range(3000)]
    drawn = stats.paired_permutation(differences)
    monkeypatch.setattr(stats, "MOST_DRAWS", 0)

    assert stats.paired_permutation(differences) == pytest.approx(drawn, abs=0.01)


def test_hundreds_of_thousands_of_tasks_are_not_drawn(monkeypatch):
    monkeypatch.setattr(random, "Random", None)
    many = {str(i): [float(i % 2), float(i % 3 == 0)] for i in range(200_000)}

    low, high = stats.clustered_bootstrap(list(many.values()))
    compared = stats.compare_paired(many, {task: [1.0] for task in many})
    assert 0 < high - low < 0.005
    assert 0 < compared.interval[1] - compared.interval[0] < 0.005


def test_hundreds_of_thousands_of_samples_take_no_long_numbers():
    assert stats.pass_at_k(200_000, 2, 100_000) == pytest.approx(0.75, abs=1e-4)
    assert stats.pass_hat_k(200_000, 199_998, 100_000) == pytest.approx(0.25, abs=1e-4)
    assert stats.pass_hat_k(200_000, 100_000, 150_000) == 0.0


def test_coverage_bounds_span_what_missing_verdicts_could_be():
    assert stats.coverage_bounds(6, 10, 3) == (0.6, 0.9)
    assert stats.coverage_bounds(0, 0, 0) == (0.0, 1.0)


def test_comparison_pairs_only_common_tasks():
    first = {"a": [1.0], "b": [1.0], "c": [0.0], "only here": [1.0]}
    second = {"a": [1.0], "b": [0.0], "c": [0.0]}
    comparison = stats.compare_paired(first, second)

    assert comparison.tasks == 3
    assert (list(comparison.only_first), list(comparison.only_second)) == (["b"], [])
    assert comparison.difference == pytest.approx(-1 / 3)
    assert comparison.mcnemar == 1.0


def test_comparison_of_several_samples_has_no_mcnemar():
    assert stats.compare_paired({"a": [1, 0]}, {"a": [0, 0]}).mcnemar is None


def test_percentile():
    assert stats.percentile([1, 2, 3, 4], 0.5) == 2.5
    assert stats.percentile([], 0.95) == 0.0
    assert math.isclose(stats.percentile(range(101), 0.95), 95)
