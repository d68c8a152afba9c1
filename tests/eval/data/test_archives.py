"""Archives of data sets: unpacked as they are, or refused whole."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.errors import DatasetError
from chimera.eval.data import archives


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def packed(tmp_path: Path, *members: tuple[str, Callable[[tarfile.TarInfo], bytes]]) -> Path:
    archive = tmp_path / "data.tar.gz"
    with tarfile.open(archive, "w:gz") as content:
        for name, fill in members:
            member = tarfile.TarInfo(name)
            data = fill(member)
            member.size = len(data)
            content.addfile(member, io.BytesIO(data))
    return archive


def file(data: bytes, mode: int = 0o644) -> Callable[[tarfile.TarInfo], bytes]:
    def fill(member: tarfile.TarInfo) -> bytes:
        member.mode, member.mtime = mode, 1_000_000_000
        return data

    return fill


def other(kind: bytes, linkname: str = "") -> Callable[[tarfile.TarInfo], bytes]:
    def fill(member: tarfile.TarInfo) -> bytes:
        member.type, member.linkname = kind, linkname
        return b""

    return fill


def test_files_keep_their_content_mode_and_time(tmp_path: Path) -> None:
    archive = packed(
        tmp_path,
        ("./", other(tarfile.DIRTYPE)),
        ("./run.sh", file(b"echo", 0o4755)),
        ("same", other(tarfile.LNKTYPE, "./run.sh")),
        ("deep/link", other(tarfile.SYMTYPE, "../run.sh")),
    )

    place = archives.unpacked(archive)

    assert (place / "run.sh").stat().st_mode & 0o7777 == 0o755
    assert (place / "run.sh").stat().st_mtime == 1_000_000_000
    assert (place / "same").read_bytes() == (place / "deep/link").read_bytes() == b"echo"
    assert archives.unpacked(archive) == place


@pytest.mark.parametrize(
    ("name", "fill"),
    [
        ("../out", file(b"x")),
        ("a/../../out", file(b"x")),
        ("/tmp/chimera-out", file(b"x")),
        ("link", other(tarfile.SYMTYPE, "/etc/passwd")),
        ("link", other(tarfile.SYMTYPE, "../../out")),
        ("link", other(tarfile.LNKTYPE, "../../out")),
        ("link", other(tarfile.LNKTYPE, "/etc/passwd")),
        ("pipe", other(tarfile.FIFOTYPE)),
        ("disk", other(tarfile.BLKTYPE)),
    ],
)
def test_what_leads_out_or_is_no_file_is_refused_and_nothing_stays(
    tmp_path: Path, cache: Path, name: str, fill: Callable[[tarfile.TarInfo], bytes]
) -> None:
    archive = packed(tmp_path, ("good", file(b"x")), (name, fill))

    with pytest.raises(DatasetError, match=r"cannot be unpacked: .* leads out"):
        archives.unpacked(archive)

    assert [left.suffix for left in (cache / "archives").iterdir()] == [".lock"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("again", [file(bytes(1 << 19)), other(tarfile.LNKTYPE, "zeros0")])
def test_an_archive_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: Callable[[tarfile.TarInfo], bytes]
) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 1 << 20)
    first = ("zeros0", file(bytes(1 << 19)))
    archive = packed(tmp_path, first, *((f"zeros{number}", again) for number in (1, 2)))

    with pytest.raises(DatasetError, match="unpacks to more than 1048576 bytes"):
        archives.unpacked(archive)


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    archive = packed(tmp_path, ("good", file(b"x" * 10_000)))
    archive.write_bytes(archive.read_bytes()[:-30])

    with pytest.raises(DatasetError, match=r"data\.tar\.gz: cannot be unpacked"):
        archives.unpacked(archive)
