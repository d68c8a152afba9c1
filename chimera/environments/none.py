"""The environment of tasks that need none."""

from __future__ import annotations

from typing import Self

from chimera.environments.base import Environment, EnvironmentSpec


class NoEnvironment(Environment):
    """A null object: nothing runs here and nothing is kept."""

    name = "none"

    @classmethod
    def start(cls, spec: EnvironmentSpec) -> Self:
        return cls()
