"""Programs of coding agents, installed once from the registries into directories that any
environment shows read-only."""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from chimera.cache import digest, made, made_once
from chimera.errors import UsageError
from chimera.programs import find_python, python_with_pip

KIND = "agents"  # below the cache's directory
INSIDE = "/opt/chimera"
INSTALL_SECONDS = 1200
SHOWN_CHARACTERS = 1500
NODE_VERSION = "22.23.3"
ARCHITECTURES = {"x86_64": "x64", "aarch64": "arm64"}
HERE = sys.version_info[:2]


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

    def lacks(self) -> str | None:
        """What this machine must have to install it and does not; None: nothing."""
        return None

    def runtimes(self) -> Sequence[Recipe]:
        """Layers that it runs on."""
        return ()

    @property
    def entry(self) -> str:
        return f"{self.name}-{digest(type(self).__name__, list(self.packages), platform.machine())}"

    def installed(self) -> Path | None:
        return made(KIND, self.entry)

    def layer(self) -> Layer:
        """The installed layer, made now if it is not there."""
        lacking = None if self.installed() else self.lacks()
        if lacking is not None:
            raise UsageError(f"{self.name} {self.version} needs {lacking}")
        return Layer(made_once(KIND, self.entry, self._make), f"{INSIDE}/{self.name}")


