"""One suite for every environment backend, also for one of your own:

    python -m chimera.environments.conformance my_package.my_module:MyEnvironment

Each check is a function named for what must hold. `check_backend` runs them all and tells, for
each, what did not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from chimera.environments.base import EnvironmentSpec, Machine
from chimera.environments.conformance import commands, confinement, files
from chimera.environments.conformance.base import Start


@dataclass(frozen=True, slots=True)
class Check:
    """`shared` checks take an environment that others use too, `fresh` ones start their own."""

    kind: Literal["shared", "fresh"]
    function: Callable[..., None]
    confined: bool = False  # asked only of backends with that capability

    @property
    def name(self) -> str:
        return self.function.__name__


@dataclass(frozen=True, slots=True)
class CheckResult:
    name: str
    passed: bool
    why: str = ""
    seconds: float = 0.0


CHECKS: Sequence[Check] = (
    *(Check("shared", function) for function in (*commands.SHARED, *files.SHARED)),
    *(Check("shared", function, True) for function in confinement.SHARED),
    *(Check("fresh", function) for function in (*commands.FRESH, *files.FRESH)),
    *(Check("fresh", function) for function in confinement.UNCONFINED_FRESH),
    *(Check("fresh", function, True) for function in confinement.FRESH),
)


def check_backend(start: Start, spec: EnvironmentSpec | None = None) -> Iterator[CheckResult]:
    """Results as they come. `start` starts the backend; `spec` carries what it needs at least,
    such as an image."""
    base = spec or EnvironmentSpec()
    shared: Machine | None = None
    try:
        for check in CHECKS:
            began = time.monotonic()
            why = ""
            try:
                shared = shared or start(base)
                if check.confined and "confined" not in shared.capabilities:
                    continue
                if check.kind == "shared":
                    check.function(shared)
                else:
                    check.function(needing(start, base))
            except Exception as error:  # noqa: BLE001 (whatever a backend raises is a finding)
                why = f"{type(error).__name__}: {error}"
                if shared is not None:
                    shared.close()
                shared = None
            yield CheckResult(check.name, not why, why, time.monotonic() - began)
    finally:
        if shared is not None:
            shared.close()


def needing(start: Start, base: EnvironmentSpec) -> Start:
    """`start` for specs of the checks, which know nothing of the backend's own needs."""

    def start_with(spec: EnvironmentSpec) -> Machine:
        return start(
            replace(
                spec,
                image=base.image,
                build_context=base.build_context,
                needs=base.needs,
                variables={**base.variables, **spec.variables},
            )
        )

    return start_with
