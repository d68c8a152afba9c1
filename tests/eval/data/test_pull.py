"""Fetching data sets from servers that speak the real protocols: all of a set or nothing."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from chimera import downloads
from chimera.cache import file_digest
from chimera.errors import DatasetError
from chimera.eval.data import pull
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.data.sources import (
    HubFile,
    Item,
    PackageFile,
    PackageFolder,
    RepositoryPart,
    Source,
    WebFile,
)
from chimera.eval.registry import adapters
from tests.archive_server import REVISION, Served, serving

ROWS = b'{"id": "a"}\n' * 1000


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(downloads, "PAUSE_SECONDS", 0.0)
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CHIMERA_DATASETS_DIR", str(tmp_path / "datasets"))
    monkeypatch.setenv("PIP_TRUSTED_HOST", "127.0.0.1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    for name in ("HF_TOKEN", "PIP_EXTRA_INDEX_URL", "CHIMERA_DATASETS_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        monkeypatch.setenv("CHIMERA_REPOSITORIES_URL", server.address)
        monkeypatch.setenv("PIP_INDEX_URL", f"{server.address}/simple")
        server.files["/rows.jsonl"] = ROWS
        server.hub["some/set", "rows.jsonl"] = ROWS
        server.hub["some/set", "large.jsonl"] = ROWS
        server.large.add(("some/set", "large.jsonl"))
        server.files["/some/repository/tar.gz/abc"] = repository()
        server.packages["thing"] = ("thing-1.0-py3-none-any.whl", wheel())
        yield server


def wheel() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        packed.writestr("thing/data/rows.jsonl", ROWS)
        packed.writestr("thing/code.py", "")
        info = "thing-1.0.dist-info"
        packed.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
        packed.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        packed.writestr(f"{info}/RECORD", "")
    return content.getvalue()


def repository(*links: tuple[str, str]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name in ("repository-abc/README.md", "repository-abc/data/rows.jsonl"):
            member = tarfile.TarInfo(name)
            member.size = len(ROWS)
            archive.addfile(member, io.BytesIO(ROWS))
        for name, target in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    return content.getvalue()


def adapter(*items: Item) -> type[DatasetBenchmark]:
    return type("Published", (DatasetBenchmark,), {"slug": "published", "sources": items})


def everything(tmp_path: Path) -> list[str]:
    """All that lies where data sets are looked for."""
    place = tmp_path / "datasets"
    return sorted(str(p.relative_to(place)) for p in place.rglob("*")) if place.exists() else []


@pytest.mark.parametrize(
    ("name", "source", "found"),
    [
        ("r.jsonl", lambda at: WebFile(f"{at}/rows.jsonl"), "r.jsonl"),
        ("r.jsonl", lambda at: HubFile("some/set", "rows.jsonl", REVISION), "r.jsonl"),
        ("r.jsonl", lambda at: HubFile("some/set", "large.jsonl", REVISION), "r.jsonl"),
        ("r.jsonl", lambda at: PackageFile("thing==1.0", "data/rows.jsonl"), "r.jsonl"),
        ("d", lambda at: PackageFolder("thing==1.0", "thing/data"), "d/rows.jsonl"),
        ("d", lambda at: RepositoryPart("some/repository", "abc", "data"), "d/rows.jsonl"),
        ("all", lambda at: RepositoryPart("some/repository", "abc"), "all/data/rows.jsonl"),
        (
            "r.jsonl",
            lambda at: RepositoryPart("some/repository", "abc", "data/rows.jsonl"),
            "r.jsonl",
        ),
        (
            "deep/d",
            lambda at: RepositoryPart("some/repository", "abc", "data"),
            "deep/d/rows.jsonl",
        ),
    ],
)
def test_every_kind_of_source(served: Served, tmp_path: Path, name, source, found):
    made: Source = source(served.address)
    (place,) = pull.pull(adapter(Item(name, made)))

    assert place == tmp_path / "datasets/published" / name
    assert (tmp_path / "datasets/published" / found).read_bytes() == ROWS
    assert not (tmp_path / "cache/pulls/published").exists()
    assert pull.pull(adapter(Item(name, made, sha256=file_digest(place)))) == [place]


def test_the_hub_here_answers_as_the_real_one_does(served: Served, tmp_path: Path):
    from huggingface_hub import hf_hub_download

    for name in ("rows.jsonl", "large.jsonl"):
        file = hf_hub_download(
            "some/set", name, repo_type="dataset", revision=REVISION,
            endpoint=served.address, cache_dir=tmp_path / "hub",
        )  # fmt: skip
        assert Path(file).read_bytes() == ROWS


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (lambda at: WebFile(f"{at}/absent"), "404"),
        (lambda at: WebFile("http://127.0.0.1:9/nothing"), "cannot fetch"),
        (lambda at: HubFile("some/set", "absent", REVISION), "404"),
        (lambda at: HubFile("some/set", "rows.jsonl", "2" * 40), "404"),
        (lambda at: PackageFile("thing==1.0", "absent.json"), "has no absent.json"),
        (lambda at: PackageFolder("thing==1.0", "absent"), "has no absent"),
        (lambda at: PackageFile("absent==1.0", "x"), "absent==1.0"),
        (lambda at: RepositoryPart("some/repository", "abc", "absent"), "has no absent"),
        (lambda at: RepositoryPart("some/repository", "def"), "404"),
    ],
)
def test_a_failed_pull_leaves_nothing_behind(served: Served, tmp_path: Path, source, says):
    whole = Item("whole.jsonl", WebFile(f"{served.address}/rows.jsonl"))

    with pytest.raises(DatasetError, match=says):
        pull.pull(adapter(whole, Item("x", source(served.address))))

    assert everything(tmp_path) == []


def test_the_next_pull_goes_on_with_what_came(served: Served, tmp_path: Path):
    items = [Item(name, WebFile(f"{served.address}/{name}")) for name in ("rows.jsonl", "late")]

    with pytest.raises(DatasetError):
        pull.pull(adapter(*items))
    served.files["/late"] = b"came"
    files = pull.pull(adapter(*items))

    assert [file.read_bytes() for file in files] == [ROWS, b"came"]
    assert len(served.headers_of("/rows.jsonl")) == 1


@pytest.mark.parametrize("name", ["rows.jsonl", "large.jsonl"])
def test_a_file_that_is_not_what_the_hub_says_is_refused(served: Served, tmp_path: Path, name: str):
    served.lies = True

    with pytest.raises(DatasetError, match=r"SHA-256|not the file that the hub has"):
        pull.pull(adapter(Item("r", HubFile("some/set", name, REVISION))))
    assert everything(tmp_path) == []


def test_another_file_than_the_pinned_one_is_refused(served: Served, tmp_path: Path):
    item = Item("r", HubFile("some/set", "rows.jsonl", REVISION), sha256="0" * 64)

    with pytest.raises(DatasetError, match="SHA-256"):
        pull.pull(adapter(item))
    assert everything(tmp_path) == []


@pytest.mark.parametrize(
    "link", [("repository-abc/data/out", "/etc/passwd"), ("repository-abc/x", "../../../y")]
)
def test_an_archive_that_leads_elsewhere_is_refused(served: Served, tmp_path: Path, link):
    served.files["/some/repository/tar.gz/abc"] = repository(link)

    with pytest.raises(DatasetError, match="cannot be unpacked"):
        pull.pull(adapter(Item("all", RepositoryPart("some/repository", "abc"))))
    assert everything(tmp_path) == []


@pytest.mark.parametrize("by_address", [False, True])
def test_a_mirror_is_asked_first_and_its_own_source_next(
    served: Served, tmp_path: Path, by_address: bool
):
    items = (
        Item("r.jsonl", HubFile("some/set", "rows.jsonl", REVISION)),
        Item("d", RepositoryPart("some/repository", "abc", "data")),
        Item("other.jsonl", WebFile(f"{served.address}/rows.jsonl")),
    )
    folder = tmp_path / "mirror/published"
    (folder / "d").mkdir(parents=True)
    (folder / "r.jsonl").write_bytes(b"mirrored")
    (folder / "d/rows.jsonl").write_bytes(b"mirrored")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(folder / "d", arcname=".")
    served.files["/mirror/published/r.jsonl"] = b"mirrored"
    served.files["/mirror/published/d.tar.gz"] = packed.getvalue()
    mirror = f"{served.address}/mirror" if by_address else str(tmp_path / "mirror")

    first, directory, other = pull.pull(adapter(*items), mirror=mirror)

    assert first.read_bytes() == (directory / "rows.jsonl").read_bytes() == b"mirrored"
    assert other.read_bytes() == ROWS


def test_the_keys_of_the_usual_variables_are_used(served: Served, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf-secret")
    pull.pull(adapter(Item("r", HubFile("some/set", "rows.jsonl", REVISION))))

    path = f"/datasets/some/set/resolve/{REVISION}/rows.jsonl"
    assert served.headers_of(path)[0]["Authorization"] == "Bearer hf-secret"


def test_what_is_there_and_right_is_kept(served: Served, tmp_path: Path):
    md5 = hashlib.md5(b"{}\n", usedforsecurity=False).hexdigest()
    published = adapter(
        Item("data.jsonl.gz", WebFile("http://127.0.0.1:9/nothing"), unpacked_md5=md5)
    )
    file = tmp_path / "data.jsonl.gz"
    file.write_bytes(gzip.compress(b"{}\n"))

    assert pull.pull(published, target=tmp_path) == [file]
    file.write_bytes(gzip.compress(b"[]\n"))
    with pytest.raises(DatasetError, match="MD5"):
        pull.pull(published, target=tmp_path)


def test_a_set_that_no_command_fetches_is_said():
    class Elsewhere(DatasetBenchmark):
        slug = "elsewhere"
        setup = "Ask its authors."

    with pytest.raises(DatasetError, match="Ask its authors"):
        pull.pull(Elsewhere)


#: Sets without a place from which a command could fetch them; their pages say where they are.
NOT_PUBLISHED = {"custom", "dpai-arena", "harbor", "swt-bench"}


@pytest.mark.parametrize("slug", sorted(set(adapters()) - NOT_PUBLISHED))
def test_every_public_set_can_be_fetched_pinned_and_with_its_licence(slug: str):
    found = adapters()[slug]
    assert issubclass(found, DatasetBenchmark)

    assert found.licence
    assert found.fetch_hint().startswith(f"chimera datasets pull {slug}")
    revisions = [item.source.revision for item in found.sources if isinstance(item.source, HubFile)]
    commits = [i.source.commit for i in found.sources if isinstance(i.source, RepositoryPart)]
    assert all(len(each) == 40 for each in revisions + commits)


@pytest.mark.parametrize("slug", sorted(NOT_PUBLISHED))
def test_the_others_say_where_they_are(slug: str):
    found = adapters()[slug]
    assert issubclass(found, DatasetBenchmark)

    assert found.setup
    assert found.sources == ()
