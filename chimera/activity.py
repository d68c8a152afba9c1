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


class doing:
    """Say what is done until the block ends; then it is again what was done before."""

    __slots__ = ("_listener", "_seconds", "_token", "_what")

    def __init__(self, what: str, *, seconds: float = 0.0) -> None:
        self._what, self._seconds = what, seconds

    def __enter__(self) -> None:
        self._listener = listener = _listener.get()
        if listener is not None:
            self._token = _now.set(self._what)
            listener(self._what, self._seconds)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._listener is not None:
            _now.reset(self._token)
            self._listener(_now.get(), 0.0)
