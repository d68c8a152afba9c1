"""Limits of time for the steps that set a repository up; one that is reached is named."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from chimera.errors import EnvironmentFault
from chimera.text import one_line

_seconds: ContextVar[float | None] = ContextVar("seconds", default=None)


@contextmanager
def step_limit(seconds: float | None) -> Iterator[None]:
    """Within this block every step may take so long; None: as long as each usually may."""
    token = _seconds.set(seconds)
    try:
        yield
    except subprocess.TimeoutExpired as late:
        step = late.cmd if isinstance(late.cmd, str) else " ".join(map(str, late.cmd))
        raise EnvironmentFault(
            f"setting the repository up: '{one_line(step, 200)}' did not end within "
            f"{late.timeout:g} s (--option setup_timeout=SECONDS sets another limit)"
        ) from None
    finally:
        _seconds.reset(token)


def seconds_for_step(usual: float) -> float:
    """How long a step may take that may usually take so long."""
    return _seconds.get() or usual
