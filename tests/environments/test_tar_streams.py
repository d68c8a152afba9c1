"""Archives that strangers made are unpacked in place."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from chimera.environments import tar_streams


def hostile_archive() -> io.BytesIO:
    """Files, links and devices under names that try to leave the place they are unpacked to."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:

        def add(
            name: str, kind: bytes = tarfile.REGTYPE, link: str = "", data: bytes = b""
        ) -> None:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size, member.mode = kind, link, len(data), 0o4755
            archive.addfile(member, io.BytesIO(data))

        add("content", tarfile.DIRTYPE)
        add("content/good", data=b"good")
        add("content/inner", tarfile.SYMTYPE, "good")
        add("content/out", tarfile.SYMTYPE, "../../escaped")
        add("content/absolute", tarfile.SYMTYPE, "/etc")
        add("content/here", tarfile.SYMTYPE, ".")
        add("content/winding", tarfile.SYMTYPE, "here/../../escaped")
        add("content/directory", tarfile.SYMTYPE, "sub")
        add("content/directory/through", data=b"written through a link?")
        add("content/../../escaped", data=b"escaped")
        add("/content/absolute-file", data=b"escaped")
        add("content/hard", tarfile.LNKTYPE, "content/good")
        add("content/hard-out", tarfile.LNKTYPE, "../../outside")
        add("content/null", tarfile.CHRTYPE)
        add("content/pipe", tarfile.FIFOTYPE)
    stream.seek(0)
    return stream


def test_hostile_archives_stay_in_place(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("mine")
    target = tmp_path / "deep" / "target"

    tar_streams.unpack(hostile_archive(), target, named="it")

    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert found == [
        "deep",
        "deep/target",
        "deep/target/directory",
        "deep/target/directory/through",
        "deep/target/good",
        "deep/target/hard",
        "deep/target/inner",
        "outside",
    ]
    assert (target / "inner").readlink() == Path("good")
    assert not (target / "directory").is_symlink()
    assert (target / "good").stat().st_mode & 0o7777 == 0o755
    assert (target / "hard").read_text() == "good"
