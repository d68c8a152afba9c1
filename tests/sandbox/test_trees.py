"""Trees that strangers left are removed, whatever they look like."""

from __future__ import annotations

import os
from pathlib import Path

from chimera.sandbox import remove_tree


def test_a_tree_deeper_than_paths_may_be_long(tmp_path: Path) -> None:
    top = tmp_path / "tree"
    top.mkdir()
    place = os.open(top, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("directory", dir_fd=place)
        inner = os.open("directory", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(os.open("file", os.O_CREAT, dir_fd=place))
    os.close(place)

    remove_tree(top)

    assert not top.exists()


def test_a_tree_without_rights(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "locked" / "in").mkdir(parents=True)
    (tree / "locked" / "in" / "file").touch()
    (tree / "locked" / "in").chmod(0)
    (tree / "locked").chmod(0)
    tree.chmod(0)

    remove_tree(tree)

    assert not tree.exists()


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    kept, tree = tmp_path / "kept", tmp_path / "tree"
    (kept / "in").mkdir(parents=True)
    (tree / "in").mkdir(parents=True)
    (tree / "link").symlink_to(kept)
    (tree / "in" / "link").symlink_to(kept)
    (tmp_path / "top").symlink_to(kept)

    remove_tree(tree)
    remove_tree(tmp_path / "top")
    remove_tree(tmp_path / "absent")

    assert sorted(each.name for each in tmp_path.iterdir()) == ["kept"]
    assert (kept / "in").is_dir()
