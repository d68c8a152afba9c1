"""What was changed in a container, and how files go from one container to another.

All of it is done by the engine from outside: nothing in a container has a say in it.
"""

from __future__ import annotations

import copy
import hashlib
import subprocess
import tarfile
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import IO

from chimera.environments.engine import Engine, client_variables
from chimera.errors import EnvironmentFault

#: More than this is not carried.
MOST_BYTES = 8 * 1024**3
#: Paths that one command removes.
BATCH = 500

#: Makes room for directories: links and files go.
MAKE_ROOM = 'for path; do [ -d "$path" ] && [ ! -L "$path" ] || rm -rf -- "$path"; done'
#: What an engine itself puts into a container.
ENGINES_OWN = frozenset({"/.dockerenv", "/run/.containerenv", "/usr/sbin/docker-init"})


class NotCarried(Exception):
    """Files that do not fit into a container: too many, or of another kind than what is there."""


def changes(container: str) -> dict[str, str]:
    """Path → A (added), C (changed) or D (deleted), compared with the image."""
    listed = Engine.find().must("diff", container, timeout=600)
    lines = listed.decode("utf-8", "surrogateescape").split("\n")
    found = {path: kind for kind, _, path in (line.partition(" ") for line in lines) if path}
    above = {parent for path in ENGINES_OWN for parent in ancestors(path)}
    others = set(found) - ENGINES_OWN - above
    led_to = {parent for path in others for parent in ancestors(path)}
    return {path: kind for path, kind in found.items() if path in others | (above & led_to)}


def ancestors(path: str) -> Iterator[str]:
    """The directories above a path, nearest first, without the root."""
    return (str(parent) for parent in PurePosixPath(path).parents if parent.name)


@contextmanager
def exported(container: str) -> Iterator[tarfile.TarFile]:
    """All files of a container, as a stream."""
    with subprocess.Popen(
        Engine.find().command("export", container),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=client_variables(),
    ) as process:
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|", bufsize=1 << 20) as archive:
                yield archive
        except tarfile.ReadError as error:
            raise EnvironmentFault(
                f"the files of a container cannot be read: {error}", retryable=True
            ) from None
        finally:
            process.kill()


def compared(before: Mapping[str, str], container: str) -> dict[str, str]:
    """As `changes` with what was there, by contents: times and sizes can be made to agree."""
    now = fingerprints(container)
    deleted = dict.fromkeys(before.keys() - now.keys() - ENGINES_OWN, "D")
    added = dict.fromkeys(now.keys() - before.keys() - ENGINES_OWN, "A")
    both = before.keys() & now.keys()
    return {**deleted, **added, **{path: "C" for path in both if before[path] != now[path]}}


def fingerprints(container: str, paths: Collection[str] | None = None) -> dict[str, str]:
    """Path → what is there (these paths or all): kind, mode, link's target, digest of content."""
    found: dict[str, str] = {}
    with exported(container) as archive:
        for path, member in _among(archive, paths):
            content = archive.extractfile(member) if member.isreg() else None
            kind = f"{member.type!r} {member.mode:o} {member.linkname}"
            found[path] = f"{kind} {_digest(content)}"
    return found


def _digest(content: IO[bytes] | None) -> str:
    total = hashlib.sha256()
    while content is not None and (block := content.read(1 << 20)):
        total.update(block)
    return total.hexdigest()


def carry(
    source: str, target: str, wanted: Collection[str], replaced: Collection[str] = ()
) -> None:
    """Put the wanted paths of one container into another, with modes, owners and times.

    Devices are left out. A hard link to a file that is not carried becomes a file of its own. Where
    something else may stand at a path in `replaced`, the target's programs make room for it.
    """
    if not wanted:
        return
    with tempfile.TemporaryFile() as stream:
        with tarfile.open(fileobj=stream, mode="w") as carried:
            links = _collect(source, carried, wanted)
            if links:
                _collect_linked(source, carried, links)
            folders = {"/" + member.name for member in carried.getmembers() if member.isdir()}
        _in_batches(target, ("/bin/sh", "-c", MAKE_ROOM, "sh"), set(replaced) & folders)
        remove(target, set(replaced) - folders)
        stream.seek(0)
        _extract(target, stream)


def _collect(source: str, carried: tarfile.TarFile, wanted: Collection[str]) -> dict[str, str]:
    """Write what is wanted; hard links to what is not, as path → file, are left to the caller."""
    links: dict[str, str] = {}
    with exported(source) as archive:
        for path, member in _among(archive, wanted):
            if member.ischr() or member.isblk():
                continue
            if member.islnk() and (linked := "/" + member.linkname.strip("/")) not in wanted:
                links[path] = linked
                continue
            _add(carried, member, archive)
    return links


def _collect_linked(source: str, carried: tarfile.TarFile, links: dict[str, str]) -> None:
    with exported(source) as archive:
        for linked, member in _among(archive, set(links.values())):
            first, *others = (path.strip("/") for path, to in links.items() if to == linked)
            member.name = first
            _add(carried, member, archive)
            for name in others:
                link = copy.copy(member)
                link.name, link.type, link.linkname, link.size = name, tarfile.LNKTYPE, first, 0
                carried.addfile(link)


def _add(carried: tarfile.TarFile, member: tarfile.TarInfo, archive: tarfile.TarFile) -> None:
    if carried.offset + member.size > MOST_BYTES:
        raise NotCarried(f"more than {MOST_BYTES >> 30} GiB")
    carried.addfile(member, archive.extractfile(member) if member.isreg() else None)


def _among(
    archive: tarfile.TarFile, paths: Collection[str] | None
) -> Iterator[tuple[str, tarfile.TarInfo]]:
    """Those members of a stream, or all; what comes after the last of them is not read."""
    rest = set(paths or ())
    while (rest or paths is None) and (member := archive.next()) is not None:
        path = "/" + member.name.strip("/")
        if paths is None or path in rest:
            rest.discard(path)
            yield path, member


def empty_file(container: str, path: str) -> None:
    """Leave nothing in a file, without running anything in the container."""
    with tempfile.TemporaryFile() as stream:
        with tarfile.open(fileobj=stream, mode="w") as archive:
            archive.addfile(tarfile.TarInfo(path.strip("/")))
        stream.seek(0)
        _extract(container, stream)


def _extract(target: str, archive: IO[bytes]) -> None:
    done = subprocess.run(
        Engine.find().command("cp", "-", f"{target}:/"),
        stdin=archive,
        capture_output=True,
        check=False,
        timeout=3600,
        env=client_variables(),
    )
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        if "processing tar file" in said and "no space" not in said:
            raise NotCarried(said)
        raise EnvironmentFault(f"files cannot be carried into a container: {said}", retryable=True)


def remove(container: str, paths: Iterable[str]) -> None:
    """Remove paths by the container's own program."""
    _in_batches(container, ("/bin/rm", "-rf", "--"), paths)


def _in_batches(container: str, command: tuple[str, ...], paths: Iterable[str]) -> None:
    rest = sorted(paths)
    while rest:
        some, rest = rest[:BATCH], rest[BATCH:]
        Engine.find().must("exec", "--user", "0", container, *command, *some)
