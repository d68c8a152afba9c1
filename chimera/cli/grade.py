"""`chimera grade`: verdicts for stored answers, without an agent and without cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec

from chimera.cli.evaluation import Output, Settings, default_environment, describe, drive
from chimera.cli.main import EXIT_DONE, EXIT_GATE, EXIT_INCOMPLETE
from chimera.cli.options import config_option, json_option, option, pairs, runs_dir_option
from chimera.cli.terminal import echo
from chimera.errors import UsageError
from chimera.eval.benchmark import Benchmark
from chimera.eval.data.predictions import Stored, plan
from chimera.eval.harness import Harness
from chimera.eval.registry import create_benchmark
from chimera.eval.runs.files import find_run, new_run_path, runs_dir
from chimera.eval.runs.seal import usable_settings
from chimera.eval.runs.store import RunStore
from chimera.eval.trial import StartBackend, TrialSpec, run_trial
from chimera.eval.values import TrialRecord
from chimera.eval.workers import ThreadExecutor
from chimera.text import one_line

#: The settings of a run that grading it again makes use of.
USED = ("benchmark", "dataset", "option", "environment", "predictions")


@click.command("grade")
@click.argument("run", required=False)
@option("--benchmark", "-b", help="A name from `chimera benchmarks`, or package.module:Class.")
@option("--predictions", type=click.Path(path_type=Path), help="Answers: JSONL, JSON, gz.")
@option("--dataset", help="The data set's file or directory.")
@option("--option", "-o", "options", multiple=True, help="KEY=VALUE for the benchmark.")
@option("--environment", "-e", help="Where graders that need one run: bubblewrap, docker, …")
@option("--concurrency", "-n", type=click.IntRange(1), help="Verdicts at once.")
@option("--check", is_flag=True, help="With RUN: change nothing, exit 1 if a verdict changes.")
@option("--fail-under", type=click.FloatRange(0, 1), help="Exit 1 when the pass rate is lower.")
@option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Write results as JSON.")
@runs_dir_option
@json_option
@config_option
def command(
    *,
    run: str | None,
    benchmark: str | None,
    predictions: Path | None,
    dataset: str | None,
    options: tuple[str, ...],
    environment: str | None,
    concurrency: int | None,
    check: bool,
    fail_under: float | None,
    output: Path | None,
    runs_dir: Path | None,
    as_json: bool,
) -> int:
    """Grade the answers of a prediction file, or grade a stored RUN again.

    A line of a prediction file has the task's id (task_id, instance_id or id) and the answer.
    `completion`, `solution` and `model_patch` are taken as they are, as the official graders do;
    `output` is a model's whole reply, from which the answer is extracted. Several lines with one
    id are samples 0, 1, 2, …

    \b
    Examples:
      chimera grade --benchmark human-eval --predictions samples.jsonl --output verdicts.json
      chimera grade latest --check       # do all stored verdicts still hold?
    """
    if run is not None:
        given = {
            "benchmark": benchmark,
            "dataset": dataset,
            "option": options or None,
            "environment": environment,
            "predictions": None if predictions is None else str(predictions),
        }
        told = {name: value for name, value in given.items() if value is not None}
        return _grade_again(run, runs_dir, told, check=check, workers=concurrency, as_json=as_json)
    if not benchmark or predictions is None:
        raise UsageError("give a RUN, or --benchmark NAME with --predictions FILE")
    if check:
        raise UsageError("--check goes with a stored RUN")
    settings = Settings(
        benchmark=benchmark,
        dataset=dataset,
        agent="predictions",
        concurrency=concurrency,
        environment=environment,
        option=options,
    )
    target = Output(runs=runs_dir, file=output, fail_under=fail_under, as_json=as_json)
    return _grade_predictions(settings, predictions, target)


def _grade_predictions(settings: Settings, predictions: Path, output: Output) -> int:
    if not predictions.exists():
        raise UsageError(f"--predictions {predictions}: no such file")
    benchmark = create_benchmark(
        settings.benchmark, dataset=settings.dataset, options=pairs(settings.option, "--option")
    )
    trials = plan(benchmark, benchmark.read_predictions(predictions))
    if not trials:
        raise UsageError(f"--predictions {predictions}: no predictions in it")
    environment = settings.environment or _grading_backend(benchmark)
    path = new_run_path(runs_dir(output.runs), benchmark.name(), predictions.name)
    with RunStore(path, create=True) as store:
        manifest = describe(settings, benchmark, environment)
        manifest["predictions"] = str(predictions.absolute())
        harness = Harness(
            benchmark=benchmark,
            agent=trials[0][2],
            predictions=trials,
            env_factory=environment,
            concurrency=settings.concurrency,
            store=store,
            manifest=manifest,
        )
        samples = 1 + min(_samples_of(trials).values()) if trials else 1
        code = drive(harness, store, output, samples=samples)
    missing = 0 if trials[0][0].get("embedded") else _without_prediction(benchmark, trials)
    if missing and not output.as_json:
        click.echo(f"  {missing} tasks of {benchmark.name()} have no prediction in the file")
    return code


def _samples_of(trials: list[tuple[Any, int, Stored]]) -> dict[str, int]:
    """task → its highest sample number."""
    return {task["id"]: sample for task, sample, _ in sorted(trials, key=lambda trial: trial[1])}


def _without_prediction(benchmark: Benchmark[Any], trials: list[tuple[Any, int, Stored]]) -> int:
    return len({t["id"] for t in benchmark.tasks()} - {task["id"] for task, _, _ in trials})


def _grading_backend(benchmark: Benchmark[Any]) -> str:
    return "none" if benchmark.grading == "none" else default_environment(benchmark)


def _grade_again(
    name: str,
    runs: Path | None,
    told: dict[str, Any],
    *,
    check: bool,
    workers: int | None,
    as_json: bool,
) -> int:
    with RunStore(find_run(name, runs_dir(runs)), write=not check) as store:
        manifest = store.manifest()
        if not manifest.get("settings"):
            raise UsageError(f"the run '{name}' does not say how it was made; it cannot be graded")
        stored = usable_settings(manifest, told, USED)
        settings = Settings.of_manifest(stored)
        benchmark = create_benchmark(
            settings.benchmark, dataset=settings.dataset, options=pairs(settings.option, "--option")
        )
        tasks = _tasks_of(benchmark, stored.get("predictions"))
        if not benchmark.regradable:
            raise UsageError(
                f"{benchmark.name()} is graded in the agent's own environment, which is gone; "
                "run it again instead"
            )
        changed = errors = graded = 0
        for before, after in _verdicts_again(
            store, benchmark, tasks, settings.environment, workers
        ):
            graded += 1
            if after.verdict is None:
                errors += 1
                echo(
                    f"no verdict: {one_line(before.task_id)}#{before.sample}: {after.why}", err=True
                )
                continue
            if not _same(before, after):
                changed += 1
                _report_change(before, after, as_json=as_json)
            if not check:
                store.replace_verdict(before, after.verdict)
    if as_json:
        click.echo(
            msgspec.json.encode(
                {"event": "summary", "graded": graded, "changed": changed, "errors": errors}
            ).decode()
        )
    else:
        click.echo(
            f"{graded} submissions graded again: {changed} verdicts changed, {errors} errors"
        )
    if check and changed:
        return EXIT_GATE
    return EXIT_INCOMPLETE if errors else EXIT_DONE


def _tasks_of(benchmark: Benchmark[Any], predictions: str | None) -> dict[str, Any]:
    """The tasks a run was graded against: the data set's, or those its prediction file carries."""
    if predictions is not None and Path(predictions).exists():
        trials = plan(benchmark, benchmark.read_predictions(Path(predictions)))
        return {task["id"]: task for task, _, _ in trials}
    return {task["id"]: task for task in benchmark.tasks()}


