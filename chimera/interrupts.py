"""Signals that ask the program to end, remembered until a run has heard of them.

An exception that a handler raises is lost where the interpreter just then cleans something up; a
run that waits looks here as well.
"""

from __future__ import annotations

import signal
from typing import NoReturn

_asked: list[type[KeyboardInterrupt]] = []


class Terminated(KeyboardInterrupt):
    """SIGTERM: does what Ctrl-C does."""


def listen() -> None:
    """Handle Ctrl-C, unless the shell wants it ignored, and SIGTERM; for the main thread."""
    signal.signal(signal.SIGTERM, _heard)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _heard)


def _heard(number: int, _: object) -> NoReturn:
    kind = Terminated if number == signal.SIGTERM else KeyboardInterrupt
    _asked.append(kind)
    raise kind


def raise_asked() -> None:
    """Raise what was asked for and not heard of yet."""
    if _asked:
        raise _asked.pop()


def heard() -> None:
    """Forget what was asked for: it is being done."""
    _asked.clear()
