"""Twins of tests: the same file with other expected values, which honest code must fail.

Where tests share a process with the code under test, that code can disarm the runner, forge the
report, or hand out objects that equal everything. A pass therefore counts only if the same
submission fails the twin. Both runs are of a rewritten file, made anew each time from random
numbers, so that neither is the published one and nothing in it tells which of the two it is.

In other languages than Python, every literal of a twin that something is compared with for equality
has another value, or in tests without any the opposite is asserted; a test that has none gets a
check at its end, which holds in the true run and fails in the twin. By a choice, a twin finds code
that forges one assertion and honestly meets the others. Every assertion is then caught by itself,
in the true form as well, and an account at the test's end fails in the twin unless one of them held
that must not or failed that must not. What cannot be written so (blocks, nested functions, what a
test returns) changes one expectation of a test, the one that the choice falls on. In Go no value
can equal what it is not, and all conditions are turned around.

In Python both forms do the same but for a check at each test's end, which fails in the twin unless
something was forged before: see `programs/checks.py`.

Submissions meet two twins. What the one leaves as it was (a half of the tests, and of the
assertions in each) the other changes, so that what is seen in some tests tells nothing of the rest.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from chimera.eval.kits.twins.cases import Half, Insertion, Rewritten, rewrite
from chimera.eval.kits.twins.python import parses, python_cases
from chimera.eval.kits.twins.reach import FULL_REACH, Reach

#: Raised when twins are made in another way, so that what an older one showed is not taken for it.
VERSION = 25

#: The ending of a test file's name → the language its twin is made in.
LANGUAGES = {
    ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".go": "go", ".java": "java", ".js": "javascript",
    ".jsx": "javascript", ".mjs": "javascript", ".cjs": "javascript", ".py": "python",
    ".rs": "rust", ".ts": "typescript", ".tsx": "tsx",
}  # fmt: skip


def rewritten(
    path: str,
    source: bytes,
    *,
    twin: bool,
    seed: random.Random,
    half: Half | None = None,
    choice: int | None = None,
    values: int | None = None,
    plain: bool = False,
    reach: Reach = FULL_REACH,
    once: bool = False,
) -> Rewritten | None:
    """A test file for a true run or for its twin, in which a half may be kept; None when it has no
    twin.

    That is so for a file of an unknown language, one that cannot be parsed, and one without tests.
    Other values can be equal by chance (two fractions): where a reference is asked about a twin,
    submissions must meet the very values that it met, drawn from the same number. Where it does
    not pass a true form, a plain one puts nothing around assertions. `once` says that the runner
    enters each test once, but for those that it runs for each line of a table.
    """
    ending = path[path.rfind(".") :] if "." in path else ""
    language = LANGUAGES.get(ending)
    if language is None:
        return None
    insertions: Sequence[Insertion]
    if language == "python":
        cases, insertions = python_cases(source, plain=plain)
    else:
        from chimera.eval.kits.twins.grammars import cases_of

        cases, insertions = cases_of(language, source)
        if plain:
            cases, insertions = [replace(case, assertions=()) for case in cases], insertions[:1]
    if not cases:
        return None
    made = rewrite(
        path,
        source,
        cases,
        "#" if language == "python" else "//",
        twin=twin,
        seed=seed,
        half=half,
        choice=choice,
        values=values,
        insertions=insertions,
        reach=reach,
        once=once and not plain,
    )
    if language == "python" and not plain and not parses(made.content):
        return rewritten(
            path,
            source,
            twin=twin,
            seed=seed,
            half=half,
            choice=choice,
            values=values,
            plain=True,
            reach=reach,
        )
    return made
