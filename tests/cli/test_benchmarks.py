"""`chimera benchmarks` helps to choose; nothing of it is cut."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys

import pytest

from chimera.eval.benchmarks.human_eval import HumanEval
from chimera.eval.harness import Harness
from chimera.eval.registry import adapters


def test_a_pipe_gets_a_whole_line_for_each(chimera):
    lines = chimera("benchmarks").out.splitlines()

    assert [line.split()[0] for line in lines[: len(adapters())]] == list(adapters())
    for line, adapter in zip(lines, adapters().values(), strict=False):
        assert adapter.description in line
        assert all(need in line for need in adapter.needs)


def test_whether_the_data_is_here_is_said(chimera, monkeypatch, tmp_path):
    monkeypatch.setenv("CHIMERA_DATASETS_DIR", str(tmp_path))
    (tmp_path / "mbpp").mkdir()
    lines = {line.split()[0]: line for line in chimera("benchmarks").out.splitlines()}

    assert "data here" in lines["mbpp"]
    assert "data absent, can be pulled" in lines["mbpp-plus"]


@pytest.mark.parametrize(
    ("words", "columns", "shows"),
    [
        (["benchmarks"], 40, "human-eval"),
        (["benchmarks"], 100, "human-eval"),
        (["benchmarks", "tau2-bench"], 60, "user_model"),
        (["datasets", "list"], 60, "human-eval"),
        (["doctor"], 60, "Confinement"),
        (["runs", "list"], 60, "passed 100.0% (1 of 1)"),
        (["runs", "list"], 200, "100.0% (1 of 1) –"),
    ],
)
def test_a_terminal_gets_what_fits(words, columns, shows, tmp_path):
    run = tmp_path / "runs" / "20260101-a-run-with-a-name-of-some-length.chi"
    run.parent.mkdir()
    Harness(benchmark="human-eval", agent="oracle", tasks=HumanEval().tasks()[:1], store=run).run()
    screen, terminal = pty.openpty()
    command = [sys.executable, "-m", "chimera", *words]
    datasets = {"HOME": "/h", "CHIMERA_DATASETS_DIR": "/d"}  # a path is not broken
    environment = {**os.environ, **datasets, "COLUMNS": str(columns)}
    with subprocess.Popen(command, stdout=terminal, env=environment, cwd=tmp_path):
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):  # how a terminal tells its end
            while block := os.read(screen, 4096):
                shown += block
    os.close(screen)

    lines = shown.decode().splitlines()
    assert shows in " ".join(shown.decode().split())
    assert [line for line in lines if len(line) > columns and "/" not in line] == []


def test_one_is_told_with_its_options_and_their_meaning(chimera):
    told = chimera("benchmarks", "mbpp").out

    assert "split=sanitized" in told
    assert "CC-BY-4.0" in told
    assert "chimera eval -b mbpp" in told


def test_one_of_ones_own_is_told_too(chimera, tmp_path):
    (tmp_path / "shown_here.py").write_text(
        "from chimera.eval.harness import Benchmark\n"
        "class Mine(Benchmark):\n"
        '    """Asks nothing."""\n'
        "    def __init__(self, count: int = 3): ...\n"
        "    def name(self): return 'mine'\n"
        "    def tasks(self): return []\n"
    )
    told = chimera("benchmarks", "shown_here.py").out
    sys.modules.pop("shown_here")

    assert "Asks nothing." in told
    assert "count=3" in told


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_get_a_clear_first_sentence(chimera, monkeypatch, platform):
    monkeypatch.setattr(sys, "platform", platform)
    ran = chimera("runs", "list")

    assert ran.err.startswith("Chimera is made for Linux; on ")
    assert ran.code == (2 if platform == "win32" else 0)
