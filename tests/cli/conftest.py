"""Run the command line in this process and see what a shell would see."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from chimera.cli.main import main


@dataclass
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def chimera(tmp_path, monkeypatch, capsys):
    """`chimera("eval", …)` in an empty directory with no settings from outside."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ran(stopped.value.code, captured.out, captured.err)

    return run
