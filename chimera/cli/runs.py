"""`chimera runs`: list, show, export and remove stored runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import click
import msgspec

from chimera.cli.display import money, summary_lines, without_verdict
from chimera.cli.names import COMPLETERS
from chimera.cli.options import Whole, json_option, option, runs_dir_option
from chimera.cli.terminal import columns, echo, fitted
from chimera.errors import UsageError
from chimera.eval.exports import check_format, export_files, export_lines
from chimera.eval.runs.files import find_run, remove_run, run_files, runs_dir
from chimera.eval.runs.merge import merge
from chimera.eval.runs.overview import RunSummary, chosen, read_summaries
from chimera.eval.runs.result import EvalResult, TaskEvalResult
from chimera.eval.runs.store import RunStore
from chimera.eval.values import Submission, TrialRecord, Verdict
from chimera.text import file_name, first_line, one_line, printable, shortened
from chimera.types import Step

SECTION_CHARACTERS = 20_000


@click.group("runs")
def command() -> None:
    """List, show, export and remove stored runs.

    \b
    Examples:
      chimera runs list
      chimera runs show latest
      chimera runs rm 20261116-090000-human-eval-local-smollm2
    """


@command.command("list")
@click.option("--benchmark", default="*", help="Only runs of benchmarks that fit this glob.")
@click.option("--model", default="*", help="Only runs of models that fit this glob.")
@click.option("--agent", default="*", help="Only runs of agents that fit this glob.")
@option("--since", help="Only runs begun on this day or later (2026-11-16).")
@option("--errors", is_flag=True, help="Only runs that have trials without a verdict.")
@option("--last", type=Whole(1), help="Only the newest so many.")
@runs_dir_option
@json_option
def list_runs(*, runs_dir: Path | None, as_json: bool, last: int | None, **filters: Any) -> None:
    """The runs of a directory, newest last.

    \b
    Examples:
      chimera runs list --benchmark 'swe-*' --last 10
      chimera runs list --errors --since 2026-11-01
    """
    directory = _directory(runs_dir)
    found = []
    for summary in read_summaries(run_files(directory)):
        if isinstance(summary, UsageError):
            echo(f"left out: {first_line(str(summary))}", err=True)
        else:
            found.append(summary)
    rows = chosen(found, **filters)[-(last or 0) :]
    if as_json:
        echo(msgspec.json.encode(rows).decode())
    elif not rows:
        echo(f"no runs in {directory}" + (" that fit" if found else ""))
    else:
        _print_runs(rows)


def _print_runs(rows: Sequence[RunSummary]) -> None:
    cells = [["run", "benchmark", "model (agent)", "begun", "passed", "no verdict", "cost"]]
    for row in rows:
        missing = without_verdict(row.errored, row.not_run)
        begun = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.started))
        parts = (row.run, row.benchmark, row.who, begun, _rate(row))
        cells.append([*map(one_line, parts), missing or "–", money(row.cost)])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if (room := columns()) and sum(widths) + 2 * len(widths) - 2 > room:
        for name, *others in cells[1:]:
            facts = zip(cells[0][1:], others, strict=True)
            told = [f"{title} {cell}" for title, cell in facts if cell != "–"]
            echo(name)
            echo(fitted(f"    {', '.join(told)}"))
        return
    for line in cells:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        echo("  ".join(padded).rstrip())


def _rate(row: RunSummary) -> str:
    """The pass rate; bounds where verdicts are missing; neither without a verdict."""
    judged = row.passed + row.failed
    if not judged:
        return "–"
    low, high = row.bounds
    rate = f"{low:.1%} to {high:.1%}" if row.errored or row.not_run else f"{row.rate:.1%}"
    return f"{rate} ({row.passed} of {judged})"


@command.command("show")
@click.argument("run", shell_complete=COMPLETERS["resume"])
@click.argument("task", required=False)
@option("--sample", type=Whole(), default=0, help="Which sample of the task.")
@option("--status", type=click.Choice(["passed", "failed", "error"]), help="Only these trials.")
@option("--save", type=click.Path(path_type=Path, file_okay=False),
        help="With TASK: write its files and pictures to this directory.")  # fmt: skip
@runs_dir_option
@json_option
def show(
    *,
    run: str,
    task: str | None,
    sample: int,
    status: str | None,
    save: Path | None,
    runs_dir: Path | None,
    as_json: bool,
) -> None:
    """A RUN's summary and trials, or one TASK of it whole.

    \b
    Examples:
      chimera runs show latest --status failed
      chimera runs show latest HumanEval/3
    """
    with RunStore(find_run(run, _directory(runs_dir))) as store:
        if task is not None:
            record = store.record(*_trial(store, task, sample))
            if save is not None:
                _save_files(store, record, save)
            if as_json:
                echo(msgspec.json.encode(record).decode())
            else:
                _page(_trial_lines(store, record))
            return
        result = EvalResult.of(store)
        trials = (t for t in result.iter_results() if status is None or t.status == status)
        if as_json:
            echo(msgspec.json.encode(result.summary()).decode()[:-1] + ',"results":[', nl=False)
            for number, trial in enumerate(trials):
                echo("," * bool(number) + msgspec.json.encode(trial).decode(), nl=False)
            echo("]}")
            return
        samples = store.manifest().get("samples", 1)
        lines = (_trial_line(trial) for trial in trials)
        _page(chain(summary_lines(result, samples=samples), [""], lines))


def _trial(store: RunStore, task: str, sample: int) -> tuple[str, int]:
    """Task and sample; "TASK#2", as lists name a trial, is sample 2 where no task is called so."""
    name, _, number = task.rpartition("#")
    if name and number.isdecimal() and store.state(task, sample) is None:
        return name, int(number)
    return task, sample


def _page(lines: Iterable[str]) -> None:
    """Print lines; on a terminal, through the user's pager."""
    if sys.stdout.isatty():
        click.echo_via_pager(f"{printable(line)}\n" for line in lines)
    else:
        for line in lines:
            echo(line)


