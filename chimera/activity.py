"""What a trial is doing just now: said where it happens, heard by whoever watches the run."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

#: Is told what is done now, and for how many seconds nothing but waiting goes on, where known.
Listener = Callable[[str, float], None]

_listener: ContextVar[Listener | None] = ContextVar("chimera_listener", default=None)
_now: ContextVar[str] = ContextVar("chimera_doing", default="")


class heard:
    """Let `listener` hear what this thread, and those that take over its context, do."""

    __slots__ = ("_listener", "_token")

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def __enter__(self) -> None:
        self._token = _listener.set(self._listener)

    def __exit__(self, *_: object) -> None:
        _listener.reset(self._token)


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
