"""What the checks share."""

from __future__ import annotations

from collections.abc import Callable

from chimera.environments.base import EnvironmentSpec, Machine

Start = Callable[[EnvironmentSpec], Machine]


def expect(holds: bool, otherwise: str) -> None:
    """A check that also holds under `python -O`."""
    if not holds:
        raise AssertionError(otherwise)
