"""`chimera top`: what the runs of a directory are doing now."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from chimera.cli.display import money
from chimera.cli.options import Number, json_option, option, runs_dir_option
from chimera.cli.terminal import echo
from chimera.errors import UsageError
from chimera.eval.runs.files import find_run, run_files
from chimera.eval.runs.files import runs_dir as directory_of
from chimera.eval.runs.result import EvalResult
from chimera.eval.runs.store import RunStore, Seconds
from chimera.text import one_line

if TYPE_CHECKING:
    from rich.table import Table

#: A run without a stored trial for so long, and unfinished, may have ended.
QUIET_SECONDS = 600.0
#: What the rate is taken over.
WINDOW_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Activity:
    """One run at this moment, as its file shows it."""

    run: str
    benchmark: str
    done: int
    planned: int
    passed: int
    failed: int
    errored: int
    cost: float | None
    a_minute: int
    seconds_left: float | None
    quiet_seconds: float

    @classmethod
    def of(cls, path: Path, now: float) -> Activity:
        with RunStore(path) as store:
            result = EvalResult.of(store)
            query = "SELECT started, duration FROM trials ORDER BY id DESC LIMIT 2000"
            ends = [began + took for began, took in store.rows(tuple[Seconds, Seconds], query)]
        recent = sum(now - end < WINDOW_SECONDS for end in ends)
        left = result.planned - result.total
        return cls(
            run=path.stem,
            benchmark=result.benchmark,
            done=result.total,
            planned=result.planned,
            passed=result.passed,
            failed=result.failed,
            errored=result.errored,
            cost=result.total_cost,
            a_minute=recent,
            seconds_left=left / recent * WINDOW_SECONDS if recent and left > 0 else None,
            quiet_seconds=max(0.0, now - max(ends, default=path.stat().st_mtime)),
        )

    @property
    def state(self) -> str:
        if self.done >= self.planned:
            return "done"
        return "running" if self.quiet_seconds < QUIET_SECONDS else "quiet"


@click.command("top")
@click.argument("runs", nargs=-1)
@option("--every", type=Number(0.2), default=2.0, help="Seconds between two looks.")
@option("--once", is_flag=True, help="Look once and end.")
@option("--all", "finished", is_flag=True, help="Finished and quiet runs as well.")
@runs_dir_option
@json_option
def command(
    *,
    runs: tuple[str, ...],
    every: float,
    once: bool,
    finished: bool,
    runs_dir: Path | None,
    as_json: bool,
) -> None:
    """What running RUNS do now: trials done, the rate of the last minute, time left, cost.

    It reads the files that runs write, so it needs nothing from the process that runs them.

    \b
    Examples:
      chimera top                 # every run of ./runs that goes on; Ctrl-C ends it
      chimera top latest --once --json
    """
    directory = directory_of(runs_dir)

    def look() -> list[Activity]:
        paths = [find_run(name, directory) for name in runs]
        return activities(paths or run_files(directory), finished or bool(runs))

    if once or as_json:
        _print(look(), as_json=as_json)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(_table(look()), console=Console(), auto_refresh=False) as live:
        while True:
            time.sleep(every)
            live.update(_table(look()), refresh=True)


def activities(paths: list[Path], finished: bool) -> list[Activity]:
    """What these runs do; one whose file cannot be read is left out."""
    found = []
    for path in paths:
        try:
            found.append(Activity.of(path, time.time()))
        except UsageError:
            continue
    return [each for each in found if finished or each.state == "running"]


def _print(found: list[Activity], *, as_json: bool) -> None:
    if as_json:
        rows = [{**msgspec.to_builtins(each), "state": each.state} for each in found]
        echo(msgspec.json.encode(rows).decode())
        return
    if not found:
        echo("no run goes on here (--all shows the others)")
    for each in found:
        echo("  ".join(_cells(each)))


def _cells(each: Activity) -> tuple[str, ...]:
    left = each.seconds_left
    return (
        one_line(each.run),
        each.state,
        f"{each.done}/{each.planned}",
        f"{each.passed} passed, {each.failed} failed, {each.errored} errors",
        f"{each.a_minute}/min",
        "–" if left is None else f"{left / 60:.0f} min left",
        money(each.cost),
    )


def _table(found: list[Activity]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("run", "state", "done", "outcomes", "rate", "time", "cost", box=None)
    for each in found:
        table.add_row(*(Text(cell) for cell in _cells(each)))
    if not found:
        table.add_row(Text("no run goes on here; Ctrl-C ends this"))
    return table
