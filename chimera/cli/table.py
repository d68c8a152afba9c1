"""`chimera table`: models × benchmarks with intervals, to read or to paste."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from chimera.cli.options import runs_dir_option
from chimera.cli.terminal import echo
from chimera.errors import UsageError
from chimera.eval.runs.files import find_run, run_files, runs_dir
from chimera.eval.runs.overview import RunSummary, Table, read_summaries, table_of
from chimera.text import one_line

_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}  # fmt: skip


@click.command("table")
@click.argument("runs", nargs=-1)
@click.option("--format", "kind", type=click.Choice(["text", "markdown", "latex", "csv", "json"]),
        default="text", help="How it is written.")  # fmt: skip
@runs_dir_option
def command(*, runs: tuple[str, ...], kind: str, runs_dir: Path | None) -> None:
    """RUNS (default: all) as a table of models × benchmarks.

    A cell is the pass rate with its 95% interval; "!" marks trials without a verdict, which count
    as not passed. Of several runs of one model on one benchmark the newest is shown.

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
    for line in _lines(table_of(found), kind):
        echo(line)


def _directory(configured: Path | None) -> Path:
    return runs_dir(configured)


def _lines(table: Table, kind: str) -> Iterator[str]:
    rows = [["", *table.benchmarks]]
    rows += [[who, *(_cell(run) for run in runs)] for who, runs in table.rows]
    rows = [[one_line(cell) for cell in row] for row in rows]
    return {"text": _text, "markdown": _markdown, "latex": _latex, "csv": _csv}[kind](rows)


def _cell(run: RunSummary | None) -> str:
    if run is None:
        return "–"
    if run.rate is None or run.interval is None:
        return "no verdict"
    low, high = run.interval
    missing = "!" if run.errored or run.not_run else ""
    return f"{run.rate:.1%} [{low:.1%}, {high:.1%}]{missing}"


def _text(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _markdown(rows: list[list[str]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield f"| {' | '.join(_plain_markdown(cell) for cell in row)} |"
        if number == 0:
            yield "|" + "---|" * len(row)


def _plain_markdown(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>()#|!~&])", r"\\\1", text)


def _latex(rows: list[list[str]]) -> Iterator[str]:
    yield f"\\begin{{tabular}}{{l{'r' * (len(rows[0]) - 1)}}}"
    yield "\\hline"
    for number, row in enumerate(rows):
        yield " & ".join("".join(_LATEX.get(c, c) for c in cell) for cell in row) + r" \\"
        if number == 0:
            yield "\\hline"
    yield "\\hline"
    yield "\\end{tabular}"


def _csv(rows: list[list[str]]) -> Iterator[str]:
    from chimera.eval.runs.formats.tables import csv_line

    return map(csv_line, rows)
