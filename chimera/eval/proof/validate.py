"""Whether a grader can be trusted: gold passes, nothing fails, mutants of the gold fail.

Works on every benchmark through `oracle`, `mutants` and `grade`, along the same way as a trial.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from chimera.errors import UsageError
from chimera.eval.benchmark import Benchmark, StartEnvironment
from chimera.eval.submitters import NopAgent, OracleAgent, Stored
from chimera.eval.trial import TrialSpec, run_trial
from chimera.eval.values import Submission, TrialRecord
from chimera.eval.workers import ThreadExecutor, results

Answer = Literal["gold", "empty", "mutant"]
ANSWERS: tuple[Answer, ...] = ("gold", "empty", "mutant")


@dataclass(frozen=True, slots=True)
class Check:
    """One answer that was graded, and whether its verdict is the one that was due.

    `equivalent` is a mutant that passed and behaves like the gold on further inputs as well.
    """

    task_id: str
    answer: Answer
    number: int
    status: str
    why: str
    text: str = ""
    equivalent: bool = False

    @property
    def as_due(self) -> bool:
        return self.status == ("passed" if self.answer == "gold" else "failed")


@dataclass(slots=True)
class Report:
    """The checks of one benchmark, counted; `ungolded` are tasks without a reference answer."""

    benchmark: str
    tasks: int = 0
    ungolded: int = 0
    checks: list[Check] = field(default_factory=list)

    def of(self, answer: Answer) -> list[Check]:
        return [check for check in self.checks if check.answer == answer]

    def counts(self) -> dict[str, Any]:
        rows = {
            answer: {
                "graded": len(checks),
                "as_due": sum(check.as_due for check in checks),
                "errors": sum(check.status == "error" for check in checks),
                **({"equivalent": same} if (same := sum(c.equivalent for c in checks)) else {}),
            }
            for answer in ANSWERS
            if (checks := self.of(answer))
        }
        return {
            "benchmark": self.benchmark,
            "tasks": self.tasks,
            "without_gold": self.ungolded,
            "answers": rows,
            "survivors": [
                {**self._named(c), "equivalent": c.equivalent}
                for c in self.of("mutant")
                if c.status == "passed"
            ],
            "gold_not_passed": [self._named(c) for c in self.of("gold") if not c.as_due],
            "empty_passed": [self._named(c) for c in self.of("empty") if not c.as_due],
        }

    @staticmethod
    def _named(check: Check) -> dict[str, Any]:
        return {"task": check.task_id, "number": check.number, "why": check.why}

    def holds(self, *, mutants_failing: float) -> bool:
        """Every gold passes (and there is one), every empty answer fails, and so do enough of the
        mutants that change behaviour."""
        mutants = [check for check in self.of("mutant") if not check.equivalent]
        failing = sum(check.as_due for check in mutants)
        return (
            all(check.as_due for check in [*self.of("gold"), *self.of("empty")])
            and bool(self.of("gold"))
            and not any(check.status == "error" for check in mutants)
            and failing >= mutants_failing * len(mutants)
        )


@dataclass(frozen=True, slots=True)
class _Job:
    answer: Answer
    number: int
    spec: TrialSpec


def validate(
    benchmark: Benchmark[Any],
    start: StartEnvironment,
    *,
    mutants: int = 3,
    workers: int = 4,
    tasks: Sequence[Any] | None = None,
) -> Report:
    """Grade gold, nothing and up to `mutants` wrong answers of every task."""
    chosen = list(benchmark.tasks() if tasks is None else tasks)
    if not chosen:
        raise UsageError(f"{benchmark.name()}: no task to validate")
    report = Report(benchmark.name(), tasks=len(chosen))
    jobs = _jobs(benchmark, chosen, start, mutants, report)
    report.checks.extend(results(ThreadExecutor(_check, workers), jobs))
    order = {task["id"]: index for index, task in enumerate(chosen)}
    report.checks.sort(key=lambda c: (order[c.task_id], ANSWERS.index(c.answer), c.number))
    return report


def _jobs(
    benchmark: Benchmark[Any],
    tasks: Sequence[Any],
    start: StartEnvironment,
    mutants: int,
    report: Report,
) -> Iterator[_Job]:
    overridden = type(benchmark).oracle is not Benchmark.oracle
    for task in tasks:
        if overridden or benchmark.gold(task) is not None:
            yield _Job("gold", 0, TrialSpec(benchmark, task, 0, OracleAgent(), start))
        else:
            report.ungolded += 1
        if not benchmark.nothing_is_right(task):
            yield _Job("empty", 0, TrialSpec(benchmark, task, 0, NopAgent(), start))
        for number, wrong in enumerate(islice(benchmark.mutants(task), mutants)):
            yield _Job("mutant", number, TrialSpec(benchmark, task, number, Stored(wrong), start))


def _check(job: _Job) -> Check:
    record: TrialRecord = run_trial(job.spec)
    submission = record.submission or Submission()
    return Check(
        record.task_id,
        job.answer,
        job.number,
        record.status,
        record.why,
        submission.text,
        equivalent=job.answer == "mutant"
        and record.passed
        and job.spec.benchmark.behaves_like_gold(job.spec.task, submission),
    )
