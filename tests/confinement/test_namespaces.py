"""One probe says for everybody whether namespaces can be made here, and what to do if not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chimera.confinement import namespaces
from chimera.environments import available


def forget() -> None:
    namespaces.privileged.cache_clear()
    namespaces.namespaces_refused.cache_clear()


@pytest.fixture(autouse=True)
def _fresh_probe() -> Iterator[None]:
    forget()
    yield
    forget()


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (None, "apt install bubblewrap"),
        ("#!/bin/sh\necho no permission >&2; exit 1\n", "(no permission): sysctl"),
        ("no program at all", "cannot be run"),
    ],
)
def test_what_stands_in_the_way_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str | None, said: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if program is not None:
        (tmp_path / "bwrap").write_text(program)
        (tmp_path / "bwrap").chmod(0o755)

    assert said in str(namespaces.namespaces_refused())
    assert said in str(available("bubblewrap"))


def test_a_command_is_cut_off_unless_it_needs_the_network() -> None:
    assert "--unshare-net" in namespaces.bwrap()
    assert "--unshare-net" not in namespaces.bwrap(network=True)
    assert namespaces.bwrap("--die-with-parent")[-1] == "--die-with-parent"
