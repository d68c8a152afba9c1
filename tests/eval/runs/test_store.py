"""The run store gives back what was written, loses nothing, and keeps no secret."""

from __future__ import annotations

import json
import sqlite3
import threading
import tracemalloc
from contextlib import closing
from dataclasses import replace

import pytest

from chimera.cli.display import summary_lines
from chimera.errors import StoreError, UsageError
from chimera.eval import filed
from chimera.eval.runs.ci import ctrf
from chimera.eval.runs.comparison import RunScores, compare_runs
from chimera.eval.runs.files import find_run, new_run_path
from chimera.eval.runs.merge import merge
from chimera.eval.runs.overview import RunSummary
from chimera.eval.runs.result import EvalResult
from chimera.eval.runs.store import MOST_WAITING, RunStore, StoredBudget
from chimera.eval.values import (
    Control,
    Submission,
    TrialControls,
    TrialError,
    TrialRecord,
    Verdict,
)
from chimera.providers import secrets
from chimera.providers.meter import CallRecord
from chimera.types import Image, Message, Native, Step, ToolCall, Usage

RECORD = TrialRecord(
    task_id="t/1",
    sample=2,
    digest="d",
    submission=Submission("x = 1", "solution", {"a.bin": b"\x00\xff"}, {"k": [1]}, "```x = 1```"),
    verdict=Verdict(False, "assert x == 2", 0.25, {"m": 1}, {"log": "…", "shot.png": b"\x89PNG"}),
    usage=Usage(10, 5, 1),
    cost=0.125,
    steps=3,
    duration=1.5,
    attempts=2,
    started=100.0,
    stop_reason="done",
    calls=(CallRecord("m", Usage(10, 5, 1), 0.125, 100.0, 1.0),),
    trajectory=(
        Step(Message.assistant("hi", [ToolCall("1", "bash", {"command": "ls"})]), Usage(1, 1)),
        Step(Message.tool("a.txt", "1")),
    ),
)


@pytest.fixture
def store(tmp_path):
    with RunStore(tmp_path / "run.chi", create=True) as opened:
        yield opened


def test_a_trial_comes_back_whole(store):
    store.write(RECORD)

    assert store.record("t/1", 2) == RECORD


def test_an_error_comes_back_as_an_error(store):
    record = TrialRecord("t", 0, "d", error=TrialError("provider", "HTTP 500", True))
    store.write(record)

    assert store.record("t", 0) == record
    assert store.record("t", 0).status == "error"


def test_a_trial_is_there_once_however_often_it_is_written(store):
    for _ in range(3):
        store.write(RECORD)

    assert store.trial_keys() == [("t/1", 2)]
    assert list(store.rows(tuple[int], "SELECT COUNT(*) FROM calls")) == [(1,)]


def test_the_state_tells_trials_with_a_verdict_from_the_rest(store):
    store.write(RECORD)
    store.write(TrialRecord("e", 0, "d2", error=TrialError("agent", "x")))
    store.write(TrialRecord("s", 0, "d3", submission=Submission("x")))

    assert store.state("t/1", 2) == ("d", True)
    assert store.state("e", 0) == ("d2", False)
    assert store.state("s", 0) == ("d3", False)
    assert store.state("t/1", 0) is None


SURROGATE = "\ud800"
NESTED = [[]]
for _ in range(100_000):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": Verdict(True, metrics={"x": object()})},
        {"verdict": Verdict(True, score=float("inf"))},
        {"verdict": Verdict(True, metrics={"deep": NESTED})},
        {"submission": Submission(data={"deep": NESTED})},
        {"submission": Submission(text=b"bytes")},
        {"usage": Usage(2**70)},
        {"duration": float("nan")},
        {"started": "yesterday"},
        {"calls": (CallRecord("m", Usage(-1), 0.0, 0.0, 0.0),)},
        {"task_id": f"b{SURROGATE}", "stop_reason": object()},
    ],
    ids=lambda change: "-".join(change),
)
def test_what_cannot_be_stored_is_stored_as_an_error(store, change):
    broken = replace(TrialRecord("b", 0, "d", verdict=Verdict(True)), **change)

    stored = store.write(broken)

    assert stored.error.boundary == "store"
    assert "cannot be stored" in stored.why
    assert [record.status for record in store.records(whole=True)] == ["error"]
    store.write(RECORD)
    assert store.record("t/1", 2) == RECORD


@pytest.mark.parametrize("odd", [object(), Step(Message("assistant", "x"), metadata={"x": NESTED})])
def test_what_an_agent_did_on_its_way_costs_no_verdict(store, odd):
    stored = store.write(replace(RECORD, trajectory=(odd,)))

    assert stored.verdict == RECORD.verdict
    assert store.record("t/1", 2) == replace(RECORD, trajectory=())


