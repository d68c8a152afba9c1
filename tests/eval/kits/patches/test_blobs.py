"""On a rebuilt tree a patch meets the files it was made from, or the verdict says otherwise."""

from __future__ import annotations

import subprocess

import pytest

from chimera.environments import EnvironmentSpec, start_environment
from chimera.errors import EnvironmentFault
from chimera.eval.kits.patches.apply import apply_submission
from chimera.eval.kits.patches.blobs import RebuiltTree, old_blobs

BODY = "".join(f"    x{n} = {n}\n" for n in range(9))
BASE = "".join(f"def f{n}():\n{BODY}\n\n" for n in range(8))
AHEAD = "import os\n\n\n" + BASE


def changed(n, text=BASE, to="-4"):
    """The same with another line in the middle of one function."""
    before, head, rest = text.partition(f"def f{n}():\n")
    return before + head + rest.replace("x4 = 4\n", f"x4 = {to}\n", 1)


def git(folder, *arguments, stdin=None):
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, input=stdin
    )
    return done.stdout


def made_from(folder, before, after, *, index=True):
    """A diff as `git diff` writes it, from one content of a file to another."""
    for name, content in (("old", before), ("new", after)):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "m.py").write_text(content)
    text = git(folder, "diff", "--no-index", "old/m.py", "new/m.py")
    text = text.replace("old/m.py", "m.py").replace("new/m.py", "m.py")
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if index or not line.startswith("index "))


def rebuilt(folder, content):
    folder.mkdir()
    (folder / "m.py").write_text(content)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "base")
    return RebuiltTree(folder, {"m.py": git(folder, "hash-object", "m.py").strip()})


def test_a_diff_names_the_blobs_it_was_made_from(tmp_path):
    patch = made_from(tmp_path, BASE, changed(3))

    blob = git(tmp_path, "hash-object", "old/m.py").strip()
    assert blob.startswith(old_blobs(patch)["m.py"])


@pytest.mark.parametrize(
    ("tree", "index", "group"),
    [(BASE, True, "exact"), (AHEAD, True, "other"), (BASE, False, "unknown")],
)
def test_files_are_those_the_patch_was_made_from_or_not(tmp_path, tree, index, group):
    patch = made_from(tmp_path, BASE, changed(3), index=index)

    compared = rebuilt(tmp_path / "tree", tree).compared(patch, ())

    assert getattr(compared, group) == ("m.py",)


def test_the_rows_own_patches_tell_what_a_file_was(tmp_path):
    plain = made_from(tmp_path, BASE, changed(3), index=False)
    gold = made_from(tmp_path, BASE, changed(5))
    tree = rebuilt(tmp_path / "tree", BASE)

    assert tree.compared(plain, (gold,)).exact == ("m.py",)
    assert tree.known_files(gold) == (1, 1)


@pytest.fixture
def checkout():
    with start_environment("bubblewrap", EnvironmentSpec(workdir="/testbed")) as started:
        yield started


def applied(env, tree, patch):
    env.copy_in(tree.path, "/testbed")
    return apply_submission(env, patch, root="/testbed", test_paths=frozenset(), tree=tree)


def test_an_exact_file_is_patched_as_ever_and_not_marked(tmp_path, checkout):
    tree = rebuilt(tmp_path / "tree", BASE)

    application = applied(checkout, tree, made_from(tmp_path, BASE, changed(3)))

    assert application.applied
    assert application.undone() == {}


def test_what_goes_in_at_an_offset_where_it_belongs_is_marked(tmp_path, checkout):
    body = "def only(x):\n    return x * 7\n"
    patch = made_from(tmp_path, BASE + body, BASE + body.replace("7", "8"))
    tree = rebuilt(tmp_path / "tree", AHEAD + body)

    application = applied(checkout, tree, patch)

    assert application.undone() == {
        "inexact": True,
        "tree": {"exact": 0, "other": ["m.py"], "moved": ["m.py"]},
    }


@pytest.mark.parametrize(
    "tree",
    [
        AHEAD,  # the same lines stand in eight functions, none of them where the patch has it
        changed(3, to="7"),  # its own lines are gone: git would take those of another
        changed(3, to="7").replace("x3 = 3\n", "x3 = 2\n"),  # `patch` would guess
        "x = 1\n",  # nothing of it is there
    ],
)
def test_what_would_go_in_by_guessing_is_an_error(tmp_path, checkout, tree):
    patch = made_from(tmp_path, BASE, changed(3))

    with pytest.raises(EnvironmentFault, match="rebuilt tree differs from the base commit"):
        applied(checkout, rebuilt(tmp_path / "tree", tree), patch)


def test_a_patch_that_never_fitted_its_own_file_fails(tmp_path, checkout):
    broken = made_from(tmp_path, BASE, changed(3)).replace("-    x4 = 4\n", "-    x4 = 5\n")

    application = applied(checkout, rebuilt(tmp_path / "tree", BASE), broken)

    assert not application.applied
