"""What rows say of their repositories, checked before a path or a command is made of it."""

from __future__ import annotations

import re

from chimera.eval.data.rows import Row

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_PART = r"(?!\.{1,2}(?:/|$))[A-Za-z0-9_.][A-Za-z0-9_.-]*"
_PLAIN = re.compile(rf"{_PART}(?:/{_PART})?")
_REPOSITORY = re.compile(rf"{_PART}/{_PART}")


def is_commit(text: str) -> bool:
    """Whether a text is the whole id of a commit, and no branch, option or abbreviation."""
    return _COMMIT.fullmatch(text) is not None


def is_plain(name: str) -> bool:
    """Whether a text is NAME or OWNER/NAME and no other path."""
    return _PLAIN.fullmatch(name) is not None


def repository_of_row(row: Row) -> str:
    """`repo` of a row: OWNER/NAME."""
    name = str(row["repo"])
    if not _REPOSITORY.fullmatch(name):
        raise ValueError(f"{row.get('instance_id')}: repo {name!r} is not OWNER/NAME")
    return name


def commit_of_row(row: Row) -> str:
    """`base_commit` of a row: a whole id."""
    commit = str(row["base_commit"])
    if not is_commit(commit):
        raise ValueError(
            f"{row.get('instance_id')}: base_commit {commit!r} is not the id of a commit "
            "(40 or 64 hexadecimal digits)"
        )
    return commit


def id_of_row(row: Row) -> str:
    """`instance_id` of a row, where folders are named by it."""
    name = str(row["instance_id"])
    if "/" in name or not is_plain(name):
        raise ValueError(f"instance_id {name!r} cannot name a folder")
    return name
