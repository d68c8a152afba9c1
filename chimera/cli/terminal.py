"""The one way of text to the terminal: whatever is in it, the terminal only shows it."""

from __future__ import annotations

import os
import re

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
