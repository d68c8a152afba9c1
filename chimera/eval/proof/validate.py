"""Whether a grader can be trusted: gold passes, nothing fails, mutants of the gold fail.

Works on every benchmark through `oracle`, `mutants` and `grade`, along the same way as a trial.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from chimera.errors import UsageError
from chimera.eval.benchmark import Benchmark, StartEnvironment
from chimera.eval.controls import WHOLE, Controls, Untouched, machine_store, tests_of
from chimera.eval.submitters import NopAgent, OracleAgent, Stored
from chimera.eval.timing import SLOW_SECONDS, tests_speed
from chimera.eval.trial import TrialSpec, run_trial
from chimera.eval.values import Submission, TrialRecord
from chimera.eval.workers import ThreadExecutor, results

Answer = Literal["gold", "empty", "mutant"]
ANSWERS: tuple[Answer, ...] = ("gold", "empty", "mutant")


@dataclass(frozen=True, slots=True)
class Check:
    """One answer that was graded, and whether its verdict is the one that was due.

    `equivalent` is a mutant that passed and behaves like the gold on further inputs as well, and
    `rewarded` an empty answer to a task that asks for nothing. `unstable` are tests that passed in
    some of several runs: in how many, of how many. `timed` says that the task's tests look at a
    clock, `judged` that a model was asked. `metrics` are the verdict's.
    """

    task_id: str
    answer: Answer
    number: int
    status: str
    why: str
    text: str = ""
    equivalent: bool = False
    rewarded: bool = False
    unstable: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    seconds: float = 0.0
    timed: bool = False
    judged: bool = False
    metrics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def as_due(self) -> bool:
        passes = self.answer == "gold" or self.rewarded
        return self.status == ("passed" if passes else "failed") and WHOLE not in self.unstable


@dataclass(slots=True)
class Report:
    """The checks of one benchmark, counted; `ungolded` are tasks without a reference answer."""

    benchmark: str
    tasks: int = 0
    ungolded: int = 0
    checks: list[Check] = field(default_factory=list)
    repeat: int = 1

    def of(self, answer: Answer) -> list[Check]:
        return [check for check in self.checks if check.answer == answer]

    def counts(self) -> dict[str, Any]:
        rows = {
            answer: {
                "graded": len(checks),
                "as_due": sum(check.as_due for check in checks),
                "errors": sum(check.status == "error" for check in checks),
                "passed": sum(check.status == "passed" for check in checks),
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
            "empty_passed": [self._named(c) for c in self.of("empty") if c.status == "passed"],
            "slow": [
                {"task": c.task_id, "seconds": round(c.seconds, 1)}
                for c in self.of("gold")
                if c.seconds > SLOW_SECONDS
            ],
            "timed": [check.task_id for check in self.of("gold") if check.timed],
            **({"repeat": self.repeat, "unstable": self._unstable()} if self.repeat > 1 else {}),
            **self._twins(),
            **self._judge(),
        }

    def _judge(self) -> dict[str, Any]:
        """What the judge model made of reference answers and of wrong ones, where one decides."""
        asked = [check for check in self.checks if check.judged]
        gold = [check for check in asked if check.answer == "gold"]
        counts = {
            "gold": len(gold),
            "gold_accepted": sum(check.status == "passed" for check in gold),
            "wrong": len(asked) - len(gold),
            "wrong_refused": sum(c.status == "failed" for c in asked if c.answer != "gold"),
            "no_verdict": sum(check.status == "error" for check in asked),
        }
        return {"judge": counts} if asked else {}

    def _unstable(self) -> list[dict[str, Any]]:
        return [
            {"task": c.task_id, "answer": c.answer, "test": test, "passed": passes, "of": runs}
            for c in self.checks
            for test, (passes, runs) in c.unstable.items()
        ]

    def _twins(self) -> dict[str, Any]:
        """How many of the tests that the gold passes can tell a forged pass, where twins are."""
        found = (check.metrics.get("twin") for check in self.of("gold"))
        twins = [twin for twin in found if isinstance(twin, Mapping)]
        names = ("tests", "twinned", "at_end")
        counts = {n: sum(t.get(n, 0) for t in twins) for n in names if any(n in t for t in twins)}
        return {"twins": counts} if twins else {}

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
    repeat: int = 1


def validate(
    benchmark: Benchmark[Any],
    start: StartEnvironment,
    *,
    mutants: int = 3,
    workers: int = 4,
    tasks: Sequence[Any] | None = None,
    repeat: int = 1,
) -> Report:
    """Grade gold, nothing and up to `mutants` wrong answers of every task.

    Gold and nothing are graded `repeat` times. What was seen is kept as this machine's controls,
    with the tests that do not always come out alike.
    """
    chosen = list(benchmark.tasks() if tasks is None else tasks)
    if not chosen:
        raise UsageError(f"{benchmark.name()}: no task to validate")
    report = Report(benchmark.name(), tasks=len(chosen), repeat=repeat)
    jobs = _jobs(benchmark, chosen, start, mutants, report)
    controls = Controls(store=machine_store())
    executor = ThreadExecutor[_Job, Check](lambda job: _check(job, controls), workers)
    report.checks.extend(results(executor, jobs))
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
    repeat = report.repeat
    for task in tasks:
        if benchmark.has_reference(task):
            yield _Job("gold", 0, TrialSpec(benchmark, task, 0, OracleAgent(), start), repeat)
        else:
            report.ungolded += 1
        nothing = Untouched() if benchmark.has_untouched(task) else NopAgent()
        yield _Job("empty", 0, TrialSpec(benchmark, task, 0, nothing, start), repeat)
        for number, wrong in enumerate(islice(benchmark.mutants(task), mutants)):
            yield _Job("mutant", number, TrialSpec(benchmark, task, number, Stored(wrong), start))


def _check(job: _Job, controls: Controls) -> Check:
    benchmark, task = job.spec.benchmark, job.spec.task
    records: list[TrialRecord] = [run_trial(job.spec) for _ in range(job.repeat)]
    record, submission = records[0], records[0].submission or Submission()
    unstable = _varying(records)
    if job.answer == "gold":
        controls.learn(job.spec, record, unstable if job.repeat > 1 else None)
    return Check(
        record.task_id,
        job.answer,
        job.number,
        record.status,
        record.why,
        submission.text,
        judged=bool(record.calls),
        metrics=record.verdict.metrics if record.verdict else {},
        equivalent=job.answer == "mutant"
        and record.passed
        and benchmark.behaves_like_gold(task, submission),
        rewarded=job.answer == "empty" and benchmark.nothing_is_right(task),
        unstable=unstable,
        seconds=record.duration,
        timed=tests_speed(benchmark, task),
    )


def _varying(records: Sequence[TrialRecord]) -> dict[str, tuple[int, int]]:
    """Tests that came out differently in several runs of one answer: passes, and runs."""
    seen: defaultdict[str, list[bool]] = defaultdict(list)
    for record in records:
        if record.verdict is not None:
            seen[WHOLE].append(record.passed)
            for name, held in tests_of(record.verdict).items():
                seen[name].append(held)
    return {
        name: (sum(held), len(held)) for name, held in seen.items() if 0 < sum(held) < len(held)
    }