def _control_lines(store: RunStore, record: TrialRecord) -> Iterator[str]:
    """What stands against a verdict: known answers that did not come out as they must."""
    if record.control is None or not record.control.identity:
        return
    for control in store.controls(record.control.identity):
        if not control.holds:
            title = f"control: {control.answer} {control.status}"
            yield from _section(title, control.log or control.why)


def _trial_line(trial: TaskEvalResult) -> str:
    why = f"  {first_line(trial.why)}" if trial.why else ""
    return f"{trial.status:<6}  {one_line(trial.task_id)}#{trial.sample}{why}"


def _trial_lines(store: RunStore, record: TrialRecord) -> Iterator[str]:
    """A trial whole: what it came to first, then what decided, then how it went."""
    yield f"task       {one_line(record.task_id)}  (sample {record.sample})"
    yield f"status     {record.status}"
    yield f"why        {record.why or '–'}"
    if record.control is not None:
        found = record.control
        yield f"controls   reference {found.positive}, nothing {found.negative}"
    yield f"started    {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(record.started))}"
    yield (
        f"took       {record.duration:.2f} s, {record.steps} steps, {record.attempts} attempts, "
        f"{record.usage.input_tokens} + {record.usage.output_tokens} tokens, {money(record.cost)}"
    )
    apart = {
        "read from the cache": record.usage.cached_tokens,
        "written into it": record.usage.cache_write_tokens,
        "of reasoning": record.usage.reasoning_tokens,
    }
    if any(apart.values()):
        yield "of these   " + ", ".join(f"{count} {what}" for what, count in apart.items() if count)
    if record.stop_reason:
        yield f"stopped    {one_line(record.stop_reason)}"
    yield from _section("prompt", store.task_prompt(record.task_id))
    if record.submission is not None:
        yield from _submission_lines(record.submission)
    if record.verdict is not None:
        yield from _verdict_lines(record.verdict)
    yield from _control_lines(store, record)
    before = record.started
    for number, step in enumerate(record.trajectory, 1):
        calls = "".join(
            f"\n→ {call.name} {call.raw_arguments or dict(call.arguments or {})}"
            for call in step.message.tool_calls
        )
        pictures = "".join(f"\n[{image.media_type}]" for image in step.message.images)
        if step.message.reasoning:
            yield from _section(f"step {number}: reasoning", step.message.reasoning)
        title = f"step {number}: {step.message.role}{_expense(step, before)}"
        yield from _section(title, step.message.content + calls + pictures)
        before = step.timestamp or before


def _expense(step: Step, before: float) -> str:
    """What a step took: seconds since the one before, and of a model's the tokens and the cost."""
    parts = [f"{max(0.0, step.timestamp - before):.1f} s"] if step.timestamp and before else []
    if step.usage.total_tokens:
        parts.append(f"{step.usage.input_tokens} + {step.usage.output_tokens} tokens")
        parts.append(money(step.cost))
    return f"  ({', '.join(parts)})" if parts else ""


