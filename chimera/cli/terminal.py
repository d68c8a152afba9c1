"""The one way of text to the terminal: whatever is in it, the terminal only shows it."""

from __future__ import annotations

import click

from chimera.text import printable


class Terminated(KeyboardInterrupt):
    """SIGTERM: does what Ctrl-C does."""


def echo(message: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print to standard output or error; escapes, controls and odd directions are written out."""
    click.echo(printable(str(message)), err=err, nl=nl)