def test_a_failure_whose_answer_cannot_be_stored_stays_one(store):
    failed = replace(
        RECORD, verdict=Verdict(False, "no"), submission=Submission(data={"x": NESTED})
    )

    stored = store.write(failed)

    assert (stored.status, stored.why, stored.submission) == ("failed", "no", None)
    assert store.record("t/1", 2) == stored


def test_lone_surrogates_are_replaced_and_nothing_else_is(store):
    odd = "a\x00\x1b[31m\u202e\r\n\U0001f600"
    stored = store.write(
        replace(
            RECORD,
            submission=Submission(
                f"{odd}{SURROGATE}", raw=SURROGATE, data={SURROGATE: [SURROGATE]}
            ),
            verdict=Verdict(False, f"{odd}{SURROGATE}", evidence={"log": SURROGATE}),
            trajectory=(Step(Message.user(SURROGATE)),),
        )
    )

    assert store.record("t/1", 2) == stored
    assert stored.status == "failed"
    assert stored.submission.text == stored.why == f"{odd}\ufffd"
    assert stored.submission.data == {"\ufffd": ["\ufffd"]}


def test_trials_that_ended_together_are_stored_in_one_transaction(store):
    begun: list[str] = []
    store._database.connection.set_trace_callback(begun.append)
    records = [replace(RECORD, sample=n) for n in range(5)]

    assert list(store.write_all(records)) == records
    assert sum(statement.startswith("BEGIN") for statement in begun) == 1
    assert [store.record("t/1", n) for n in range(5)] == records


def test_one_that_cannot_be_stored_takes_no_other_with_it(store):
    bad = replace(RECORD, sample=1, steps=2**70)
    odd = replace(RECORD, sample=2, stop_reason="\udfff")
    good = [replace(RECORD, sample=n) for n in (0, 3)]
    store.write(replace(good[1], verdict=None))  # its checkpoint
    stored = list(store.write_all([good[0], bad, odd, good[1]]))

    assert [record.status for record in stored] == ["failed", "error", "failed", "failed"]
    assert [store.record("t/1", n) for n in (0, 3)] == good
    assert store.record("t/1", 1).error.boundary == "store"
    assert store.record("t/1", 2).stop_reason == "\ufffd"


def test_an_interrupt_between_begin_and_its_block_leaves_no_transaction_behind(store):
    class Interrupting:
        """A connection on whose way back from BEGIN an interrupt comes."""

        def __init__(self, real):
            self.real = real

        def __getattr__(self, name):
            return getattr(self.real, name)

        def execute(self, *arguments):
            self.real.execute(*arguments)
            raise KeyboardInterrupt

    real = store._database.connection
    store._database.connection = Interrupting(real)
    with pytest.raises(KeyboardInterrupt):
        store.write(RECORD)
    store._database.connection = real

    store.write(RECORD)
    assert store.record(RECORD.task_id, RECORD.sample) == RECORD


def control(identity: str) -> Control:
    return Control(identity, "reference", "b", "t", "passed", made=1.0, seconds=0.5)


def test_a_control_is_written_with_the_next_trial_and_at_the_latest_when_the_store_closes(tmp_path):
    with RunStore(tmp_path / "run.chi", create=True) as store:
        store.add_control_soon(control("a"))
        assert store.controls() == []
        store.write(RECORD)
        assert store.controls() == [control("a")]
        store.add_control_soon(control("b"))

    with RunStore(tmp_path / "run.chi") as store:
        assert store.controls() == [control("a"), control("b")]


def test_a_control_is_written_with_what_a_trial_was_graded_again_to(store):
    store.write(RECORD)
    store.add_control_soon(control("a"))
    store.replace_outcome(RECORD, replace(RECORD, verdict=Verdict(True)))

    assert store.controls() == [control("a")]
    assert store.record(RECORD.task_id, RECORD.sample).passed


def test_a_closed_store_takes_what_an_interrupted_run_still_hands_in_and_can_be_closed_again(
    tmp_path,
):
    store = RunStore(tmp_path / "a.chi", create=True)
    store.close()
    for number in range(MOST_WAITING + 1):
        store.add_control_soon(control(str(number)))
    store.close()

    with RunStore(tmp_path / "a.chi") as reopened:
        assert reopened.controls() == []


def test_controls_are_kept_until_they_can_be_written(store):
    store.add_control_soon(control("a"))
    store._execute("PRAGMA query_only = ON")
    with pytest.raises(StoreError):
        store.write(RECORD)
    store._execute("PRAGMA query_only = OFF")
    store.write(RECORD)

    assert store.controls() == [control("a")]


