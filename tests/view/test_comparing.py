"""Comparisons say what the statistics of the command line say, from counts alone."""

from __future__ import annotations

import random

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


def _written(path, trials):
    with RunStore(path, create=True) as store:
        store.add_tasks({"id": task, "prompt": "", "metadata": {}} for task in trials)
        for task, passes in trials.items():
            for sample, passed in enumerate(passes):
                verdict, cost = Verdict(bool(passed)), 0.5 + passed
                trial = TrialRecord(task, sample, "", verdict=verdict, cost=cost, duration=2.0)
                store.write(trial)


@pytest.mark.parametrize("other", ["the same", "another order", "other tasks", "nothing shared"])
def test_runs_are_joined_by_the_names_of_their_tasks(tmp_path, other):
    draw = random.Random(other)
    names = [f"t{n}" for n in range(40)] + ["a\0b", "ü\n'\"", "\u202e", "x" * 4000]

    def made(chosen):
        return {name: [draw.randrange(2) for _ in range(draw.randrange(4))] for name in chosen}

    first = made(names)
    second = made(names)
    if other == "another order":
        second = dict(draw.sample(list(second.items()), len(second)))
    elif other == "other tasks":
        second = made(["new", *draw.sample(names, 30), "newer"])
    elif other == "nothing shared":
        second = made(["new", "newer"])
    for name, trials in (("a", first), ("b", second)):
        _written(tmp_path / f"{name}.chi", trials)
    library = Library([tmp_path])
    joined = Together([_index(library, name) for name in "ab"])
    told, listed = comparison(joined), joined.tasks("all", "", 1, 100)
    library.close()
    shared = {t for t in first if first[t] and second.get(t)}
    rates = {t: [sum(run[t]) / len(run[t]) for run in (first, second)] for t in shared}
    costs = [sum(0.5 + p for t in shared for p in run[t]) for run in (first, second)]

    assert told["tasks"] == listed["found"] == len(shared)
    assert {r["name"]: [side["rate"] for side in r["runs"]] for r in listed["rows"]} == rates
    assert [run["cost"] for run in told["runs"]] == pytest.approx(costs)
    for row in listed["rows"]:
        for side, run in zip(row["runs"], (first, second), strict=True):
            seen = [trial["status"] == "passed" for trial in side["samples"]]
            assert seen == [bool(passed) for passed in run[row["name"]]]
    spread = [max(rates[r["name"]]) - min(rates[r["name"]]) for r in listed["rows"]]
    assert spread == sorted(spread, reverse=True)


def _index(library, name):
    run = library.run(name)
    assert run.known(60).fresh
    return run.index


def test_tasks_may_come_to_more_than_a_byte_can_tell(tmp_path):
    shapes = [(trials, passed) for trials in range(1, 23) for passed in range(trials + 1)]
    made = {f"{n} {passed}": [1] * passed + [0] * (n - passed) for n, passed in shapes}
    for name in "ab":
        _written(tmp_path / f"{name}.chi", made)
    library = Library([tmp_path])
    joined = Together([_index(library, name) for name in "ab"])
    told = comparison(joined)
    library.close()

    assert told["tasks"] == told["agreeing"] == len(shapes) == 275
    assert told["runs"][1]["cost"] == sum(n * 0.5 + passed for n, passed in shapes)


def test_pages_of_a_list_are_parts_of_it_and_text_narrows_it(together):
    _, joined = together((0.9, 1), (0.5, 1))
    whole = [row["name"] for row in joined.tasks("all", "", 1, 50)["rows"]]
    parts = [row["name"] for n in (1, 2, 3) for row in joined.tasks("all", "", n, 10)["rows"]]

    assert parts == whole
    assert {row["name"] for row in joined.tasks("all", "GRAPHS", 1, 50)["rows"]} == {
        name for name in whole if "graphs" in name
    }
    assert joined.tasks("all", "absent", 9, 50)["rows"] == []


def test_what_nobody_knows_the_cost_of_is_not_free(of_letters):
    told = comparison(of_letters("pf", "pp"))

    assert [run["cost"] for run in told["runs"]] == [None, None]
