"""A prepared run under a display, then its summary and exit code; several commands share it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from chimera.agents import as_agent
from chimera.cli.display import create_display, print_summary
from chimera.cli.terminal import echo
from chimera.errors import ExitCode
from chimera.eval.benchmark import Benchmark
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.harness import Interrupted
from chimera.eval.run import (
    PreparedRun,
    RunSettings,
    exit_code,
    interruption,
    prepare,
    write_output,
)
from chimera.text import one_line


@dataclass(frozen=True, slots=True)
class Output:
    """Where results go and what decides the exit code."""

    runs: Path | None = None
    resume: str | None = None
    file: Path | None = None
    fail_under: float | None = None
    as_json: bool = False
    dry_run: bool = False


def run_evaluation(settings: RunSettings, output: Output, *, api_key: str | None = None) -> int:
    """Run (or resume) and report; the exit code says whether it is complete and good enough."""
    prepared = prepare(settings, api_key=api_key, runs=output.runs)
    for line in prepared.left_out:
        echo(line, err=True)
    if output.dry_run:
        _print_plan(prepared)
        return ExitCode.DONE
    for provider in as_agent(prepared.agent).providers():
        provider.make_ready()
    make_ready(prepared.benchmark, prepared.tasks)
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
    began = time.monotonic()
    with prepared.open_store(output.runs, output.resume) as store:
        try:
            with create_display(as_json=output.as_json) as display:
                result = prepared.harness(store, display).run()
        except Interrupted:
            echo(f"\n{interruption(store)}", err=True)
            return ExitCode.INTERRUPTED
        if output.file is not None:
            write_output(result, output.file)
        if output.as_json:
            summary = {"event": "summary", **result.summary(), "stopped": result.stopped}
            echo(msgspec.json.encode(summary).decode())
        else:
            elapsed = time.monotonic() - began
            print_summary(result, samples=prepared.samples, elapsed=elapsed)
        code = exit_code(result, output.fail_under)
        if code is ExitCode.GATE:
            rate = f"{result.pass_rate:.4f} is under --fail-under {output.fail_under:g}"
            echo(f"gate not met: {rate}", err=True)
        return code


def _print_plan(prepared: PreparedRun) -> None:
    settings, benchmark, tasks = prepared.settings, prepared.benchmark, prepared.tasks
    echo(f"benchmark    {benchmark.name()} {benchmark.options() or ''}".rstrip())
    if isinstance(benchmark, DatasetBenchmark):
        echo(f"data set     {benchmark.dataset().source()}")
    echo(f"agent        {settings.agent or benchmark.default_agent}")
    echo(f"model        {settings.model or '(none)'}")
    echo(f"environment  {prepared.environment}")
    echo(f"trials       {len(tasks)} tasks × {settings.samples} samples")
    echo(
        "tasks        "
        + ", ".join(one_line(task["id"]) for task in tasks[:5])
        + ", …"[: 3 * (len(tasks) > 5)]
    )
    for each in benchmark.preparations(tasks):
        echo(f"to fetch     {each.what} (by the first run, or: chimera prepare {benchmark.slug})")
    echo("checks       all hold: data, agent, model, environment, prices, disk")
    echo("Nothing was run (--dry-run).")
