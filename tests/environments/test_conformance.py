"""Every backend passes the suite that a user can run on a backend of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.environments import (
    EnvironmentSpec,
    Machine,
    backend_class,
    machine,
    start_environment,
)
from chimera.environments.base import Process
from chimera.environments.conformance import CHECKS, Check, check_backend, needing
from chimera.errors import EnvironmentFault
from chimera.types import CommandResult
from tests.environments.conftest import HEAVY

BACKENDS = ("local", "bubblewrap", "docker")


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
    shared_environment: Callable[[str], Machine],
) -> None:
    def start(spec: EnvironmentSpec) -> Machine:
        return machine(start_environment(backend, spec))

    if check.kind == "shared":
        check.function(shared_environment(backend))
    else:
        check.function(needing(start, base_spec(backend)))


class Forgetful(Machine):
    """Says that all went well and does nothing."""

    name = "forgetful"

    def run_command(self, command: object, **options: object) -> CommandResult:  # type: ignore[override]
        return CommandResult(b"", b"", 0)

    def open_process(self, command: object, **options: object) -> Process:  # type: ignore[override]
        raise EnvironmentFault("forgotten")

    def read_file(self, path: str) -> bytes:
        return b""

    def write_file(self, path: str, content: bytes | str) -> None:
        return

    def list_files(self, pattern: str = "**/*") -> list[str]:
        return []

    def copy_in(self, source: Path, target: str) -> None:
        return

    def copy_out(self, source: str, target: Path) -> None:
        return

    def stop_processes(self) -> None:
        return

    def close(self) -> None:
        return


@pytest.mark.parametrize(
    "name",
    [
        "results_are_told_apart",
        "stdin_is_given_or_empty",
        "time_outs_end_commands",
        "output_is_bounded",
        "bytes_survive",
        "wrong_paths_are_told",
        "test_reports_decide",
        "copies_are_complete",
    ],
)
def test_a_backend_that_does_not_hold_is_found_out(name: str) -> None:
    (check,) = (check for check in CHECKS if check.name == name)

    with pytest.raises((AssertionError, OSError)):
        check.function(Forgetful())


def test_the_suite_tells_what_did_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    from chimera.environments import conformance
    from chimera.environments.conformance import commands

    chosen = (Check("shared", commands.results_are_told_apart),)
    monkeypatch.setattr(conformance, "CHECKS", chosen)

    (result,) = check_backend(lambda spec: Forgetful())

    assert (result.name, result.passed) == ("results_are_told_apart", False)
    assert "stdout was" in result.why
