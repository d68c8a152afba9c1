"""A machine that can be had anew: for grading that runs hostile code more than once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from chimera.environments.base import Machine
from chimera.environments.wrapped import WrappedMachine


class ReopenedMachine(WrappedMachine):
    """Opens its inside when it is first used; `fresh()` gives one that nothing has touched."""

    name = "reopened"

    def __init__(self, open_inside: Callable[[], Machine]) -> None:
        self._open = open_inside
        self._opened: Machine | None = None
        self._deadline: float | None = None

    @contextmanager
    def fresh(self) -> Iterator[Machine]:
        """A new environment, closed at the end of the block."""
        with self._open() as env:
            env.deadline = self.deadline
            yield env

    @property
    def inner(self) -> Machine:
        if self._opened is None:
            self._opened = self._open()
            self._opened.deadline = self._deadline
        return self._opened

    @property
    def deadline(self) -> float | None:
        return self._deadline

    @deadline.setter
    def deadline(self, value: float | None) -> None:
        self._deadline = value
        if self._opened is not None:
            self._opened.deadline = value

    def stop_processes(self) -> None:
        if self._opened is not None:
            self._opened.stop_processes()

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None
