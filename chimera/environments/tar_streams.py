"""Trees on their way between host and environment, and out of archives that strangers made."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import IO

from chimera.environments.base import Machine
from chimera.errors import EnvironmentFault
from chimera.sandbox import remove_tree

COPY_BYTES = 16 * 1024**3  # what is copied out at most
COPY_SECONDS = 600


def pack(source: Path, stream: IO[bytes]) -> None:
    """Write the content of the directory `source`; owners are left out, links stay links."""

    def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(fileobj=stream, mode="w|") as archive:
        archive.add(source, arcname=".", filter=anonymous)


def copy_clean(env: Machine, source: Path, target: str) -> None:
    """Copy a directory into an environment that nothing hostile has touched yet.

    Two `tar` programs do it in an eighth of the time that `copy_in` takes, where both are there.
    """
    unpacking = 'mkdir -p "$0" && exec tar -xf - -C "$0"'
    receiving = env.open_process(["sh", "-c", unpacking, target])
    assert receiving.stdin is not None
    with receiving.stdin as stream:
        packed = subprocess.run(
            ["tar", "-c", "--owner=0", "--group=0", "-C", str(source), "."],
            stdout=stream,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    if not receiving.wait(COPY_SECONDS) == packed.returncode == 0:
        env.copy_in(source, target)


def unpack(stream: IO[bytes], target: Path, *, named: str) -> None:
    """Put the one file or directory of a hostile archive at `target`.

    Everything is made in a fresh directory first, so that nothing already at `target` can be
    written through.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=target.parent, prefix=".chimera-"))
    try:
        try:
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                extract(archive, fresh)
        except tarfile.ReadError as error:
            if not any(fresh.iterdir()):
                raise FileNotFoundError(f"{named} is not there") from error
            raise EnvironmentFault(f"the archive of {named} broke off: {error}") from error
        entries = sorted(fresh.iterdir())
        if not entries:
            raise FileNotFoundError(f"{named} is not there, or is neither file nor directory")
        merge(entries[0], target)
    finally:
        remove_tree(fresh)


def extract(
    archive: tarfile.TarFile, target: Path, *, most: int = COPY_BYTES, strict: bool = False
) -> None:
    """Regular files, directories, and links that stay below `target`, `most` bytes of them.

    All else is left out, or, where the caller is strict, an error. Links are made last: nothing is
    ever written through one.
    """
    links: list[tuple[Path, str]] = []
    total = 0
    for member in archive:
        parts = [part for part in member.name.split("/") if part not in ("", ".")]
        place = target.joinpath(*parts)
        inside = ".." not in parts and not member.name.startswith("/")
        if inside and member.isdir():
            place.mkdir(parents=True, exist_ok=True)
        elif inside and parts and member.issym() and stays_below(member.linkname, len(parts) - 1):
            links.append((place, member.linkname))
        elif inside and parts and member.isreg():
            total += member.size
            if total <= most:
                write_member(archive, member, place)
        elif inside and parts and member.islnk() and (first := hard_link_source(member, target)):
            total += first.stat().st_size  # a copy, too, takes room
            if total <= most:
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(first, place)
        elif strict:
            raise tarfile.ExtractError(f"{member.name!r} is a device or leads out of the archive")
        if total > most:
            raise OSError(errno.EFBIG, f"it unpacks to more than {most} bytes", member.name)
    for place, linkname in links:
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(linkname)


def write_member(archive: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    content = archive.extractfile(member)
    with place.open("wb") as file:
        if content is not None:
            shutil.copyfileobj(content, file)
    place.chmod(member.mode & 0o755 | stat.S_IRUSR | stat.S_IWUSR)
    os.utime(place, (member.mtime, member.mtime))


def hard_link_source(member: tarfile.TarInfo, target: Path) -> Path | None:
    """The file that a hard link stands for, if it has been extracted before."""
    first = target.joinpath(*member.linkname.removeprefix("./").split("/"))
    return first if ".." not in first.parts and first.is_file() else None


def stays_below(linkname: str, depth: int) -> bool:
    """Whether a link in a directory `depth` levels down leads up no further than to the top.

    `..` is taken only at the beginning, where it cannot go up from what another link led to.
    """
    parts = [part for part in linkname.split("/") if part not in ("", ".")]
    ups = 0
    while ups < len(parts) and parts[ups] == "..":
        ups += 1
    return bool(parts) and not linkname.startswith("/") and ups <= depth and ".." not in parts[ups:]


def merge(source: Path, target: Path) -> None:
    """Move `source` to `target`; into a directory that is there, entry by entry."""
    if source.is_dir() and not source.is_symlink() and target.is_dir():
        for entry in source.iterdir():
            merge(entry, target / entry.name)
    else:
        if target.is_symlink() or target.is_file():
            target.unlink()
        shutil.move(source, target)
