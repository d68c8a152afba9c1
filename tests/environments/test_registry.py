"""Backends by name or path; what a task needs is checked before anything starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chimera.environments import (
    EnvironmentSpec,
    available,
    backend_class,
    machine,
    start_environment,
)
from chimera.environments.none import NoEnvironment
from chimera.errors import UsageError


def test_importing_the_registry_imports_no_backend() -> None:
    code = "import sys, chimera.environments; print([m for m in sys.modules if 'docker' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("backend", "spec", "said"),
    [
        ("none", EnvironmentSpec(needs=frozenset({"commands"})), "commands"),
        ("none", EnvironmentSpec(setup=("true",)), "bubblewrap or docker"),
        ("bubblewrap", EnvironmentSpec(image="debian"), "image"),
        ("local", EnvironmentSpec(needs=frozenset({"confined"})), "confined"),
        ("bubblewrap", EnvironmentSpec(needs=frozenset({"root"})), "docker"),
        ("nowhere", EnvironmentSpec(), "Known: browser, bubblewrap"),
        ("no.such.module:Thing", EnvironmentSpec(), "no module"),
        ("pathlib:Path", EnvironmentSpec(), "no Environment class"),
    ],
)
def test_what_cannot_be_is_said_before_the_start(
    backend: str, spec: EnvironmentSpec, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        start_environment(backend, spec)


def test_a_backend_of_ones_own_goes_by_its_path() -> None:
    path = f"{NoEnvironment.__module__}:{NoEnvironment.__name__}"

    assert backend_class(path) is NoEnvironment
    assert available(path) is None
    assert isinstance(start_environment(path, EnvironmentSpec()), NoEnvironment)


def test_a_backend_in_a_file_goes_by_the_files_path(tmp_path: Path) -> None:
    file = tmp_path / "backend_of_mine.py"
    file.write_text(
        "from chimera.environments.none import NoEnvironment\n"
        "class Mine(NoEnvironment):\n    name = 'mine'\n"
    )

    with start_environment(f"{file}:Mine", EnvironmentSpec()) as env:
        assert env.name == "mine"


def test_a_place_without_commands_says_what_to_choose() -> None:
    env = NoEnvironment()

    with pytest.raises(UsageError, match="--environment bubblewrap or docker"):
        machine(env)
    with pytest.raises(AttributeError, match="--environment bubblewrap or docker"):
        env.run_command("true")  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"no attribute 'anything'$"):
        env.anything  # type: ignore[attr-defined]  # noqa: B018
    assert env.evaluate_task({"id": "1"}, "an answer") is NotImplemented
    env.stop_processes()
    env.close()
