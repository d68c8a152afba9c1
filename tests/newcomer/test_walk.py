"""README and every page of the documentation, followed to the letter in an empty home."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.newcomer.walk import Block, blocks, check, pages, walk

#: Their blocks make runs with the embedded model, or set up what they need in an empty home.
DEAR = {
    "README.md",
    "docs/add-a-benchmark.md",
    "docs/benchmarks/custom.md",
    "docs/benchmarks/human-eval.md",
    "docs/models.md",
    "docs/running.md",
}


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] * (page in DEAR)) for page in pages()],
)
def test_what_a_page_says_works(page: str, tmp_path: Path):
    walk(page, tmp_path)


def test_readme_runs_more_than_it_leaves_out():
    readme = [block for block in blocks("README.md") if block.language]

    assert sum(not block.not_run for block in readme) >= 3


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("sh", "chimera evla --benchmark human-eval"),
        ("sh", "chimera eval --bencmark human-eval"),
        ("sh", "chimera datasets frobnicate"),
        ("sh", "if true; then"),
        ("python", "def f(:\n"),
        ("toml", "a = \n"),
        ("json", "{"),
    ],
)
def test_what_is_not_run_is_still_looked_at(language: str, text: str):
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the reader of that language says
        check(Block("page", 1, language, text, "needs a key"))


def test_blocks_are_found_with_their_reasons():
    found = {block.where: block for block in blocks("docs/models.md")}

    assert any(block.language == "python" and not block.not_run for block in found.values())
    assert any(block.not_run for block in found.values())
