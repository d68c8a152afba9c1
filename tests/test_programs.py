"""Programs: one that is there and does not run is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimera.programs import usable, why_unusable


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("#!/bin/sh\nexit 0\n", ""),
        (
            "#!/bin/sh\necho 'no default toolchain is configured' >&2\nexit 1\n",
            "exits with code 1 when asked --version: no default toolchain is configured",
        ),
        ("no program at all", "does not start: Exec format error"),
        ("#!/bin/sh\nexec sleep 60\n", "does not answer to --version in 1 s"),
    ],
)
def test_a_program_counts_when_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, why: str
):
    monkeypatch.setattr("chimera.programs.PATIENCE_SECONDS", 1.0 if "sleep" in content else 60.0)
    program = tmp_path / tmp_path.name  # answers are remembered by name
    program.write_text(content)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    assert why_unusable(program.name) == why
    assert usable(program.name) == (None if why else str(program))


def test_what_is_not_there():
    assert why_unusable("no-such-program-at-all") == "is not installed"
    assert usable("no-such-program-at-all") is None
