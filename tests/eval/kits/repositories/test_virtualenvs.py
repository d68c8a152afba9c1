"""Interpreters, pins and markers; real environments are shown at work by the real instances."""

from __future__ import annotations

import ast
import io
import os
import sys
import tarfile
from pathlib import Path

import pytest

from chimera.cache import made_once, write_atomically
from chimera.environments.bubblewrap import BubblewrapEnvironment
from chimera.errors import EnvironmentFault, UsageError
from chimera.eval.kits.repositories.benchmark import PythonOptions
from chimera.eval.kits.repositories.installing import installer, named_packages, uv_program
from chimera.eval.kits.repositories.package_index import source_distribution
from chimera.eval.kits.repositories.source import BaseTree
from chimera.eval.kits.repositories.virtualenvs import (
    _applies,
    find_interpreter,
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
    with pytest.raises(UsageError, match="no Python starts there"):
        find_interpreter("2.6", {"2.6": str(tmp_path / "absent")})
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


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """An environment without packages, and the cache that it is kept in."""
    folder = tmp_path_factory.mktemp("plain")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CHIMERA_CACHE_DIR", str(folder))
        made = virtual_environment(HERE, (), interpreters={HERE: sys.executable})
    return folder, made


def test_an_environment_sees_the_repository(plain, monkeypatch):
    folder, made = plain
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(folder))

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


@pytest.fixture(params=["confined", pytest.param("on this machine", marks=pytest.mark.slow)])
def installing(request, tmp_path, monkeypatch, require):
    """Both ways of installing, with a key to be stolen."""
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-stolen")
    if request.param == "confined":
        require("bwrap")
    else:
        monkeypatch.setattr(BubblewrapEnvironment, "availability", lambda: "not here")
    return request.param


def test_why_packages_could_not_be_installed_is_said(tmp_path, installing, plain):
    _, made = plain
    (tmp_path / "there").mkdir()
    offline = ["--no-index", "--target", str(tmp_path / "there")]

    with installer(tmp_path / "there", map(Path, made.mounts())) as work:
        failure = work.install(
            str(made.python), [*offline, "chimera-none-of-that-name"], timeout=120
        )
        own = work.install(str(made.python), ["--no-index", "pip"], timeout=120)

    assert "chimera-none-of-that-name" in failure
    assert own == ""
    left = {path.name for path in (tmp_path / "there").iterdir()}
    assert left <= {".lock"}  # uv's own


SPY = """
import os
from setuptools import setup
seen = [os.environ.get("OPENAI_API_KEY"), os.path.exists({secret!r}), os.getuid()]
try:
    open({mark!r}, "w").close()
except OSError:
    pass
open("spy.py", "w").write("seen = " + repr(seen))
setup(name="spy", version="1.0", py_modules=["spy"])
"""


@pytest.fixture
def spy(tmp_path, monkeypatch):
    """An index of files with a source distribution whose set-up looks around."""
    secret, mark, files = tmp_path / "secret", tmp_path / "mark", tmp_path / "files"
    secret.touch()
    files.mkdir()
    code = SPY.format(secret=str(secret), mark=str(mark)).encode()
    # the module is written before the set-up reads it
    code = code.replace(
        b"setup(name", b'open("spy.py", "w").write("seen = " + repr(seen))\nsetup(name'
    )
    with tarfile.open(files / "spy-1.0.tar.gz", "w:gz") as archive:
        for name, content in (("setup.py", code), ("PKG-INFO", b"Name: spy\nVersion: 1.0\n")):
            member = tarfile.TarInfo(f"spy-1.0/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    monkeypatch.setenv("PIP_FIND_LINKS", f"{files} {os.environ.get('PIP_FIND_LINKS', '')}")
    return mark


def test_set_up_scripts_see_no_keys_and_nothing_else_where_they_are_confined(installing, spy):
    made = virtual_environment(HERE, ("spy==1.0",), interpreters={HERE: sys.executable})
    if made.missing:
        pytest.skip("setuptools, which builds it, cannot be had here")

    (module,) = made.path.glob("lib/python*/site-packages/spy.py")
    key, secret, user = ast.literal_eval(module.read_text().removeprefix("seen = "))
    confined = installing == "confined"
    assert key is None
    assert secret is not confined
    assert spy.exists() is not confined
    assert (user == os.getuid()) is (not confined or os.getuid() == 61000)
    assert {place.lstat().st_uid for place in made.path.rglob("*")} == {os.getuid()}
    assert not (made.path / ".scratch").exists()


def test_only_packages_of_an_index_are_named():
    asked = [
        "a", "a>=1,<2", "a[b,c]==1.0 ; python_version < '3.8'", "d (>=2)", "a.b_c-d",
        "evil @ file:///tmp/evil", "evil@git+https://x/y", "--no-build-isolation", "-r /etc/passwd",
        "./evil", "/evil", "git+https://x/y", "https://x/y.whl", "a --hash=sha256:0", "",
    ]  # fmt: skip

    assert named_packages(asked) == (asked[:5], asked[5:])


@pytest.mark.parametrize(
    "installing",
    ["confined", pytest.param("on this machine", marks=pytest.mark.full)],
    indirect=True,
)
def test_what_names_no_package_is_not_installed_and_said(installing):
    asked = ("evil @ file:///tmp/evil", "--no-build-isolation")

    made = virtual_environment(
        HERE, asked[1:], requirements=asked[:1], interpreters={HERE: sys.executable}
    )

    assert made.missing == ("--no-build-isolation", "evil @ file:///tmp/evil")


def test_a_script_that_starts_uv_elsewhere_is_not_uv(tmp_path, monkeypatch):
    shims, own = tmp_path / "shims", tmp_path / "own"
    for folder, content in ((shims, b'#!/bin/sh\nexec elsewhere uv "$@"\n'), (own, b"\x7fELF")):
        folder.mkdir()
        (folder / "uv").write_bytes(content)
        (folder / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", str(shims))
    assert uv_program() is None
    monkeypatch.setenv("PATH", f"{shims}:{tmp_path / 'absent'}:{own}")
    assert uv_program() == str(own / "uv")


@pytest.mark.slow
def test_an_installer_that_brings_none_of_several_packages_is_a_fault(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "empty"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # pip alone, which knows both settings
    with pytest.raises(EnvironmentFault, match="none of 2 packages"):
        virtual_environment(
            HERE, ("nosuch-a==1", "nosuch-b==1"), interpreters={HERE: sys.executable}
        )
