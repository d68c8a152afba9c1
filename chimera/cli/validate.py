"""`chimera validate`: prove a grader before anyone trusts a number it made."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from chimera.cli.evaluation import make_ready
from chimera.cli.names import COMPLETERS
from chimera.cli.options import Number, Whole, config_option, json_option, option
from chimera.cli.terminal import echo
from chimera.errors import ExitCode, UsageError
from chimera.eval.benchmark import tasks_of
from chimera.eval.proof.validate import ANSWERS, Report, validate
from chimera.eval.run import RunSettings, default_backend, select_tasks
from chimera.eval.trial import StartBackend
from chimera.text import counted, first_line

DUE = {"gold": "pass", "empty": "fail", "mutant": "fail"}


@click.command("validate")
@click.argument("name", shell_complete=COMPLETERS["benchmark"])
@option("--dataset", help="The data set's file or directory.")
@option("--option", "-o", "options", multiple=True, help="KEY=VALUE for the benchmark.")
@option("--limit", "-l", help="The first N tasks, or a range A:B.")
@option("--task", "-t", multiple=True, help="Only tasks whose id fits this glob; repeatable.")
@option("--mutants", type=Whole(0), default=3, help="Wrong answers made of each gold.")
@option("--repeat", type=Whole(1), default=1, help="Grade gold and nothing N times.")
@option("--environment", "-e", help="Where tasks that need one run: bubblewrap, docker, …")
@option("--concurrency", "-n", type=Whole(1), default=4, help="Answers at once.")
@option(
    "--mutants-failing",
    type=Number(0, 1),
    default=0.95,
    help="The share of mutants that must fail.",
)
@option(
    "--against",
    type=click.Choice(["official"]),
    help="Run the official grader beside ours and print the agreement.",
)
@option(
    "--official-python",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The Python that has the official grader installed.",
)
@option("--record", type=click.Path(path_type=Path, dir_okay=False), help="Write the counts.")
@json_option
@config_option
def command(
    *,
    name: str,
    dataset: str | None,
    options: tuple[str, ...],
    limit: str | None,
    task: tuple[str, ...],
    mutants: int,
    repeat: int,
    environment: str | None,
    concurrency: int,
    mutants_failing: float,
    against: str | None,
    official_python: Path | None,
    record: Path | None,
    as_json: bool,
) -> int:
    """Grade the reference answer, no answer, and mutants of every task of benchmark NAME.

    Gold must pass, an empty answer and mutants must fail. Mutants that pass are listed. Where
    that can be tried, those that behave like the gold on further inputs too are called
    equivalent and do not count. Exit code 1 when the proof fails.

    \b
    Examples:
      chimera validate human-eval
      chimera validate swt-bench --task pallets__flask-5014 --environment bubblewrap
      chimera validate mbpp --option split=full --record mbpp.json
      chimera validate swe-bench --task 'pytest-*' --repeat 5   # which tests are unstable here?
      chimera validate humaneval-plus --against official --official-python .evalplus/bin/python
    """
    benchmark = RunSettings(name, dataset=dataset, option=options).create_benchmark()
    tasks = select_tasks(tasks_of(benchmark), limit, task)
    backend = environment or default_backend(benchmark, tasks)
    make_ready(benchmark, tasks)
    clock = time.monotonic()
    report = validate(
        benchmark,
        StartBackend(backend),
        mutants=mutants,
        workers=concurrency,
        tasks=tasks,
        repeat=repeat,
    )
    seconds = time.monotonic() - clock
    scope = {"of": len(benchmark.tasks()), "covers": " ".join([benchmark.name(), *options])}
    counts = {**report.counts(), **scope, "seconds": round(seconds, 1)}
    holds = report.holds(mutants_failing=mutants_failing)
    if against is not None:
        from chimera.eval.proof.official import agreement

        if official_python is None:
            raise UsageError("--against official needs --official-python PATH")
        counts["official"] = agreement(benchmark, tasks, report, official_python)
    if record is not None:
        record.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    if as_json:
        echo(json.dumps({**counts, "holds": holds}))
    else:
        _show(report, counts, holds=holds, mutants_failing=mutants_failing)
    return ExitCode.DONE if holds else ExitCode.GATE


def _show(
    report: Report, counts: dict[str, object], *, holds: bool, mutants_failing: float
) -> None:
    echo(f"{report.benchmark}: {counted(report.tasks, 'task')}, {counts['seconds']} s")
    echo(f"  {'answer':<8}{'due':<6}{'graded':>8}{'as due':>8}{'rate':>9}")
    for answer in ANSWERS:
        checks = report.of(answer)
        if checks:
            due = sum(check.as_due for check in checks)
            different = len(checks) - sum(check.equivalent for check in checks)
            rate = due / different if different else 1.0
            echo(f"  {answer:<8}{DUE[answer]:<6}{len(checks):>8}{due:>8}{rate:>9.2%}")
    if report.ungolded:
        echo(f"  without a reference answer: {counted(report.ungolded, 'task')}")
    for check in report.checks:
        if not check.as_due or (check.answer == "empty" and check.status == "passed"):
            kind = "equivalent" if check.equivalent else check.status
            number = f" #{check.number}" if check.answer == "mutant" else ""
            why = f": {first_line(check.why, 200)}" if check.why else ""
            echo(f"  {check.answer} {kind}: {check.task_id}{number}{why}")
    for check in report.checks:
        for test, (passes, runs) in check.unstable.items():
            echo(f"  unstable: {check.task_id} ({check.answer}): {test} {passes} of {runs} times")
    judge = counts.get("judge")
    if isinstance(judge, dict):
        echo(
            f"  the judge accepts {judge['gold_accepted']} of {judge['gold']} references and "
            f"refuses {judge['wrong_refused']} of {judge['wrong']} wrong ones; "
            f"{judge['no_verdict']} without a verdict"
        )
    official = counts.get("official")
    if isinstance(official, dict):
        agreeing = f"{official['agreeing']} of {official['pairs']} verdicts agree"
        echo(f"  official ({official['grader']}): {agreeing}")
        for line in official["disagreements"]:
            echo(f"    {line['task']} {line['answer']} #{line['number']}: {line['note']}")
    if not report.of("gold"):
        echo("NOTHING PROVED: no task has a reference answer; let gold(task) return one")
    else:
        echo(f"proof {'holds' if holds else 'FAILS'}{_share(report, mutants_failing)}")


def _share(report: Report, wanted: float) -> str:
    """How many of the mutants that change behaviour fail, and how many must."""
    mutants = [check for check in report.of("mutant") if not check.equivalent]
    if not mutants:
        return ""
    failing = sum(check.as_due for check in mutants) / len(mutants)
    return f": {failing:.1%} of the mutants that behave otherwise fail, {wanted:.0%} must"
