"""`chimera attack`: hostile answers against a grader, each of which must fail."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import click

from chimera.cli.evaluation import default_environment, select_tasks
from chimera.cli.main import EXIT_DONE, EXIT_GATE
from chimera.cli.options import config_option, json_option, option, pairs
from chimera.cli.terminal import echo
from chimera.errors import UsageError
from chimera.eval.proof.attack.run import AttackReport, attack, markdown, table
from chimera.eval.registry import create_benchmark
from chimera.eval.trial import StartBackend
from chimera.sandbox.launch import isolation, landlock_available


@click.command("attack")
@click.argument("name", required=False)
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
    _require_confinement(environment)
    if table_file is not None:
        return _write_table(table_file)
    if name is None:
        raise UsageError("name a benchmark, or --table FILE for the built-in graders")
    benchmark = create_benchmark(name, dataset=dataset, options=pairs(options, "--option"))
    chosen = select_tasks(benchmark.tasks(), None if task else "1", task)
    backend = StartBackend(environment or default_environment(benchmark))
    report = attack(benchmark, chosen, backend, only=only or None)
    if as_json:
        echo(json.dumps(_as_json(report)))
    else:
        _show(report)
    return EXIT_DONE if report.held else EXIT_GATE


def _require_confinement(environment: str | None) -> None:
    """These answers remove what they can reach: nothing of this machine may be among it."""
    if environment == "local" or (isolation() == "process" and not landlock_available()):
        raise UsageError(
            "hostile answers are tried only where they are confined: install bubblewrap, or name "
            "--environment bubblewrap or docker"
        )


def _write_table(file: Path) -> int:
    from chimera.eval.proof.attack.repositories import patch_markdown, patch_table

    found = table()
    with tempfile.TemporaryDirectory(prefix="chimera-attack-") as folder:
        on_patches = patch_table(Path(folder))
    text = f"{markdown(found)}\n{patch_markdown(on_patches)}"
    file.write_text(text, encoding="utf-8")
    rows = (*found.values(), *on_patches.values())
    outcomes = [outcome for row in rows for outcome in row.values()]
    bad = [outcome for outcome in outcomes if not outcome.startswith(("failed", "error"))]
    echo(f"{len(outcomes)} attacks tried, {len(bad)} got through; table: {file}")
    return EXIT_GATE if bad else EXIT_DONE


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
    echo(f"{report.benchmark}: {held} of {len(report.findings)} attacks held off")
    for trace in report.traces:
        echo(f"left on the host: {trace}")
