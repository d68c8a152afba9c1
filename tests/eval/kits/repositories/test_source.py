"""Trees of commits: a checkout, less what a partial clone lacks, plus what a build adds."""

from __future__ import annotations

import re
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
    clone_or_copy,
    out_of_reach,
)
from chimera.eval.kits.repositories.swe_instance import SWEBenchInstance
from chimera.eval.kits.repositories.swebench_specs import listed_requirements
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
        pytest.param(
            "raise SystemExit('no compiler')", ["build-failed.txt"], "no compiler",
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize("commit", ["HEAD", "--upload-pack=touch {mark};", "-", "", "0" * 39])
@pytest.mark.parametrize("location", ["file://{clone}", "{clone}"])
def test_only_the_id_of_a_commit_is_one(clone, tmp_path, location, commit):
    mark = tmp_path / "mark"

    with pytest.raises(EnvironmentFault, match="is not the id of a commit"):
        base_tree(GitRepository(location.format(clone=clone), commit.format(mark=mark)))

    assert not mark.exists()


@pytest.mark.parametrize("name", ["../outside", "/etc", "a/../../outside", "..", "-x", "a/b/c", ""])
def test_a_row_names_no_path(tmp_path, name):
    (tmp_path / "clones").mkdir()
    (tmp_path / "outside").mkdir()

    with pytest.raises(EnvironmentFault, match="does not name a repository"):
        clone_or_copy(str(tmp_path / "clones"), (name,), "0" * 40)


def test_a_users_own_links_are_followed(tmp_path):
    (tmp_path / "clones/owner").mkdir(parents=True)
    (tmp_path / "copy").mkdir()
    (tmp_path / "clones/owner/na.me-1").symlink_to(tmp_path / "copy")

    source = clone_or_copy(str(tmp_path / "clones"), ("owner/na.me-1",), "0" * 40)

    assert source == Directory(tmp_path / "clones/owner/na.me-1")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"repo": "../hosthome"}, "'../hosthome' is not OWNER/NAME"),
        ({"repo": "/root"}, "'/root' is not OWNER/NAME"),
        ({"repo": "a/.."}, "'a/..' is not OWNER/NAME"),
        ({"base_commit": "HEAD"}, "own__calc-1: base_commit 'HEAD' is not the id of a commit"),
        ({"base_commit": "--upload-pack=x"}, "is not the id of a commit"),
        ({"instance_id": "../x"}, "'../x' cannot name a folder"),
    ],
)
def test_what_rows_say_of_their_repository_is_checked(change, said):
    row = {
        "instance_id": "own__calc-1",
        "repo": "own/calc",
        "base_commit": "0" * 40,
        "problem_statement": "",
        "test_patch": "",
        "FAIL_TO_PASS": [],
        "PASS_TO_PASS": [],
    }
    assert SWEBenchInstance.from_row(row).repo == "own/calc"

    with pytest.raises(ValueError, match=re.escape(said)):
        SWEBenchInstance.from_row({**row, **change})


def test_a_clone_runs_no_hook_and_a_tree_has_no_foreign_repository(clone, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-stolen")
    mark = tmp_path / "mark"
    hook = clone / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nenv > {mark}\n")
    hook.chmod(0o755)
    copy = tmp_path / "copy"
    (copy / "sub").mkdir(parents=True)
    (copy / "sub/file").write_text("x\n")
    git(copy / "sub", "init", "--quiet")

    base_tree(GitRepository(str(clone), git(clone, "rev-parse", "HEAD")))
    tree = base_tree(Directory(copy))

    assert not mark.exists()
    assert git(tree.path, "ls-files") == "sub/file"


def test_a_patch_is_applied_without_the_repository_that_a_release_brings(tmp_path):
    copy, mark = tmp_path / "copy", tmp_path / "mark"
    copy.mkdir()
    git(copy, "init", "--quiet", "--bare")
    git(copy, "config", "filter.x.clean", f"touch {mark}; cat")
    (copy / "file").write_text("a\n")
    (copy / ".gitattributes").write_text("* filter=x\n")
    patch = "diff --git a/file b/file\n--- a/file\n+++ b/file\n@@ -1 +1 @@\n-a\n+b\n"

    tree = base_tree(Patched(Directory(copy), (patch,)))

    assert (tree.path / "file").read_text() == "b\n"
    assert not mark.exists()


@pytest.fixture
def outside(tmp_path):
    """A directory of the host with a file that looks like metadata."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/PKG-INFO").write_text("Name: a\nVersion: 1\nRequires-Dist: secret\n")
    (tmp_path / "project").mkdir()
    return tmp_path / "outside"


@pytest.mark.parametrize(
    ("links", "information"),
    [
        ({}, "Name: x\nVersion: 1/../../../../../outside/evil-1\n"),
        ({METADATA: "outside"}, "Name: x\nVersion: 1\n"),
        ({"sympy": "project", "bin": "outside"}, ""),
    ],
)
def test_nothing_is_written_through_a_tree(tmp_path, outside, links, information):
    project = tmp_path / "project"
    (project / "PKG-INFO").write_text(information)
    for name, target in links.items():
        (project / name).symlink_to(tmp_path / target)

    with pytest.raises(EnvironmentFault, match=r"cannot be written|names no package"):
        base_tree(Directory(project))

    assert [path.name for path in outside.iterdir()] == ["PKG-INFO"]


def test_nothing_is_read_through_a_tree(tmp_path, outside):
    project = tmp_path / "project"
    (project / "PKG-INFO").symlink_to(outside / "PKG-INFO")
    (project / "reqs").symlink_to(outside)
    (project / "list.txt").write_text(
        "-r ../outside/PKG-INFO\n-r reqs/PKG-INFO\n-r list.txt\nown\n"
    )

    tree = base_tree(Directory(project))

    assert not (tree.path / METADATA).exists()
    assert tree.requirements() == ()
    assert listed_requirements(tree.path, ("../outside/PKG-INFO", "reqs/PKG-INFO")) == ()
    assert listed_requirements(tree.path, ("list.txt",)) == ("own",)
