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
