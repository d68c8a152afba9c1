"""What is brought to another machine is whole there, or not there."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

from chimera.environments.remote.sandboxes import UNPACK


def archive() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as made:
        member = tarfile.TarInfo("file")
        member.size = 7
        made.addfile(member, io.BytesIO(b"content"))
    return stream.getvalue()


def unpack(folder: Path, new: str, content: bytes) -> int:
    command = UNPACK.format(new=new, place="place")
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, input=content, stderr=subprocess.DEVNULL, check=False
    ).returncode


def test_two_who_bring_the_same_at_once_leave_one(tmp_path: Path):
    codes = [unpack(tmp_path, f"new{turn}", archive()) for turn in range(2)]

    assert codes == [0, 0]
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert found == ["place", "place/file"]


def test_what_broke_off_is_not_there(tmp_path: Path):
    assert unpack(tmp_path, "new", archive()[:100]) != 0
    assert list(tmp_path.iterdir()) == []
