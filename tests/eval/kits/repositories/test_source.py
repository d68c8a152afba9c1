"""Trees of commits: a checkout, less what a partial clone lacks, plus what a build adds."""

from __future__ import annotations

import subprocess
import sys
import tarfile

import pytest

from chimera.errors import EnvironmentFault
from chimera.eval.kits.repositories.built import Built, build_failure
from chimera.eval.kits.repositories.source import (
    METADATA,
    Directory,
    FirstToBeHad,
    GitRepository,
    OutOfReach,
    Patched,
    SourceDistribution,
    base_tree,
    out_of_reach,
)
from chimera.eval.kits.repositories.virtualenvs import virtual_environment
from tests.archive_server import serving


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))


def git(folder, *arguments: str) -> str:
    named = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    command = ["git", "-C", str(folder), *named, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def clone(tmp_path):
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "kept.txt").write_text("kept\n")
    (folder / "large.dat").write_text("large\n")
    (folder / ".gitattributes").write_text("kept.txt export-ignore\n")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=one")
    return folder


def test_a_tree_is_a_checkout(clone):
    tree = base_tree(GitRepository(str(clone), git(clone, "rev-parse", "HEAD")))

    assert {p.name for p in tree.path.glob("*.*")} == {
        "kept.txt",
        "large.dat",
        ".gitattributes",
    } | {".git"}
    assert (tree.exact, tree.absent()) == (True, ())


def test_a_partial_clone_names_what_it_lacks(clone):
    commit, blob = git(clone, "rev-parse", "HEAD"), git(clone, "rev-parse", "HEAD:large.dat")
    (clone / ".git" / "objects" / blob[:2] / blob[2:]).unlink()

    tree = base_tree(GitRepository(str(clone), commit))

    assert tree.absent() == ("large.dat",)
    assert (tree.path / "kept.txt").exists()
    assert not (tree.path / "large.dat").exists()


def test_an_unknown_commit_is_refused(clone):
    with pytest.raises(EnvironmentFault, match="has no commit"):
        base_tree(GitRepository(str(clone), "0" * 40))


SETUP = "from setuptools import setup\n{}\nsetup(name='calc', version='1.5', py_modules=[])\n"


@pytest.mark.parametrize(
    ("code", "files", "failure"),
    [
        (
            "open('made.py', 'w').close(); import os; os.path.lexists('made-link') or "
            "os.symlink('made.py', 'made-link')",
            ["calc.egg-info"],
            "",
        ),
        ("raise SystemExit('no compiler')", ["build-failed.txt"], "no compiler"),
    ],
)
def test_a_build_leaves_what_it_makes(tmp_path, require, code, files, failure):
    require("bwrap", "git")
    project = tmp_path / "project"
    project.mkdir()
    (project / "setup.py").write_text(SETUP.format(code))
    (project / "calc.py").write_text("def add(a, b):\n    return a + b\n")
    (project / "link.py").symlink_to("calc.py")
    version = "{}.{}".format(*sys.version_info[:2])
    packages = virtual_environment(version, (), interpreters={version: sys.executable})

    tree = base_tree(Built(Directory(project), packages, "1.5"))

    assert sorted(path.name for path in (tree.path / METADATA).iterdir()) == files
    assert failure in build_failure(tree.path)
    assert (tree.path / "made.py").exists() is (not failure)
    assert (tree.path / "made-link").is_symlink() is (not failure)
    assert (tree.path / "link.py").is_symlink()
    assert git(tree.path, "status", "--porcelain", "--ignored") == ""
    bytecode = tree.bytecode()
    assert bytecode is not None
    with tarfile.open(bytecode) as archive:
        compiled = [name for name in archive.getnames() if name.endswith(".pyc")]
    assert any(name.startswith("./__pycache__/calc.") for name in compiled)


@pytest.fixture
def index(monkeypatch):
    """A package index that has `thing` alone."""
    with serving() as served:
        monkeypatch.setenv("PIP_INDEX_URL", f"{served.address}/simple")
        served.packages["thing"] = ("thing-1.0.tar.gz", b"")
        yield


@pytest.mark.usefixtures("index")
def test_a_source_that_cannot_be_fetched_is_known_beforehand(clone, tmp_path):
    commit = git(clone, "rev-parse", "HEAD")
    absent = GitRepository(f"file://{tmp_path}/none", commit)
    lacking = GitRepository(str(clone), "0" * 40)
    released, not_released = SourceDistribution("thing==1.0"), SourceDistribution("none==1.0")

    assert out_of_reach(GitRepository(str(clone), commit)) is None
    assert out_of_reach(GitRepository(f"file://{clone}", commit)) is None
    assert out_of_reach(Directory(clone)) is None
    assert out_of_reach(released) is None
    assert out_of_reach(FirstToBeHad(absent, released)) is None
    assert FirstToBeHad(lacking, released).identity() == released.identity()
    silent = OutOfReach(f"file://{tmp_path}/none", "it does not answer")
    assert out_of_reach(Patched(absent, ())) == silent
    assert out_of_reach(lacking) == OutOfReach(str(clone), "this clone has not their base commits")
    neither = out_of_reach(FirstToBeHad(absent, not_released))
    assert neither is not None
    assert neither.place == silent.place
    assert "it does not answer, nor can a release be had" in neither.why
    assert "/simple/none/: HTTP Error 404" in neither.why
    other = out_of_reach(SourceDistribution("thing==2.0"))
    assert other is not None
    assert other.why.endswith("/simple has no source distribution of thing==2.0")
