"""Diffs as values."""

from __future__ import annotations

import pytest

from chimera.eval.kits.patches import diffs
from chimera.eval.kits.patches.diffs import new_file
from chimera.eval.kits.patches.hostile import hostile_patches

TWO_FILES = """\
diff --git a/src/a.py b/src/a.py
index 1..2 100644
--- a/src/a.py
+++ b/src/a.py
@@ -1,3 +1,4 @@
 one
-two
+2
+2b
 three
@@ -10,2 +11,1 @@
 ten
-eleven
diff --git a/old name.txt b/new name.txt
similarity index 90%
rename from old name.txt
rename to new name.txt
--- a/old name.txt
+++ b/new name.txt
@@ -1 +1 @@
-x
+y
"""


def test_files_hunks_and_line_numbers():
    first, second = diffs.parse(TWO_FILES)

    assert diffs.join([first, second]) == TWO_FILES
    assert (first.hunks[0].removed, first.hunks[0].added) == ((2,), (2, 3))
    assert first.hunks[1].removed == (11,)
    assert (second.old, second.new) == ("old name.txt", "new name.txt")
    assert diffs.paths(TWO_FILES) == {"src/a.py", "old name.txt", "new name.txt"}


def test_without_a_hunk():
    shorter = diffs.without_hunk(TWO_FILES, 1)
    assert "eleven" not in shorter
    assert "2b" in shorter
    assert "new name" not in diffs.without_hunk(TWO_FILES, 2)


def test_new_and_deleted_files_and_plain_diffs():
    (created,) = diffs.parse(new_file("a b.py", "x\n"))
    assert (created.old, created.new) == (None, "a b.py")
    (plain,) = diffs.parse("--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n")
    assert (plain.old, plain.new) == ("x.py", "x.py")
    (gone,) = diffs.parse(
        "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"
    )
    assert (gone.old, gone.new) == ("x", None)
    assert diffs.parse("no diff at all") == ()


def test_no_diff_reaches_into_git():
    assert diffs.reaches_into_git(new_file(".git/hooks/pre-commit", "x\n"))
    assert diffs.reaches_into_git("*** a/.git/config\n--- a/.git/config\n")
    assert diffs.reaches_into_git(new_file("a/.GIT/config", "x\n"))
    assert diffs.reaches_into_git('--- /dev/null\n+++ "b/\\056git/config"\n@@ -0,0 +1 @@\n+x\n')
    assert not diffs.reaches_into_git(new_file(".gitignore", "x\n"))
    assert not diffs.reaches_into_git(new_file(".github/workflows/ci.yml", "x\n"))


HEADER = "diff --git a/x b/x\n--- a/x\n+++ b/x\n"


@pytest.mark.parametrize(
    ("diff", "inside"),
    [
        (HEADER + "@@ -1,2 +1 @@\n a\n--- see the .git/config file\n", False),
        (HEADER + "@@ -1 +1,2 @@\n a\n+++ x/.git/config\n@@ -9 +10 @@\n--- .git/\n+b\n", False),
        # no hunk's own, by its counts or for want of a header
        (HEADER + "@@ -1 +1 @@\n-a\n+b\n--- a/.git/x\n+++ b/.git/x\n@@ -1 +1 @@\n-a\n+b\n", True),
        (HEADER + "@@ -0,0 +1,9 @@\n+a\n--- a/.git/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n", True),
        ("@@ -1,9 +1,9 @@\n--- a/y\n+++ b/.git/x\n@@ -1 +1 @@\n-a\n+b\n", True),
        ("+++ b/x\n@@ -1,9 +1,9 @@\n--- a/y\n+++ b/.git/x\n@@ -1 +1 @@\n-a\n+b\n", True),
    ],
)
def test_lines_of_a_hunk_are_no_headers(diff: str, inside: bool):
    assert diffs.reaches_into_git(diff) is inside


def test_hostile_patches_are_diffs():
    named = dict(hostile_patches(new_file("tests/test_x.py", "x\n"), ["tests/test_x.py::test_a"]))
    assert len(named) >= 8
    assert [name for name, text in named.items() if not diffs.parse(text)] == ["no diff at all"]


def test_every_real_patch_survives_parsing(dataset):
    from chimera.eval.data.rows import rows

    for name in ("swe_bench_lite.test", "swe_bench_verified.test"):
        for row in rows(dataset(f"swe-bench/{name}.jsonl.gz")):
            for diff in (row["patch"], row["test_patch"]):
                whole = diff if diff.endswith("\n") else diff + "\n"
                assert diffs.join(diffs.parse(diff)) == whole


def test_a_line_number_of_thousands_of_digits_begins_no_hunk():
    (file,) = diffs.parse(f"--- a/x\n+++ b/x\n@@ -{'1' * 5000} +1 @@\n-a\n+b\n")

    assert file.hunks == ()
