"""Aider Polyglot for small models: four languages whose toolchains are light to install."""

from __future__ import annotations

from dataclasses import dataclass

from chimera.eval.benchmarks.aider_polyglot import AiderPolyglot, PolyglotOptions

SHREW_DEFAULT_LANGUAGES = ("python", "javascript", "rust", "go")


@dataclass(frozen=True, slots=True)
class ShrewPolyglotOptions(PolyglotOptions):
    """Four languages unless `languages` or `language` says otherwise."""

    def __post_init__(self) -> None:
        if not self.languages and self.language is None:
            object.__setattr__(self, "languages", SHREW_DEFAULT_LANGUAGES)
        PolyglotOptions.__post_init__(self)


class ShrewAiderPolyglot(AiderPolyglot):
    """`AiderPolyglot` that takes the four default languages unless told otherwise.

    A subset of languages is not comparable with the published leaderboard.
    """

    option_type = ShrewPolyglotOptions
    settings: ShrewPolyglotOptions
