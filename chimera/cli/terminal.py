"""The one way of text to the terminal: whatever is in it, the terminal only shows it."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap

import click

from chimera.text import printable

#: A line that begins with two colons, and the older form, which may stand anywhere.
_COMMAND = re.compile(r"(?:(?<=\n)|\A)(\s*):(?=:)|#(?=#\[)")


class Terminated(KeyboardInterrupt):
    """SIGTERM: does what Ctrl-C does."""


def echo(message: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print to standard output or error; escapes, controls and odd directions are written out.

    So is what GitHub's runner would take for a command.
    """
    text = printable(str(message))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        text = _COMMAND.sub(lambda found: f"{found[1] or ''}\\u{ord(found[0][-1]):04x}", text)
    click.echo(text, err=err, nl=nl)


def columns() -> int | None:
    """How wide the terminal is that standard output goes to; None where nothing need be cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def fitted(text: str, hanging: int = 4) -> str:
    """A line broken at its blanks to fit the terminal, the next ones indented; else as it is."""
    width = columns()
    if width is None or len(text) <= width:
        return text
    indent = " " * min(hanging, width // 4)
    return textwrap.fill(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