def test_no_trial_is_ever_in_the_file_without_the_controls_it_rests_on(tmp_path):
    def write(thread: int) -> None:
        for n in range(40):
            store.add_control_soon(control(f"{thread}-{n}"))
            rests = TrialControls("passed", "failed", f"{thread}-{n}")
            store.write(replace(RECORD, task_id=str(thread), sample=n, control=rests))

    query = "SELECT count(*), sum(identity NOT IN (SELECT identity FROM controls)) FROM grounds"
    path, seen = tmp_path / "run.chi", set()
    with RunStore(path, create=True) as store, closing(sqlite3.connect(path)) as reader:
        threads = [threading.Thread(target=write, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            seen |= {without for _, without in reader.execute(query)}
        assert reader.execute(query).fetchone() == (240, 0)

    assert seen <= {None, 0}


def test_a_checkpoint_is_completed_and_not_written_again(store):
    submitted = replace(RECORD, verdict=None, duration=0.5)
    store.write(submitted)
    (before,) = store.rows(tuple[int], "SELECT id FROM trials")
    later = replace(RECORD, calls=(*RECORD.calls, CallRecord("judge", Usage(1, 1), 0.5, 2.0, 1.0)))
    store.write(later)

    assert list(store.rows(tuple[int], "SELECT id FROM trials")) == [before]
    assert store.record("t/1", 2) == later


def test_a_checkpoint_of_another_answer_is_replaced(store):
    store.write(replace(RECORD, verdict=None))
    other = replace(RECORD, submission=Submission("y = 2"))
    store.write(other)

    assert store.record("t/1", 2) == other


def test_an_answer_is_kept_as_it_was_graded(store):
    """What only looks like a key is a part of the program."""
    looks = "sk-a1b2c3d4e5f6g7h8i9j0k1l2"
    answer = Submission(f"KEY = '{looks}'", raw=looks, data={"k": looks})
    store.write(replace(RECORD, submission=answer, verdict=Verdict(False, looks)))

    kept = store.record("t/1", 2)
    assert kept.submission == answer
    assert looks not in kept.verdict.why


@pytest.mark.parametrize(
    "secret", ["sk-live-0123456789abcdefghijklmnop", 'a "quoted" pass\\word', "of two\nlines, both"]
)
def test_secrets_are_never_written(tmp_path, monkeypatch, secret):
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    monkeypatch.setattr(secrets, "RESCAN_SECONDS", -1.0)
    path = tmp_path / "run.chi"
    with RunStore(path, create=True) as store:
        store.set_manifest({"command": f"--api-key {secret}"})
        store.add_tasks([{"id": "t", "prompt": secret}])
        store.write(
            TrialRecord(
                "t",
                0,
                "d",
                submission=Submission(secret, raw=secret, data={"k": secret}),
                verdict=Verdict(False, secret, metrics={"m": secret}, evidence={"e": secret}),
                calls=(CallRecord("m", Usage(), 0.0, 0.0, 0.0, error=secret),),
                trajectory=(Step(Message.user(secret)),),
            )
        )
        store.write(TrialRecord("u", 0, "d", error=TrialError("provider", secret)))
        whole = repr([store.record("t", 0), store.record("u", 0), store.manifest()])

    content = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for form in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]):
        assert form not in whole
        assert form.encode() not in content


@pytest.mark.parametrize("before", ["key:\n", "\t", "\r\n", '"', "\\", "\u2028"])
def test_keys_are_seen_after_what_json_escapes(store, before):
    key = "sk-ant-api03-abcdefghijklmnopqrstuvwx0123456789"
    store.set_manifest({"said": {before + key: [before + key]}})

    assert store.manifest()["said"] == {before + "[redacted]": [before + "[redacted]"]}


def test_reservations_of_a_killed_run_count_as_spent(store):
    budget = StoredBudget(1.0, store)
    budget.reserve(0.4)
    budget.settle(0.4, 0.1)
    budget.reserve(0.3)  # under way when the process dies

    assert StoredBudget(1.0, store).spent == pytest.approx(0.4)


def test_a_file_that_is_no_run_is_refused(tmp_path):
    (tmp_path / "a.chi").write_text("something else entirely")
    with pytest.raises(UsageError, match="not a run"):
        RunStore(tmp_path / "a.chi")
    other = sqlite3.connect(tmp_path / "b.chi")
    other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(UsageError, match="not a run"):
        RunStore(tmp_path / "b.chi")
    with pytest.raises(UsageError, match="no run at"):
        RunStore(tmp_path / "c.chi")


def test_runs_are_found_by_name_beginning_and_latest(tmp_path):
    first = new_run_path(tmp_path, "human-eval", "local/smollm2")
    second = new_run_path(tmp_path, "human-eval", "local/smollm2")
    assert first != second
    for path in (first, second):
        RunStore(path, create=True).close()
    assert find_run("latest", tmp_path) == max(first, second)
    assert find_run(str(first), tmp_path) == first
    assert find_run(second.stem, tmp_path) == second
    with pytest.raises(UsageError, match="no run 'nope'"):
        find_run("nope", tmp_path)
    with pytest.raises(UsageError, match="several"):
        find_run(first.stem[:8], tmp_path)


