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


def remove_tree(path: str | os.PathLike[str]) -> None:
    """Remove a directory, or the link in its place; nothing there is fine."""
    place = os.fspath(path)
    if os.path.islink(place):
        os.unlink(place)
    elif os.path.isdir(place):
        empty(place)
        os.rmdir(place)
