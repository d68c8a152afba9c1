"""A prepared run under a display, then its summary and exit code; several commands share it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from chimera.agents import as_agent
from chimera.cli.display import create_display, headline, print_summary
from chimera.cli.terminal import echo
from chimera.errors import EnvironmentFault, ExitCode, StoreError
from chimera.eval.benchmark import Benchmark
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.harness import Harness, Interrupted, Observer, trials_at_once
from chimera.eval.run import (
    PreparedRun,
    RunSettings,
    exit_code,
    gated_rate,
    how_to_go_on,
    prepare,
    unwritable,
    write_output,
    write_report,
)
from chimera.eval.runs.ci import ctrf, github_commands, junit, step_summary
from chimera.eval.runs.files import discard_if_empty, run_files, runs_dir
from chimera.eval.runs.forecast import forecast_before, newest_like
from chimera.eval.runs.result import EvalResult
from chimera.eval.runs.store import RunStore
from chimera.interrupts import Terminated
from chimera.text import one_line, printable


@dataclass(frozen=True, slots=True)
class Reports:
    """What is written of a finished run beside its file."""

    file: Path | None = None
    junit: Path | None = None
    ctrf: Path | None = None
    github: bool | None = None  # None: where GitHub's runner says that it is one

    def write(self, result: EvalResult) -> None:
        if self.file is not None:
            write_output(result, self.file)
        for path, lines in ((self.junit, junit), (self.ctrf, ctrf)):
            if path is not None:
                write_report(result, path, lines(result.store))
        wanted = os.environ.get("GITHUB_ACTIONS") == "true" if self.github is None else self.github
        if wanted:
            for line in github_commands(result, headline(result)):
                click.echo(printable(line), err=True)
            if page := os.environ.get("GITHUB_STEP_SUMMARY"):
                _append(Path(page), step_summary(result, headline(result)), result)


def _append(file: Path, text: str, result: EvalResult) -> None:
    try:
        with file.open("a", encoding="utf-8") as page:
            page.write(text)
    except OSError as error:
        raise unwritable(file, error, result) from None


@dataclass(frozen=True, slots=True)
class Output:
    """Where results go and what decides the exit code."""

    runs: Path | None = None
    resume: str | None = None
    reports: Reports = Reports()
    fail_under: float | None = None
    as_json: bool = False
    dry_run: bool = False
    on: str | None = None
    metrics: int | None = None


def run_evaluation(settings: RunSettings, output: Output, *, api_key: str | None = None) -> int:
    """Run (or resume) and report; the exit code says whether it is complete and good enough."""
    prepared = prepare(settings, api_key=api_key, runs=output.runs)
    benchmark = prepared.benchmark
    for line in (*prepared.left_out, *benchmark.notes(), *as_agent(prepared.agent).notes()):
        echo(line, err=True)
    if output.dry_run:
        _print_plan(prepared, output)
        return ExitCode.DONE
    if prepared.environment_why and prepared.environment != "none" and not output.as_json:
        echo(f"environment: {prepared.environment_why}", err=True)
    return drive(prepared, output)


def make_ready(benchmark: Benchmark[Any], tasks: Sequence[Any] | None = None) -> None:
    """Fetch and build what trials need that is not there yet, telling what and how long it took."""
    for each in benchmark.preparations(tasks):
        began = time.monotonic()
        echo(f"fetching {each.what} …", err=True)
        each.make()
        echo(f"  done in {time.monotonic() - began:.0f} s", err=True)


def drive(prepared: PreparedRun, output: Output) -> int:
    """Run under a display, then write, print and gate the result."""
    make_ready(prepared.benchmark, prepared.tasks)
    store = prepared.open_store(output.runs, output.resume)
    try:
        return _driven(prepared, store, output)
    finally:
        if output.resume is None:
            discard_if_empty(store)
        store.close()


def _driven(prepared: PreparedRun, store: RunStore, output: Output) -> int:
    began = time.monotonic()
    code: ExitCode | None = None
    if prepared.until is not None:
        echo(f"until decided: {prepared.until.test.guarantee}", err=True)
    try:
        with (
            create_display(as_json=output.as_json, samples=prepared.samples) as display,
            _monitored(prepared, display, output.metrics) as observer,
        ):
            result = _harness(prepared, store, observer, output.on).run()
    except Interrupted as interruption:
        terminated = isinstance(interruption.__cause__, Terminated)
        code = ExitCode.TERMINATED if terminated else ExitCode.INTERRUPTED
        echo(f"\nInterrupted: {how_to_go_on(store)}", err=True)
        result = EvalResult.of(store, stopped="interrupted")
    except (EnvironmentFault, StoreError) as error:
        raise type(error)(f"{error}; {how_to_go_on(store)}") from None
    output.reports.write(result)
    if output.as_json:
        summary = {"event": "summary", **result.summary(), "stopped": result.stopped}
        if prepared.until is not None:
            summary["decision"] = prepared.until.test.decision
        echo(msgspec.json.encode(summary).decode())
    elif result.total:
        elapsed = time.monotonic() - began
        print_summary(result, samples=prepared.samples, elapsed=elapsed)
        _print_decision(prepared, result)
    decided = prepared.until is not None and prepared.until.test.decision is not None
    return code if code is not None else _gated(result, output.fail_under, decided=decided)


def _gated(result: EvalResult, fail_under: float | None, *, decided: bool) -> ExitCode:
    code = exit_code(result, fail_under, decided=decided)
    if code is ExitCode.GATE:
        rate = f"{gated_rate(result):.4f} is under --fail-under {fail_under:g}"
        echo(f"gate not met: {rate}", err=True)
    return code


@contextmanager
def _monitored(prepared: PreparedRun, observer: Observer, port: int | None) -> Iterator[Observer]:
    if port is None:
        yield observer
        return
    from chimera.cli.monitor import Monitor, serving

    labels = {"benchmark": prepared.benchmark.name(), "model": prepared.settings.model or ""}
    with serving(monitor := Monitor(observer, labels), port) as chosen:
        echo(f"metrics at http://127.0.0.1:{chosen}/metrics", err=True)
        yield monitor


def _harness(prepared: PreparedRun, store: RunStore, observer: Observer, on: str | None) -> Harness:
    harness = prepared.harness(store, observer)
    if on is not None:
        from chimera.eval.cluster.run import on_nodes

        harness.executor = on_nodes(prepared, on, observer.noticed)
    return harness


def _print_decision(prepared: PreparedRun, result: EvalResult) -> None:
    if prepared.until is None:
        return
    test = prepared.until.test
    echo(f"  against {prepared.settings.against}: {test}")
    echo(f"    {test.guarantee}")
    if test.decision is not None and result.not_run:
        name = Path(result.store.path).stem
        echo(f"    the rest: chimera eval --resume {name} --until done")


def _expected(prepared: PreparedRun, output: Output) -> str:
    """Cost, time and sharpness, by the newest run of the same benchmark, model and agent."""
    settings, benchmark = prepared.settings, prepared.benchmark
    found = newest_like(
        run_files(runs_dir(output.runs)),
        benchmark=benchmark.name(),
        model=settings.model,
        agent=settings.agent or benchmark.default_agent,
    )
    name, tally = found or ("", None)
    return forecast_before(
        tally,
        trials=len(prepared.tasks) * settings.samples,
        tasks=len(prepared.tasks),
        at_once=trials_at_once(benchmark, settings.concurrency),
        basis=f"by {tally.trials} trials of {one_line(name)}" if tally else "",
    ).text


def _print_plan(prepared: PreparedRun, output: Output) -> None:
    settings, benchmark, tasks = prepared.settings, prepared.benchmark, prepared.tasks
    echo(f"benchmark    {benchmark.name()} {benchmark.options() or ''}".rstrip())
    if isinstance(benchmark, DatasetBenchmark):
        echo(f"data set     {benchmark.dataset().source()}")
    echo(f"agent        {settings.agent or benchmark.default_agent}")
    echo(f"model        {settings.model or '(none)'}")
    why = f"  ({prepared.environment_why})" if prepared.environment_why else ""
    echo(f"environment  {prepared.environment}{why}")
    echo(f"trials       {len(tasks)} tasks × {settings.samples} samples")
    echo(
        "tasks        "
        + ", ".join(one_line(task["id"]) for task in tasks[:5])
        + ", …"[: 3 * (len(tasks) > 5)]
    )
    echo(f"expected     {_expected(prepared, output)}")
    for each in benchmark.preparations(tasks):
        echo(f"to fetch     {each.what} (by the first run, or: chimera prepare {benchmark.slug})")
    echo("checks       all hold: data, agent, model, environment, prices, disk")
    echo("Nothing was run (--dry-run).")
