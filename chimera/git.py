"""git on this machine, started in one way: no program that settings or a repository name is run.

The directory of the repository is always named, so that git never looks for one in a tree that a
stranger wrote, nor above it. What a repository's own configuration says is obeyed all the same
(filters are programs): it must be the user's, or made here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from chimera.errors import EnvironmentFault
from chimera.programs import clean_variables, usable

#: Said on the command line, which a repository's configuration cannot take back.
SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "safe.directory=*",
    # tidying up in the background would move objects while a tree is being copied
    "gc.auto=0",
)
_IDENTITY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (
        ("NAME", "chimera"),
        ("EMAIL", "chimera@localhost"),
        ("DATE", "2000-01-01T00:00:00Z"),
    )
}
_OWN = {
    **_IDENTITY,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
}
NO_REPOSITORY = Path(os.devnull)


def git_command(*arguments: str) -> list[str]:
    """A command line of git up to and with `arguments`."""
    program = usable("git")
    if program is None:
        raise EnvironmentFault("git is not installed, or does not answer")
    return [program, *(word for text in SETTINGS for word in ("-c", text)), *arguments]


def git_variables(folder: Path) -> dict[str, str]:
    """The whole environment of a git that works in `folder`: no keys, nobody's configuration."""
    passed = clean_variables("GIT_SSL_CAINFO", "GIT_SSL_CAPATH")
    return {**passed, **_OWN, "GIT_CEILING_DIRECTORIES": str(folder.absolute().parent)}


def repository_of(clone: Path) -> Path:
    """The directory of a clone's repository: the clone itself where it is bare."""
    inner = clone / ".git"
    return inner if inner.exists() else clone


def run_git(
    folder: Path,
    *arguments: str,
    repository: Path,
    stdin: bytes = b"",
    timeout: float = 600.0,
    variables: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """What git did in `folder` with a repository, or with none (NO_REPOSITORY)."""
    return subprocess.run(
        git_command("-C", str(folder), *arguments),
        input=stdin,
        capture_output=True,
        timeout=timeout,
        env={
            **git_variables(folder),
            "GIT_DIR": str(repository.absolute()),
            **(variables or {}),
        },
        check=False,
    )


def remove_repositories(tree: Path) -> None:
    """Remove every `.git` below a directory, also those of submodules; no link is followed."""
    for folder, directories, files in os.walk(tree):
        for name in [each for each in (*directories, *files) if each.lower() == ".git"]:
            place = Path(folder, name)
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
                directories.remove(name)
            else:
                place.unlink()