def test_what_models_send_comes_back_whole_and_is_counted_apart(store):
    native = Native("messages", [{"type": "thinking", "thinking": "hm", "signature": "s/+="}])
    said = Message("assistant", "", reasoning="hm", native=native)
    seen = Message.tool("a picture", "1", [Image("image/png", "aGVsbG8=")])
    usage = Usage(10, 5, 1, 2, 4)
    record = replace(
        RECORD,
        usage=usage + usage,
        calls=(CallRecord("m", usage, 0.1, 100.0, 1.0),) * 2,
        trajectory=(Step(said, usage), Step(seen)),
    )
    store.write(record)

    assert store.record("t/1", 2) == record
    assert next(store.records()).usage == usage + usage
    assert EvalResult.of(store).usage == usage + usage


@pytest.fixture
def older(tmp_path):
    """A run as it was stored when neither reasoning nor cache writes were counted, nor controls."""
    path = tmp_path / "older.chi"
    with RunStore(path, create=True) as made:
        made.write(RECORD)
    with closing(sqlite3.connect(path)) as file:
        for table in ("tokens_apart", "grounds", "controls"):
            file.execute(f"DROP TABLE {table}")
        file.execute("PRAGMA user_version = 1")
        file.commit()
    return path


def test_an_older_run_is_read_as_it_is(older):
    before = older.read_bytes()
    with RunStore(older) as store:
        assert store.record("t/1", 2) == RECORD
        assert EvalResult.of(store).usage == RECORD.usage

    assert older.read_bytes() == before


def test_an_older_run_is_brought_up_to_date_when_it_goes_on(older):
    usage = Usage(10, 5, 1, 2, 4)
    newer = replace(RECORD, sample=3, usage=usage, calls=(CallRecord("m", usage, 0.1, 100.0, 1.0),))
    with RunStore(older, write=True) as store:
        store.write(newer)
    with RunStore(older) as store:
        assert [store.record("t/1", sample).usage for sample in (2, 3)] == [RECORD.usage, usage]


def peak(work):
    """Bytes that work holds at the most, beside what was there before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def of_tasks(path, count):
    with RunStore(path, create=True) as store:
        trials = [
            replace(RECORD, task_id=f"task/{number}", trajectory=(), submission=None)
            for number in range(count)
        ]
        list(store.write_all(trials))
    return path


def merged(store):
    whole = store.path.with_name("whole.chi")
    with RunStore(empty := store.path.with_name("empty.chi"), create=True) as plan:
        plan.set_manifest(store.manifest())
    merge(whole, [store.path, empty])
    for path in (whole, empty):
        path.unlink()


@pytest.mark.parametrize(
    ("work", "most"),
    [
        (RunSummary.of, 15),  # the number of what each task came to
        (lambda store: list(summary_lines(EvalResult.of(store))), 15),
        (lambda store: EvalResult.of(store).pass_at(1), 15),
        (lambda store: [None for _ in store.each_key()], 10),
        pytest.param(
            lambda store: [None for _ in store.records(whole=True)], 10, marks=pytest.mark.slow
        ),
        (lambda store: [None for _ in EvalResult.of(store).document()], 15),
        pytest.param(lambda store: [None for _ in ctrf(store)], 15, marks=pytest.mark.slow),
        (lambda store: compare_runs([RunScores.of(store), RunScores.of(store)]), 30),
        pytest.param(merged, 10, marks=pytest.mark.slow),
    ],
)
def test_memory_hardly_grows_with_the_trials(tmp_path, monkeypatch, work, most):
    monkeypatch.setattr(filed, "FEW", 500)
    few, many = 1000, 6000
    peaks = []
    for count in (few, many):
        with RunStore(of_tasks(tmp_path / f"{count}.chi", count)) as store:
            work(store)  # what is loaded at first use is no part of it
            peaks.append(peak(lambda store=store: work(store)))

    assert (peaks[1] - peaks[0]) / (many - few) < most


def test_the_summary_of_one_sample_does_not_go_through_the_tasks_again(tmp_path):
    with RunStore(of_tasks(tmp_path / "run.chi", 3)) as store:
        result = EvalResult.of(store)
        asked = []
        store._database.connection.set_trace_callback(asked.append)
        list(summary_lines(result, samples=1))

    assert asked
    assert not [query for query in asked if "ORDER BY task_id" in query]


def test_keys_are_read_while_trials_are_written(store):
    list(store.write_all([replace(RECORD, task_id=f"t/{number}") for number in range(450)]))

    seen = []
    for key in store.each_key():
        store.replace_outcome(store.record(*key), RECORD)
        seen.append(key)

    assert seen == [(f"t/{number}", 2) for number in range(450)]
