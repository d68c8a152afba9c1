"""`chimera table` and `chimera runs list`."""

from __future__ import annotations

import csv
import io
import json

import pytest

from chimera.eval.runs.store import RunStore
from chimera.eval.values import TrialError, TrialRecord, Verdict


@pytest.fixture
def made(tmp_path):
    """Runs of two models on two benchmarks; one of them has an error, one was run twice."""
    (tmp_path / "runs").mkdir()
    for number, (benchmark, model, letters) in enumerate(
        [
            ("b1", "m/one", "pf"),
            ("b1", "m/one", "pp"),
            ("b2", "m/one", "pe"),
            ("b1", "=two|_&", "f"),
        ]
    ):
        with RunStore(tmp_path / "runs" / f"run-{number}.chi", create=True) as store:
            manifest = {"identity": {"benchmark": benchmark}, "model": model, "agent": "direct"}
            started = 1_750_000_000.0 + 100_000 * number
            store.set_manifest({**manifest, "planned": len(letters), "started": started})
            for task, letter in enumerate(letters):
                verdict = None if letter == "e" else Verdict(letter == "p")
                error = TrialError("agent", "broke") if letter == "e" else None
                store.write(TrialRecord(f"t{task}", 0, "", verdict=verdict, error=error, cost=0.5))


def test_the_table_has_the_newest_run_of_each_cell(chimera, made):
    ran = chimera("table")
    lines = ran.out.splitlines()

    assert lines[0].split() == ["b1", "b2"]
    assert lines[1].startswith("m/one    100.0% [34.2%, 100.0%]  50.0% [")
    assert lines[1].endswith("!")
    assert lines[2].split() == ["=two|_&", "0.0%", "[0.0%,", "79.3%]?", "–"]
    assert "!: some trials have no verdict" in ran.err
    assert "newer run: run-0\n" in ran.err


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("markdown", r"| `=two\|_&` | 0.0% [0.0%, 79.3%]? |"),
        ("latex", r"=two|\_\& & 0.0\% {[}0.0\%, 79.3\%{]}? & -- \\"),
    ],
)
def test_the_table_in_documents(chimera, made, kind, says):
    assert says in chimera("table", "--format", kind).out


def test_a_run_of_other_tasks_than_its_column_is_marked(chimera, made):
    ran = chimera("table", "run-0", "run-3")

    assert "79.3%]?" in ran.out
    assert "not the tasks, data set, grader or options" in ran.err


def test_the_interval_has_room_for_trials_without_a_verdict(chimera, made):
    document = json.loads(chimera("table", "run-2", "--format", "json").out)
    ((_, (run,)),) = document["rows"]

    assert run["interval"][0] < run["bounds"][0] < run["bounds"][1] == run["interval"][1]


def test_the_table_as_data(chimera, made):
    rows = list(csv.reader(io.StringIO(chimera("table", "--format", "csv").out)))
    document = json.loads(chimera("table", "run-1", "run-3", "--format", "json").out)

    assert rows[2][0] == "'=two|_&"
    assert document["benchmarks"] == ["b1"]
    assert [who for who, _ in document["rows"]] == ["m/one", "=two|_&"]


def test_a_table_of_nothing(chimera):
    ran = chimera("table")

    assert (ran.code, "no runs in" in ran.err) == (2, True)


def test_the_list_has_headings_model_day_errors_and_cost(chimera, made):
    head, *lines = chimera("runs", "list").out.splitlines()

    words = "run benchmark model (agent) begun passed no verdict cost"
    assert head.split() == words.split()
    assert len(lines) == 4
    assert "50.0% to 100.0% (1 of 1)  1 error     $1.0000" in lines[2]


@pytest.mark.parametrize(
    ("filters", "runs"),
    [
        (["--benchmark", "b2"], ["run-2"]),
        (["--model", "m/*", "--last", "2"], ["run-1", "run-2"]),
        (["--errors"], ["run-2"]),
        (["--since", "2025-06-18"], ["run-3"]),
        (["--agent", "react"], []),
    ],
)
def test_filters_of_the_list(chimera, made, filters, runs):
    listed = json.loads(chimera("runs", "list", *filters, "--json").out)

    assert [row["run"] for row in listed] == runs


def test_a_day_that_is_none(chimera, made):
    ran = chimera("runs", "list", "--since", "yesterday")

    assert (ran.code, "expected a day" in ran.err) == (2, True)
