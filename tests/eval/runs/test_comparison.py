"""Several runs set beside each other, the gate, and how large a run must be."""

from __future__ import annotations

import math
import random
import sqlite3
from contextlib import closing
from statistics import NormalDist, fmean, stdev

import pytest

from chimera.errors import UsageError
from chimera.eval import filed
from chimera.eval.runs import power, stats
from chimera.eval.runs.comparison import (
    RunScores,
    TaskCounts,
    compare_runs,
    gate,
    read_scores,
)
from chimera.eval.runs.store import RunStore
from chimera.eval.values import TrialRecord, Verdict


def scores(name, outcomes, **more):
    """A run by a letter a trial (p, f, e); a task of several samples has several letters."""
    tasks = {
        f"t{number:05}": TaskCounts(len(letters), letters.count("p"), letters.count("e"))
        for number, letters in enumerate(outcomes)
    }
    return RunScores(name, "b", "m", tasks, **more)


def drawn(generator, name, rates, samples=1):
    return scores(
        name,
        ["".join("p" if generator.random() < r else "f" for _ in range(samples)) for r in rates],
    )


def test_all_pairs_are_compared_over_the_tasks_that_all_have():
    compared = compare_runs([scores("a", "ppff"), scores("b", "pfff"), scores("c", "fff")])

    assert (compared.tasks, compared.left_out) == (3, (1, 1, 0))
    assert [(pair.first, pair.second) for pair in compared.pairs] == [(0, 1), (0, 2), (1, 2)]
    assert [run.rate for run in compared.runs] == pytest.approx([2 / 3, 1 / 3, 0])


def stored(run, path, generator):
    """A run's file with the trials of these scores, in any order."""
    ends = {"p": {"verdict": Verdict(True)}, "f": {"verdict": Verdict(False)}, "e": {}}
    records = []
    for task, (trials, passed, unknown) in run.tasks.items():
        letters = "p" * passed + "e" * unknown + "f" * (trials - passed - unknown)
        records += [TrialRecord(task, n, "d", **ends[letter]) for n, letter in enumerate(letters)]
    with RunStore(path, create=True) as store:
        list(store.write_all(generator.sample(records, len(records))))
    return path


@pytest.mark.parametrize("seed", range(12))
def test_stored_runs_are_compared_as_lists_of_their_tasks_are(tmp_path, monkeypatch, seed):
    """By plain lists in memory, as the statistics are defined."""
    monkeypatch.setattr(filed, "FEW", 50)
    generator = random.Random(seed)
    samples, tasks = (seed % 3) + 1, (8, 60, 1300)[seed % 3]
    outcomes = [
        ["".join(generator.choices("pfe", (5, 4, seed % 2), k=samples)) for _ in range(tasks)]
        for _ in range(3)
    ]
    runs = [scores(str(number), letters) for number, letters in enumerate(outcomes)]
    found = compare_runs(
        read_scores([stored(run, tmp_path / f"{run.name}.chi", generator) for run in runs])
    )

    names = sorted(runs[0].tasks)
    for pair in found.pairs:
        first, second = ([run.tasks[name].rate for name in names]
                         for run in (runs[pair.first], runs[pair.second]))  # fmt: skip
        differences = [b - a for a, b in zip(first, second, strict=True)]
        assert list(pair.paired.only_first) == [
            name for name, difference in zip(names, differences, strict=True) if difference < 0
        ]
        assert list(pair.paired.only_second) == [
            name for name, difference in zip(names, differences, strict=True) if difference > 0
        ]
        assert pair.paired.difference == fmean(differences)
        assert pair.paired.deviation == pytest.approx(stdev(differences), rel=1e-12)
        assert pair.paired.p_value == stats.paired_p_value(first, second)
        assert pair.paired.interval == stats.paired_interval(differences)
        if sum(map(bool, differences)) >= 10 and any(abs(d) not in (0, 1) for d in differences):
            assert pair.paired.interval == bootstrap(differences, (-1.0, 1.0))
    for run, rate in zip(runs, found.runs, strict=True):
        counts = [run.tasks[name] for name in names]
        assert rate.rate == sum(count.rate for count in counts) / len(counts)
        assert rate.without_verdict == sum(count.without_verdict for count in counts)
        if samples > 1 and tasks >= 10:
            assert rate.interval == (
                bootstrap([count.rate for count in counts])[0],
                bootstrap([count.highest_rate for count in counts])[1],
            )


