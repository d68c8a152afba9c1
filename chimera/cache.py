"""What can be made again, kept between runs: entries are complete, or they are not there."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from chimera.activity import doing
from chimera.errors import EnvironmentFault
from chimera.types import JSON

ValueT = TypeVar("ValueT")


def cache_dir() -> Path:
    """Where things that can be made again are kept: model calls, expected outputs, builds."""
    configured = os.environ.get("CHIMERA_CACHE_DIR")
    if configured:
        return Path(configured)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "chimera"


def digest(*values: JSON) -> str:
    """A short name for values that JSON can write."""
    text = json.dumps(values, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def file_digest(path: Path) -> str:
    """SHA-256 of a file, or of a directory's relative names and contents."""
    total = hashlib.sha256()
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    for file in files:
        if path.is_dir():
            total.update(str(file.relative_to(path)).encode() + b"\0")
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                total.update(block)
    return total.hexdigest()


def made(kind: str, name: str) -> Path | None:
    """What `made_once` keeps under this name, if it was made already."""
    place = cache_dir() / kind / name
    return place if place.with_name(name + ".done").exists() else None


def made_once(kind: str, name: str, make: Callable[[Path], None]) -> Path:
    """The directory `kind`/`name` of the cache, made by `make(directory)` if it is not there.

    `make` works at the final path (virtual environments cannot be moved); a marker beside it is
    written last, so that a build that was interrupted is thrown away and made again.
    """
    place = cache_dir() / kind / name
    marker = place.with_name(name + ".done")
    if marker.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with doing(f"making {kind}, once"), _alone(place):
        if marker.exists():
            return place
        try:
            if place.exists():
                shutil.rmtree(place)
            place.mkdir()
        except OSError as error:  # a build that was killed may have left a child that still writes
            raise EnvironmentFault(
                f"{place} cannot be made anew: {error}", retryable=True
            ) from None
        try:
            make(place)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        marker.touch()
    return place


def stored_value(
    kind: str,
    name: str,
    make: Callable[[], ValueT],
    *,
    dump: Callable[[ValueT], bytes],
    load: Callable[[bytes], ValueT],
    keeps: Callable[[], bool] = lambda: True,
) -> ValueT:
    """The stored value, or what `make` returns, stored for the next time if `keeps` then says so.

    Whoever asks while it is being made waits for it. `load` raises ValueError for a damaged entry,
    which is made anew; a cache that cannot be written is only slow.
    """
    file = cache_dir() / kind / f"{name}.json"
    with contextlib.suppress(OSError, ValueError):
        return load(file.read_bytes())
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            held.enter_context(_alone(file))
        with contextlib.suppress(OSError, ValueError):
            return load(file.read_bytes())
        content = dump(make())
        if keeps():
            with contextlib.suppress(OSError):
                write_atomically(file, content)
    return load(content)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the lock beside a path; others on this machine wait, threads among them."""
    with path.with_name(path.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_atomically(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write a file so that a reader sees all of it or none; devices and pipes are written to."""
    parts = (content,) if isinstance(content, bytes) else content
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            file.writelines(parts)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("wb") as file:
            file.writelines(parts)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
