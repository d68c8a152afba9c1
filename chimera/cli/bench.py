"""`chimera bench`: run a suite of one's own tasks; the same run as `eval` gives."""

from __future__ import annotations

from pathlib import Path

import click

from chimera.cli.evaluation import Output, Reports, run_evaluation
from chimera.cli.options import Number, config_option, json_option, option, runs_dir_option
from chimera.eval.run import RunSettings


@click.command("bench")
@option("--suite", required=True, help="custom, or any benchmark's name.")
@option("--tasks-dir", help="Directory of task JSON files (or the data set of another suite).")
@option("--model", "-m", help="provider/model, e.g. local/smollm2.")
@option("--agent", "-a", help="direct, react, oracle, nop, a preset, …")
@option("--limit", "-l", help="The first N tasks, or a range A:B.")
@option("--environment", "-e", help="none, local, bubblewrap, docker, …")
@option("--fail-under", type=Number(0, 1), help="Exit 1 when the pass rate is lower.")
@option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Write results as JSON.")
@runs_dir_option
@json_option
@config_option
def command(
    *,
    suite: str,
    tasks_dir: str | None,
    model: str | None,
    agent: str | None,
    limit: str | None,
    environment: str | None,
    fail_under: float | None,
    output: Path | None,
    runs_dir: Path | None,
    as_json: bool,
) -> int:
    """Run a suite of your own tasks.

    \b
    Example:
      chimera bench --suite custom --tasks-dir tasks/ --model local/smollm2 --output results.json
    """
    settings = RunSettings(
        benchmark=suite,
        dataset=tasks_dir,
        model=model,
        agent=agent,
        limit=limit,
        environment=environment,
    )
    reports = Reports(output)
    target = Output(runs=runs_dir, reports=reports, fail_under=fail_under, as_json=as_json)
    return run_evaluation(settings, target)
