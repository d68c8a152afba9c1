"""Glob patterns over names."""

from __future__ import annotations

import pytest

from chimera.environments.patterns import matcher


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("**/*", ["a", "a/b", ".x"], []),
        ("*.py", ["a.py"], ["d/a.py", "a.pyc"]),
        ("d/**", ["d/a", "d/e/f"], ["e/d"]),
        ("**/t?st.py", ["test.py", "x/tast.py"], ["x/tst.py", "x/t/st.py"]),
        ("[!a]*", ["b"], ["a"]),
        ("a.b", ["a.b"], ["axb"]),
    ],
)
def test_patterns(pattern: str, matching: list[str], other: list[str]) -> None:
    matches = matcher(pattern)

    assert [name for name in matching + other if matches(name)] == matching