def _verdicts_again(
    store: RunStore,
    benchmark: Benchmark[Any],
    tasks: dict[str, Any],
    environment: str | None,
    workers: int | None,
) -> Iterator[tuple[TrialRecord, TrialRecord]]:
    start = StartBackend(environment or "none")

    def again(key: tuple[str, int]) -> tuple[TrialRecord, TrialRecord] | None:
        before = store.record(*key)
        if before.submission is None:
            return None
        if before.task_id not in tasks:
            raise UsageError(f"the data set no longer has the task {before.task_id!r}")
        spec = TrialSpec(
            benchmark, tasks[before.task_id], before.sample, Stored(before.submission), start
        )
        return before, replace(run_trial(spec), digest=before.digest)

    keys = store.trial_keys()
    executor: ThreadExecutor[tuple[str, int], tuple[TrialRecord, TrialRecord] | None] = (
        ThreadExecutor(again, workers or 4)
    )
    executor.start()
    try:
        for key in keys:
            executor.submit(key)
        while executor.pending:
            pair = executor.result()
            if pair is not None:
                yield pair
    finally:
        executor.stop()


def _same(before: TrialRecord, after: TrialRecord) -> bool:
    if before.verdict is None or after.verdict is None:
        return before.verdict is after.verdict
    return (before.verdict.passed, before.verdict.value) == (
        after.verdict.passed,
        after.verdict.value,
    )


def _report_change(before: TrialRecord, after: TrialRecord, *, as_json: bool) -> None:
    change = {
        "event": "changed",
        "task_id": before.task_id,
        "sample": before.sample,
        "before": before.status,
        "after": after.status,
        "why": after.why,
    }
    if as_json:
        echo(msgspec.json.encode(change).decode())
    else:
        echo(
            f"changed: {one_line(before.task_id)}#{before.sample} {before.status} → {after.status}"
            f"  {after.why}"
        )
