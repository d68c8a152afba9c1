"""`python -m` an adapter: its options are flags, its runs are those of `chimera eval`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from chimera.eval.door import main_for


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["tau_bench.py"])
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_a_few_tasks_a_summary_and_a_stored_run(capsys):
    code = main_for("human-eval", "mbpp", arguments=["--agent", "oracle", "--no-color"])

    printed = capsys.readouterr().out
    assert code == 0
    assert "3 of 3" in printed
    assert "\x1b[" not in printed
    assert len(list(Path("runs").glob("*.chi"))) == 1


def test_options_of_the_adapter_are_flags(dataset):
    dataset("mbpp")
    arguments = ["--benchmark", "mbpp", "--agent", "nop", "--limit", "2", "--split", "full"]
    code = main_for("human-eval", "mbpp", arguments=[*arguments, "--output", "out.json"])
    written = json.loads(Path("out.json").read_text())

    assert code == 0
    assert (written["benchmark"], written["total"], written["passed"]) == ("mbpp", 2, 0)


def test_a_run_is_resumed_with_what_is_given_alone(dataset):
    dataset("mbpp")
    main_for("human-eval", "mbpp", arguments=["--benchmark", "mbpp", "--agent", "nop"])
    main_for("human-eval", "mbpp", arguments=["--resume", "--limit", "4", "--output", "out.json"])
    written = json.loads(Path("out.json").read_text())

    assert (written["benchmark"], written["agent"], written["total"]) == ("mbpp", "nop", 4)
    assert len(list(Path("runs").glob("*.chi"))) == 1


def test_without_the_data_set_it_says_how_to_get_it(capsys):
    code = main_for("mbpp", arguments=["--dataset", "absent", "--agent", "nop"])

    assert code == 2
    assert "CHIMERA_MBPP_PATH" in capsys.readouterr().err


def test_a_flag_that_the_adapter_does_not_have_is_refused(capsys):
    code = main_for("human-eval", arguments=["--domain", "airline"])

    assert code == 2
    assert "--domain" in capsys.readouterr().err
