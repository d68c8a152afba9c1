"""The test that may be looked at after every task: its promises, exactly and by simulation."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from functools import cache

import pytest

from chimera.eval.runs.sequential import BETS, SequentialTest, UntilDecided, lot


def decide(differences, **settings):
    test = SequentialTest(**settings)
    for difference in differences:
        if test.add(difference):
            break
    return test


@pytest.mark.parametrize(
    ("differences", "decision"),
    [([1] * 40, "better"), ([-1] * 40, "worse"), ([1, -1] * 200, None), ([0] * 400, None)],
)
def test_what_is_decided(differences, decision):
    assert decide(differences).decision == decision


def test_the_absence_of_a_difference_is_decided_with_a_margin_alone():
    assert decide([0] * 400, margin=0.05).decision == "equivalent"
    assert decide([0.1] * 2000, margin=0.05).decision == "better"


def test_the_wealth_is_the_mean_of_all_bets():
    differences = [1, 0, -1, 0.5, -0.25, 1]
    test = SequentialTest(alpha=1e-9)
    for difference in differences:
        test.add(difference)
    made = [math.prod(1 + sign * bet * d for d in differences) for bet in BETS for sign in (1, -1)]

    assert test.evidence == pytest.approx(sum(made) / len(made))


def test_fair_coins_leave_the_expected_wealth_at_one_and_alarms_below_alpha():
    """Every sequence of discordant pairs counts: summed over the lattice of wins and losses."""
    alpha, pairs = 0.05, 150

    @cache
    def wealth(wins, losses):
        made = [
            math.exp(wins * math.log1p(bet) + losses * math.log1p(-bet))
            + math.exp(wins * math.log1p(-bet) + losses * math.log1p(bet))
            for bet in BETS
        ]
        return sum(made) / (2 * len(BETS))

    alive, alarms = {(0, 0): 1.0}, 0.0
    for _ in range(pairs):
        after: dict[tuple[int, int], float] = {}
        for (wins, losses), chance in alive.items():
            for state in ((wins + 1, losses), (wins, losses + 1)):
                if wealth(*state) >= 1 / alpha:
                    alarms += chance / 2
                else:
                    after[state] = after.get(state, 0.0) + chance / 2
        alive = after
    expected = (
        sum(math.comb(pairs, wins) * wealth(wins, pairs - wins) for wins in range(pairs + 1))
        / 2**pairs
    )

    assert expected == pytest.approx(1)
    assert 0.005 < alarms < alpha


def test_a_list_of_tasks_that_evens_out_raises_alarms_below_alpha():
    """Drawn without return from a list whose differences add up to nothing."""
    generator, alarms = random.Random(4), 0
    for _ in range(600):
        differences = [1, -1] * 30 + [0] * 40
        generator.shuffle(differences)
        alarms += decide(differences).decision is not None

    assert alarms <= 0.05 * 600


def test_runs_that_differ_by_the_margin_are_seldom_called_equivalent():
    generator, wrong = random.Random(8), 0
    for _ in range(300):
        differences = [generator.choices([1, 0, -1], [0.2, 0.7, 0.1])[0] for _ in range(400)]
        wrong += decide(differences, margin=0.1).decision == "equivalent"

    assert wrong <= 0.05 * 300


def test_expected_wealth_of_a_margin_is_at_most_one_at_its_edge():
    margin = Fraction(1, 10)
    chances = {1: Fraction(2, 10), 0: Fraction(7, 10), -1: Fraction(1, 10)}  # a mean of the margin
    for bet in BETS:
        share = Fraction(bet).limit_denominator(20) / (1 - margin)
        factors = {d: 1 + share * (margin - d) for d in chances}

        assert all(factor > 0 for factor in factors.values())
        assert sum(chances[d] * factor for d, factor in factors.items()) == 1


def test_a_decision_stays():
    test = decide([1] * 40)
    for _ in range(100):
        test.add(-1)

    assert test.decision == "better"


def test_tasks_count_in_their_order_whenever_they_end():
    order = ["c", "a", "b", "new", "d"]
    against = dict.fromkeys("abcd", (0.0, 0.0))
    rule = UntilDecided(SequentialTest(), against, order, samples=2)
    seen = []
    for task in ("d", "b", "a", "c", "new"):
        for sample in (0, 1):
            rule.add(task, sample, passed=task != "b")
            seen.append(rule.test.tasks)

    assert seen == [0, 0, 0, 0, 0, 0, 0, 4, 4, 4]
    assert rule.test.least == rule.test.most == 3


@pytest.mark.parametrize(
    ("outcome", "against", "decision"),
    [
        (False, (1.0, 1.0), "worse"),
        (None, (1.0, 1.0), None),  # a machine that is broken is not a worse run
        (True, (0.0, 1.0), None),  # nor is one better whose rival's machine was
        (True, (0.0, 0.0), "better"),
    ],
)
def test_trials_without_a_verdict_decide_nothing(outcome, against, decision):
    order = [f"t{n}" for n in range(60)]
    rule = UntilDecided(SequentialTest(), dict.fromkeys(order, against), order)
    for task in order:
        rule.add(task, 0, passed=outcome)

    assert rule.test.decision == decision


def test_no_equivalence_is_claimed_of_trials_without_a_verdict():
    known, unknown = SequentialTest(margin=0.2), SequentialTest(margin=0.2)
    for _ in range(200):
        known.add(0)
        unknown.add(0, 0.5)

    assert (known.decision, unknown.decision) == ("equivalent", None)


def test_the_order_is_that_of_the_seed_whatever_else_is_in_the_list():
    tasks = [f"t{n}" for n in range(50)]
    first, other = (sorted(tasks, key=lambda task: lot(task, seed)) for seed in (1, 2))

    assert first != other
    assert sorted(tasks[10:], key=lambda task: lot(task, 1)) == [
        t for t in first if t in tasks[10:]
    ]


def test_a_difference_of_rates_has_bounds():
    with pytest.raises(ValueError, match="between -1 and 1"):
        SequentialTest().add(2)
