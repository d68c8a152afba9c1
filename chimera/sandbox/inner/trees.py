"""Removes what strangers left: trees of any depth, whatever rights they took away."""

from __future__ import annotations

import os


def empty(directory: str) -> None:
    """Remove everything in a directory.

    What lies two levels down is moved one level up before anybody looks into it, so that no path
    grows and nothing recurses, however deep the tree is.
    """
    os.chmod(directory, 0o700)
    while entries := list(os.scandir(directory)):
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                raise_children(entry.path, directory)
                os.rmdir(entry.path)
            else:
                os.unlink(entry.path)


def raise_children(directory: str, target: str) -> None:
    os.chmod(directory, 0o700)
    for entry in os.scandir(directory):
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.path, 0o700)  # its owner needs that to move it
            os.rename(entry.path, os.path.join(target, os.urandom(16).hex()))
        else:
            os.unlink(entry.path)


def larger(directory: str, size: int, files: int) -> bool:
    """Whether a tree holds more than so many bytes or files, or cannot be looked at."""
    waiting, found = [directory], 0
    try:
        while waiting:
            for entry in entries(waiting.pop()):
                found += 1
                size -= blocks(entry)
                if found > files or size < 0:
                    return True
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    except OSError:
        return True
    return False


def entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(directory))
    except (FileNotFoundError, NotADirectoryError):  # removed meanwhile
        return []


def blocks(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks * 512
    except FileNotFoundError:
        return 0


def remove_tree(path: str | os.PathLike[str]) -> None:
    """Remove a directory, or the link in its place; nothing there is fine."""
    place = os.fspath(path)
    if os.path.islink(place):
        os.unlink(place)
    elif os.path.isdir(place):
        empty(place)
        os.rmdir(place)
