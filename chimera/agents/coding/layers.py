"""Programs of coding agents, installed once from the registries into directories that any
environment shows read-only."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chimera.cache import digest, made, made_once
from chimera.errors import UsageError

KIND = "agents"  # below the cache's directory
INSIDE = "/opt/chimera"
INSTALL_SECONDS = 1200
SHOWN_CHARACTERS = 1500
NODE_VERSION = "22.23.3"
ARCHITECTURES = {"x86_64": "x64", "aarch64": "arm64"}


def architecture() -> str:
    """This machine's, as the registry of npm spells it."""
    found = ARCHITECTURES.get(platform.machine())
    if found is None or not sys.platform.startswith("linux"):
        raise UsageError("coding agents are installed for Linux on x86-64 and ARM64 alone")
    return found


@dataclass(frozen=True, slots=True)
class Layer:
    """An installed directory: where it is on this machine, and where environments show it."""

    path: Path
    target: str

    def at(self, *, confined: bool) -> str:
        return self.target if confined else str(self.path)


@dataclass(frozen=True, slots=True)
class Recipe(ABC):
    """What to install, by name and version; `packages` is all that decides the content."""

    name: str
    version: str

    @property
    @abstractmethod
    def packages(self) -> Sequence[str]: ...

    @abstractmethod
    def _make(self, place: Path) -> None: ...

    @property
    def entry(self) -> str:
        return f"{self.name}-{digest(type(self).__name__, list(self.packages), platform.machine())}"

    def installed(self) -> Path | None:
        return made(KIND, self.entry)

    def layer(self) -> Layer:
        """The installed layer, made now if it is not there."""
        return Layer(made_once(KIND, self.entry, self._make), f"{INSIDE}/{self.name}")


@dataclass(frozen=True, slots=True)
class Npm(Recipe):
    """Packages of npm, without the scripts that they would run."""

    package: str
    also: tuple[str, ...] = ()

    @property
    def packages(self) -> Sequence[str]:
        return (f"{self.package}@{self.version}", *self.also)

    def _make(self, place: Path) -> None:
        npm_install(self.name, self.packages, place)


@dataclass(frozen=True, slots=True)
class NodeRuntime(Recipe):
    """Node itself, as the registry of npm has it."""

    @property
    def packages(self) -> Sequence[str]:
        return (f"node-linux-{architecture()}@{self.version}",)

    def _make(self, place: Path) -> None:
        npm_install(self.name, self.packages, place)


@dataclass(frozen=True, slots=True)
class Pip(Recipe):
    """Packages of PyPI for the interpreter of `python_layer`."""

    package: str
    also: tuple[str, ...] = ()
    newest_python: tuple[int, int] = (3, 99)

    @property
    def packages(self) -> Sequence[str]:
        python = "python{}.{}".format(*sys.version_info[:2])
        return (f"{self.package}=={self.version}", *self.also, python)

    def _make(self, place: Path) -> None:
        if sys.version_info[:2] > self.newest_python:
            newest = "{}.{}".format(*self.newest_python)
            raise UsageError(f"{self.name} {self.version} needs Python {newest} or older")
        words = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
        _install(self.name, [*words, f"--target={place}", *self.packages[:-1]], place)


@dataclass(frozen=True, slots=True)
class Interpreter(Recipe):
    """This very Python with all libraries it needs, so that it runs in any image of Linux."""

    @property
    def packages(self) -> Sequence[str]:
        return (sys.version, sys.base_prefix, "with compiled modules")

    def _make(self, place: Path) -> None:
        library = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        binary = Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()
        for directory in ("bin", "lib"):
            (place / directory).mkdir()
        shutil.copy2(binary, place / "bin" / "python3")
        skipped = shutil.ignore_patterns(
            "site-packages", "dist-packages", "test", "tests", "idlelib", "config-*"
        )
        standard = Path(sysconfig.get_path("stdlib", vars={"base": sys.base_prefix}))
        shutil.copytree(standard, place / "lib" / library, ignore=skipped, symlinks=True)
        (place / "lib" / library / "site-packages").mkdir(exist_ok=True)
        needed = [place / "bin" / "python3", *(place / "lib" / library).rglob("*.so")]
        (place / "libraries").mkdir()
        for name, source in _libraries(needed).items():
            shutil.copy2(source, place / "libraries" / name)


PYTHON = Interpreter("python", "{}.{}".format(*sys.version_info[:2]))
NODE = NodeRuntime("node", NODE_VERSION)
#: Runs a module of the packages at argv[1], and shows neither them nor itself to its children.
RUN_MODULE = """\
import runpy, site, sys
packages, module = sys.argv[1:3]
site.addsitedir(packages)
del sys.argv[1:3]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def python_command(place: str) -> list[str]:
    """The interpreter of the layer at `place`, which leans on nothing of the image it runs in."""
    libraries = f"{place}/libraries"
    return [f"{libraries}/{LOADERS[architecture()]}", "--library-path", libraries,
            f"{place}/bin/python3"]  # fmt: skip


def module_command(python: str, packages: str, module: str) -> list[str]:
    """A module of a layer of packages, run by the interpreter of another."""
    return [*python_command(python), "-I", "-c", RUN_MODULE, packages, module]


def node_command(place: str) -> list[str]:
    return [f"{place}/node_modules/node-linux-{architecture()}/bin/node"]


LOADERS = {"x64": "ld-linux-x86-64.so.2", "arm64": "ld-linux-aarch64.so.1"}


def npm_install(name: str, packages: Sequence[str], place: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise UsageError(f"installing {name} needs npm (apt install npm)")
    words = [npm, "install", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund"]
    _install(name, [*words, f"--prefix={place}", *packages], place)


def _libraries(programs: Sequence[Path]) -> dict[str, Path]:
    """The shared libraries that programs need, and the loader, by the names they ask for."""
    said = subprocess.run(
        ["ldd", *map(str, programs)], capture_output=True, text=True, check=False, timeout=60
    )
    found: dict[str, Path] = {}
    for line in said.stdout.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        target = Path((rest if arrow else name).split(" (")[0])
        if target.is_absolute() and target.is_file():
            found[Path(name.split(" (")[0]).name] = target
    return found


def _install(name: str, words: Sequence[str], place: Path) -> None:
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS, cwd=place
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{name} cannot be installed: {error}") from None
    if done.returncode:
        said = (done.stdout + done.stderr).strip()[-SHOWN_CHARACTERS:]
        raise UsageError(f"{name} cannot be installed: {said}")
    _readable(place)


def _readable(place: Path) -> None:
    """Let the user inside read what this one installed, whatever the umask was."""
    for root, _, files in os.walk(place):
        os.chmod(root, 0o755)  # noqa: PTH101
        for file in files:
            path = Path(root, file)
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))
