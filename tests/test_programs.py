"""Programs: one that is there and does not run is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimera.programs import usable


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("#!/bin/sh\nexit 0\n", True),
        ("#!/bin/sh\necho 'no default toolchain is configured' >&2\nexit 1\n", False),
        ("no program at all", False),
    ],
)
def test_a_program_counts_when_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, found: bool
):
    program = tmp_path / f"program-{len(content)}"
    program.write_text(content)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    assert (usable(program.name) == str(program)) is found


def test_what_is_not_there():
    assert usable("no-such-program-at-all") is None
