"""One process at a time runs a run: a file beside it, locked by the kernel, says which."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chimera.errors import StoreError, UsageError
from chimera.text import one_line

SUFFIX = "-lock"


@contextmanager
def held(run: Path | str) -> Iterator[None]:
    """Keep a run's file for this process; a `UsageError` says who has it already."""
    if str(run) == ":memory:":
        yield
        return
    file = Path(f"{run}{SUFFIX}")
    try:
        descriptor = _taken(file)
    except BlockingIOError:
        raise UsageError(f"{run} is being run {_holder(file)}: wait for it, or end it") from None
    except OSError as error:
        raise StoreError(f"{file} cannot be written: {error.strerror}") from None
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(descriptor)


def holder(run: Path | str) -> str | None:
    """Which process runs a run now: "by process … since …"; None if no one does."""
    file = Path(f"{run}{SUFFIX}")
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return one_line(_holder(file))
    finally:
        os.close(descriptor)
    return None


def _taken(file: Path) -> int:
    """The locked file, which nobody removed between opening and locking it."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if file.exists() and os.path.samestat(os.fstat(descriptor), file.stat()):
                now = time.strftime("%Y-%m-%d %H:%M:%S")
                who = f"by process {os.getpid()} on {socket.gethostname()} since {now}"
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, who.encode(), 0)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _holder(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")[:200] or "by another process"
    except OSError:
        return "by another process"
