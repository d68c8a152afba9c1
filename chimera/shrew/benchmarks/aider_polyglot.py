"""Aider Polyglot for small models: four languages whose toolchains are light to install."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chimera.eval.benchmarks.aider_polyglot import TEST_SECONDS, AiderPolyglot

SHREW_DEFAULT_LANGUAGES = ("python", "javascript", "rust", "go")


class ShrewAiderPolyglot(AiderPolyglot):
    """`AiderPolyglot` that takes the four default languages unless told otherwise.

    A subset of languages is not comparable with the published leaderboard.
    """

    def __init__(
        self,
        dataset_path: str | Path | None = None,
        limit: int | None = None,
        languages: Sequence[str] | None = None,
        language: str | None = None,
        attempts: int = 2,
        timeout: float = TEST_SECONDS,
    ) -> None:
        if not languages and language is None:
            languages = SHREW_DEFAULT_LANGUAGES
        super().__init__(dataset_path, limit, languages, language, attempts, timeout)
