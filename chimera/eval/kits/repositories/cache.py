"""Things that are made once and used by many trials: complete, or not there."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from chimera.errors import EnvironmentFault
from chimera.eval.data.datasets import cache_dir
from chimera.types import JSON


def digest(*values: JSON) -> str:
    """A short name for a value that JSON can write."""
    text = json.dumps(values, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


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
    with place.with_name(name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
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


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees all of it or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
    Path(temporary).replace(path)
