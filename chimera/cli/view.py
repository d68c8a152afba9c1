"""`chimera view`: runs in a browser on this machine."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import click

from chimera.cli.names import COMPLETERS
from chimera.cli.options import Whole, option, runs_dir_option
from chimera.cli.terminal import echo
from chimera.errors import UsageError
from chimera.eval.runs.files import find_run
from chimera.eval.runs.files import runs_dir as directory_of


@click.command("view")
@click.argument("runs", nargs=-1, shell_complete=COMPLETERS["resume"])
@option("--port", type=Whole(0, 65535), default=0, help="Port; 0 takes a free one.")
@option("--browser/--no-browser", default=True, help="Open the address in a browser.")
@runs_dir_option
def command(*, runs: tuple[str, ...], port: int, browser: bool, runs_dir: Path | None) -> None:
    """See and compare RUNS (files, names, directories) in a browser; Ctrl-C ends it.

    \b
    Examples:
      chimera view                     every run in ./runs
      chimera view latest
      chimera view RUN_A RUN_B --no-browser

    Only this machine can reach it, and only with the address that is printed.
    """
    from chimera.view.library import Library
    from chimera.view.server import serve

    library = Library(places(runs, directory_of(runs_dir)))
    only = library.runs()[0].name if len(runs) == 1 and len(library.runs()) == 1 else None

    def ready(address: str) -> None:
        start = address.replace("/?", f"/run/{quote(only)}/?") if only else address
        echo(f"chimera view: {start}")
        echo("Ctrl-C ends it.", err=True)
        if browser:
            webbrowser.open(start)

    serve(library, port=port, ready=ready)


def places(runs: Sequence[str], directory: Path) -> list[Path]:
    """The files and directories that the arguments name."""
    found = [Path(name) if Path(name).is_dir() else find_run(name, directory) for name in runs]
    if not found and not directory.is_dir():
        raise UsageError(f"there are no runs at {directory}; `chimera eval` makes one")
    return found or [directory]
