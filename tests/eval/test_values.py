"""Verdicts from users' own checks."""

from __future__ import annotations

from typing import Any

import pytest

from chimera.environments.none import NoEnvironment
from chimera.errors import GraderError
from chimera.eval.harness import Benchmark, Harness
from chimera.eval.submitters import NopAgent
from chimera.eval.values import Submission, Verdict


class Deciding(Benchmark[Any]):
    grading = "none"

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome

    def name(self) -> str:
        return "deciding"

    def tasks(self) -> list[dict[str, str]]:
        return [{"id": "t", "prompt": "p"}]

    def evaluate(self, task: Any, agent_output: str, env: Any) -> Any:
        return self.outcome


class _Numpys:
    """What numpy's scalars are like."""

    def __init__(self, value: Any) -> None:
        self.item = lambda: value


class Grading(Deciding):
    """Gives one task something, and all others a verdict."""

    def tasks(self) -> list[dict[str, str]]:
        return [{"id": id, "prompt": "p"} for id in "abc"]

    def grade(self, task: Any, submission: Submission, env: Any) -> Any:
        return self.outcome if task["id"] == "b" else Verdict(False)


@pytest.mark.parametrize(
    "outcome",
    [
        {"passed": True},
        "passed",
        None,
        Verdict("False"),  # type: ignore[arg-type]
        Verdict([False]),  # type: ignore[arg-type]
        Verdict(True, why=5),  # type: ignore[arg-type]
        Verdict(True, score=float("nan")),
        Verdict(True, score="1"),  # type: ignore[arg-type]
        Verdict(True, metrics={1: 2}),  # type: ignore[dict-item]
        Verdict(True, evidence=[1]),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_a_verdict_of_an_odd_kind_is_an_error_of_its_trial_alone(outcome: Any) -> None:
    found = Harness(benchmark=Grading(outcome), agent=NopAgent(), concurrency=1).run().results

    assert [each.status for each in found] == ["failed", "error", "failed"]
    assert all(word not in found[1].why for word in ("store", "Traceback"))


def test_scalars_of_numpy_are_plain() -> None:
    benchmark = Grading(Verdict(_Numpys(True), score=_Numpys(0.5)))  # type: ignore[arg-type]
    found = Harness(benchmark=benchmark, agent=NopAgent(), controls="off").run().results

    assert [(each.passed, each.score) for each in found] == [(False, 0), (True, 0.5), (False, 0)]


@pytest.mark.parametrize("where", ["has_reference", "check_task", "agent_seconds"])
def test_what_a_benchmark_raises_about_one_task_ends_no_run(where: str) -> None:
    def raising(task: Any, *_: Any) -> Any:
        if task["id"] == "b":
            raise KeyError("nothing of the kind")

    benchmark = Grading(Verdict(False))
    setattr(benchmark, where, raising)
    found = Harness(benchmark=benchmark, agent=lambda prompt, env: "x", concurrency=1).run().results

    assert [each.status for each in found] == ["failed", "error", "failed"]
    assert "nothing of the kind" in found[1].why


@pytest.mark.parametrize("part", [{"text": None}, {"raw": 5}, {"files": {"a": "text"}}])
def test_a_submission_of_an_odd_kind_is_an_error_of_its_trial(part: Any) -> None:
    benchmark = Grading(Verdict(False))
    benchmark.extract = lambda task, reply: Submission(**part)  # type: ignore[method-assign]
    found = Harness(benchmark=benchmark, agent=NopAgent()).run().results

    assert {each.status for each in found} == {"error"}
    assert all("expected texts, and files as bytes" in each.why for each in found)


@pytest.mark.parametrize(
    ("outcome", "passed", "value"),
    [(True, True, 1.0), (False, False, 0.0), (1, True, 1.0), (0.3, False, 0.3), (0, False, 0.0)],
)
def test_yes_no_and_scores(outcome: Any, passed: bool, value: float) -> None:
    verdict = Verdict.of(outcome)

    assert (verdict.passed, verdict.value) == (passed, value)


def test_a_verdict_is_itself_and_numpy_counts() -> None:
    numpy = pytest.importorskip("numpy")
    verdict = Verdict(False, "no")

    assert Verdict.of(verdict) is verdict
    assert Verdict.of(numpy.bool_(True)).passed
    assert not Verdict.of(numpy.float64(0.5)).passed


@pytest.mark.parametrize("outcome", [None, "False", (False, "wrong"), {"passed": False}, 5, -1])
def test_what_merely_counts_as_true_or_false_decides_nothing(outcome: Any) -> None:
    benchmark = Deciding(outcome)

    with pytest.raises(GraderError, match="not True, False, a score"):
        benchmark.grade(benchmark.tasks()[0], Submission("x"), NoEnvironment())
    result = Harness(benchmark, NopAgent()).run()
    assert (result.passed, result.errored) == (0, 1)


def test_a_check_may_return_its_own_verdict() -> None:
    result = Harness(Deciding(Verdict(False, "too long")), NopAgent()).run()

    assert [(r.passed, r.why) for r in result.results] == [(False, "too long")]
