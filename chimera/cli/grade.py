"""`chimera grade`: verdicts for stored answers, without an agent and without cost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click
import msgspec

from chimera.cli.evaluation import Output, Reports, drive
from chimera.cli.names import COMPLETERS
from chimera.cli.options import (
    Number,
    Whole,
    config_option,
    controls_option,
    json_option,
    option,
    report_options,
    runs_dir_option,
)
from chimera.cli.terminal import echo
from chimera.errors import ExitCode, UsageError
from chimera.eval.controls import Mode
from chimera.eval.regrade import Regraded, grade_again, prepare_predictions
from chimera.eval.run import RunSettings
from chimera.eval.runs.files import find_run, runs_dir
from chimera.eval.runs.store import RunStore
from chimera.text import one_line


@click.command("grade")
@click.argument("run", required=False, shell_complete=COMPLETERS["resume"])
@option("--benchmark", "-b", help="A name from `chimera benchmarks`, or your file.py:Class.")
@option("--predictions", type=click.Path(path_type=Path), help="Answers: JSONL, JSON, gz.")
@option("--dataset", help="The data set's file or directory.")
@option("--option", "-o", "options", multiple=True, help="KEY=VALUE for the benchmark.")
@option("--environment", "-e", help="Where graders that need one run: bubblewrap, docker, …")
@option("--concurrency", "-n", type=Whole(1), help="Verdicts at once.")
@controls_option
@option("--role", "roles", multiple=True, help="judge=MODEL; repeatable.")
@option("--check", is_flag=True, help="With RUN: change nothing, exit 1 unless all verdicts hold.")
@option("--fail-under", type=Number(0, 1), help="Exit 1 when the pass rate is lower.")
@report_options
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
    roles: tuple[str, ...],
    environment: str | None,
    concurrency: int | None,
    controls: Mode,
    check: bool,
    fail_under: float | None,
    junit: Path | None,
    ctrf: Path | None,
    github: bool | None,
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
            "role": roles or None,
            "environment": environment,
            "predictions": None if predictions is None else str(predictions),
        }
        told = {name: value for name, value in given.items() if value is not None}
        return _grade_again(
            run,
            runs_dir,
            told,
            check=check,
            workers=concurrency,
            controls=controls,
            as_json=as_json,
        )
    if not benchmark or predictions is None:
        raise UsageError("give a RUN, or --benchmark NAME with --predictions FILE")
    if check:
        raise UsageError("--check goes with a stored RUN")
    settings = RunSettings(
        benchmark=benchmark,
        dataset=dataset,
        agent="predictions",
        concurrency=concurrency,
        environment=environment,
        option=options,
        controls=controls,
        role=roles,
    )
    reports = Reports(output, junit, ctrf, github)
    target = Output(runs=runs_dir, reports=reports, fail_under=fail_under, as_json=as_json)
    prepared, _ = prepare_predictions(settings, predictions)
    for line in prepared.benchmark.notes():
        echo(line, err=True)
    return drive(prepared, target)


def _grade_again(
    name: str,
    runs: Path | None,
    told: Mapping[str, object],
    *,
    check: bool,
    workers: int | None,
    controls: Mode,
    as_json: bool,
) -> int:
    graded = changed = errors = unfounded = 0
    with RunStore(find_run(name, runs_dir(runs)), write=not check) as store:
        again = grade_again(store, changes=told, keep=not check, workers=workers, controls=controls)
        for regraded in again:
            graded += not regraded.unfounded
            unfounded += regraded.unfounded
            if regraded.after.verdict is None:
                errors += not regraded.unfounded
                where = f"{one_line(regraded.before.task_id)}#{regraded.before.sample}"
                stays = "" if regraded.decided or check else " (the stored outcome stays)"
                echo(f"no verdict: {where}: {regraded.after.why}{stays}", err=True)
            elif regraded.changed:
                changed += 1
                _report_change(regraded, as_json=as_json)
    if as_json:
        counts = {"graded": graded, "changed": changed, "errors": errors, "unfounded": unfounded}
        echo(msgspec.json.encode({"event": "summary", **counts}).decode())
    else:
        echo(f"{graded} submissions graded again: {changed} verdicts changed, {errors} errors")
        if unfounded:
            echo(f"{unfounded} verdicts are not confirmed: their answers are not stored")
    if check and (changed or unfounded):
        return ExitCode.GATE
    return ExitCode.INCOMPLETE if errors or unfounded else ExitCode.DONE


def _report_change(regraded: Regraded, *, as_json: bool) -> None:
    before, after = regraded.before, regraded.after
    if as_json:
        change = {
            "event": "changed",
            "task_id": before.task_id,
            "sample": before.sample,
            "before": before.status,
            "after": after.status,
            "why": after.why,
        }
        echo(msgspec.json.encode(change).decode())
    else:
        echo(
            f"changed: {one_line(before.task_id)}#{before.sample} {before.status} → {after.status}"
            f"  {after.why}"
        )