def bootstrap(values, bounds=(0.0, 1.0)):
    """The clustered interval, one value a cluster, over plain lists."""
    if len(values) * 2000 > stats.MOST_DRAWS:
        mean = math.fsum(values) / len(values)
        squares = math.fsum((value - mean) ** 2 for value in values)
        spread = NormalDist().inv_cdf(0.975) * math.sqrt(squares) / len(values)
        return (max(min(values), mean - spread), min(max(values), mean + spread))
    generator = random.Random(0)
    means = sorted(
        sum(values[i] for i in generator.choices(range(len(values)), k=len(values))) / len(values)
        for _ in range(2000)
    )
    tail = (1 - 0.95) / 2
    return (stats.percentile(means, tail), stats.percentile(means, 1 - tail))


def test_a_file_whose_texts_are_in_another_order_is_not_compared(tmp_path):
    """In UTF-16, names are ordered by bytes that mean something else: a join would miss some."""
    plain = stored(scores("a", "pf"), tmp_path / "a.chi", random.Random(0))
    odd = tmp_path / "b.chi"
    with closing(sqlite3.connect(plain)) as source, closing(sqlite3.connect(odd)) as target:
        target.execute("PRAGMA encoding = 'UTF-16le'")
        for line in source.iterdump():
            target.execute(line)
        target.execute("UPDATE trials SET task_id = char(256) WHERE task_id = 't00000'")
        target.commit()
        target.execute("PRAGMA user_version = 3")
    with pytest.raises(UsageError, match="no order"):
        compare_runs(read_scores([plain, odd]))


def test_runs_of_one_name_are_told_apart(tmp_path):
    paths = [tmp_path / folder / "run.chi" for folder in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        with RunStore(path, create=True) as store:
            store.write(TrialRecord("t", 0, "d", verdict=Verdict(True)))

    assert [run.name for run in read_scores(paths)] == [str(path) for path in paths]


def test_an_error_is_not_passed_and_shows_in_the_bounds():
    compared = compare_runs([scores("a", "ppfe"), scores("b", "peff")])
    (pair,) = compared.pairs

    assert [run.bounds for run in compared.runs] == [(0.5, 0.75), (0.25, 0.5)]
    assert pair.paired.difference == -0.25
    assert pair.bounds == (-0.5, 0.0)


def test_samples_of_one_task_count_as_one():
    once = compare_runs([scores("a", "p" * 9), scores("b", "f" * 9)])
    often = compare_runs([scores("a", ["pppp"] * 9), scores("b", ["ffff"] * 9)])

    assert often.pairs[0].paired.p_value == once.pairs[0].paired.p_value == 2 / 2**9


def test_the_sentence_says_which_is_better_or_what_would_not_be_seen():
    better = compare_runs([scores("old", "p" * 9 + "f" * 31), scores("new", "p" * 30 + "f" * 10)])
    equal = compare_runs([scores("old", "pf" * 20), scores("new", "p" * 20 + "f" * 20)])

    assert better.conclusion.startswith("new is better than old, by 52.5%")
    assert "differences below about" in equal.conclusion
    assert equal.conclusion.startswith("No difference can be seen over these 40 tasks")


def test_runs_that_cannot_be_told_apart_from_the_best():
    runs = [
        scores("x", "p" * 50 + "f" * 50),
        scores("y", "p" * 48 + "f" * 52),
        scores("z", "f" * 100),
    ]

    assert compare_runs(runs).best == ("x", "y")


def test_the_best_is_among_the_best_in_95_of_100_comparisons():
    generator, missed, alarms = random.Random(3), 0, 0
    for _ in range(400):
        compared = compare_runs([drawn(generator, str(i), [0.5] * 60) for i in range(4)])
        missed += "0" not in compared.best
        alarms += any(pair.differs for pair in compared.pairs)

    assert missed <= 0.05 * 400
    assert alarms <= 0.05 * 400


def test_runs_graded_by_different_rules_are_noted():
    basis = {"data set": "1", "grader": "1", "options": {}}
    compared = compare_runs(
        [scores("a", "pf", basis=basis), scores("b", "pf", basis={**basis, "grader": "2"})]
    )

    assert compared.notes == ("the runs differ in their grader: scores may not be comparable",)


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ("p" * 40, "e" * 40, "a passed more than b (100.0%"),
        ("e" * 20 + "p" * 20, "p" * 40, "b passed more than a (50.0%"),
        ("p" * 40, "f" * 38 + "ee", "a is better than b"),  # whatever the errors were
    ],
)
def test_no_run_is_called_better_for_the_errors_of_the_other(first, second, says):
    compared = compare_runs([scores("a", first), scores("b", second)])

    assert compared.conclusion.startswith(says)
    assert ("could turn this" in compared.conclusion) is not compared.pairs[0].differs


