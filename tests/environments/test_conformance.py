"""Every backend passes the suite that a user can run on a backend of their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chimera.environments import Environment, EnvironmentSpec, backend_class, start_environment
from chimera.environments.conformance import CHECKS, Check, check_backend, needing
from chimera.environments.none import NoEnvironment

BACKENDS = ("local", "bubblewrap", "docker")
#: Over a second or two each in containers; `make test-full` runs them there too.
HEAVY = {"output_is_bounded", "time_outs_spare_earlier_processes", "huge_files_are_refused"}


def cases() -> list[object]:
    found: list[object] = []
    for backend in BACKENDS:
        for check in CHECKS:
            if check.confined and "confined" not in backend_class(backend).capabilities:
                continue
            heavy = backend == "docker" and check.name in HEAVY
            marks = [pytest.mark.full] if heavy else []
            found.append(pytest.param(backend, check, id=f"{backend}-{check.name}", marks=marks))
    return found


@pytest.mark.parametrize(("backend", "check"), cases())
def test_backend_holds(
    backend: str,
    check: Check,
    base_spec: Callable[[str], EnvironmentSpec],
    shared_environment: Callable[[str], Environment],
) -> None:
    if check.kind == "shared":
        check.function(shared_environment(backend))
    else:
        check.function(needing(lambda spec: start_environment(backend, spec), base_spec(backend)))


def test_a_backend_that_keeps_no_promise_is_found_out() -> None:
    """The null environment passes nothing that asks for something."""
    results = list(check_backend(lambda spec: NoEnvironment()))

    assert results
    assert not any(result.passed for result in results)
    assert all("EnvironmentFault" in result.why or result.why for result in results)


class Forgetful(NoEnvironment):
    """Says that all went well and does nothing."""

    def run_command(self, command, **options):  # type: ignore[no-untyped-def]
        from chimera.types import CommandResult

        return CommandResult(b"", b"", 0)

    def read_file(self, path: str) -> bytes:
        return b""

    def write_file(self, path: str, content: bytes | str) -> None:
        return


def test_a_backend_that_pretends_is_found_out() -> None:
    failed = {
        result.name for result in check_backend(lambda spec: Forgetful()) if not result.passed
    }

    assert {"results_are_told_apart", "bytes_survive", "time_outs_end_commands"} <= failed
