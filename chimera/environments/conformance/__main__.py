"""The suite on the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from chimera.environments import EnvironmentSpec, machine, start_environment
from chimera.environments.conformance import check_backend


def main(arguments: Sequence[str]) -> int:
    if not 1 <= len(arguments) <= 2 or arguments[0].startswith("-"):
        print("usage: python -m chimera.environments.conformance BACKEND [IMAGE]", file=sys.stderr)
        return 2
    backend = arguments[0]
    spec = EnvironmentSpec(image=arguments[1] if len(arguments) > 1 else None)
    failed = 0
    for result in check_backend(lambda wanted: machine(start_environment(backend, wanted)), spec):
        mark = "ok  " if result.passed else "FAIL"
        print(f"{mark} {result.name.replace('_', ' ')} ({result.seconds:.1f} s) {result.why}")
        failed += not result.passed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
