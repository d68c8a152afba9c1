"""Verdicts for answers that are there already: prediction files, and the runs that are stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chimera.errors import DatasetError, UsageError
from chimera.eval.benchmark import Benchmark
from chimera.eval.controls import Controls, Mode, machine_store
from chimera.eval.data.predictions import read_predictions
from chimera.eval.filed import ById
from chimera.eval.harness import Planned
from chimera.eval.run import (
    PreparedRun,
    RunSettings,
    choose_backend,
    judged_by,
    stored_settings,
)
from chimera.eval.runs.lock import held
from chimera.eval.runs.store import RunStore
from chimera.eval.submitters import Stored
from chimera.eval.trial import StartBackend, TrialSpec
from chimera.eval.values import Prediction, TrialError, TrialRecord
from chimera.eval.workers import ThreadExecutor, results

WORKERS = 4
#: The settings of a run that grading it again makes use of.
USED = ("benchmark", "dataset", "option", "role", "environment", "predictions")


@dataclass(frozen=True, slots=True)
class Regraded:
    """A stored trial and the same one graded again, which has no verdict if that failed."""

    before: TrialRecord
    after: TrialRecord

    @property
    def unfounded(self) -> bool:
        """Whether there is a verdict and no answer that it could be confirmed with."""
        return self.before.submission is None

    @property
    def decided(self) -> bool:
        """Whether there is a verdict now, or one that known answers forbid; else grading failed."""
        return self.after.verdict is not None or self.after.control is not None

    @property
    def changed(self) -> bool:
        old, new = self.before.verdict, self.after.verdict
        if old is None or new is None:
            return new is not None
        return (old.passed, old.value) != (new.passed, new.value)


def prepare_predictions(settings: RunSettings, file: Path) -> tuple[PreparedRun, int]:
    """The run that grades a prediction file, and how many tasks have no prediction in it."""
    if not file.exists():
        raise UsageError(f"--predictions {file}: no such file")
    benchmark = settings.create_benchmark()
    predictions = list(read_predictions(benchmark, file))
    if not predictions:
        raise UsageError(f"--predictions {file}: no predictions in it")
    answers = planned_answers(benchmark, predictions)
    environment = settings.environment or _grading_backend(benchmark, answers)
    prepared = PreparedRun(
        settings, benchmark, answers[0][2], (), environment, answers=answers, predictions=file
    )
    if any(prediction.task is not None for prediction in predictions):
        return prepared, 0  # the file says itself what it is graded against
    answered = {prediction.task_id for prediction in predictions}
    unanswered = sum(task["id"] not in answered for task in benchmark.tasks())
    return replace(prepared, unanswered=unanswered), unanswered


def planned_answers(benchmark: Benchmark[Any], predictions: Iterable[Prediction]) -> list[Planned]:
    """(task, sample, submitter) for each prediction; rows of one id are numbered as they come."""
    tasks: Mapping[str, Any] = {}
    samples: Counter[str] = Counter()
    trials: list[Planned] = []
    for prediction in predictions:
        task = prediction.task
        if task is None:
            tasks = tasks or ById(benchmark.tasks())
            if prediction.task_id not in tasks:
                raise DatasetError(f"{benchmark.name()} has no task {prediction.task_id!r}")
            task = tasks[prediction.task_id]
        trials.append((task, samples[prediction.task_id], Stored(prediction.submission)))
        samples[prediction.task_id] += 1
    return trials


def grade_again(
    store: RunStore,
    *,
    changes: Mapping[str, Any] | None = None,
    keep: bool = True,
    workers: int | None = None,
    controls: Mode = "auto",
) -> Iterator[Regraded]:
    """Grade every stored submission of a run again; `keep` stores what came of it.

    Where known answers forbid a verdict, the stored one goes; where grading failed, it stays, and
    so does one without an answer.
    `changes` are settings that count instead of the run's own, `predictions` among them.
    """
    stored = stored_settings(store, changes, USED)
    settings = RunSettings.of_manifest(stored)
    benchmark = settings.create_benchmark()
    tasks = _tasks_of(benchmark, stored.get("predictions"))
    if not benchmark.regradable:
        raise UsageError(
            f"{benchmark.name()} is graded in the agent's own environment, which is gone; "
            "run it again instead"
        )
    start = StartBackend(settings.environment or "none")
    ruled = Controls(controls, store=machine_store(), keep=store.add_control_soon if keep else None)

    def again(key: tuple[str, int]) -> Regraded | None:
        before = store.record(*key)
        if before.submission is None:
            error = TrialError("grader", "the answer is not stored: nothing confirms the verdict")
            after = replace(before, verdict=None, error=error, control=None)
            return Regraded(before, after) if before.verdict is not None else None
        if before.task_id not in tasks:
            raise UsageError(f"the data set no longer has the task {before.task_id!r}")
        answer = Stored(before.submission)
        spec = TrialSpec(benchmark, tasks[before.task_id], before.sample, answer, start)
        return Regraded(before, replace(ruled.run(spec), digest=before.digest))

    with held(store.path) if keep else nullcontext():
        left = 0  # verdicts that the earlier grader gave
        if keep:
            store.set_manifest(
                {"graded_again": {**judged_by(benchmark), "grader": "two in one run"}}
            )
        for regraded in results(ThreadExecutor(again, workers or WORKERS), store.each_key()):
            if regraded is None:
                continue
            if keep and regraded.decided:
                store.replace_outcome(regraded.before, regraded.after)
            left += not regraded.decided and regraded.before.verdict is not None
            yield regraded
        store.flush()
        if keep and not left:
            store.set_manifest({"graded_again": judged_by(benchmark)})


def _tasks_of(benchmark: Benchmark[Any], predictions: str | None) -> Mapping[str, Any]:
    """The tasks a run was graded against: the data set's, or those its prediction file carries."""
    if predictions is not None and Path(predictions).exists():
        answers = planned_answers(benchmark, read_predictions(benchmark, Path(predictions)))
        return {task["id"]: task for task, _, _ in answers}
    return ById(benchmark.tasks())


def _grading_backend(benchmark: Benchmark[Any], answers: Iterable[Planned]) -> str:
    tasks = [task for task, _, _ in answers]
    return "none" if benchmark.grading == "none" else choose_backend(benchmark, tasks)
