"""Reading and writing in trees whose links lead anywhere."""

from __future__ import annotations

import os

import pytest

from chimera.foreign_trees import read_inside, write_inside


@pytest.fixture
def trees(tmp_path):
    for name in ("tree/folder", "outside"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "outside/file").write_text("secret")
    (tmp_path / "tree/folder/file").write_text("text")
    (tmp_path / "tree/file").symlink_to(tmp_path / "outside/file")
    (tmp_path / "tree/link").symlink_to(tmp_path / "outside")
    os.mkfifo(tmp_path / "tree/pipe")
    return tmp_path


@pytest.mark.parametrize(
    "path", ["file", "link/file", "../outside/file", "/etc/passwd", "pipe", "folder", "none/file"]
)
def test_only_files_of_the_tree_are_read(trees, path):
    assert read_inside(trees / "tree", "folder/file") == "text"
    assert read_inside(trees / "tree", path) is None


def test_files_are_written_in_the_tree_alone(trees):
    for path in ("link/new", "../outside/new", "/tmp/new", "folder/file/new", "a//b"):
        with pytest.raises(OSError, match=r".+"):
            write_inside(trees / "tree", path, "x")
    for path in ("file", "pipe", "new/folder/file"):
        write_inside(trees / "tree", path, "x", mode=0o755)

        assert read_inside(trees / "tree", path) == "x"
        assert (trees / "tree" / path).lstat().st_mode & 0o777 == 0o755
    assert (trees / "outside/file").read_text() == "secret"
    assert [path.name for path in (trees / "outside").iterdir()] == ["file"]
