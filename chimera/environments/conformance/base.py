"""What the checks share."""

from __future__ import annotations

from collections.abc import Callable

from chimera.environments.base import Environment, EnvironmentSpec

Start = Callable[[EnvironmentSpec], Environment]


def expect(holds: bool, otherwise: str) -> None:
    """A check that also holds under `python -O`."""
    if not holds:
        raise AssertionError(otherwise)
