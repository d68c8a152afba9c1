"""What a run came to: counts, rates and the results themselves, read from the run store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chimera.eval.runs import stats
from chimera.eval.runs.store import RunStore
from chimera.eval.values import Status, TrialRecord
from chimera.types import JSON, Usage


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
        counts = dict(store.rows("SELECT status, COUNT(*) FROM trials GROUP BY status"))
        passed, failed = counts.get("passed", 0), counts.get("failed", 0)
        errored = counts.get("error", 0) + counts.get("submitted", 0)
        total = passed + failed + errored
        sums = next(
            store.rows(
                "SELECT COALESCE(SUM(cost), 0), COUNT(*) - COUNT(cost), "
                "COALESCE(SUM(input_tokens), 0), COALESCE(SUM(output_tokens), 0), "
                "COALESCE(SUM(cached_tokens), 0) FROM trials"
            )
        )
        manifest = store.manifest()
        return cls(
            benchmark=benchmark or manifest.get("identity", {}).get("benchmark", "?"),
            total=total,
            passed=passed,
            failed=failed,
            errored=errored,
            planned=planned if planned is not None else manifest.get("planned", total),
            total_cost=None if sums[1] else sums[0],
            usage=Usage(sums[2], sums[3], sums[4]),
            interval=_interval(store, passed, total),
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
        """task → (trials with a verdict, trials passed)."""
        query = (
            "SELECT task_id, COUNT(*), SUM(status = 'passed') FROM trials "
            "WHERE status IN ('passed', 'failed') GROUP BY task_id"
        )
        return {task: (count, passed) for task, count, passed in self.store.rows(query)}

    def pass_at(self, k: int) -> float | None:
        """Mean pass@k over tasks; None unless every task has k verdicts."""
        return self._over_tasks(k, stats.pass_at_k)

    def pass_hat(self, k: int) -> float | None:
        """Mean pass^k over tasks; None unless every task has k verdicts."""
        return self._over_tasks(k, stats.pass_hat_k)

    def _over_tasks(self, k: int, function: Any) -> float | None:
        counts = self.samples_by_task().values()
        if not counts or any(n < k for n, _ in counts):
            return None
        return float(sum(function(n, c, k) for n, c in counts) / len(counts))

    def durations(self) -> tuple[float, float]:
        """p50 and p95 of the seconds a trial took."""
        values = [row[0] for row in self.store.rows("SELECT duration FROM trials")]
        return stats.percentile(values, 0.5), stats.percentile(values, 0.95)

    def reasons(self, most: int = 8) -> list[tuple[str, int]]:
        """The most frequent reasons of trials that did not pass, errors first by kind."""
        query = "SELECT status, error_boundary, why FROM trials WHERE status != 'passed'"
        counts: Counter[str] = Counter()
        for status, boundary, why in self.store.rows(query):
            line = (why or status).splitlines()[0][:100] if (why or status) else status
            counts[line if boundary is None else f"[error] {line}"] += 1
        return counts.most_common(most)

    def rates_of(self, metric: str) -> float | None:
        """Mean of a boolean or numeric verdict metric over all trials; None where none has it."""
        query = (
            "SELECT json_extract(metrics, '$.' || ?) FROM verdicts "
            "WHERE json_extract(metrics, '$.' || ?) IS NOT NULL"
        )
        values = [float(row[0]) for row in self.store.rows(query, (metric, metric))]
        return sum(values) / self.total if values and self.total else None

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
            },
            "run": str(Path(self.store.path)),
        }

    @property
    def corrected_pass_rate(self) -> float | None:
        """The rate by the corrected verdicts, where a grader gave one; None when none differs."""
        query = (
            "SELECT COUNT(*), SUM(json_extract(metrics, '$.corrected')), SUM(passed) FROM verdicts "
            "WHERE json_extract(metrics, '$.corrected') IS NOT NULL"
        )
        count, corrected, official = next(self.store.rows(query))
        if not count or corrected == official or not self.total:
            return None
        return float((self.passed - official + corrected) / self.total)


def _interval(store: RunStore, passed: int, total: int) -> stats.Interval:
    """Wilson's for one sample a task, else a bootstrap over whole tasks."""
    clusters: list[Sequence[float]] = []
    query = (
        "SELECT SUM(status = 'passed'), COUNT(*) FROM trials GROUP BY task_id HAVING COUNT(*) > 0"
    )
    rows = list(store.rows(query))
    if all(count == 1 for _, count in rows):
        return stats.wilson(passed, total)
    clusters = [[1.0] * passes + [0.0] * (count - passes) for passes, count in rows]
    return stats.clustered_bootstrap(clusters)
