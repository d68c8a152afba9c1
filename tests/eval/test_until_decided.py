"""A run that stops when it has decided, and goes on when it is told to."""

from __future__ import annotations

import sys

import pytest

from chimera.errors import ExitCode, UsageError
from chimera.eval.run import RunSettings, exit_code, prepare, run
from chimera.eval.runs.store import RunStore

SOURCE = """
from chimera.eval.harness import Benchmark, Submission, Verdict


class Many(Benchmark):
    grading = "none"

    def name(self):
        return "many"

    def tasks(self):
        return [{"id": f"t{n:02}", "prompt": "say yes"} for n in range(60)]

    def grade(self, task, submission, env):
        return Verdict(submission.text == "yes")

    def gold(self, task):
        return Submission("yes")
"""


@pytest.fixture
def many(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delitem(sys.modules, "many_of_tests", raising=False)
    (tmp_path / "many_of_tests.py").write_text(SOURCE)
    return f"{tmp_path / 'many_of_tests.py'}:Many"


@pytest.fixture
def baseline(many):
    with run(RunSettings(many, model="scripted/text:no")).store as store:
        return str(store.path)


def settings(many, baseline, text="yes", **more):
    return RunSettings(
        many,
        model=f"scripted/text:{text}",
        against=baseline,
        until="decided",
        concurrency=1,
        **more,
    )


def test_a_clear_difference_stops_the_run_and_is_no_incomplete_one(many, baseline):
    result = run(settings(many, baseline))

    assert result.stopped.startswith("decided: better (+100.0% over ")
    assert 5 <= result.total < 15
    assert exit_code(result, decided=True) is ExitCode.DONE
    assert exit_code(result) is ExitCode.INCOMPLETE


def test_the_rest_is_run_when_asked_for_and_a_decided_run_does_nothing_more(many, baseline):
    first = run(settings(many, baseline))
    path, total = str(first.store.path), first.total
    first.store.close()
    again = run(settings(many, baseline), resume=path)

    assert (again.total, again.stopped) == (total, first.stopped)
    again.store.close()
    whole = run(RunSettings(many, model="scripted/text:yes", concurrency=1), resume=path)
    assert (whole.total, whole.not_run) == (60, 0)


def test_all_samples_of_a_task_come_together(many, baseline):
    result = run(settings(many, baseline, samples=3))

    trials = [count for count, _ in result.samples_by_task().values()]
    assert sum(count < 3 for count in trials) <= 1 < len(trials) < 15


def test_equal_runs_go_on_to_the_end_or_to_the_margin(many, baseline):
    assert run(settings(many, baseline, text="no")).stopped is None
    assert (
        "no difference of 20.0% or more"
        in run(settings(many, baseline, text="no", margin=0.2)).stopped
    )


def test_the_order_is_fixed_by_the_seed(many, baseline):
    orders = [
        [task["id"] for task in prepare(settings(many, baseline, seed=seed)).tasks]
        for seed in (1, 1, 2)
    ]

    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"against": None}, "give the run to compare with"), ({"task": ("t01",)}, None)],
)
def test_what_a_decision_needs(many, baseline, changes, says):
    given = settings(many, baseline)
    changed = RunSettings(
        **{name: changes.get(name, getattr(given, name)) for name in RunSettings.__slots__}
    )
    if says is None:
        assert prepare(changed).until is not None
    else:
        with pytest.raises(UsageError, match=says):
            prepare(changed)


def test_a_run_that_was_judged_by_other_rules_decides_nothing(many, baseline):
    with RunStore(baseline, write=True) as store:
        identity = store.manifest()["identity"]
        store.set_manifest({"identity": {**identity, "grader": 99}})

    with pytest.raises(UsageError, match="differ in their grader"):
        prepare(settings(many, baseline))
