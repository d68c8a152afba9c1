"""Interpreters, pins and markers; real environments are shown at work by the real instances."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from chimera.cache import made_once, write_atomically
from chimera.errors import EnvironmentFault, UsageError
from chimera.eval.kits.repositories.benchmark import PythonOptions
from chimera.eval.kits.repositories.package_index import source_distribution
from chimera.eval.kits.repositories.source import BaseTree
from chimera.eval.kits.repositories.virtualenvs import (
    _applies,
    find_interpreter,
    install,
    package_name,
    virtual_environment,
)
from chimera.programs import find_python

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def _nothing_known():
    """What was found before, or is found on a PATH of this test, counts for it alone."""
    find_python.cache_clear()
    yield
    find_python.cache_clear()


@pytest.mark.usefixtures("_nothing_known")
def test_interpreters_are_found_or_named(tmp_path, monkeypatch):
    assert find_interpreter(HERE, {HERE: sys.executable}) == Path(sys.executable).resolve()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    with pytest.raises(UsageError, match=r"interpreters=2\.6=PATH"):
        find_interpreter("2.6.9", {})
    assert find_interpreter("2.6", {"2.6": sys.executable}) == Path(sys.executable).resolve()
    folder = tmp_path / "versions" / f"{HERE}.99" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)
    assert find_interpreter(HERE, {}) == Path(sys.executable).resolve()
    options = PythonOptions(interpreters=["3.9=/a", "3.8=/b"])
    assert options.interpreter_paths() == {"3.9": "/a", "3.8": "/b"}
    with pytest.raises(UsageError):
        PythonOptions(interpreters=["3.9"])


@pytest.mark.parametrize(
    ("requirement", "applies"),
    [
        ("a", True),
        ("a ; sys_platform == 'win32'", False),
        ('a; python_version < "3.8"', False),
        ('a; python_version < "3.11"', True),
        ('a; python_version >= "3.10"', False),
        ("a; os_name == 'nt' or python_version < '3'", True),
        ("a; platform_machine == 'arm64'", True),
    ],
)
def test_markers(requirement, applies):
    assert _applies(requirement, "3.9.20") is applies


def test_package_names():
    assert package_name("Typing_Extensions[x]>=4; python_version<'3'") == "typing-extensions"


def test_an_environment_sees_the_repository(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path))
    made = virtual_environment(HERE, (), interpreters={HERE: sys.executable})

    assert made.missing == ()
    paths = next(made.path.glob("lib/python*/site-packages/testbed.pth")).read_text().split()
    assert paths[:3] == ["/testbed", "/testbed/src", "/testbed/lib"]
    assert (made.path / "bin" / "pytest").exists()
    assert str(made.path) in made.mounts()
    assert virtual_environment(HERE, (), interpreters={HERE: sys.executable}) == made


def test_requirements_of_a_tree(tmp_path):
    folder = tmp_path / "src" / "x.egg-info"
    folder.mkdir(parents=True)
    (folder / "requires.txt").write_text("a>=1\n\n[:python_version < '3.8']\nb\n\n[extra]\nc\n")
    assert BaseTree(tmp_path, "").requirements() == ("a>=1", "b ; python_version < '3.8'")
    (folder / "requires.txt").unlink()
    (tmp_path / "PKG-INFO").write_text("Requires-Dist: d (>=2)\nRequires-Dist: e; extra == 'f'\n")
    assert BaseTree(tmp_path, "").requirements() == ("d (>=2)",)


def test_what_is_made_is_whole_or_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path))

    def broken(place: Path) -> None:
        (place / "half").touch()
        raise EnvironmentFault("no disk")

    with pytest.raises(EnvironmentFault):
        made_once("kind", "name", broken)
    assert not (tmp_path / "kind" / "name").exists()
    place = made_once("kind", "name", lambda path: (path / "whole").touch())
    assert (place / "whole").exists()
    assert made_once("kind", "name", broken) == place
    write_atomically(tmp_path / "a" / "b", b"x")
    assert (tmp_path / "a" / "b").read_bytes() == b"x"


def test_a_distribution_is_named_exactly():
    with pytest.raises(UsageError):
        source_distribution("flask>=2")


def test_why_packages_could_not_be_installed_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    made = virtual_environment(HERE, (), interpreters={HERE: sys.executable})
    offline = ["--no-index", "--target", str(tmp_path / "there"), "chimera-none-of-that-name"]

    assert "chimera-none-of-that-name" in install(str(made.python), offline, timeout=120)
    assert install(str(made.python), ["--no-index", "pip"], timeout=120) == ""
