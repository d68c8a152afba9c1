"""One suite for every environment backend, also for one of your own:

    python -m chimera.environments.conformance my_package.my_module:MyEnvironment

Each check is a function named for what must hold. `check_backend` runs them all and tells, for
each, what did not.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from chimera.environments.base import Environment, EnvironmentSpec
from chimera.environments.checks import commands, confinement, files
from chimera.environments.checks.base import Start


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
    shared: Environment | None = None
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

    def start_with(spec: EnvironmentSpec) -> Environment:
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


def main(arguments: Sequence[str]) -> int:
    from chimera.environments import start_environment

    if not 1 <= len(arguments) <= 2 or arguments[0].startswith("-"):
        print("usage: python -m chimera.environments.conformance BACKEND [IMAGE]", file=sys.stderr)
        return 2
    backend = arguments[0]
    spec = EnvironmentSpec(image=arguments[1] if len(arguments) > 1 else None)
    failed = 0
    for result in check_backend(lambda wanted: start_environment(backend, wanted), spec):
        mark = "ok  " if result.passed else "FAIL"
        print(f"{mark} {result.name.replace('_', ' ')} ({result.seconds:.1f} s) {result.why}")
        failed += not result.passed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
