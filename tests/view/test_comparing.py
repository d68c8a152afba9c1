"""Comparisons say what the statistics of the command line say, from counts alone."""

from __future__ import annotations

import pytest

from chimera.eval.runs.stats import compare_paired
from chimera.eval.runs.store import RunStore
from chimera.eval.values import TrialError, TrialRecord, Verdict
from chimera.view.comparing import Together, comparison
from chimera.view.library import Library
from tests.view.made_runs import make_run


@pytest.fixture
def together(tmp_path):
    """`together(…)`: runs of these skills and samples, counted and joined."""
    libraries = []

    def join(*made):
        for number, (skill, samples) in enumerate(made):
            path = tmp_path / f"{number}.chi"
            make_run(path, skill=skill, samples=samples, tasks=30, seed=number)
        library = Library([tmp_path])
        libraries.append(library)
        runs = sorted(library.runs(), key=lambda run: run.name)
        assert all(run.known(60).fresh for run in runs)
        return runs, Together([run.index for run in runs])

    yield join
    for library in libraries:
        library.close()


def scores(run):
    found = {}
    for record in RunStore(run.path).records():
        found.setdefault(record.task_id, []).append(float(record.passed))
    return found


@pytest.mark.parametrize("samples", [1, 3])
def test_a_pair_is_what_the_command_line_says(together, samples):
    (first, second), joined = together((0.9, samples), (0.5, samples))
    told = comparison(joined)
    (pair,) = told["pairs"]
    expected = compare_paired(scores(first), scores(second))

    assert told["tasks"] == expected.tasks
    assert pair["difference"] == pytest.approx(expected.difference)
    assert pair["table"]["first"] == len(expected.only_first)
    assert pair["table"]["second"] == len(expected.only_second)
    assert pair["p"] == pytest.approx(
        expected.mcnemar if samples == 1 else expected.permutation, abs=0.02
    )
    assert pair["interval"] == pytest.approx(expected.interval, abs=0.03)


def test_flipped_tasks_come_first_and_are_all_there(together):
    (first, second), joined = together((0.9, 1), (0.5, 1))
    a, b = scores(first), scores(second)
    listed = joined.tasks("flipped", "", 1, 50)

    assert {row["name"] for row in listed["rows"]} == {t for t in a if a[t] != b[t]}
    assert {row["name"] for row in joined.tasks("worse", "", 1, 50)["rows"]} == {
        t for t in a if a[t] > b[t]
    }
    assert joined.tasks("all", "", 1, 50)["found"] == 30


def test_three_runs_are_set_against_the_first_and_adjusted(together):
    _, joined = together((0.9, 1), (0.5, 1), (0.85, 1))
    told = comparison(joined)

    assert [pair["second"] for pair in told["pairs"]] == [1, 2]
    for pair in told["pairs"]:
        assert pair["p_adjusted"] >= pair["p"]
    assert "A passes" in told["pairs"][0]["sentence"]
    assert "No difference between A and C" in told["pairs"][1]["sentence"]
    assert told["best"] == [0, 2]


@pytest.fixture
def of_letters(tmp_path):
    """`of_letters("pf", "pe")`: runs by a letter a trial (p, f, e), counted and joined."""
    libraries = []

    def join(*made):
        for number, letters in enumerate(made):
            with RunStore(tmp_path / f"{number}.chi", create=True) as store:
                for task, letter in enumerate(letters):
                    verdict = None if letter == "e" else Verdict(letter == "p")
                    error = TrialError("agent", "broke") if letter == "e" else None
                    trial = TrialRecord(f"t{task}", 0, "", verdict=verdict, error=error, cost=None)
                    store.write(trial)
        library = Library([tmp_path])
        libraries.append(library)
        runs = sorted(library.runs(), key=lambda run: run.name)
        assert all(run.known(60).fresh for run in runs)
        return Together([run.index for run in runs])

    yield join
    for library in libraries:
        library.close()


@pytest.mark.parametrize(
    ("first", "second", "sure"),
    [("p" * 40, "e" * 40, False), ("e" * 20 + "p" * 20, "p" * 40, False),
     ("p" * 40, "f" * 38 + "ee", True)],
)  # fmt: skip
def test_the_errors_of_a_run_conclude_nothing(of_letters, first, second, sure):
    told = comparison(of_letters(first, second))
    (pair,) = told["pairs"]

    assert (pair["sure"] <= 0.05) is sure
    assert ("could turn this" in pair["sentence"]) is not sure
    assert (told["best"] == [0, 1]) is not sure
    assert pair["bounds"][0] < pair["bounds"][1]


def test_what_nobody_knows_the_cost_of_is_not_free(of_letters):
    told = comparison(of_letters("pf", "pp"))

    assert [run["cost"] for run in told["runs"]] == [None, None]
