"""Shards become one run, and what is not of one run is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from chimera.errors import UsageError
from chimera.eval.regrade import grade_again
from chimera.eval.run import RunSettings, run
from chimera.eval.runs.merge import merge
from chimera.eval.runs.result import EvalResult
from chimera.eval.runs.seal import is_own
from chimera.eval.runs.store import RunStore
from chimera.eval.values import Submission, TrialError, TrialRecord


@pytest.fixture
def shard(letters: str) -> Callable[..., Path]:
    """Runs a part of the benchmark and gives its file."""
    settings = RunSettings(benchmark=letters, agent="oracle", environment="none")

    def made(part: str, **more: object) -> Path:
        result = run(replace(settings, shard=part, **more))
        assert result.store is not None
        path = Path(result.store.path)
        result.store.close()
        return path

    return made


def digests(store: RunStore) -> set[str]:
    return {record.digest for record in store.records(whole=True)}


def test_shards_together_are_the_whole_run(shard: Callable[..., Path], letters: str):
    parts = [shard("1/3"), shard("2/3"), shard("3/3")]

    count = merge(Path("whole.chi"), parts)

    whole = run(RunSettings(benchmark=letters, agent="oracle", environment="none"))
    with RunStore("whole.chi") as store:
        merged = EvalResult.of(store)
        assert count == merged.total == merged.planned == 4
        assert merged.passed == whole.passed
        assert digests(store) == digests(whole.store)
        assert is_own(store.manifest())
        assert store.task_prompt("a") == "say a"


def test_a_merged_run_goes_on_where_a_shard_stopped(shard: Callable[..., Path], letters: str):
    merge(Path("runs/whole.chi"), [shard("1/3"), shard("3/3")])

    result = run(RunSettings(benchmark=letters, agent="oracle", environment="none"), resume="whole")

    assert (result.total, result.passed) == (4, 4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"agent": "nop"}, "agent"),
        ({"option": ("count=3",)}, "identity"),
        ({"samples": 2}, "samples"),
    ],
)
def test_runs_of_another_kind_are_refused(
    shard: Callable[..., Path], change: dict[str, object], words: str
):
    with pytest.raises(UsageError, match=words):
        merge(Path("whole.chi"), [shard("1/2"), shard("2/2", **change)])
    assert not list(Path().glob("*whole*"))


@pytest.mark.parametrize("turned", [False, True])
def test_runs_that_were_graded_again_unlike_are_refused(shard: Callable[..., Path], turned: bool):
    parts = [shard("1/2"), shard("2/2")]
    with RunStore(parts[turned], write=True) as store:
        list(grade_again(store, changes={"option": ["count=5"]}, controls="off"))

    with pytest.raises(UsageError, match="graded again by another grader"):
        merge(Path("whole.chi"), parts)


@pytest.mark.parametrize("turned", [False, True])
def test_an_answer_that_was_paid_for_is_kept_whichever_part_has_it(
    shard: Callable[..., Path], turned: bool
):
    parts = [shard("1/3"), shard("2/3")]
    answered = TrialRecord("x", 0, "d", submission=Submission("paid"), duration=1.0)
    for part, record in zip(
        parts,
        (TrialRecord("x", 0, "d", error=TrialError("environment", "gone")), answered),
        strict=True,
    ):
        with RunStore(part, write=True) as store:
            store.write(record)

    merge(Path("whole.chi"), parts[::-1] if turned else parts)

    with RunStore("whole.chi") as store:
        assert store.record("x", 0).submission == Submission("paid")


def test_two_verdicts_for_one_trial_are_refused(shard: Callable[..., Path]):
    with pytest.raises(UsageError, match="which another run has too"):
        merge(Path("whole.chi"), [shard("1/2"), shard("1/2")])
    assert not list(Path().glob("*whole*"))


@pytest.mark.parametrize("shard_", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2", "²/3", "9/9"])
def test_a_shard_that_is_none_is_refused(letters: str, shard_: str):
    settings = RunSettings(benchmark=letters, agent="oracle", environment="none", shard=shard_)

    with pytest.raises(UsageError, match="--shard"):
        run(settings)
