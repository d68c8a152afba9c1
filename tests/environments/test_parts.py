"""The parts environments are made of: bounded streams, archives, reports, patterns, image maps."""

from __future__ import annotations

import io
import os
import tarfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.confinement import cgroups
from chimera.environments import archives, engine
from chimera.environments.streams import Kept, collect
from chimera.environments.testing import outcomes
from chimera.errors import UsageError


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(2, 100))
def test_no_more_is_kept_than_the_bound(chunks: list[bytes], bound: int) -> None:
    kept = Kept(bound)
    for chunk in chunks:
        kept.add(chunk)
    whole, content = b"".join(chunks), kept.content()

    assert kept.truncated is (len(whole) > bound)
    if not kept.truncated:
        assert content == whole
    else:
        head, tail = bound // 2, bound - bound // 2
        left_out = b"\n[%d bytes left out]\n" % (len(whole) - bound)
        assert content == whole[:head] + left_out + whole[len(whole) - tail :]


def test_reading_ends_at_the_deadline_with_what_came() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"so far")
    kept = Kept(100)

    over, open_still = collect({reader: kept}, deadline=time.monotonic() + 0.05)

    assert (over, open_still, kept.content()) == (False, [reader], b"so far")
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("**/*", ["a", "a/b", ".x"], []),
        ("*.py", ["a.py"], ["d/a.py", "a.pyc"]),
        ("d/**", ["d/a", "d/e/f"], ["e/d"]),
        ("**/t?st.py", ["test.py", "x/tast.py"], ["x/tst.py", "x/t/st.py"]),
        ("[!a]*", ["b"], ["a"]),
        ("a.b", ["a.b"], ["axb"]),
    ],
)
def test_patterns(pattern: str, matching: list[str], other: list[str]) -> None:
    matches = archives.matcher(pattern)

    assert [name for name in matching + other if matches(name)] == matching


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

    archives.unpack(hostile_archive(), target, named="it")

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


@pytest.mark.parametrize(
    ("report", "found"),
    [
        ("<testsuite/>", {}),
        ('<testsuites><testsuite><testcase classname="m" name="t"/></testsuite></testsuites>',
         {"m::t": "passed"}),
        ('<testsuite><testcase name="t"/><testcase name="t"><failure/></testcase></testsuite>',
         {"t": "failed"}),
        ('<testsuite><testcase name="t"><failure/></testcase><testcase name="t"/></testsuite>',
         {"t": "failed"}),
        ('<testsuite><testcase name="t"><skipped/></testcase></testsuite>', {"t": "skipped"}),
        ('<testsuite><testcase name="t"><failure/><error/></testcase></testsuite>', {"t": "error"}),
    ],
)  # fmt: skip
def test_reports_are_read(report: str, found: dict[str, str]) -> None:
    assert outcomes(report.encode()) == found


def test_reports_that_grow_when_read_are_refused() -> None:
    bomb = '<!DOCTYPE a [<!ENTITY b "x">]><testsuite><testcase name="&b;"/></testsuite>'

    with pytest.raises(ValueError, match="entities"):
        outcomes(bomb.encode())


def test_images_are_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "map.json"
    file.write_text('{"python:3.11": "chimera-base:bookworm"}')
    for value in (file.read_text(), str(file)):
        monkeypatch.setenv(engine.IMAGE_MAP, value)
        assert engine.image_map() == {"python:3.11": "chimera-base:bookworm"}
    for wrong in ("nowhere.json", "{", '{"a": 1}'):
        monkeypatch.setenv(engine.IMAGE_MAP, wrong)
        with pytest.raises(UsageError, match=engine.IMAGE_MAP):
            engine.image_map()


def test_a_build_context_is_known_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    first = engine.context_digest(tmp_path)
    (tmp_path / "run.sh").write_text("")
    second = engine.context_digest(tmp_path)
    (tmp_path / "run.sh").chmod(0o755)

    assert len({first, second, engine.context_digest(tmp_path)}) == 3


def test_a_process_is_known_by_its_start() -> None:
    assert cgroups.start_time(os.getpid()) == cgroups.start_time(os.getpid()) != "0"
    assert cgroups.start_time(2**22 + 1) == "0"