def test_a_run_without_verdicts_is_not_shown_to_be_worse_than_the_best():
    runs = [scores("x", "p" * 50), scores("y", "e" * 50), scores("z", "f" * 50)]

    assert compare_runs(runs).best == ("x", "y")


def test_an_interval_has_room_for_errors():
    (run, _) = compare_runs([scores("a", "pppfffeeee"), scores("b", "p" * 10)]).runs

    assert run.interval[0] < run.bounds[0] < run.bounds[1] < run.interval[1]


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ({"options": {}}, {"options": {"split": "hard"}}, "differ in their options"),
        ({"options": {"a": [1], "b": 2}}, {"options": {"b": 2, "a": (1,)}}, None),
        ({"data set": None}, {"data set": "1"}, "the data set of some of the runs is not known"),
        ({"data set": "1"}, {"data set": "2"}, "differ in their data set"),
    ],
)
def test_runs_that_were_not_judged_alike_are_noted_and_pass_no_gate(first, second, says):
    runs = [scores("a", "p" * 9, basis=first), scores("b", "p" * 9, basis=second)]
    notes = compare_runs(runs).notes

    assert (notes == ()) if says is None else (says in notes[0])
    assert gate(runs).passed is (None if says else True)


@pytest.mark.parametrize("runs", [["pf"], ["pf", ""]])
def test_nothing_to_compare(runs):
    with pytest.raises(UsageError):
        compare_runs([scores(str(n), letters) for n, letters in enumerate(runs)])


@pytest.mark.parametrize(
    ("base", "candidate", "margin", "passed"),
    [
        ("p" * 20, "p" * 20, None, True),
        ("p" * 20, "p" * 17 + "f" * 3, None, True),  # p = 1/8
        ("p" * 20, "p" * 15 + "f" * 5, None, False),  # p = 1/32
        ("f" * 20, "p" * 20, None, True),
        ("p" * 20, "p" * 20, 0.02, False),  # nothing differs, but 20 tasks do not show so much
        ("p" * 300, "p" * 300, 0.02, True),
        ("p" * 300, "p" * 294 + "f" * 6, 0.02, False),
        ("p" * 20, "p" * 15 + "e" * 5, None, None),  # the errors alone are a regression
        ("p" * 15 + "e" * 5, "p" * 15 + "f" * 5, None, None),  # the baseline's errors hide one
        ("p" * 18 + "e" * 2, "p" * 13 + "f" * 7, None, False),  # whatever the errors were
    ],
)
def test_the_gate(base, candidate, margin, passed):
    assert gate([scores("a", base), scores("b", candidate)], margin=margin).passed is passed


def test_a_run_that_is_not_complete_passes_no_gate():
    decided = gate([scores("a", "pp"), scores("b", "pp", not_run=3)])

    assert decided.passed is None
    assert decided.reasons[-1] == "b: 3 planned trials were not run"


def test_a_run_without_some_of_the_baselines_tasks_passes_no_gate():
    decided = gate([scores("a", "ppp"), scores("b", "pp")])

    assert decided.passed is None
    assert decided.reasons[-1] == "1 tasks of a are not in every other run"
    assert gate([scores("a", "pp"), scores("b", "ppp")]).passed is True


