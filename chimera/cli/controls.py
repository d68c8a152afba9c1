"""`chimera controls`: the known answers behind the verdicts of this machine."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import click
import msgspec

from chimera.cli.options import Whole, config_option, json_option, option, runs_dir_option
from chimera.cli.terminal import echo
from chimera.errors import ExitCode, UsageError
from chimera.eval.benchmark import tasks_of
from chimera.eval.controls import Controls, machine_store
from chimera.eval.run import RunSettings, choose_backend, select_tasks
from chimera.eval.runs.files import find_run, runs_dir
from chimera.eval.runs.store import RunStore
from chimera.eval.trial import StartBackend
from chimera.eval.values import Control
from chimera.text import first_line, one_line

benchmark_option = option("--benchmark", "-b", help="Only of benchmarks whose name fits this glob.")
task_option = option("--task", "-t", help="Only of tasks whose id fits this glob.")


@click.group("controls")
def command() -> None:
    """The known answers behind the verdicts: made once, kept by what they were made in.

    A fail counts where the reference answer passes, a pass where doing nothing fails.

    \b
    Examples:
      chimera controls run swe-bench --task 'pallets__flask-*'
      chimera controls list --benchmark swe-bench
      chimera controls show 4c1d9e
    """


@command.command("list")
@benchmark_option
@task_option
@option("--run", help="Those that a stored run rests on, instead of this machine's.")
@runs_dir_option
@json_option
def list_controls(
    *,
    benchmark: str | None,
    task: str | None,
    run: str | None,
    runs_dir: Path | None,
    as_json: bool,
) -> None:
    """Every control, oldest first: when it was made, what it came to, and of what."""
    if run is None:
        found = machine_store().found(benchmark, task)
    else:
        if benchmark or task:
            raise UsageError("--run lists all controls of a run, without --benchmark or --task")
        found = _of_run(run, runs_dir)
    _print(found, as_json=as_json)


@command.command("show")
@click.argument("identity")
@json_option
def show(*, identity: str, as_json: bool) -> None:
    """The controls whose IDENTITY begins so, with their logs and what they were made in."""
    found = machine_store().starting(identity)
    if not found:
        raise UsageError(f"no control has an identity that begins with {identity!r}")
    if as_json:
        echo(msgspec.json.encode(found).decode())
        return
    for control in found:
        echo(_line(control))
        echo(f"  identity  {control.identity}")
        echo(f"  took      {control.seconds:.2f} s")
        for name, value in msgspec.json.decode(control.details or "{}").items():
            echo(f"  {one_line(name):<12}{one_line(str(value), 400)}")
        if control.why:
            echo(f"  why       {one_line(control.why, 1000)}")
        if control.log:
            echo(control.log)


@command.command("run")
@click.argument("name")
@option("--dataset", help="The data set's file or directory.")
@option("--option", "-o", "options", multiple=True, help="KEY=VALUE for the benchmark.")
@option("--limit", "-l", help="The first N tasks, or a range A:B.")
@option("--task", "-t", multiple=True, help="Only tasks whose id fits this glob; repeatable.")
@option("--environment", "-e", help="Where tasks that need one run: bubblewrap, docker, …")
@option("--concurrency", "-n", type=Whole(1), default=4, help="Answers at once.")
@json_option
@config_option
def run_controls(
    *,
    name: str,
    dataset: str | None,
    options: tuple[str, ...],
    limit: str | None,
    task: tuple[str, ...],
    environment: str | None,
    concurrency: int,
    as_json: bool,
) -> int:
    """Grade the reference answer and no answer of every task of benchmark NAME.

    What holds already is not made again. Exit code 1 when one does not hold: verdicts on such
    tasks would be errors here.
    """
    benchmark = RunSettings(name, dataset=dataset, option=options).create_benchmark()
    tasks = select_tasks(tasks_of(benchmark), limit, task)
    start = StartBackend(environment or choose_backend(benchmark, tasks))
    controls = Controls(store=machine_store())
    made = list(controls.make_all(benchmark, tasks, start, workers=concurrency))
    _print(made, as_json=as_json)
    broken = sum(not control.holds for control in made)
    if not as_json:
        missing = sum(not benchmark.has_reference(each) for each in tasks)
        alone = f"; {missing} tasks have no reference answer" if missing else ""
        echo(f"{len(made) - broken} of {len(made)} controls hold{alone}")
    return ExitCode.GATE if broken else ExitCode.DONE


@command.command("clear")
@benchmark_option
@task_option
def clear(*, benchmark: str | None, task: str | None) -> None:
    """Forget controls: all, or those of some benchmarks and tasks."""
    echo(f"{machine_store().clear(benchmark, task)} controls forgotten")


def _of_run(name: str, directory: Path | None) -> list[Control]:
    with RunStore(find_run(name, runs_dir(directory))) as store:
        return store.controls()


def _print(controls: Iterable[Control], *, as_json: bool) -> None:
    for control in controls:
        echo(msgspec.json.encode(control).decode() if as_json else _line(control))


def _line(control: Control) -> str:
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime(control.made))
    mark = "holds" if control.holds else "DOES NOT HOLD"
    where = f"{one_line(control.benchmark)} {one_line(control.task_id)}"
    why = "" if control.holds or not control.why else f"  {first_line(control.why)}"
    return (
        f"{made}  {control.identity[:12]}  {where}  {control.answer} {control.status}: {mark}{why}"
    )