def _submission_lines(submission: Submission) -> Iterator[str]:
    if submission.raw is not None and submission.raw != submission.text:
        yield from _section("reply", submission.raw)
    yield from _section(f"submission ({submission.form})", submission.text)
    if submission.data is not None:
        yield from _section("submission data", msgspec.json.encode(submission.data).decode())


def _verdict_lines(verdict: Verdict) -> Iterator[str]:
    if verdict.metrics:
        yield from _section("metrics", msgspec.json.encode(verdict.metrics).decode())
    for name, content in verdict.evidence.items():
        if isinstance(content, bytes):
            size = f"{len(content):,} bytes; --save DIR writes it"
            yield f"\nevidence   {one_line(name)} ({size})"
        else:
            text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
            yield from _section(f"evidence: {name}", text)


def _section(title: str, text: str) -> Iterator[str]:
    if text:
        yield f"\n── {one_line(title)} " + "─" * max(0, 70 - len(title))
        yield shortened(text, SECTION_CHARACTERS)


def _save_files(store: RunStore, record: TrialRecord, directory: Path) -> None:
    for kind in ("submission", "evidence"):
        for name, content in store.artifacts(record.task_id, record.sample, kind).items():
            target = directory.joinpath(kind, *(file_name(part) for part in name.split("/")))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            echo(f"wrote {target}", err=True)


@command.command("export")
@click.argument("run", shell_complete=COMPLETERS["resume"])
@option(
    "--format",
    "kind",
    default="jsonl",
    help="One of the formats below, or one of the benchmark's own.",
)
@option(
    "--output",
    type=click.Path(path_type=Path),
    help="File, or directory for a format of several files; default stdout, for texts.",
)
@runs_dir_option
def export(*, run: str, kind: str, output: Path | None, runs_dir: Path | None) -> None:
    """Write a RUN in another format.

    \b
    Examples:
      chimera runs export latest --format csv --output trials.csv
      chimera runs export latest --format predictions --output predictions.jsonl
      chimera runs export latest --format inspect --output run.eval && inspect view
      chimera runs export latest --format swe-bench --output official/
      chimera runs export latest --format atif --output trajectories/

    \b
    Texts:        jsonl, json, csv (no cell is a formula), predictions (to be graded again),
                  junit, ctrf, otlp (OpenTelemetry spans, a request a line)
    Files:        parquet, inspect (Inspect AI's .eval)
    Directories:  atif (trajectories), every-eval-ever
    Benchmarks':  what the official program writes: human-eval, evalplus (its two benchmarks),
                  livecodebench, tau2 (tau2-bench), swe-bench
    """
    with RunStore(find_run(run, _directory(runs_dir))) as store:
        lines = export_lines(store, kind)
        if lines is None:
            if output is None:
                check_format(store, kind)
                raise UsageError(f"--format {kind} does not fit on a terminal: give --output PATH")
            for path in export_files(store, kind, output):
                echo(f"wrote {path}", err=True)
        elif output is None:
            for line in lines:
                echo(line)
        else:
            output.parent.mkdir(parents=True, exist_ok=True)
            with output.open("w", encoding="utf-8", newline="") as file:
                file.writelines(f"{line}\n" for line in lines)


@command.command("merge")
@click.argument("target", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("runs", nargs=-1, required=True)
@runs_dir_option
def merge_runs(*, target: Path, runs: tuple[str, ...], runs_dir: Path | None) -> None:
    """Write the RUNS of one plan, as --shard makes them, into one new run TARGET.

    \b
    Example:
      chimera eval -b human-eval -m MODEL --shard 1/2    # on one machine
      chimera eval -b human-eval -m MODEL --shard 2/2    # on another
      chimera runs merge whole.chi runs/*.chi
    """
    count = merge(target, [find_run(name, _directory(runs_dir)) for name in runs])
    echo(f"wrote {target}: {count} trials of {len(runs)} runs")


@command.command("rm")
@click.argument("runs", nargs=-1, required=True, shell_complete=COMPLETERS["resume"])
@runs_dir_option
def remove(*, runs: tuple[str, ...], runs_dir: Path | None) -> None:
    """Remove stored RUNS."""
    for path in [find_run(name, _directory(runs_dir)) for name in runs]:
        remove_run(path)
        echo(f"removed {path}")


def _directory(configured: Path | None) -> Path:
    return runs_dir(configured)
