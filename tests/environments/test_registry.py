"""Backends by name or path; what a task needs is checked before anything starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

from chimera.environments import (
    EnvironmentSpec,
    available,
    backend_class,
    choose_backend,
    start_environment,
)
from chimera.environments.none import NoEnvironment
from chimera.errors import EnvironmentFault, UsageError


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
        ("nowhere", EnvironmentSpec(), "there are none, local"),
        ("no.such.module:Thing", EnvironmentSpec(), "cannot be loaded"),
        ("pathlib:Path", EnvironmentSpec(), "not a subclass"),
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


def test_the_first_that_fits_is_chosen() -> None:
    assert choose_backend(("none", "local"), EnvironmentSpec()) == "none"
    assert choose_backend(("none", "local"), EnvironmentSpec(setup=("true",))) == "local"
    with pytest.raises(UsageError, match="local: does not offer image"):
        choose_backend(("none", "local"), EnvironmentSpec(image="debian"))


def test_none_says_what_is_missing() -> None:
    env = NoEnvironment()

    with pytest.raises(EnvironmentFault, match="--environment bubblewrap"):
        env.run_command("true")
    env.stop_processes()
    env.close()
