"""Layers of packages: which interpreter they are for, what they lack, and how they run."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from chimera.agents.coding import layers
from chimera.agents.coding.layers import HERE, LAUNCHER, PYTHON, Pip
from chimera.agents.coding.openhands import OpenHands
from chimera.cli.agents import readiness
from chimera.errors import UsageError

NEXT = (HERE[0], HERE[1] + 1)
BEFORE = (HERE[0], HERE[1] - 1)


@pytest.mark.parametrize(
    ("oldest", "newest", "chosen"),
    [
        ((3, 0), (3, 99), HERE),
        (NEXT, (3, 99), NEXT),
        ((3, 0), BEFORE, BEFORE),
    ],
)
def test_packages_are_for_this_python_or_the_nearest(
    oldest: tuple[int, int], newest: tuple[int, int], chosen: tuple[int, int]
):
    recipe = Pip("x", "1", "x", oldest_python=oldest, newest_python=newest)

    assert recipe.python.version == "{}.{}".format(*chosen)
    assert (recipe.python is PYTHON) == (chosen == HERE)
    assert recipe.packages == ("x==1", "python{}.{}".format(*chosen))


def test_an_interpreter_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(layers, "find_python", lambda version: None)
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path))
    recipe = Pip("x", "1", "x", oldest_python=NEXT, newest_python=NEXT)
    wanted = "Python {}.{}, which is not on this machine".format(*NEXT)

    assert wanted in readiness([recipe, *recipe.runtimes()])
    with pytest.raises(UsageError, match=wanted):
        recipe.layer()


def test_openhands_runs_on_the_one_python_that_it_is_for():
    assert OpenHands.recipe.python.version == "3.12"
    assert [each.name for each in OpenHands.recipes()][-1] == "python"


def test_a_program_and_those_that_it_starts_find_their_packages(tmp_path: Path):
    """aider starts a linter of its own packages by what it takes for its interpreter."""
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "linter.py").write_text("import sys; print('linted', *sys.argv[1:])")
    (packages / "program.py").write_text(
        "import linter, os, subprocess, sys\n"
        "assert 'PYTHONPATH' not in os.environ\n"
        "subprocess.run([sys.executable, '-m', 'linter', *sys.argv[1:]], check=True)\n"
    )
    recipe = Pip("x", "1", "x")
    places = {"x": str(packages), "python": str(PYTHON.layer().path)}
    launcher = tmp_path / LAUNCHER
    launcher.write_text(recipe.launcher(places))
    launcher.chmod(0o700)

    words = [*recipe.command(places, str(tmp_path), "program"), "a file"]
    # As in an environment, which has nothing of what whoever runs the tests has set.
    done = subprocess.run(words, env={}, capture_output=True, text=True, check=False)

    assert (done.stdout.splitlines()[-1:], done.stderr) == (["linted a file"], "")


@pytest.mark.parametrize("from_source", [(), ("odd",)])
def test_no_script_of_a_package_runs_that_was_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, from_source: tuple[str, ...]
):
    """A source archive is built by what is in it."""
    ran, source = tmp_path / "ran", tmp_path / "odd-1.0"
    source.mkdir()
    backend = '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'
    (source / "pyproject.toml").write_text(backend)
    (source / "own.py").write_text(f"open({str(ran)!r}, 'w').close()\nraise SystemExit('no')\n")
    (source / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    with tarfile.open(tmp_path / "odd-1.0.tar.gz", "w:gz") as archive:
        archive.add(source, "odd-1.0")
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))

    with pytest.raises(UsageError, match="cannot be installed"):
        Pip("odd", "1.0", "odd", from_source=from_source).layer()
    assert ran.exists() is bool(from_source)
