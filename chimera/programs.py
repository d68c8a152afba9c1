"""Programs of this machine: one that is there and does not run is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

#: How programs are asked for a sign of life, where it is not `--version`.
_QUESTIONS = {"go": "version", "java": "-version", "tmux": "-V"}
#: What a program that deals with strangers' code is told of this machine: no keys.
_PASSED = (
    "PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    *(f"{kind}_proxy" for kind in ("http", "https", "all", "no")),
    *(f"{kind}_PROXY" for kind in ("HTTP", "HTTPS", "ALL", "NO")),
)  # fmt: skip
#: A browser's first start reads hundreds of megabytes, which takes a busy disk a minute.
PATIENCE_SECONDS = 180.0


def usable(program: str) -> str | None:
    """The path of a program that answers when it is asked for its version, or None.

    A proxy that a version manager left on the PATH and that has no toolchain to start is none.
    """
    return None if why_unusable(program) else shutil.which(program)


@cache
def why_unusable(program: str) -> str:
    """Why a program is of no use here; empty when it answers."""
    path = shutil.which(program)
    if path is None:
        return "is not installed"
    question = _QUESTIONS.get(program, "--version")
    try:
        done = subprocess.run(
            [path, question], capture_output=True, timeout=PATIENCE_SECONDS, check=False
        )
    except OSError as error:
        return f"does not start: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"does not answer to {question} in {PATIENCE_SECONDS:.0f} s"
    if done.returncode == 0:
        return ""
    said = (done.stderr or done.stdout).decode(errors="replace").strip()
    return f"exits with code {done.returncode} when asked {question}: {said[-300:]}"


def clean_variables(*further: str) -> dict[str, str]:
    """Of this process's variables those that say where things are and how the network is reached,
    and `further` ones: an environment for programs that meet what strangers wrote."""
    return {name: os.environ[name] for name in (*_PASSED, *further) if name in os.environ}


@cache
def python_with_pip() -> str | None:
    """A Python that has pip: this one, the one it was made from (uv makes environments without
    pip), or one that lies beside a pip on the PATH; None when there is none."""
    if _has_pip(sys.executable):
        return sys.executable
    here = "python{}.{}".format(*sys.version_info[:2])
    beside = [Path(found).parent for found in map(shutil.which, ("pip", "pip3")) if found]
    places = (Path(sys.base_prefix, "bin", here), *(folder / "python3" for folder in beside))
    return next((python for python in map(str, places) if _has_pip(python)), None)


def _has_pip(python: str) -> bool:
    asked = [python, "-I", "-m", "pip", "--version"]
    try:
        done = subprocess.run(
            asked, capture_output=True, timeout=PATIENCE_SECONDS, check=False, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


@cache
def find_python(version: str) -> Path | None:
    """A Python of this `major.minor` on the PATH, of pyenv or of uv; None when there is none."""
    for candidate in _interpreters(version):
        # pyenv leaves scripts on the PATH for versions that it does not start
        told, interpreter = python_behind(candidate) or ("", None)
        if told == version:
            return interpreter
    return None


def python_behind(program: Path) -> tuple[str, Path] | None:
    """`major.minor` and the file of the interpreter that a program starts; None if it is no Python.

    A script of pyenv's starts nothing in a sandbox, where the interpreter is and the script is not.
    """
    asked = "import sys; print('%d.%d %s' % (sys.version_info[:2] + (sys.executable,)))"
    words = [str(program), "-E", "-S", "-c", asked]
    try:
        done = subprocess.run(words, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version, _, executable = os.fsdecode(done.stdout).strip().partition(" ")
    return (version, Path(executable).resolve()) if executable else None


def _interpreters(version: str) -> Iterator[Path]:
    """Where it may be, the newest first."""
    if named := shutil.which(f"python{version}"):
        yield Path(named)
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    uv = Path("~/.local/share/uv/python").expanduser()
    found = [*pyenv.glob(f"{version}.*"), *uv.glob(f"cpython-{version}.*")]
    yield from (folder / "bin" / "python" for folder in sorted(found, reverse=True))
