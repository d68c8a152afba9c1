"""Packages that strangers name, installed where their build scripts reach nothing of this machine.

What is installed may run code while it is: `setup.py`, build back ends, path files of packages that
came before. In bubblewrap it sees the folder that it fills and the network, on any other machine it
has at least none of the user's variables.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Self

from chimera.environments.base import EnvironmentSpec, ResourceLimits
from chimera.environments.bubblewrap import BubblewrapEnvironment, search_path
from chimera.errors import EnvironmentFault
from chimera.eval.kits.repositories.step_limits import seconds_for_step
from chimera.programs import clean_variables, python_with_pip
from chimera.text import log_end

LIMITS = ResourceLimits(memory_bytes=8 * 1024**3, processes=1024, file_bytes=8 * 1024**3)
#: Of pip's settings those that say where packages come from.
_PIP = (
    "INDEX_URL", "EXTRA_INDEX_URL", "FIND_LINKS", "NO_INDEX", "CERT", "TRUSTED_HOST", "PROXY",
    "DEFAULT_TIMEOUT", "RETRIES",
)  # fmt: skip
_UV = (
    "UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS",
    "UV_INDEX_STRATEGY", "UV_INSECURE_HOST", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS",
    "UV_HTTP_TIMEOUT", "UV_CONFIG_FILE",
)  # fmt: skip
#: What configures pip configures uv too.
_SHARED = {
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_CERT": "SSL_CERT_FILE",
}
#: Settings that name files and directories, which must be shown where they are.
_PLACES = (
    "PIP_CERT", "PIP_FIND_LINKS", "UV_FIND_LINKS", "UV_CONFIG_FILE", "SSL_CERT_FILE",
    "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
)  # fmt: skip
_SEEN_ANYWAY = ("/usr", "/etc/ssl/certs", sys.base_prefix)
UV_INSIDE = "/run/chimera/uv"


def named_packages(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Of what a stranger asks for: packages of an index, by name; and all else, which is refused.

    Addresses and paths (`name @ …`) and options of the installer are no names.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    kept: list[str] = []
    refused: list[str] = []
    for text in texts:
        try:
            named = Requirement(text).url is None
        except InvalidRequirement:
            named = False
        (kept if named else refused).append(text)
    return kept, refused


def uv_program() -> str | None:
    """uv itself, the first on the PATH: a version manager's script starts what is elsewhere."""
    for folder in os.get_exec_path():
        found = shutil.which("uv", path=folder)
        if found is not None and not _is_script(found):
            return found
    return None


def _is_script(program: str) -> bool:
    with Path(program).open("rb") as stream:
        return stream.read(2) == b"#!"


