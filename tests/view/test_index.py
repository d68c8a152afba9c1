"""What is counted of a run is what it holds, also while it goes on and after it was changed."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from chimera.errors import UsageError
from chimera.eval.runs.result import EvalResult
from chimera.eval.runs.store import RunStore
from chimera.eval.values import (
    Control,
    Submission,
    TrialControls,
    TrialError,
    TrialRecord,
    Verdict,
)
from chimera.view.grid import Filter, TrialKey, neighbours, tasks_page
from chimera.view.index import Index
from chimera.view.summary import summarise
from chimera.view.trial import part_of, trial_data
from tests.view.made_runs import make_run


@pytest.fixture
def counted():
    """`counted(path)`: the summary of a run, through its index."""

    def count(path, index=None):
        index = index or Index(path)
        with RunStore(path, lasting=True) as store:
            index.update(store, [], summarise)
        return index.fact("summary")

    return count


@pytest.mark.parametrize("samples", [1, 4])
def test_the_numbers_are_those_of_the_command_line(tmp_path, counted, samples):
    path = make_run(tmp_path / "run.chi", tasks=40, samples=samples)
    summary = counted(path)

    with RunStore(path) as store:
        result = EvalResult.of(store)
        assert (summary["passed"], summary["failed"]) == (result.passed, result.failed)
        assert summary["error"] + summary["submitted"] == result.errored
        assert summary["interval"] == list(result.outer_interval)
        assert summary["cost"] == pytest.approx(result.total_cost)
        assert summary["corrected_rate"] == pytest.approx(result.corrected_pass_rate)
        assert summary["tokens"]["input"] == result.usage.input_tokens
        assert summary["curve"][-1]["at"] == pytest.approx(result.pass_at(samples))
        assert [(r["text"], r["count"]) for r in summary["reasons"]] == [
            (text.removeprefix("[error] "), count) for text, count in result.reasons(30)
        ]


def test_groups_are_the_tasks_own(tmp_path, counted):
    summary = counted(make_run(tmp_path / "run.chi", tasks=40, samples=2))

    assert set(summary["groups"]) == {"topic", "difficulty"}
    for rows in summary["groups"].values():
        assert sum(row["trials"] for row in rows) == 80
        assert sum(row["passed"] for row in rows) == summary["passed"]


def records(path):
    with RunStore(path) as store:
        return list(store.records(whole=True))


def test_a_run_that_goes_on_is_counted_on(tmp_path, counted):
    path, index = make_run(tmp_path / "run.chi", tasks=5), Index(tmp_path / "run.chi")
    assert counted(path, index)["total"] == 5
    more = [replace(r, sample=1) for r in records(path)]
    with RunStore(path, write=True) as store:
        waiting = replace(more[0], verdict=None, error=None)
        store.write(waiting)
        assert counted(path, index)["submitted"] == 1
        for record in more:
            store.write(record)
        summary = counted(path, index)

    assert (summary["total"], summary["submitted"], summary["tasks"]) == (10, 0, 5)
    assert summary == counted(path, Index(path, tmp_path / "fresh.sqlite"))


@pytest.mark.parametrize("change", ["regraded", "tried again"])
def test_a_run_that_was_changed_is_counted_anew(tmp_path, counted, change):
    path, index = make_run(tmp_path / "run.chi", tasks=8), Index(tmp_path / "run.chi")
    before = counted(path, index)["passed"]
    record = next(r for r in records(path) if r.passed)
    with RunStore(path, write=True) as store:
        if change == "regraded":
            store.replace_outcome(record, replace(record, verdict=Verdict(False, "no")))
        else:
            store.write(replace(record, verdict=Verdict(False, "no"), steps=9))

    assert counted(path, index)["passed"] == before - 1


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": Verdict(False, "no")},
        {"verdict": Verdict(True, metrics={"twin": {"tests": 1, "twinned": 0}})},
        {"control": TrialControls("unneeded", "passed", "here")},
    ],
)
def test_a_change_of_the_first_of_many_trials_is_seen(tmp_path, counted, change):
    path, index = tmp_path / "run.chi", Index(make_run(tmp_path / "run.chi", tasks=1))
    with RunStore(path, write=True) as store:
        record = TrialRecord("x", 0, "d", Submission("x"), Verdict(True), duration=1000.0)
        for sample in range(2000):
            store.write(replace(record, sample=sample))
        before = counted(path, index)
        changed = replace(store.record("x", 0), **change)
        store.replace_outcome(changed, changed)
        after = counted(path, index)

    assert before != after == counted(path, Index(path, tmp_path / "fresh.sqlite"))


def test_two_processes_may_count_one_run(tmp_path, counted):
    path = make_run(tmp_path / "run.chi", tasks=40, samples=4)
    place = tmp_path / "index.sqlite"
    with ThreadPoolExecutor(4) as threads:  # each has an index object, as each process has
        told = list(threads.map(lambda _: counted(path, Index(path, place)), range(4)))

    assert {summary["total"] for summary in told} == {160}
    ((trials, passed),) = Index(path, place).rows("SELECT sum(trials), sum(passed) FROM task")
    assert (trials, passed) == (160, told[0]["passed"])


def test_what_nobody_knows_the_cost_of_is_not_free(tmp_path, counted):
    path, index = tmp_path / "run.chi", None
    with RunStore(path, create=True) as store:
        store.add_tasks({"id": f"t{n}", "prompt": "", "metadata": {"of": n % 2}} for n in range(4))
        for number in range(4):
            cost = None if number % 2 else 0.5
            store.write(TrialRecord(f"t{number}", 0, "d", verdict=Verdict(True), cost=cost))
    index = Index(path)
    summary = counted(path, index)

    assert [row["cost"] for row in summary["groups"]["of"]] == [1.0, None]
    assert [row["cost"] for row in tasks_page(index, Filter())["rows"]] == [0.5, None, 0.5, None]


def test_trials_of_one_cost_are_not_parted_by_it(tmp_path, counted):
    path = tmp_path / "run.chi"
    with RunStore(path, create=True) as store:
        for number in range(80):
            store.write(TrialRecord(f"t{number}", 0, "d", verdict=Verdict(number < 40), cost=0.1))

    assert counted(path)["by_cost"] == []


def test_a_fail_and_an_error_of_one_reason_are_counted_apart(tmp_path, counted):
    path = tmp_path / "run.chi"
    with RunStore(path, create=True) as store:
        store.write(TrialRecord("a", 0, "d", verdict=Verdict(False, "agent: broke")))
        store.write(TrialRecord("b", 0, "d", error=TrialError("agent", "broke")))

    assert [(row["error"], row["count"]) for row in counted(path)["reasons"]] == [
        (False, 1),
        (True, 1),
    ]


def test_a_rate_lies_in_its_interval_whatever_the_errors_were(tmp_path, counted):
    path = tmp_path / "run.chi"
    with RunStore(path, create=True) as store:
        store.add_tasks({"id": f"t{n}", "prompt": "", "metadata": {"of": n % 2}} for n in range(40))
        for number in range(40):
            known = {"verdict": Verdict(number < 10)}
            trial = known if number < 12 else {"error": TrialError("agent", "broke")}
            store.write(TrialRecord(f"t{number}", 0, "d", **trial))
    summary = counted(path)

    assert summary["interval"][0] < 10 / 40 < 38 / 40 < summary["interval"][1]
    for row in summary["groups"]["of"]:
        assert row["interval"][0] < row["rate"] < row["interval"][1]


@pytest.mark.parametrize(
    ("trial", "ground", "says"),
    [
        ({"verdict": Verdict(True), "control": TrialControls("unneeded", "failed")}, "held",
         "this pass counts"),
        ({"verdict": Verdict(True), "control": TrialControls("unneeded", "error")}, "contrary",
         "not known"),
        ({"verdict": Verdict(False), "control": TrialControls("passed")}, "held",
         "this fail counts"),
        ({"verdict": Verdict(False), "control": TrialControls()}, "unneeded", "needs no control"),
        ({"verdict": Verdict(False), "control": TrialControls("failed")}, "contrary",
         "says nothing"),
        ({"verdict": Verdict(False)}, "uncontrolled", "uncontrolled"),
        ({"error": TrialError("environment", "no"), "control": TrialControls("failed")},
         "withheld", "withheld"),
    ],
)  # fmt: skip
def test_no_more_is_said_of_a_verdict_than_its_controls_show(
    tmp_path, counted, trial, ground, says
):
    path = tmp_path / "run.chi"
    with RunStore(path, create=True) as store:
        store.write(TrialRecord("a", 0, "d", Submission("x"), **trial))
        told = trial_data(store, TrialKey("a", 0))["controls"]
    status = f"-{'passed' if trial['verdict'].passed else 'failed'}" if "verdict" in trial else ""

    assert (told["ground"], says in told["sentence"]) == (ground, True)
    assert counted(path)["rests"] == {ground + status: 1}


def test_a_trial_of_two_minds_is_refused_when_it_is_counted_or_read(tmp_path, counted):
    path = make_run(tmp_path / "run.chi", tasks=3)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE trials SET status = 'passed' WHERE status = 'failed'")
    connection.execute("UPDATE verdicts SET passed = 0")
    connection.commit()
    connection.close()

    with pytest.raises(UsageError, match="damaged"):
        counted(path)
    with RunStore(path, lasting=True) as store, pytest.raises(UsageError, match="damaged"):
        list(store.records())


def test_an_index_that_is_broken_is_made_again(tmp_path, counted):
    path = make_run(tmp_path / "run.chi", tasks=3)
    (tmp_path / "index.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 4000)

    assert counted(path, Index(path, tmp_path / "index.sqlite"))["total"] == 3


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"status": ["failed"]},
        {"status": ["mixed"], "sort": ["cost"], "down": ["1"]},
        {"group": ["topic:graphs"], "sort": ["rate"]},
        {"text": ["S-1"], "sort": ["time"]},
        {"reason": ["1"]},
    ],
    ids=str,
)
def test_one_trial_after_the_other_is_every_trial_of_the_filter(tmp_path, counted, query):
    path = make_run(tmp_path / "run.chi", tasks=20, samples=3)
    index, asked = Index(path), Filter.of(query)
    counted(path, index)
    rows = tasks_page(index, asked, size=100)["rows"]
    status, reason = asked.status, asked.reason
    texts = dict(index.rows("SELECT id, text FROM reason"))
    expected = [
        TrialKey(row["name"], trial["sample"])
        for row in rows
        for trial in row["samples"]
        if status in ("", "mixed", trial["status"])
        and (not reason or trial["why"] == texts[reason])
    ]

    walked, key = [], expected[0]
    assert neighbours(index, asked, key)[0] is None
    while key is not None:
        walked.append(key)
        key = neighbours(index, asked, key)[1]
    assert walked == expected
    assert neighbours(index, asked, walked[-1])[0] == walked[-2]


def test_pages_are_parts_of_one_list(tmp_path, counted):
    path = make_run(tmp_path / "run.chi", tasks=23)
    index = Index(path)
    counted(path, index)
    asked = Filter.of({"sort": ["cost"], "down": ["1"]})
    whole = [row["name"] for row in tasks_page(index, asked, size=100)["rows"]]
    parts = [
        row["name"]
        for page in range(1, 6)
        for row in tasks_page(index, replace(asked, page=page), size=5)["rows"]
    ]

    assert parts == whole
    assert len(set(whole)) == 23


def test_odd_names_and_metadata_are_counted_as_any(tmp_path, counted):
    path = tmp_path / "odd.chi"
    names = ["%", "_", "'; DROP TABLE task; --", "<b>", "\u202e", "a" * 5000, ""]
    with RunStore(path, create=True) as store:
        store.add_tasks(
            {"id": name, "prompt": "", "metadata": {"key": ["no", {"deep": 1}], "n": name[:5]}}
            for name in names
        )
        for name in names:
            fault = TrialError("agent", "why\x1b[31m" * 100)
            store.write(TrialRecord(name, 0, "d", Submission("x"), error=fault))
    index = Index(path)

    assert counted(path, index)["error"] == len(names)
    found = tasks_page(index, Filter.of({"text": ["%"]}))["rows"]
    assert [row["name"] for row in found] == ["%"]


def test_what_a_verdict_rests_on_is_counted_and_shown(tmp_path, counted):
    path = tmp_path / "run.chi"
    held = TrialControls("passed", "failed", "here")
    with RunStore(path, create=True) as store:
        store.add_control(Control("here", "reference", "b", "a", "passed", log="14 passed"))
        for task, passed, control in (
            ("a", True, held), ("b", True, TrialControls("passed", "passed", "here")),
            ("c", False, None), ("d", False, held),
        ):  # fmt: skip
            verdict = Verdict(passed)
            store.write(TrialRecord(task, 0, "d", Submission("x"), verdict, control=control))
    summary = counted(path)

    assert (summary["uninformative"], summary["uncontrolled"]) == (1, 1)
    assert summary["informative_rate"] == pytest.approx(1 / 3)
    with RunStore(path, lasting=True) as store:
        data = trial_data(store, TrialKey("a", 0))
        assert data["controls"]["made"][0]["log"].shown == "14 passed"
        assert trial_data(store, TrialKey("b", 0))["controls"]["ground"] == "uninformative"
        assert part_of(store, TrialKey("a", 0), "control:reference") == "14 passed"
