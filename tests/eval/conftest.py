"""A benchmark of one's own in a file, as users have it, for runs by name."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

SOURCE = '''
from chimera.errors import GraderError
from chimera.eval.harness import Benchmark, Submission, Verdict


class Letters(Benchmark):
    """Say the letter; every task's gold is its id, unless told which is right."""

    grading = "none"

    def __init__(self, count: int = 4, right: str = "", broken: str = "") -> None:
        self.count, self.right, self.broken = count, right, broken

    def name(self):
        return "letters"

    def options(self):
        return {"count": self.count}

    def tasks(self):
        return [{"id": "abcdef"[n], "prompt": f"say {'abcdef'[n]}"} for n in range(self.count)]

    def grade(self, task, submission, env):
        if self.broken == "everything":
            raise GraderError("the machine is gone")
        passed = submission.text == (self.right or task["id"])
        return Verdict(passed and not self.broken)

    def gold(self, task):
        return Submission(self.right or task["id"])
'''


@pytest.fixture
def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the benchmark; runs are kept in an empty directory."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "letters_of_tests.py"
    file.write_text(SOURCE)
    # The module's name belongs to the first file that has it, for as long as the process lives.
    monkeypatch.delitem(sys.modules, "letters_of_tests", raising=False)
    return f"{file}:Letters"
