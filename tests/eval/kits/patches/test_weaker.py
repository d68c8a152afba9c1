"""Patches made from a right one: each applies, and each is another change."""

from __future__ import annotations

import subprocess
from itertools import islice

import pytest

from chimera.eval.kits.patches.weaker import weaker

OLD = "def f(x):\n    y = x\n    return y\n\n\ndef g(x):\n    return x\n"


def patch(old: str, new: str, folder) -> str:
    for name, content in (("old", old), ("new", new)):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "a.py").write_text(content)
    command = ["git", "diff", "--no-index", "--no-prefix", "old/a.py", "new/a.py"]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout
    return made.replace("old/a.py", "a/a.py").replace("new/a.py", "b/a.py")


def applied(diff: str, folder) -> str:
    (folder / "a.py").write_text(OLD)
    subprocess.run(["git", "apply", "-"], cwd=folder, input=diff, text=True, check=True)
    return (folder / "a.py").read_text()


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (OLD.replace("y = x", "y = x + 1"), "y = x - 1"),
        (OLD.replace("return x", "return None if x else 1"), "return None if not x else 1"),
        (OLD.replace("    y = x\n", "    if x:\n        y = x\n"), "if not x:"),
        (OLD.replace("y = x", "y = f(x)"), "    pass\n"),
        (OLD.replace("return y", "return x\n    y += 1\n    return (y,\n        1)"), "y -= 1"),
    ],
)
def test_a_statement_is_another_one(tmp_path, new, expected):
    made = [applied(diff, tmp_path) for diff in weaker(patch(OLD, new, tmp_path))]

    assert any(expected in each for each in made)
    assert new not in made


def test_parts_of_a_hunk_are_left_out(tmp_path):
    new = OLD.replace("y = x", "y = -x").replace("return x", "return -x")

    made = [applied(diff, tmp_path) for diff in weaker(patch(OLD, new, tmp_path))]

    assert OLD.replace("y = x", "y = -x") in made
    assert OLD.replace("return x", "return -x") in made


def test_what_is_no_program_has_none(tmp_path):
    diff = patch("a\n", "b\n", tmp_path).replace("a.py", "a.txt")

    assert list(islice(weaker(diff), 1)) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("read(text, { keep: true });", "read(text, { keep: false });"),
        ("return a === b && 'a && b';", "return a !== b && 'a && b';"),
        ("for (let i = 0; i < 10; i++) {", "for (let i = 0; i >= 10; i++) {"),
        ("const next = x => x + 1;", "const next = x => x - 1;"),
        ("const next = x => x + 1;", "const next = x => x + 2;"),
        ("// true", None),
        ("import { x2 } from 'y1';", None),
    ],
)
def test_in_other_languages_a_word_is_another_one(tmp_path, line, expected):
    diff = patch("f();\n", f"f();\n{line}\n", tmp_path).replace("a.py", "a.js")
    made = list(weaker(diff))

    assert not any(f"+{line}\n" in each for each in made)
    assert any(f"+{expected}\n" in each for each in made) if expected else not made


def test_imports_and_blank_lines_of_other_languages_are_not_what_is_left_out(tmp_path):
    old = "import a.*;\n1\n2\n3\n4\n5\n6\n7\n \n8\nf();\n"
    new = old.replace("a.*;", "a.B;\nimport a.C;\nimport a.D;").replace(" \n", "\n")
    diff = patch(old, new.replace("f();\n", "f();\ng();\n"), tmp_path).replace("a.py", "A.java")

    made = list(weaker(diff))

    assert made
    assert not any("g();" in each for each in made)
