"""Harbor's registry file: data sets by name and version, each a list of where its tasks lie."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath
from typing import Any

from chimera.cache import digest, made_once
from chimera.errors import DatasetError
from chimera.eval.kits.repositories.row_fields import is_commit
from chimera.eval.kits.repositories.source import GitRepository, clone_or_copy

HEAD = "head"


def registered(file: Path, name: str | None, repositories: Path | None) -> list[Path]:
    """The task folders of one data set of a registry file, in its order."""
    try:
        listed = json.loads(file.read_text("utf-8"))
        sets = {(str(each["name"]), str(each["version"])): each["tasks"] for each in listed}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DatasetError(f"{file}: no registry of Harbor's: {error!r}") from None
    return [_place(file, task, repositories) for task in sets[_chosen(file, list(sets), name)]]


def _chosen(file: Path, sets: list[tuple[str, str]], name: str | None) -> tuple[str, str]:
    """The named one; of several versions the head, or the highest."""
    wanted, _, version = (name or "").partition("@")
    fitting = [
        each for each in sets if (not wanted or each[0] == wanted) and version in ("", each[1])
    ]
    if not fitting or len({each[0] for each in fitting}) > 1:
        known = ", ".join(sorted(f"{each[0]}@{each[1]}" for each in sets))
        raise DatasetError(f"{file}: say which with --option name=NAME@VERSION; it has: {known}")
    return max(fitting, key=lambda each: (each[1] == HEAD, _numbers(each[1])))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def _place(file: Path, task: dict[str, Any], repositories: Path | None) -> Path:
    path = PurePosixPath(str(task["path"]))
    if path.is_absolute() or ".." in path.parts:
        raise DatasetError(f"{file}: the path {path} is outside of its repository")
    address = task.get("git_url")
    if address is None:
        return file.parent / path
    return _repository(file, str(address), task.get("git_commit_id"), repositories) / path


def _repository(file: Path, address: str, commit: str | None, repositories: Path | None) -> Path:
    """The files of a repository at a commit: from a clone, else from where the file says."""
    if not re.fullmatch(r"https://[\w.-]+(/[\w.-]+)+", address):
        raise DatasetError(f"{file}: {address!r} is no address of a repository")
    if not is_commit(commit or ""):
        raise DatasetError(f"{file}: a task of {address} names no commit")
    owner, name = address.removesuffix(".git").rsplit("/", 2)[1:]
    source = (
        GitRepository(address, str(commit))
        if repositories is None
        else clone_or_copy(str(repositories), (f"{owner}/{name}", name), str(commit))
    )
    return made_once("harbor-repositories", digest(source.identity()), source.write)
