"""What an environment is made of, as far as it could change what checks say.

Identities are compared, never shown to the checks: when a program, a package or an image is
replaced or removed, the identity is another one, and what was learnt of the old one is not used.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from chimera.cache import digest
from chimera.types import JSON

#: Where this machine's programs and their packages lie, and how deep it is looked.
TOOLS: tuple[tuple[str, int], ...] = (
    ("/usr/local/bin", 1), ("/usr/bin", 1), ("/bin", 1), ("/usr/local/lib/node_modules", 2),
    ("/usr/lib/node_modules", 2), ("/usr/lib/jvm", 3), ("/usr/local/go", 2),
    ("/usr/lib/python3*", 3), ("/usr/local/lib/python3*", 3),
)  # fmt: skip
_reading = threading.Lock()
#: Changed by every installation, where there is one.
PACKAGE_LISTS = ("/var/lib/dpkg/status", "/lib/apk/db/installed", "/var/lib/rpm/rpmdb.sqlite")


def fingerprint(*places: Path, depth: int = 64) -> str:
    """A digest of the names, modes, sizes and times of all files, but for compiled Python."""
    total = hashlib.sha256()
    for place in places:
        for line in _entries(str(place), "", depth):
            total.update(line.encode("utf-8", "surrogateescape"))
    return total.hexdigest()[:24]


def _entries(directory: str, inside: str, depth: int) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        yield f"{inside}\0{type(error).__name__}\n"
        return
    for entry in entries:
        if entry.name == "__pycache__":
            continue
        name = f"{inside}/{entry.name}"
        try:
            found = entry.stat()
        except OSError:
            yield f"{name}\0broken\n"
            continue
        if entry.is_dir(follow_symlinks=False):
            yield f"{name}\0{found.st_mode}\n"
            if depth > 1:
                yield from _entries(entry.path, name, depth - 1)
        else:
            yield f"{name}\0{found.st_mode}\0{found.st_size}\0{found.st_mtime_ns}\n"


def programs(*further: str) -> JSON:
    """This machine's own programs, in the directories where environments find them."""
    own = f"{sys.base_prefix}/bin"
    places = [*TOOLS, (own, 1), *((directory, 1) for directory in further)]
    lists = [_times(Path(path)) for path in PACKAGE_LISTS]
    found = [fingerprint(*_matching(pattern), depth=deep) for pattern, deep in places]
    return digest(platform.machine(), lists, found)


def _matching(pattern: str) -> list[Path]:
    return sorted(Path("/").glob(pattern.lstrip("/"))) if "*" in pattern else [Path(pattern)]


def interpreter(path: Path) -> JSON:
    """A Python and its library, by what lies on the disk."""
    found = shutil.which(path)
    if found is None:
        return "none"
    program = Path(found).resolve()
    library = [*sorted((program.parent.parent / "lib").glob("python3*"))]
    return digest(_times(program), [fingerprint(each, depth=2) for each in library])


def this_process() -> JSON:
    """The interpreter that Chimera runs on, and the packages it has."""
    with _reading:  # once, and not by every thread that asks first
        return _this_process()


@cache
def _this_process() -> JSON:
    packages = [Path(place) for place in sys.path if place.endswith("-packages")]
    found = fingerprint(Path(sysconfig.get_path("stdlib")), *packages, depth=2)
    return digest(sys.version, platform.platform(), found)


def own_code() -> JSON:
    """Chimera itself: a working copy changes without its version."""
    with _reading:
        return _own_code()


@cache
def _own_code() -> JSON:
    return fingerprint(Path(__file__).parents[1])


def mounted(places: Iterable[str]) -> JSON:
    """Files and directories, such as are shown inside an environment, by what lies on the disk."""
    return {
        place: fingerprint(Path(place)) if Path(place).is_dir() else _times(Path(place))
        for place in sorted(places)
    }


def _times(path: Path) -> JSON:
    try:
        found = path.stat()
    except OSError:
        return None
    return [found.st_mode, found.st_size, found.st_mtime_ns]