def test_false_alarms_of_the_gate_are_at_most_alpha_for_all_candidates_together():
    generator, alarms = random.Random(5), 0
    for _ in range(400):
        runs = [drawn(generator, str(i), [0.6] * 50) for i in range(4)]
        alarms += gate(runs).passed is False

    assert alarms <= 0.05 * 400


@pytest.mark.parametrize("samples", [1, pytest.param(3, marks=pytest.mark.full)])
def test_a_run_worse_by_the_margin_passes_at_most_as_often_as_alpha(samples):
    generator, passes = random.Random(9), 0
    for _ in range(150):
        rates = [generator.random() * 0.8 + 0.2 for _ in range(120)]
        base = drawn(generator, "base", rates, samples)
        worse = drawn(generator, "worse", [rate - 0.2 for rate in rates], samples)
        passes += bool(gate([base, worse], margin=0.2).passed)

    assert passes <= 0.1 * 150  # 5 % and three standard errors


@pytest.mark.parametrize(
    ("samples", "difference"), [(1, 0.2), pytest.param(4, 0.15, marks=pytest.mark.full)]
)
def test_so_many_tasks_show_the_difference_as_often_as_promised(samples, difference):
    generator, seen = random.Random(samples), 0

    def rates(count):
        return [generator.random() * 0.8 for _ in range(count)]

    probe = rates(4000)
    first, second = (
        {
            task: (4, sum(generator.random() < rate + gain for _ in range(4)))
            for task, rate in enumerate(probe)
        }
        for gain in (0, difference)
    )
    variance = power.spread_of_runs(first, second).variance(samples)
    tasks = power.tasks_needed(difference, variance)
    for _ in range(150):
        base = rates(tasks)
        runs = [
            drawn(generator, "a", base, samples),
            drawn(generator, "b", [rate + difference for rate in base], samples),
        ]
        seen += compare_runs(runs).pairs[0].differs

    assert 0.7 < seen / 150 < 0.9


@pytest.mark.parametrize("variance", [0.02, 0.3, 0.5])
@pytest.mark.parametrize("difference", [0.01, 0.03, 0.2])
def test_needed_tasks_and_the_detectable_difference_agree(variance, difference):
    tasks = power.tasks_needed(difference, variance)

    assert power.detectable(variance**0.5, tasks) <= difference * (1 + 1e-6)
    assert power.detectable(variance**0.5, tasks - 1) >= difference * (1 - 1e-6) or tasks == 2


def test_samples_help_only_against_chance():
    real = power.spread_of_runs({"a": (4, 4), "b": (4, 0)}, {"a": (4, 0), "b": (4, 4)})
    chance = power.spread_of_run([(4, 2)] * 50)
    unknown = power.spread_of_rates(0.5, 0.6)

    assert real.variance(1) == real.variance(10) > 0
    assert unknown.variance(1) == unknown.variance(10) == pytest.approx(0.49)
    assert chance.variance(10) == pytest.approx(chance.variance(1) / 10)


def test_variances_of_samples_are_told_apart_from_those_of_tasks():
    generator = random.Random(2)
    gains = [generator.choice([-0.3, 0.3]) for _ in range(6000)]
    first, second = (
        {
            task: (3, sum(generator.random() < 0.5 + sign * gain for _ in range(3)))
            for task, gain in enumerate(gains)
        }
        for sign in (0, 1)
    )
    spread = power.spread_of_runs(first, second)

    assert spread.between == pytest.approx(0.09, abs=0.02)
    assert spread.within == pytest.approx(0.25 + 0.16, abs=0.02)


@pytest.mark.slow
def test_a_hundred_thousand_tasks_are_drawn_from_no_more_than_once(monkeypatch):
    generator = random.Random(1)
    runs = [drawn(generator, str(i), [0.5] * 100_000, samples=2) for i in range(3)]
    monkeypatch.setattr(random, "Random", None)
    compared = compare_runs(runs)

    assert all(pair.paired.interval[1] - pair.paired.interval[0] < 0.01 for pair in compared.pairs)
    assert stats.holm([pair.paired.p_value for pair in compared.pairs]) == [
        pair.adjusted for pair in compared.pairs
    ]
