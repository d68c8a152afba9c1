"""A model's regular expressions: counted, refused, or ended."""

from __future__ import annotations

import pytest

from chimera.eval.kits.searching import PatternError, PatternTooSlow, match_counts


def test_matches_are_counted_in_each_text_whatever_their_capitals():
    assert match_counts("ab?", ["Ab a", "", "\ud800 é AB"]) == [2, 0, 1]


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", "(?P<x>a)(?P<x>b)", "a{99999999999999999999}"])
def test_what_is_no_pattern_is_said_to_be_none(pattern: str):
    with pytest.raises(PatternError, match="not a regular expression"):
        match_counts(pattern, ["a"])


def test_a_pattern_that_takes_for_ever_does_not():
    with pytest.raises(PatternTooSlow, match="takes more than"):
        match_counts("(a+)+$", ["a" * 50 + "!"])
