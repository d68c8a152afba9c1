"""What a run came to: counts, rates and the results themselves, read from the run store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from chimera.eval.runs import stats
from chimera.eval.runs.store import Count, Finite, RunStore, Seconds, StoredStatus
from chimera.eval.values import Status, TrialRecord
from chimera.text import first_line
from chimera.types import JSON, Usage


class _Costs(NamedTuple):
    status: StoredStatus
    cost: Finite | None
    input_tokens: Count
    output_tokens: Count
    cached_tokens: Count


@dataclass(frozen=True, slots=True)
class TaskEvalResult:
    """One trial, as users' code reads it."""

    task_id: str
    sample: int
    status: Status
    passed: bool
    score: float
    why: str
    output: str
    cost: float | None
    steps: int
    duration: float
    metrics: dict[str, JSON]

    @classmethod
    def of(cls, record: TrialRecord) -> TaskEvalResult:
        verdict = record.verdict
        return cls(
            task_id=record.task_id,
            sample=record.sample,
            status=record.status,
            passed=record.passed,
            score=verdict.value if verdict else 0.0,
            why=record.why,
            output=record.output,
            cost=record.cost,
            steps=record.steps,
            duration=round(record.duration, 6),
            metrics=dict(verdict.metrics) if verdict else {},
        )


