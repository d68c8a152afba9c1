"""Answers that are there already: prediction files and stored runs."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from chimera.cli.display import summary_lines
from chimera.errors import ExitCode, UsageError
from chimera.eval.benchmark import Benchmark
from chimera.eval.regrade import grade_again, planned_answers, prepare_predictions
from chimera.eval.run import RunSettings, exit_code, run
from chimera.eval.runs.comparison import basis_of
from chimera.eval.runs.store import RunStore
from chimera.eval.values import Prediction, Submission


def predictions(*answers: tuple[str, str]) -> Path:
    file = Path("answers.jsonl")
    file.write_text("".join(json.dumps({"id": t, "output": text}) + "\n" for t, text in answers))
    return file


def test_a_prediction_file_becomes_a_run(letters):
    file = predictions(("a", "a"), ("b", "no"), ("a", "x"), ("b", "b"), ("b", "b"))
    prepared, unanswered = prepare_predictions(RunSettings(letters, agent="predictions"), file)
    with prepared.open_store() as store:
        result = prepared.harness(store).run()
        found = {(each.task_id, each.sample): each.passed for each in result.results}
        manifest = store.manifest()

    assert found == {
        ("a", 0): True,
        ("a", 1): False,
        ("b", 0): False,
        ("b", 1): True,
        ("b", 2): True,
    }
    assert (prepared.samples, unanswered) == (2, 2)
    assert manifest["predictions"] == str(file.absolute())


def test_no_task_counts_more_for_having_more_lines(letters):
    file = predictions(*[("a", "a")] * 19, ("b", "no"))
    prepared, _ = prepare_predictions(RunSettings(letters, agent="predictions"), file)
    with prepared.open_store() as store:
        result = prepared.harness(store).run()
        summary, said = result.summary(), list(summary_lines(result))
        codes = [exit_code(result, bound) for bound in (0.9, 0.5)]

    assert (summary["pass_rate"], summary["task_rate"], summary["unanswered"]) == (0.95, 0.5, 2)
    assert "  50.0% with each task counted the same: they have 1 to 19 trials" in said
    assert codes == [ExitCode.GATE, ExitCode.DONE]


@pytest.mark.parametrize(
    ("answers", "says"), [((), "no predictions"), ((("z", "z"),), "has no task 'z'")]
)
def test_a_file_without_usable_answers_is_refused(letters, answers, says):
    with pytest.raises(UsageError, match=says):
        prepare_predictions(RunSettings(letters), predictions(*answers))


def test_a_file_that_is_not_there_is_refused(letters):
    with pytest.raises(UsageError, match="no such file"):
        prepare_predictions(RunSettings(letters), Path("absent.jsonl"))


def test_a_file_that_brings_its_tasks_needs_no_data_set():
    class Absent(Benchmark):
        def name(self):
            return "absent"

        def tasks(self):
            raise AssertionError("the tasks are in the file")

    answer = Prediction("t", Submission("x"), task={"id": "t", "prompt": ""})

    assert [
        (task["id"], sample) for task, sample, _ in planned_answers(Absent(), [answer] * 2)
    ] == [
        ("t", 0),
        ("t", 1),
    ]


def test_stored_verdicts_are_checked_and_replaced(letters):
    settings = RunSettings(letters, model="scripted/text:a", limit="2")
    path = run(settings).store.path
    other = {"option": ["right=b"]}
    with RunStore(path, write=True) as store:
        same = list(grade_again(store, keep=False))
        checked = list(grade_again(store, changes=other, keep=False, controls="off"))
        before = [record.passed for record in store.records()]
        list(grade_again(store, changes=other, controls="off"))
        after = [record.passed for record in store.records()]

    assert [each.changed for each in same] == [False, False]
    assert sorted(each.before.task_id for each in checked if each.changed) == ["a"]
    assert (sorted(before), sorted(after)) == ([False, True], [False, False])


def test_a_verdict_without_an_answer_is_confirmed_by_nothing(letters):
    path = run(RunSettings(letters, model="scripted/text:a", limit="2")).store.path
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM submissions WHERE trial = 1")
    with RunStore(path, write=True) as store:
        again = list(grade_again(store, controls="off"))
        kept = [record.passed for record in store.records()]
        basis = basis_of(store.manifest())

    assert sorted(each.unfounded for each in again) == [False, True]
    assert [each.decided for each in again if each.unfounded] == [False]
    assert kept == [True, False]
    assert basis["grader"] == "two in one run"


@pytest.mark.parametrize(
    ("right", "status", "says"),
    [
        ("reference", "error", "the reference answer does not pass here either"),
        ("everything", "failed", ""),  # grading breaks: that says nothing of the stored verdict
    ],
)
def test_a_stored_verdict_stays_only_where_known_answers_do_not_forbid_it(
    right, status, says, letters
):
    path = run(RunSettings(letters, model="scripted/text:z", limit="1")).store.path
    with RunStore(path, write=True) as store:
        (again,) = grade_again(store, changes={"option": [f"broken={right}"]})
        record = store.record("a", 0)

    assert again.after.status == "error"
    assert (record.status, record.submission.text) == (status, "z")
    assert says in record.why


def test_a_run_that_was_graded_again_says_by_what(letters):
    path = run(RunSettings(letters, model="scripted/text:a", limit="2")).store.path
    with RunStore(path, write=True) as store:
        before = basis_of(store.manifest())
        list(grade_again(store, changes={"option": ["count=3"]}, controls="off"))
        after = basis_of(store.manifest())
        list(islice(grade_again(store, controls="off"), 1))  # it was broken off
        half = basis_of(store.manifest())

    assert before["options"] != after["options"] == {"count": 3}
    assert half["grader"] == "two in one run"


@pytest.mark.parametrize(
    ("changes", "limit", "grader"),
    [
        ({"option": ["count=3"]}, "2", 1),
        ({"option": ["count=3"]}, "3", "two in one run"),
        ({}, "3", 1),
    ],
)
def test_a_run_that_goes_on_still_says_by_what_it_was_graded(letters, changes, limit, grader):
    settings = RunSettings(letters, model="scripted/text:a", limit="2")
    path = Path(run(settings).store.path)
    with RunStore(path, write=True) as store:
        list(grade_again(store, changes=changes, controls="off"))
        again = basis_of(store.manifest())
    run(replace(settings, limit=limit), resume=str(path))
    with RunStore(path) as store:
        manifest = store.manifest()

    assert basis_of(manifest) == {**again, "grader": grader}
    assert bool(manifest["graded_again"]) == bool(changes)


def test_a_task_that_is_gone_is_said(letters):
    path = run(RunSettings(letters, agent="oracle")).store.path
    with RunStore(path) as store, pytest.raises(UsageError, match="no longer has the task"):
        list(grade_again(store, changes={"option": ["count=1"]}, keep=False))
