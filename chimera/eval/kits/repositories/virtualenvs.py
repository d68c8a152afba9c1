"""Virtual environments with pinned packages, made once and shared by every trial that fits."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from chimera.cache import digest, made_once
from chimera.errors import EnvironmentFault, UsageError
from chimera.eval.kits.repositories.installing import installer, named_packages
from chimera.foreign_trees import write_inside
from chimera.programs import find_python, python_behind
from chimera.text import log_end
from chimera.types import JSON

#: Raised when the way environments are made changes, so that old ones are not used.
RECIPE = 1
#: Where a repository is inside every environment, as in the official images.
TESTBED = "/testbed"
#: In an environment: what could not be installed.
MISSING = "missing-pins.txt"


#: Releases after these refuse the old versions of the project that asks for them without a bound;
#: the official images hold them back in the same way.
BOUNDS: Mapping[str, str] = {
    "sphinxcontrib-applehelp": "<=1.0.7",
    "sphinxcontrib-devhelp": "<=1.0.5",
    "sphinxcontrib-htmlhelp": "<=2.0.4",
    "sphinxcontrib-qthelp": "<=1.0.6",
    "sphinxcontrib-serializinghtml": "<=1.1.9",
}


#: Names that conda's packages have, where the index has another one.
INDEX_NAMES: Mapping[str, str] = {
    "antlr-python-runtime": "antlr4-python3-runtime",
    "brotli-python": "brotli",
    "iris": "scitools-iris",
    "matplotlib-base": "matplotlib",
    "msgpack-python": "msgpack",
    "pyarrow-core": "pyarrow",
    "python-eccodes": "eccodes",
    "python-fastjsonschema": "fastjsonschema",
    "python-tzdata": "tzdata",
    "python-xxhash": "xxhash",
    "seaborn-base": "seaborn",
}


@dataclass(frozen=True, slots=True)
class VirtualEnvironment:
    """A directory that runs at its own path, and what it needs beside it."""

    path: Path
    base_prefix: Path  # of the interpreter it was made from
    missing: tuple[str, ...]  # what could not be installed, or names no package of an index
    version: str = ""  # of the interpreter: nobody asks the one here, which strangers' files start

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    def mounts(self) -> dict[str, str]:
        """What an environment must mount, read-only, to use this one."""
        return {str(place): str(place) for place in (self.path, *prefixes(self.base_prefix))}

    def variables(self) -> dict[str, str]:
        return {
            "PATH": f"{self.path / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "VIRTUAL_ENV": str(self.path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LANG": "C.UTF-8",
        }


def virtual_environment(
    version: str,
    pins: Sequence[str],
    *,
    requirements: Sequence[str] = (),
    interpreters: Mapping[str, str] | None = None,
) -> VirtualEnvironment:
    """An environment of this Python version with these packages.

    The repository itself is found at TESTBED (and its `src`, `lib`) through a path file, which is
    what an editable install amounts to; `requirements` are the repository's own, installed where
    no pin names them. A pin that no longer installs is left out and reported;
    whether the rest suffices is for a gold run to show.
    """
    interpreter = find_interpreter(version, interpreters or {})
    pins, no_pins = named_packages(pins)
    requirements, no_requirements = named_packages(requirements)
    ordered = tuple(sorted(_indexed(pin) for pin in pins if not _is_tool(pin)))
    tools = tuple(sorted(pin for pin in pins if _is_tool(pin)))
    named = {package_name(pin) for pin in pins}
    others = tuple(
        sorted(
            _bounded(r)
            for r in requirements
            if package_name(r) not in named and _applies(r, version)
        )
    )
    parts: list[JSON] = [RECIPE, str(interpreter), _describe(interpreter), ordered, tools]
    identity = digest(*parts, *([others] if others else []))
    place = made_once(
        "virtualenvs", identity, lambda path: _make(path, interpreter, ordered, tools, others)
    )
    missing = (place / MISSING).read_text().splitlines()
    described = _describe(interpreter).split()[0]
    lacking = (*missing, *no_pins, *no_requirements)
    return VirtualEnvironment(place, _prefix(interpreter), lacking, described)


def prefixes(base: Path) -> tuple[Path, ...]:
    """What must be mounted for an interpreter of this prefix: environments have /usr and the one
    that Chimera runs on by themselves."""
    shown = (Path("/usr"), Path(sys.base_prefix))
    return () if any(base.is_relative_to(place) for place in shown) else (base,)


def _prefix(interpreter: Path) -> Path:
    return Path(_ask(interpreter, "import sys; print(sys.base_prefix)"))


def find_interpreter(version: str, named: Mapping[str, str]) -> Path:
    """An interpreter of `major.minor` of this machine, or whichever was named for it."""
    wanted = minor(version)
    if wanted in named:
        if told := python_behind(Path(named[wanted]).expanduser()):
            return told[1]
        raise UsageError(f"--option interpreters={wanted}={named[wanted]}: no Python starts there")
    found = find_python(wanted)
    if found is not None:
        return found
    raise UsageError(
        f"no CPython {wanted} on this machine\n"
        f"  Install it (pyenv install {wanted}), or name one: --option interpreters={wanted}=PATH"
    )


def minor(version: str) -> str:
    """`major.minor` of a version."""
    return ".".join(version.split()[0].split(".")[:2])


def _make(
    path: Path,
    interpreter: Path,
    pins: Sequence[str],
    tools: Sequence[str],
    requirements: Sequence[str],
) -> None:
    python = str(path / "bin" / "python")
    missing: list[str] = []
    with installer(path, prefixes(_prefix(interpreter))) as work:

        def install(*arguments: str, timeout: float = 900) -> str:
            return work.install(python, arguments, timeout=timeout)

        failure = work.run([str(interpreter), "-I", "-m", "venv", str(path)], timeout=300)
        if failure:
            raise EnvironmentFault(f"{interpreter} -m venv {path}: {failure}")
        if tools:
            install(*tools, timeout=600)
        if pins and install("--no-deps", *pins, timeout=1800):
            failures = {pin: said for pin in pins if (said := install("--no-deps", pin))}
            missing = list(failures)
            if len(missing) == len(pins) > 1:  # no package's fault
                raise EnvironmentFault(f"none of {len(pins)} packages: {failures[pins[-1]]}")
        if requirements:
            bounds = ("-c", str(path / "constraints.txt"))
            listed = "\n".join(pin for pin in pins if pin not in missing)
            write_inside(path, "constraints.txt", listed)
            if install(*bounds, *requirements):
                missing += [
                    package_name(requirement)
                    for requirement in requirements
                    if install(*bounds, requirement)
                ]
    lines = [TESTBED, f"{TESTBED}/src", f"{TESTBED}/lib", f"{TESTBED}/.chimera-metadata"]
    site = f"lib/python{minor(_describe(interpreter))}/site-packages"
    write_inside(path, f"{site}/testbed.pth", "\n".join(lines) + "\n")
    if not os.path.lexists(path / "bin" / "pytest"):  # the repository may be pytest itself
        runner = f"#!{python}\nimport sys\nfrom pytest import main\nsys.exit(main())\n"
        write_inside(path, "bin/pytest", runner, mode=0o755)
    write_inside(path, MISSING, "\n".join(missing))


def package_name(requirement: str) -> str:
    return re.split(r"[=<>!~;( \[]", requirement)[0].lower().replace("_", "-")


_COMPARISON = re.compile(
    r"(python_version|sys_platform|os_name) *(==|!=|<=|>=|<|>) *['\"]([^'\"]+)"
)


def _applies(requirement: str, version: str) -> bool:
    """Whether a requirement's marker holds here; what is not understood is left to pip."""
    marker = requirement.partition(";")[2]
    if " or " in marker:
        return True
    here = {"sys_platform": "linux", "os_name": "posix"}
    for variable, sign, value in _COMPARISON.findall(marker):
        if variable == "python_version":
            left, right = _numbers(version)[:2], _numbers(value)[:2]
            holds = {"==": left == right, "!=": left != right, "<": left < right,
                     "<=": left <= right, ">": left > right, ">=": left >= right}[sign]  # fmt: skip
        elif sign in ("==", "!="):
            holds = (here[variable] == value) is (sign == "==")
        else:
            continue
        if not holds:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _bounded(requirement: str) -> str:
    name = package_name(requirement)
    return requirement if name not in BOUNDS or "<" in requirement else f"{name}{BOUNDS[name]}"


def _indexed(pin: str) -> str:
    name, separator, version = pin.partition("==")
    return f"{INDEX_NAMES.get(name, name)}{separator}{version}"


def _is_tool(pin: str) -> bool:
    return package_name(pin) in ("pip", "setuptools", "wheel")


def _describe(interpreter: Path) -> str:
    return _ask(interpreter, "import sys; print(sys.version)")


@cache
def _ask(python: Path, code: str) -> str:
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise EnvironmentFault(f"{python}: {log_end(done.stderr)}")
    return done.stdout.strip()
