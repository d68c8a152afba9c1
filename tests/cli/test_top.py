"""What runs do now, from their files alone."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from chimera.cli.top import command
from chimera.eval.runs.store import RunStore
from chimera.eval.values import TrialRecord, Verdict


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A run that goes on, one that is done, one that stopped long ago, and what is no run."""
    now = time.time()
    for name, planned, ended in (("going", 10, now), ("done", 3, now), ("old", 10, now - 9000)):
        with RunStore(tmp_path / f"{name}.chi", create=True) as store:
            store.set_manifest({"planned": planned, "identity": {"benchmark": "letters"}})
            for n in range(3):
                verdict = Verdict(n > 0)
                store.write(TrialRecord(f"t{n}", 0, "", verdict=verdict, started=ended, cost=0.25))
    (tmp_path / "no.chi").write_text("no run")
    return tmp_path


def looked(runs: Path, *arguments: str) -> list[dict[str, object]]:
    found = CliRunner().invoke(command, [*arguments, "--json", "--runs-dir", str(runs)])
    assert found.exit_code == 0, found.output
    return json.loads(found.output)


def test_only_runs_that_go_on_are_shown(runs: Path):
    (row,) = looked(runs)

    assert (row["run"], row["done"], row["planned"], row["passed"]) == ("going", 3, 10, 2)
    assert row["a_minute"] == 3
    assert row["seconds_left"] == pytest.approx(140)
    assert row["cost"] == pytest.approx(0.75)


def test_all_runs_have_their_state(runs: Path):
    states = {row["run"]: row["state"] for row in looked(runs, "--all")}

    assert states == {"going": "running", "done": "done", "old": "quiet"}


def test_a_run_can_be_named(runs: Path):
    (row,) = looked(runs, "old")

    assert row["run"] == "old"
