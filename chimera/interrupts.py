"""Signals that ask the program to end, remembered until a run has heard of them.

An exception that a handler raises is lost where the interpreter just then cleans something up, and
leaves a lock closed for ever where one has just been taken. So while a run goes on, the first
signal is only remembered, and the run looks for it between two trials; a second one is raised.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_asked: list[type[KeyboardInterrupt]] = []
_looking: list[bool] = []


class Terminated(KeyboardInterrupt):
    """SIGTERM: does what Ctrl-C does."""


def listen() -> None:
    """Handle Ctrl-C, unless the shell wants it ignored, and SIGTERM; for the main thread."""
    signal.signal(signal.SIGTERM, _heard)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _heard)


def _heard(number: int, _: object) -> None:
    kind = Terminated if number == signal.SIGTERM else KeyboardInterrupt
    _asked.append(kind)
    if not _looking or len(_asked) > 1:
        raise kind


@contextmanager
def looked_for() -> Iterator[None]:
    """Whoever is inside calls `raise_asked` often, and is not interrupted elsewhere."""
    _looking.append(True)
    try:
        yield
    finally:
        _looking.pop()
        _asked.clear()  # it is being done


def raise_asked() -> None:
    """Raise what was asked for and not heard of yet."""
    if _asked:
        raise _asked.pop()
