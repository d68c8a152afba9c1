"""Clones of repositories that stand in for a code host: for Dockerfiles, solutions and tests."""

from __future__ import annotations

import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from chimera.errors import EnvironmentFault
from chimera.git import git_command, git_variables

if TYPE_CHECKING:
    from chimera.environments.base import Machine

#: The code host that Dockerfiles clone from.
CODE_HOST = "https://github.com/"
#: git's own settings, as variables; one counts them.
VARIABLES = ("GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0")
START_SECONDS = 10.0
#: Where a machine has clones while it needs them.
INSIDE = "/opt/clones"
_FROM = re.compile(r"^\s*FROM\s.*$", re.IGNORECASE | re.MULTILINE)
_ADDRESS = re.compile(re.escape(CODE_HOST) + r"([\w.-]+)/([\w.-]+)")

_CLONED = re.compile(
    r"^(?!\s*#).*?\bgit\s+clone\b[^\n;&|]*?" + _ADDRESS.pattern, re.IGNORECASE | re.MULTILINE
)


def cloned(dockerfile: str) -> set[str]:
    """OWNER/NAME of what a recipe clones from the code host."""
    return {f"{owner}/{name.removesuffix('.git')}" for owner, name in _CLONED.findall(dockerfile)}


def with_clones(dockerfile: str) -> str:
    """The recipe with git's variables known to every stage; none of them stays in the image."""
    known = "".join(f"\nARG {name}" for name in VARIABLES)
    return _FROM.sub(lambda line: line[0] + known, dockerfile)


@contextmanager
def served(clones: Path) -> Iterator[Mapping[str, str]]:
    """Serve OWNER/NAME below `clones` to this machine alone; what makes git ask there."""
    with tempfile.TemporaryDirectory() as empty, socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        reserved.close()
        command = git_command("-c", "uploadpack.allowAnySHA1InWant=true", "daemon")
        daemon = subprocess.Popen(
            [*command, "--reuseaddr", "--export-all", "--listen=127.0.0.1", f"--port={port}",
             f"--base-path={_by_every_name(clones.expanduser().resolve(), Path(empty))}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            cwd=empty, env={**git_variables(Path(empty)), "HOME": empty},
        )  # fmt: skip
        try:
            _answers(port, daemon)
            yield _instead(f"git://127.0.0.1:{port}/")
        finally:
            daemon.terminate()
            daemon.wait()


@contextmanager
def brought(env: Machine, clones: Path | None, script: str) -> Iterator[Mapping[str, str]]:
    """Have inside of `env` the clones that `script` names, if any; what makes git ask there.

    Nobody else can ask for them there, as other containers could if they were served.
    """
    if clones is None:
        yield {}
        return
    named = {(owner, name.removesuffix(".git")) for owner, name in _ADDRESS.findall(script)}
    places = ((clones / owner / name, f"{INSIDE}/{owner}/{name}.git") for owner, name in named)
    found = [(clone, inside) for place, inside in places if (clone := clone_at(place))]
    try:
        for clone, inside in found:
            env.copy_in(clone, inside)
        yield _instead(f"{INSIDE}/") if found else {}
    finally:
        env.run_command(["rm", "-rf", INSIDE])


def clone_at(place: Path) -> Path | None:
    """The clone of that name, with or without `.git`."""
    found = (place.with_name(place.name + ending) for ending in ("", ".git"))
    return next((clone.resolve() for clone in found if clone.is_dir()), None)


def _instead(place: str) -> dict[str, str]:
    """Variables by which git goes to `place` for what is at the code host."""
    return dict(zip(VARIABLES, ("1", f"url.{place}.insteadOf", CODE_HOST), strict=True))


def _by_every_name(clones: Path, place: Path) -> Path:
    """A directory with the clones as addresses name them: with and without `.git`."""
    for clone in clones.glob("*/*"):
        name = clone.name.removesuffix(".git")
        (place / "clones" / clone.parent.name).mkdir(parents=True, exist_ok=True)
        for ending in ("", ".git"):
            (place / "clones" / clone.parent.name / f"{name}{ending}").symlink_to(clone)
    return place / "clones"


def _answers(port: int, daemon: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and daemon.poll() is None:
        with socket.socket() as asked:
            if asked.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise EnvironmentFault("clones cannot be served: git daemon does not start", retryable=True)
