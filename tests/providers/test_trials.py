"""Whole runs over a service that fails: no wrong verdict, no lost trial, no overspent budget."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.agents.direct import DirectAgent
from chimera.environments import Environment
from chimera.eval.harness import Benchmark, EvalResult, Harness
from chimera.eval.runs.store import RunStore
from chimera.eval.values import Task
from chimera.providers import Provider
from chimera.providers.local import LocalServer
from chimera.providers.meter import TrialLimits
from tests.providers.fault_proxy import (
    EMPTY,
    MALFORMED,
    OVERLOADED,
    SERVER_ERROR,
    UNAVAILABLE,
    Answer,
    Cut,
    Fault,
    FaultProxy,
    Hang,
    Reset,
)

QUICK_REFUSAL = Answer(429, b"{}", (("Retry-After", "0.05"),))
FAULTS: list[Fault] = [
    QUICK_REFUSAL, SERVER_ERROR, UNAVAILABLE, OVERLOADED, Cut(), MALFORMED, EMPTY, Reset(),
]  # fmt: skip


class Alike(Benchmark[Task]):
    """Passes whoever says anything at all: a reply that was lost would show as a failure."""

    def __init__(self, tasks: int = 12) -> None:
        self.number = tasks

    def name(self) -> str:
        return "alike"

    def tasks(self) -> list[Task]:
        return [Task(id=f"t{number}", prompt="Say yes.") for number in range(self.number)]

    def evaluate(self, task: Task, agent_output: str, env: Environment) -> bool:
        return bool(agent_output)


def run(
    provider: Provider, store: RunStore, benchmark: Alike | None = None, **settings: object
) -> EvalResult:
    agent = DirectAgent(provider=provider, temperature=0.0, max_tokens=4)
    return Harness(
        benchmark=benchmark or Alike(),
        agent=agent,
        store=store,
        concurrency=4,
        breaker=1000,
        **settings,
    ).run()


def check_account(store: RunStore, result: EvalResult, budget: float, trials: int = 12) -> None:
    records = list(store.records(whole=True))
    assert {record.task_id for record in records} == {f"t{number}" for number in range(trials)}
    assert len(records) == trials
    assert result.failed == 0
    assert result.passed + result.errored == result.total == trials
    spent = sum(call.cost or 0.0 for record in records for call in record.calls)
    assert spent <= budget
    assert store.spent() == pytest.approx(spent)


@pytest.mark.parametrize("seed", [1, 2])
def test_faults_that_pass_leave_every_verdict_as_it_would_be(
    through_proxy: Callable[..., Provider], proxy: FaultProxy, tmp_path: Path, seed: int
):
    proxy.fail_with(random.Random(seed).choices(FAULTS, k=16))
    store = RunStore(tmp_path / "run.sqlite", create=True)

    result = run(through_proxy(attempts=17), store, budget=500.0)

    assert result.passed == 12
    check_account(store, result, 500.0)
    store.close()


def test_faults_that_stay_are_errors_and_never_verdicts(
    through_proxy: Callable[..., Provider], proxy: FaultProxy, tmp_path: Path
):
    proxy.fail_with(random.Random(3).choices(FAULTS, k=30))
    store = RunStore(tmp_path / "run.sqlite", create=True)

    result = run(through_proxy(attempts=2), store, budget=500.0, attempts=1)

    assert result.errored > 0
    check_account(store, result, 500.0)
    assert {record.error.boundary for record in store.records() if record.error} == {"provider"}
    store.close()


def test_a_budget_that_runs_out_stops_calls_before_they_are_made(
    through_proxy: Callable[..., Provider], proxy: FaultProxy, tmp_path: Path
):
    proxy.fail_with([Cut()] * 2)
    store = RunStore(tmp_path / "run.sqlite", create=True)

    # A call is reserved at about a tenth of a dollar, and costs about four hundredths.
    result = run(through_proxy(attempts=4), store, budget=0.5)

    assert result.errored > 0
    assert result.passed > 0
    check_account(store, result, 0.5)
    errors = {record.error.boundary for record in store.records() if record.error}
    assert errors <= {"budget", "provider"}
    store.close()


def test_a_service_that_hangs_makes_errors_not_failures(
    server: LocalServer, through_proxy: Callable[..., Provider], proxy: FaultProxy, tmp_path: Path
):
    proxy.fail_with([Hang()] * 100)
    store = RunStore(tmp_path / "run.sqlite", create=True)

    result = run(through_proxy(), store, Alike(4), budget=500.0, limits=TrialLimits(seconds=4.0))

    assert result.errored == 4
    check_account(store, result, 500.0, trials=4)
    store.close()