@dataclass(frozen=True, slots=True)
class Npm(Recipe):
    """Packages of npm, without the scripts that they would run."""

    package: str
    on_node: bool = False  # it brings no runtime of its own

    @property
    def packages(self) -> Sequence[str]:
        return (f"{self.package}@{self.version}",)

    def runtimes(self) -> Sequence[Recipe]:
        return (NODE,) if self.on_node else ()

    def lacks(self) -> str | None:
        return None if shutil.which("npm") else "npm: apt install npm"

    def _make(self, place: Path) -> None:
        words = ["npm", "install", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund"]
        _install(self.name, [*words, f"--prefix={place}", *self.packages], place)


@dataclass(frozen=True, slots=True)
class NodeRuntime(Npm):
    """Node itself, as the registry of npm has it."""

    @property
    def packages(self) -> Sequence[str]:
        return (f"{self.package}-{architecture()}@{self.version}",)


@dataclass(frozen=True, slots=True)
class Interpreter(Recipe):
    """A Python of this machine with all libraries it needs, so that it runs in any image of Linux;
    the one that runs this, where its version is asked for."""

    @property
    def packages(self) -> Sequence[str]:
        facts = _facts(self.executable or "")
        return (facts.get("version", ""), facts.get("prefix", ""), "with compiled modules")

    @property
    def executable(self) -> str | None:
        """Where it is on this machine, if it is."""
        if self.version == "{}.{}".format(*HERE):
            return sys.executable
        found = find_python(self.version)
        return None if found is None else str(found)

    def lacks(self) -> str | None:
        if self.executable is not None:
            return None
        return (
            f"Python {self.version}, which is not on this machine: install it so that "
            f"`python{self.version}` runs (pyenv install {self.version}, uv python install "
            f"{self.version}, or your system's package)"
        )

    def _make(self, place: Path) -> None:
        facts = _facts(self.executable or "")
        library = f"python{self.version}"
        for directory in ("bin", "lib"):
            (place / directory).mkdir()
        shutil.copy2(Path(facts["binary"]).resolve(), place / "bin" / "python3")
        skipped = shutil.ignore_patterns(
            "site-packages", "dist-packages", "test", "tests", "idlelib", "config-*"
        )
        shutil.copytree(facts["library"], place / "lib" / library, ignore=skipped, symlinks=True)
        (place / "lib" / library / "site-packages").mkdir(exist_ok=True)
        needed = [place / "bin" / "python3", *(place / "lib" / library).rglob("*.so")]
        (place / "libraries").mkdir()
        for name, source in _libraries(needed).items():
            shutil.copy2(source, place / "libraries" / name)


@dataclass(frozen=True, slots=True)
class Pip(Recipe):
    """Packages of PyPI, for the Python that runs this where they are for it; otherwise for the
    nearest that they are for. They come as wheels: building one from source runs its scripts, so
    this is done for those that are named in `from_source` alone."""

    package: str
    also: tuple[str, ...] = ()
    oldest_python: tuple[int, int] = (3, 0)
    newest_python: tuple[int, int] = (3, 99)
    from_source: tuple[str, ...] = ()

    @property
    def python(self) -> Interpreter:
        version = "{}.{}".format(*min(max(HERE, self.oldest_python), self.newest_python))
        return PYTHON if version == PYTHON.version else Interpreter(f"python{version}", version)

    @property
    def packages(self) -> Sequence[str]:
        return (f"{self.package}=={self.version}", *self.also, f"python{self.python.version}")

    def lacks(self) -> str | None:
        without = None if python_with_pip() else "pip, which no Python here has: install it"
        return self.python.lacks() or without

    def runtimes(self) -> Sequence[Recipe]:
        return (self.python,)

    def command(self, places: Mapping[str, str], home: str, module: str) -> list[str]:
        """A module of these packages, run by their interpreter; `places` are of the layers, and
        `home` is where `launcher` was put."""
        python = python_command(places[self.python.name])
        words = (places[self.name], f"{home}/{LAUNCHER}", module)
        return [*python, "-I", "-c", RUN_MODULE, *words]

    def launcher(self, places: Mapping[str, str]) -> str:
        """What the module takes for its interpreter, to run others of the packages by."""
        python = shlex.join(python_command(places[self.python.name]))
        packages = shlex.quote(places[self.name])
        return f'#!/bin/sh\nPYTHONPATH={packages} exec {python} -s "$@"\n'

    def _make(self, place: Path) -> None:
        words = [
            python_with_pip() or sys.executable,
            "-I",
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--quiet",
        ]
        words += ["--python", self.python.executable or "", "install", f"--target={place}"]
        words += ["--only-binary=:all:", *(f"--no-binary={each}" for each in self.from_source)]
        _install(self.name, [*words, *self.packages[:-1]], place)


PYTHON = Interpreter("python", "{}.{}".format(*HERE))
NODE = NodeRuntime("node", NODE_VERSION, "node-linux")
LAUNCHER = "python3"
#: Runs a module of the packages at argv[1], and shows neither them nor itself to its children.
RUN_MODULE = """\
import runpy, site, sys
packages, sys.executable, module = sys.argv[1:4]
site.addsitedir(packages)
del sys.argv[1:4]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def python_command(place: str) -> list[str]:
    """The interpreter of the layer at `place`, which leans on nothing of the image it runs in."""
    libraries = f"{place}/libraries"
    return [f"{libraries}/{LOADERS[architecture()]}", "--library-path", libraries,
            f"{place}/bin/python3"]  # fmt: skip


def node_command(place: str) -> list[str]:
    return [f"{place}/node_modules/node-linux-{architecture()}/bin/node"]


LOADERS = {"x64": "ld-linux-x86-64.so.2", "arm64": "ld-linux-aarch64.so.1"}


#: What a layer needs to know of an interpreter.
FACTS = """\
import json, sys, sysconfig
binary = getattr(sys, "_base_executable", "") or sys.executable
library = sysconfig.get_path("stdlib", vars={"base": sys.base_prefix})
facts = {"version": sys.version, "prefix": sys.base_prefix, "binary": binary, "library": library}
print(json.dumps(facts))
"""


@cache
def _facts(executable: str) -> dict[str, str]:
    """Empty of one that is not there."""
    if not executable:
        return {}
    words = [executable, "-I", "-c", FACTS]
    try:
        said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"{executable} cannot be used: {error}") from None
    facts: dict[str, str] = json.loads(said)
    return facts


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
