"""Downloads: resumed where they broke off, checked, whole or not there."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from chimera import downloads
from chimera.downloads import download, package_archives
from chimera.errors import UsageError
from tests.archive_server import Served, serving

CONTENT = bytes(range(256)) * 4096


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(downloads, "PAUSE_SECONDS", 0.0)
    with serving() as server:
        server.files["/file"] = CONTENT
        yield server


def left(tmp_path: Path) -> list[str]:
    return [p.name for p in tmp_path.rglob("*") if p.is_file() and not p.name.endswith(".lock")]


def test_a_cut_download_goes_on_where_it_broke_off(served: Served, tmp_path: Path):
    served.cuts["/file"] = [300_000, 400_000]
    seen: list[tuple[int, int | None]] = []

    download(f"{served.address}/file", tmp_path / "f", tell=lambda *far: seen.append(far))

    assert (tmp_path / "f").read_bytes() == CONTENT
    ranges = [headers.get("Range") for headers in served.headers_of("/file")]
    assert ranges == [None, "bytes=300000-", "bytes=700000-"]
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert left(tmp_path) == ["f"]


def test_what_an_interrupted_one_had_is_used_by_the_next(served: Served, tmp_path: Path):
    def interrupt(done: int, total: int | None) -> None:
        if done > 500_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(f"{served.address}/file", tmp_path / "f", tell=interrupt)
    assert not (tmp_path / "f").exists()
    download(f"{served.address}/file", tmp_path / "f")

    assert (tmp_path / "f").read_bytes() == CONTENT
    assert int(served.headers_of("/file")[1]["Range"].strip("bytes=-")) > 500_000


def test_a_file_that_changed_meanwhile_is_begun_anew(served: Served, tmp_path: Path):
    def change(done: int, total: int | None) -> None:
        served.files["/file"] = CONTENT[::-1]

    served.cuts["/file"] = [300_000]
    download(f"{served.address}/file", tmp_path / "f", tell=change)

    assert (tmp_path / "f").read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize(
    ("faults", "says"),
    [
        ([404], "404"),
        ([401], "HF_TOKEN"),
        ([503] * downloads.ATTEMPTS, "503"),
    ],
)
def test_what_cannot_be_had_leaves_nothing(
    served: Served, tmp_path: Path, faults: list[int], says: str
):
    served.faults["/file"] = faults

    with pytest.raises(UsageError, match=says):
        download(f"{served.address}/file", tmp_path / "f")
    assert left(tmp_path) == []


def test_a_fault_that_passes_is_waited_for(served: Served, tmp_path: Path):
    served.faults["/file"] = [503, 429]

    download(f"{served.address}/file", tmp_path / "f")

    assert (tmp_path / "f").read_bytes() == CONTENT


def test_another_digest_is_refused_and_nothing_kept(served: Served, tmp_path: Path):
    with pytest.raises(UsageError, match="SHA-256"):
        download(f"{served.address}/file", tmp_path / "f", sha256="0" * 64)

    assert left(tmp_path) == []


def test_a_key_does_not_follow_to_another_host(served: Served, tmp_path: Path):
    served.hub["some/set", "a.bin"] = CONTENT
    served.large.add(("some/set", "a.bin"))
    url = f"{served.address}/datasets/some/set/resolve/main/a.bin"

    download(url, tmp_path / "f", headers={"Authorization": "Bearer secret"})

    asked = {path: headers for method, path, headers in served.asked if method == "GET"}
    stored = next(path for path in asked if path.startswith("/stored/"))
    assert asked["/datasets/some/set/resolve/main/a.bin"]["Authorization"] == "Bearer secret"
    assert "Authorization" not in asked[stored]
    assert (tmp_path / "f").read_bytes() == CONTENT


def wheel(**files: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        for name, data in files.items():
            packed.writestr(name.replace("__", "/"), data)
        packed.writestr(
            "thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n"
        )
        packed.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        packed.writestr("thing-1.0.dist-info/RECORD", "")
    return content.getvalue()


@pytest.fixture
def index(served: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    monkeypatch.setenv("PIP_INDEX_URL", f"{served.address}/simple")
    monkeypatch.setenv("PIP_TRUSTED_HOST", "127.0.0.1")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    served.packages["thing"] = ("thing-1.0-py3-none-any.whl", wheel(thing__x=b"data"))
    return served


def test_a_package_comes_from_the_index_in_use(index: Served, tmp_path: Path):
    digest = hashlib.sha256(index.packages["thing"][1]).hexdigest()

    (archive,) = package_archives("thing==1.0", tmp_path / "p", hashes=(digest,))

    assert archive.read_bytes() == index.packages["thing"][1]


@pytest.mark.parametrize(
    ("requirement", "hashes", "says"),
    [("thing==1.0", ("0" * 64,), "DO NOT MATCH THE HASHES"), ("thing==2.0", (), "thing==2.0")],
)
def test_another_package_is_refused(index: Served, tmp_path: Path, requirement, hashes, says):
    with pytest.raises(UsageError, match=says):
        package_archives(requirement, tmp_path / "p", hashes=hashes)
