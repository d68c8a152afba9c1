"""Archives of data sets, unpacked once into the cache and refused when they are not harmless."""

from __future__ import annotations

import tarfile
from pathlib import Path

from chimera.cache import file_digest, made_once
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
    return made_once("archives", file_digest(archive)[:16], lambda place: _unpack(archive, place))


def _unpack(archive: Path, target: Path) -> None:
    try:
        with tarfile.open(archive) as content:
            extract(content, target, most=MAX_BYTES, strict=True)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise DatasetError(f"{archive}: cannot be unpacked: {error}") from None
