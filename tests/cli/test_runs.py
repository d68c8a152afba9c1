"""`chimera runs show`: what a run came to first, then its trials; a trial step by step."""

from __future__ import annotations

import pytest

from chimera.eval.runs.store import RunStore
from chimera.eval.values import Submission, TrialRecord, Verdict
from chimera.types import Message, Step, ToolCall, Usage


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "runs" / "20260101-mine.chi"
    path.parent.mkdir()
    call = ToolCall("1", "bash", {"command": "ls"})
    steps = (
        Step(Message.user("List."), timestamp=1000.0),
        Step(Message.assistant("", (call,)), Usage(50, 7), 0.25, timestamp=1002.5),
        Step(Message.tool("a.py", "1"), timestamp=1002.6),
    )
    with RunStore(path, create=True) as store:
        store.add_tasks([{"id": "a", "prompt": "List."}])
        store.set_manifest({"planned": 1, "samples": 1, "identity": {"benchmark": "mine"}})
        long = "first" + "x" * 500 + "the cause"
        store.write(
            TrialRecord(
                "a", 0, "", Submission("a.py"), Verdict(False, long), trajectory=steps,
                started=1000.0,
            )
        )  # fmt: skip
    return path


def test_the_summary_comes_first_and_reasons_keep_their_end(chimera, run):
    lines = chimera("runs", "show", run).out.splitlines()

    assert lines[0].startswith("mine: 0.0% passed (0 of 1")
    assert lines[-1].startswith("failed  a#0  first")
    assert lines[-1].endswith("the cause")


def test_each_step_has_its_time_tokens_and_cost(chimera, run):
    shown = chimera("runs", "show", run, "a").out

    assert "── step 1: user  (0.0 s) ──" in shown
    assert "── step 2: assistant  (2.5 s, 50 + 7 tokens, $0.2500) ──" in shown
    assert "── step 3: tool  (0.1 s) ──" in shown
    assert "→ bash {'command': 'ls'}" in shown


def test_a_trial_by_the_name_that_lists_give_it(chimera, run):
    assert chimera("runs", "show", run, "a#0").out == chimera("runs", "show", run, "a").out


@pytest.mark.parametrize(
    ("task", "says"),
    [("b", "an id looks like 'a'"), ("A", "did you mean 'a'?"), ("a#7", "sample 7")],
)
def test_a_task_that_is_not_in_a_run_is_answered_with_one_that_is(chimera, run, task, says):
    ran = chimera("runs", "show", run, task)

    assert ran.code == 2
    assert says in ran.err


@pytest.mark.parametrize(
    ("kind", "says"), [("jnuit", "did you mean 'junit'?"), ("parquet", "give --output PATH")]
)
def test_a_format_that_there_is_not_is_told_from_one_that_is_no_text(chimera, kind, says):
    chimera("eval", "-b", "human-eval", "-a", "nop", "--limit", "1")
    ran = chimera("runs", "export", "latest", "--format", kind)

    assert ran.code == 2
    assert says in ran.err