@dataclass(frozen=True, slots=True)
class EvalResult:
    """Counts of a run; `results` and everything per task are read from the store when asked for.

    `pass_rate` is passed / total, so that an error never raises it.
    """

    benchmark: str
    total: int
    passed: int
    failed: int
    errored: int
    planned: int
    total_cost: float | None
    usage: Usage
    interval: stats.Interval
    stopped: str | None
    store: RunStore

    @classmethod
    def of(
        cls,
        store: RunStore,
        *,
        benchmark: str | None = None,
        planned: int | None = None,
        stopped: str | None = None,
    ) -> EvalResult:
        query = "SELECT status, cost, input_tokens, output_tokens, cached_tokens FROM trials"
        counts: Counter[str] = Counter()
        usage, cost, unknown = Usage(), 0.0, False
        for trial in store.rows(_Costs, query):
            counts[trial.status] += 1
            usage += Usage(trial.input_tokens, trial.output_tokens, trial.cached_tokens)
            cost, unknown = cost + (trial.cost or 0.0), unknown or trial.cost is None
        usage += Usage(0, 0, 0, *store.tokens_apart())
        total = counts.total()
        manifest = store.manifest()
        return cls(
            benchmark=benchmark or benchmark_of(manifest),
            total=total,
            passed=counts["passed"],
            failed=counts["failed"],
            errored=counts["error"] + counts["submitted"],
            planned=planned if planned is not None else manifest.get("planned", total),
            total_cost=None if unknown else cost,
            usage=usage,
            interval=_interval(store, counts["passed"], total),
            stopped=stopped,
            store=store,
        )

    @property
    def pass_rate(self) -> float:
        return self.passed / self.total if self.total else 0.0

    @property
    def not_run(self) -> int:
        return max(0, self.planned - self.total)

    @property
    def bounds(self) -> stats.Interval:
        """The pass rate if all trials without a verdict failed, and if all of them passed."""
        return stats.coverage_bounds(
            self.passed, self.total + self.not_run, self.errored + self.not_run
        )

    @property
    def results(self) -> list[TaskEvalResult]:
        return list(self.iter_results())

    def iter_results(self) -> Iterator[TaskEvalResult]:
        return (TaskEvalResult.of(record) for record in self.store.records())

    def samples_by_task(self) -> dict[str, tuple[int, int]]:
        """task → (trials, trials passed); a trial without a verdict has not passed."""
        return {task: (count, passed) for task, count, passed in _by_task(self.store)}

    def pass_at(self, k: int) -> float | None:
        """Mean pass@k over tasks, errors as not passed; None unless every task has k trials."""
        return self._over_tasks(k, stats.pass_at_k)

    def pass_hat(self, k: int) -> float | None:
        """Mean pass^k over tasks, errors as not passed; None unless every task has k trials."""
        return self._over_tasks(k, stats.pass_hat_k)

    def _over_tasks(self, k: int, function: Any) -> float | None:
        counts = self.samples_by_task().values()
        if not counts or any(n < k for n, _ in counts):
            return None
        return float(sum(function(n, c, k) for n, c in counts) / len(counts))

    def durations(self) -> tuple[float, float]:
        """p50 and p95 of the seconds a trial took."""
        rows = self.store.rows(tuple[Seconds], "SELECT duration FROM trials")
        values = [seconds for (seconds,) in rows]
        return stats.percentile(values, 0.5), stats.percentile(values, 0.95)

    def reasons(self, most: int = 8) -> list[tuple[str, int]]:
        """The most frequent reasons of trials that did not pass, errors first by kind."""
        query = "SELECT status, error_boundary, why FROM trials"
        counts: Counter[str] = Counter()
        for status, boundary, why in self.store.rows(tuple[str, str | None, str], query):
            if status != "passed":
                line = first_line(why) or status
                counts[line if boundary is None else f"[error] {line}"] += 1
        return counts.most_common(most)

    def rates_of(self, metric: str) -> float | None:
        """Mean of a boolean or numeric verdict metric over all trials; None where none has it."""
        found = (metrics.get(metric) for _, metrics in self._metrics(metric))
        values = [float(value) for value in found if isinstance(value, (bool, int, float))]
        return sum(values) / self.total if values and self.total else None

    def _metrics(self, having: str) -> Iterator[tuple[bool, dict[str, JSON]]]:
        """The verdicts that have a metric: whether they passed, and all their metrics."""
        name = f'"{having}"'
        query = "SELECT passed, metrics FROM verdicts"
        for passed, text in self.store.rows(tuple[int, str], query):
            if name in text:
                yield bool(passed), self.store.decode(text)

    def summary(self) -> dict[str, JSON]:
        """The plain summary, without the results."""
        manifest = self.store.manifest()
        dataset = manifest.get("dataset")
        return {
            "benchmark": self.benchmark,
            "dataset": dataset,
            "model": manifest.get("model"),
            "agent": manifest.get("agent"),
            "total": self.total,
            "passed": self.passed,
            "failed": self.failed,
            "errored": self.errored,
            "not_run": self.not_run,
            "pass_rate": self.pass_rate,
            "interval": list(self.interval),
            "bounds": list(self.bounds),
            "corrected_pass_rate": self.corrected_pass_rate,
            "total_cost": self.total_cost,
            "usage": {
                "input_tokens": self.usage.input_tokens,
                "output_tokens": self.usage.output_tokens,
                "cached_tokens": self.usage.cached_tokens,
                "cache_write_tokens": self.usage.cache_write_tokens,
                "reasoning_tokens": self.usage.reasoning_tokens,
            },
            "run": str(Path(self.store.path)),
        }

    @property
    def corrected_pass_rate(self) -> float | None:
        """The rate by the corrected verdicts, where a grader gave one; None when none differs."""
        pairs = [
            (passed, bool(metrics["corrected"]))
            for passed, metrics in self._metrics("corrected")
            if metrics.get("corrected") is not None
        ]
        official, corrected = (
            (sum(column) for column in zip(*pairs, strict=True)) if pairs else (0, 0)
        )
        if corrected == official or not self.total:
            return None
        return float((self.passed - official + corrected) / self.total)


def benchmark_of(manifest: Mapping[str, JSON]) -> str:
    """The name of a run's benchmark."""
    return str(manifest.get("identity", {}).get("benchmark", "?"))


def _by_task(store: RunStore) -> Iterator[tuple[str, int, int]]:
    """Each task with its trials and how many of them passed."""
    query = "SELECT task_id, status FROM trials ORDER BY task_id"
    for task, trials in groupby(store.rows(tuple[str, str], query), key=itemgetter(0)):
        passed = [status == "passed" for _, status in trials]
        yield task, len(passed), sum(passed)


def _interval(store: RunStore, passed: int, total: int) -> stats.Interval:
    """Wilson's for one sample a task, else one over whole tasks."""
    tasks = [(count, passes) for _, count, passes in _by_task(store)]
    if all(count == 1 for count, _ in tasks):
        return stats.wilson(passed, total)
    return stats.clustered_bootstrap(
        [[1.0] * passes + [0.0] * (count - passes) for count, passes in tasks]
    )
