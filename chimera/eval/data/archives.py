"""Archives of data sets, unpacked once into the cache and refused when they are not harmless."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import tempfile
from pathlib import Path

from chimera.cache import cache_dir
from chimera.environments.tar_streams import extract
from chimera.errors import DatasetError
from chimera.eval.data.rows import MAX_BYTES

SUFFIXES = (".tar.gz", ".tgz", ".tar")


def archives_in(directory: Path) -> list[Path]:
    return sorted(p for p in directory.iterdir() if p.name.lower().endswith(SUFFIXES))


def unpacked(archive: Path) -> Path:
    """The directory with an archive's content; made on first use, shared by later ones.

    Members that would leave the directory, devices and links out of it are refused.
    """
    target = cache_dir() / "archives" / _digest(archive)[:16]
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=target.parent, prefix="unpacking-"))
    try:
        _unpack(archive, work)
        try:
            work.rename(target)
        except OSError:
            if not target.is_dir():  # otherwise another process was faster
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def _unpack(archive: Path, target: Path) -> None:
    try:
        with tarfile.open(archive) as content:
            extract(content, target, most=MAX_BYTES, strict=True)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise DatasetError(f"{archive}: cannot be unpacked: {error}") from None


def _digest(archive: Path) -> str:
    with archive.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
