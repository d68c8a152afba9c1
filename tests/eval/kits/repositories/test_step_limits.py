"""A step of setting up that does not end is named, and its limit can be set."""

from __future__ import annotations

import subprocess
import sys

import pytest

from chimera.errors import EnvironmentFault
from chimera.eval.kits.repositories import installing, virtualenvs
from chimera.eval.kits.repositories.checkout import PythonSetup
from chimera.eval.kits.repositories.step_limits import seconds_for_step, step_limit

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


class Slow:
    """A source whose code never comes."""

    exact = True

    def identity(self):
        return "slow"

    def write(self, target):
        subprocess.run(["sleep", "60"], timeout=seconds_for_step(600), check=True)


def test_a_step_has_its_own_limit_or_the_one_that_was_set():
    assert seconds_for_step(600) == 600
    with step_limit(7):
        assert seconds_for_step(600) == 7
    with step_limit(None):
        assert seconds_for_step(600) == 600


def test_a_repository_that_does_not_come_is_named(cache):
    setup = PythonSetup(Slow(), HERE, (), step_seconds=0.2)

    with pytest.raises(
        EnvironmentFault, match=r"'sleep 60' did not end within .* s .*setup_timeout"
    ):
        setup.tree()


def test_an_installation_that_does_not_end_is_no_missing_package(cache, monkeypatch):
    for kind in (installing.Installer, installing.ConfinedInstaller):
        monkeypatch.setattr(kind, "run", _late_for_packages(kind.run))

    with pytest.raises(EnvironmentFault, match=r"install.* did not end within 3 s"), step_limit(3):
        virtualenvs.virtual_environment(HERE, ["nothing==1.0"])


def _late_for_packages(run):
    def late(self, command, *, timeout):
        if "install" in command:
            raise subprocess.TimeoutExpired(command, seconds_for_step(timeout))
        return run(self, command, timeout=timeout)

    return late


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path))