class Installer:
    """Fills one folder on this machine itself, without its keys."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scratch = folder / ".scratch"
        self.uv = uv_program()

    def __enter__(self) -> Self:
        self.scratch.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)

    def variables(self) -> dict[str, str]:
        return {
            **clean_variables(),
            **_settings(),
            "UV_CACHE_DIR": str(self.scratch / "uv"),
            "PIP_CACHE_DIR": str(self.scratch / "pip"),
            "TMPDIR": str(self.scratch),
            "UV_PYTHON_DOWNLOADS": "never",
        }

    def run(self, command: Sequence[str], *, timeout: float) -> str:
        """Why a command failed; "" if it did not."""
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=seconds_for_step(timeout),
            env=self.variables(),
            cwd=self.scratch,
            check=False,
        )
        return _failure(done.returncode, done.stderr.decode("utf-8", "replace"))

    def install(self, python: str, arguments: Sequence[str], *, timeout: float) -> str:
        """Install packages for an interpreter; why they could not be, "" if they were.

        uv does what pip does in a tenth of the time.
        """
        if self.uv:
            command = [self.uv, "pip", "install", "--compile-bytecode", "--python", python]
        else:
            command = [python, "-I", "-m", "pip", "install", "--disable-pip-version-check"]
            command += ["--no-input"]
        return self.run([*command, "--quiet", *arguments], timeout=timeout)


class ConfinedInstaller(Installer):
    """Fills one folder in namespaces where nothing else can be written."""

    def __init__(self, folder: Path, shown: Iterable[Path] = ()) -> None:
        super().__init__(folder)
        places = [*shown, *_named_places({**clean_variables(), **_settings()})]
        mounts = {
            str(place): str(place)
            for place in places
            if not any(place.is_relative_to(seen) for seen in _SEEN_ANYWAY)
        }
        if self.uv:
            mounts[str(Path(self.uv).resolve())] = UV_INSIDE
            self.uv = UV_INSIDE
        self.spec = EnvironmentSpec(mounts=mounts, network=True, limits=LIMITS)

    def __enter__(self) -> Self:
        self.env = BubblewrapEnvironment(self.spec, writable=(str(self.folder),))
        made = self.env.run_command(["mkdir", str(self.scratch)])
        if not made.success:
            self.env.close()
            raise EnvironmentFault(f"{self.folder} is not writable in bubblewrap: {made.output}")
        return self

    def __exit__(self, *_: object) -> None:
        self.env.close()
        _take_back(self.folder)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def variables(self) -> dict[str, str]:
        own = {name: self.env.variables[name] for name in ("HOME", "LANG")}
        return {**super().variables(), **own, "PATH": search_path()}

    def run(self, command: Sequence[str], *, timeout: float) -> str:
        seconds = seconds_for_step(timeout)
        done = self.env.run_command(command, timeout=seconds, variables=self.variables())
        if done.timed_out:
            raise subprocess.TimeoutExpired(list(command), seconds)
        return _failure(done.exit_code, done.stderr.decode("utf-8", "replace"))


def installer(folder: Path, shown: Iterable[Path] = ()) -> Installer:
    """What fills a folder: in bubblewrap, with `shown` beside it, where that is to be had."""
    if BubblewrapEnvironment.availability() is None:
        return ConfinedInstaller(folder, shown)
    return Installer(folder)


def _failure(code: int | None, said: str) -> str:
    return "" if code == 0 else log_end(said) or f"exit code {code}"


def _take_back(folder: Path) -> None:
    """Make everything in a folder this user's own again, and nothing in it run as somebody else."""
    for place in (folder, *_below(folder)):
        found = place.lstat()
        if not place.is_symlink():
            place.chmod(found.st_mode & 0o755 | (0o700 if place.is_dir() else 0o600))
        if found.st_uid != os.geteuid():
            os.chown(place, os.geteuid(), os.getegid(), follow_symlinks=False)


def _below(folder: Path) -> Iterable[Path]:
    for entry in list(folder.iterdir()):
        yield entry
        if entry.is_dir() and not entry.is_symlink():
            yield from _below(entry)


def _settings() -> Mapping[str, str]:
    """Where packages come from, as pip's files and variables and uv's say it."""
    found = {f"PIP_{name}": value for name, value in _files_of_pip().items() if name in _PIP}
    found |= clean_variables(*(f"PIP_{name}" for name in _PIP), *_UV)
    found = {name: found[name] for name in found if name.startswith(("PIP_", "UV_", "SSL_"))}
    shared = {uv: found[pip] for pip, uv in _SHARED.items() if pip in found}
    if "UV_FIND_LINKS" in shared:  # words for pip, a list with commas for uv
        shared["UV_FIND_LINKS"] = ",".join(shared["UV_FIND_LINKS"].split())
    for file in (Path("~/.config/uv/uv.toml").expanduser(), Path("/etc/uv/uv.toml")):
        if file.is_file():
            found.setdefault("UV_CONFIG_FILE", str(file))
    return {**shared, **found}


@cache
def _files_of_pip() -> dict[str, str]:
    """Setting → value, of pip's configuration files."""
    python = python_with_pip()
    if python is None:
        return {}
    said = subprocess.run(
        [python, "-I", "-m", "pip", "config", "list"],
        capture_output=True, text=True, check=False, cwd="/",
    )  # fmt: skip
    listed = re.findall(r"(?m)^(?:global|install)\.([\w-]+)='(.*)'$", said.stdout)
    return {name.upper().replace("-", "_"): value for name, value in listed}


def _named_places(settings: Mapping[str, str]) -> list[Path]:
    named = [word for name in _PLACES for word in re.split(r"[\s,]+", settings.get(name, ""))]
    return [Path(word) for word in named if word.startswith("/") and Path(word).exists()]
