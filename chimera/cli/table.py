"""`chimera table`: models × benchmarks with intervals, to read or to paste."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from chimera.cli.options import runs_dir_option
from chimera.cli.terminal import echo
from chimera.errors import UsageError
from chimera.eval.runs.files import find_run, run_files, runs_dir
from chimera.eval.runs.overview import RunSummary, Table, read_summaries, table_of
from chimera.text import code_span, latex, one_line


@click.command("table")
@click.argument("runs", nargs=-1)
@click.option("--format", "kind", type=click.Choice(["text", "markdown", "latex", "csv", "json"]),
        default="text", help="How it is written.")  # fmt: skip
@runs_dir_option
def command(*, runs: tuple[str, ...], kind: str, runs_dir: Path | None) -> None:
    """RUNS (default: all) as a table of models × benchmarks.

    A cell is the pass rate with its 95% interval; "!" marks trials without a verdict, which count
    as not passed and widen the interval, "?" a run whose tasks, data set, grader or options are not
    those of the first one of its column. Of several runs of one model on one benchmark the newest
    is shown.

    \b
    Examples:
      chimera table
      chimera table RUN_A RUN_B --format markdown
      chimera table --format latex > results.tex
    """
    directory = _directory(runs_dir)
    paths = [find_run(name, directory) for name in runs] or run_files(directory)
    found = []
    for summary in read_summaries(paths):
        if isinstance(summary, UsageError):
            echo(f"left out: {one_line(str(summary))}", err=True)
        else:
            found.append(summary)
    if not found:
        raise UsageError(f"no runs in {directory}")
    if kind == "json":
        echo(msgspec.json.encode(table_of(found)).decode())
        return
    table = table_of(found)
    for line in _lines(table, kind):
        echo(line)
    for line in _notes(table):
        echo(line, err=True)


def _notes(table: Table) -> Iterator[str]:
    """What the marks mean, and what the table does not show."""
    shown = [run for _, runs in table.rows for run in runs if run is not None]
    if any(run.errored or run.not_run for run in shown):
        yield "!: some trials have no verdict; they count as not passed and widen the interval"
    if table.unlike:
        yield "?: not the tasks, data set, grader or options of its column's first run"
    if table.older:
        yield f"not shown, since there is a newer run: {', '.join(map(one_line, table.older))}"


def _directory(configured: Path | None) -> Path:
    return runs_dir(configured)


def _lines(table: Table, kind: str) -> Iterator[str]:
    rows = [["", *table.benchmarks]]
    rows += [
        [who, *(_cell(run, unlike=run is not None and run.run in table.unlike) for run in runs)]
        for who, runs in table.rows
    ]
    rows = [[one_line(cell) for cell in row] for row in rows]
    return {"text": _text, "markdown": _markdown, "latex": _latex, "csv": _csv}[kind](rows)


def _cell(run: RunSummary | None, *, unlike: bool) -> str:
    if run is None:
        return "–"
    if run.rate is None or run.interval is None:
        return "no verdict"
    low, high = run.interval
    missing = "!" if run.errored or run.not_run else ""
    return f"{run.rate:.1%} [{low:.1%}, {high:.1%}]{missing}{'?' if unlike else ''}"


def _text(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _markdown(rows: list[list[str]]) -> Iterator[str]:
    yield f"| | {' | '.join(map(code_span, rows[0][1:]))} |"
    yield "|" + "---|" * len(rows[0])
    for who, *cells in rows[1:]:
        yield f"| {' | '.join([code_span(who), *cells])} |"


def _latex(rows: list[list[str]]) -> Iterator[str]:
    yield f"\\begin{{tabular}}{{l{'r' * (len(rows[0]) - 1)}}}"
    yield "\\hline"
    for number, row in enumerate(rows):
        yield " & ".join(map(latex, row)) + r" \\"
        if number == 0:
            yield "\\hline"
    yield "\\hline"
    yield "\\end{tabular}"


def _csv(rows: list[list[str]]) -> Iterator[str]:
    from chimera.eval.runs.formats.tables import csv_line

    return map(csv_line, rows)
