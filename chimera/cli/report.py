"""`chimera report`: runs as one file to send."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from chimera.cli.names import COMPLETERS
from chimera.cli.options import option, runs_dir_option
from chimera.cli.terminal import echo
from chimera.errors import UsageError
from chimera.eval.runs.files import find_run
from chimera.eval.runs.files import runs_dir as directory_of

CHOICES = ("failed", "flipped", "all", "none")


@click.command("report")
@click.argument("runs", nargs=-1, required=True, shell_complete=COMPLETERS["resume"])
@option(
    "--output", "-o", type=click.Path(path_type=Path, dir_okay=False), default="report.html",
    help="A file of .html, .md (Markdown) or .tex (tables for LaTeX).",
)  # fmt: skip
@option(
    "--with", "chosen", type=click.Choice(CHOICES),
    help="The trials that are in it (default: failed, or flipped of several runs).",
)  # fmt: skip
@runs_dir_option
def command(
    *, runs: tuple[str, ...], output: Path, chosen: str | None, runs_dir: Path | None
) -> None:
    """Write RUNS, one or several to compare, as one file that needs no other and no network.

    \b
    Examples:
      chimera report latest -o report.html
      chimera report RUN_A RUN_B -o comparison.html --with all
      chimera report RUN_A RUN_B -o comment.md      for a pull request
    """
    try:
        from chimera.view.report import Chosen, write_report

        paths = [find_run(name, directory_of(runs_dir)) for name in runs]
        known: dict[str | None, Chosen] = {name: name for name in get_args(Chosen)}
        write_report(paths, output, known.get(chosen))
    except ImportError as error:
        raise UsageError(
            f"a report needs the package '{error.name}'\n  pip install 'chimera-eval[view]'"
        ) from None
    echo(f"wrote {output}", err=True)
