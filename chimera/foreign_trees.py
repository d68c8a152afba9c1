"""Files in trees that strangers wrote, read and written without following any of their links."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: What is read of a file at most.
READ_BYTES = 64 * 1024**2
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read_inside(root: Path, path: str) -> str | None:
    """A file's text, `path` being relative to `root`; None where no regular file is there, or one
    that only a link leads to."""
    try:
        with _parent(root, path, make=False) as (folder, name):
            descriptor = os.open(name, _READ, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
            return None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(READ_BYTES + 1)
    if len(content) > READ_BYTES:
        raise OSError(errno.EFBIG, f"is longer than {READ_BYTES} bytes", path)
    return content.decode("utf-8", "replace")


def write_inside(root: Path, path: str, content: str, *, mode: int = 0o644) -> None:
    """Write a file anew, whatever had its name; directories on the way are made.

    OSError where one of them is something else, such as a link.
    """
    with _parent(root, path, make=True) as (folder, name):
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        descriptor = os.open(name, _NEW, mode, dir_fd=folder)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, mode)
        file.write(content)


@contextmanager
def _parent(root: Path, path: str, *, make: bool) -> Iterator[tuple[int, str]]:
    """The directory that `path` lies in, opened part by part, and the name it has there."""
    *folders, name = path.split("/")
    if {"", ".", ".."} & {*folders, name}:
        raise OSError(errno.EINVAL, "is no path below a directory", path)
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=descriptor)
            below = os.open(folder, _DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = below
        yield descriptor, name
    finally:
        os.close(descriptor)
