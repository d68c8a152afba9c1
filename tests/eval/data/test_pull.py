"""Fetching: what is there is checked, what cannot be had leaves nothing behind."""

from __future__ import annotations

import gzip
import hashlib
import zipfile

import pytest

from chimera.errors import DatasetError
from chimera.eval.data import pull
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.data.sources import Item, PackageFolder, WebFile


@pytest.fixture
def package(tmp_path, monkeypatch):
    def make(*names: str) -> PackageFolder:
        archive = tmp_path / "package.whl"
        with zipfile.ZipFile(archive, "w") as packed:
            for name in names:
                packed.writestr(name, name)
        monkeypatch.setattr(pull, "_downloaded", lambda requirement, folder: [archive])
        return PackageFolder("some==1", "some/data")

    return make


def test_only_what_is_below_the_folder_is_taken(package, tmp_path):
    source = package("some/data/a.json", "some/data/b/c.md", "some/code.py", "some/data2/x")

    pull._folder_from_package(source, tmp_path / "data")

    found = sorted(p for p in (tmp_path / "data").rglob("*") if p.is_file())
    assert [str(p.relative_to(tmp_path / "data")) for p in found] == ["a.json", "b/c.md"]


@pytest.mark.parametrize(
    ("names", "text"),
    [(["some/code.py"], "has no some/data"), (["some/data/../../x"], "refused to write")],
)
def test_a_package_without_it_or_with_names_that_lead_elsewhere_is_refused(
    package, tmp_path, names, text
):
    with pytest.raises(DatasetError, match=text):
        pull._folder_from_package(package(*names), tmp_path / "data")


class Published(DatasetBenchmark):
    slug = "published"
    sources = (
        Item(
            "data.jsonl.gz",
            WebFile("http://127.0.0.1:9/nothing"),
            unpacked_md5=hashlib.md5(b"{}\n", usedforsecurity=False).hexdigest(),
        ),
    )


class Elsewhere(DatasetBenchmark):
    slug = "elsewhere"
    setup = "Ask its authors."


def test_what_is_there_and_right_is_kept(tmp_path):
    file = tmp_path / "data.jsonl.gz"
    file.write_bytes(gzip.compress(b"{}\n"))

    assert pull.pull(Published, target=tmp_path) == [file]
    file.write_bytes(gzip.compress(b"[]\n"))
    with pytest.raises(DatasetError, match="MD5"):
        pull.pull(Published, target=tmp_path)
    file.unlink()
    with pytest.raises(DatasetError, match="cannot fetch"):
        pull.pull(Published, target=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_set_that_no_command_fetches_is_said():
    with pytest.raises(DatasetError, match="Ask its authors"):
        pull.pull(Elsewhere)
