"""The small-model flavour of Aider Polyglot."""

from __future__ import annotations

from chimera.shrew.benchmarks.aider_polyglot import SHREW_DEFAULT_LANGUAGES, ShrewAiderPolyglot


def test_shrew_has_four_languages_unless_told():
    assert SHREW_DEFAULT_LANGUAGES == ("python", "javascript", "rust", "go")
    assert ShrewAiderPolyglot().languages == SHREW_DEFAULT_LANGUAGES
    assert ShrewAiderPolyglot(language="java").languages == ("java",)
    assert ShrewAiderPolyglot(languages=["cpp"], language="java").languages == ("cpp",)
