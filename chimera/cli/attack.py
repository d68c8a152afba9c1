"""`chimera attack`: hostile answers against a grader, each of which must fail."""

from __future__ import annotations

import json
from pathlib import Path

import click

from chimera.cli.evaluation import make_ready
from chimera.cli.names import COMPLETERS
from chimera.cli.options import config_option, json_option, option
from chimera.cli.terminal import echo
from chimera.errors import ExitCode, UsageError
from chimera.eval.benchmark import tasks_of
from chimera.eval.proof.attack.run import AttackReport, attack, require_confinement, write_table
from chimera.eval.run import RunSettings, default_backend, select_tasks
from chimera.eval.trial import StartBackend


@click.command("attack")
@click.argument("name", required=False, shell_complete=COMPLETERS["benchmark"])
@option("--dataset", help="The data set's file or directory.")
@option("--option", "-o", "options", multiple=True, help="KEY=VALUE for the benchmark.")
@option("--task", "-t", multiple=True, help="Tasks whose id fits this glob (default: the first).")
@option("--attack", "only", multiple=True, help="Only this attack; may be given more than once.")
@option("--environment", "-e", help="Where tasks that need one are graded: bubblewrap, docker, …")
@option(
    "--table",
    "table_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Try the catalogue on the built-in graders and write the table there.",
)
@json_option
@config_option
def command(
    *,
    name: str | None,
    dataset: str | None,
    options: tuple[str, ...],
    task: tuple[str, ...],
    only: tuple[str, ...],
    environment: str | None,
    table_file: Path | None,
    as_json: bool,
) -> int:
    """Try hostile answers on the grader of benchmark NAME: early exits, objects equal to
    everything, patched builtins, bombs, forged reports, and the benchmark's own attacks.

    None may pass, tell a secret of the host, leave anything behind, or spoil the right answer
    that is graded after it. Exit code 1 when one does.

    \b
    Examples:
      chimera attack human-eval
      chimera attack mbpp --task '1*' --json
      chimera attack my_package.benchmarks:Mine --attack os-exit --attack sys-exit
      chimera attack --table docs/attacks.md
    """
    require_confinement(environment)
    if table_file is not None:
        outcomes, broken = write_table(table_file)
        echo(f"{outcomes} attacks tried, {broken} got through; table: {table_file}")
        return ExitCode.GATE if broken else ExitCode.DONE
    if name is None:
        raise UsageError("name a benchmark, or --table FILE for the built-in graders")
    benchmark = RunSettings(name, dataset=dataset, option=options).create_benchmark()
    chosen = select_tasks(tasks_of(benchmark), None if task else "1", task)
    backend = StartBackend(environment or default_backend(benchmark, chosen))
    make_ready(benchmark, chosen)
    report = attack(benchmark, chosen, backend, only=only or None)
    if as_json:
        echo(json.dumps(_as_json(report)))
    else:
        _show(report)
    return ExitCode.DONE if report.held else ExitCode.GATE


def _as_json(report: AttackReport) -> dict[str, object]:
    return {
        "benchmark": report.benchmark,
        "held": report.held,
        "traces": list(report.traces),
        "attacks": [
            {
                "attack": each.attack,
                "task": each.task_id,
                "status": each.status,
                "why": each.why,
                "held": each.held,
                "seconds": round(each.seconds, 3),
            }
            for each in report.findings
        ],
    }


def _show(report: AttackReport) -> None:
    for each in report.findings:
        mark = "held" if each.held else "BROKE"
        echo(f"{mark:<6}{each.status:<8}{each.attack:<38}{each.why[:90]}")
    held = sum(each.held for each in report.findings)
    errors = f"; {report.errors} ended in errors, which show nothing" if report.errors else ""
    echo(f"{report.benchmark}: {held} of {len(report.findings)} attacks held off{errors}")
    for trace in report.traces:
        echo(f"left on the host: {trace}")
