"""What a trial is doing just now: said where it happens, heard by whoever watches the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Is told what is done now, and for how many seconds nothing but waiting goes on, where known.
Listener = Callable[[str, float], None]

_listener: ContextVar[Listener | None] = ContextVar("chimera_listener", default=None)
_now: ContextVar[str] = ContextVar("chimera_doing", default="")


@contextmanager
def heard(listener: Listener) -> Iterator[None]:
    """Let `listener` hear what this thread, and those that take over its context, do."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def doing(what: str, *, seconds: float = 0.0) -> Iterator[None]:
    """Say what is done until the block ends; then it is again what was done before."""
    listener = _listener.get()
    if listener is None:
        yield
        return
    token = _now.set(what)
    listener(what, seconds)
    try:
        yield
    finally:
        _now.reset(token)
        listener(_now.get(), 0.0)
