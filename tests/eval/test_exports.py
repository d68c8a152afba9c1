"""A stored run in other formats."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from chimera.errors import UsageError
from chimera.eval.exports import answered_by, export_files, export_lines
from chimera.eval.run import RunSettings, run
from chimera.eval.runs.result import EvalResult
from chimera.eval.runs.seal import seal
from chimera.eval.runs.store import RunStore
from chimera.eval.values import Submission, TrialRecord, Verdict


def text_of(store, kind):
    return "".join(f"{line}\n" for line in export_lines(store, kind))


@pytest.fixture
def store(letters):
    with run(RunSettings(letters, model="scripted/text:a", limit="2")).store as opened:
        yield opened


def test_results_by_line_and_as_one_document(store):
    lines = [json.loads(line) for line in text_of(store, "jsonl").splitlines()]
    document = json.loads(text_of(store, "json"))

    assert {line["task_id"]: line["status"] for line in lines} == {"a": "passed", "b": "failed"}
    assert sorted(row["task_id"] for row in document["results"]) == ["a", "b"]
    assert (document["passed"], document["total"]) == (1, 2)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_document_is_written_as_one_that_is_held_whole(tmp_path, count):
    with RunStore(tmp_path / "r.chi", create=True) as store:
        for number in range(count):
            verdict = Verdict(False, 'a "\n\\', metrics={"m": [1]})
            record = TrialRecord(f"t\n{number}", 0, "", verdict=verdict)
            store.write(record)
        result = replace(EvalResult.of(store), stopped="early")
        whole = {**result.summary(), "results": result.results, "stopped": "early"}
        expected = msgspec.json.format(msgspec.json.encode(whole))
        assert "\n".join(result.document()).encode() == expected


def test_a_prediction_file_can_be_graded_again(store, letters, tmp_path):
    (tmp_path / "p.jsonl").write_text(text_of(store, "predictions"))

    assert run(RunSettings(letters, agent="replay:p.jsonl", limit="2")).passed == 1


def test_patches_are_exported_as_official_harnesses_read_them(tmp_path):
    patch = Submission("diff", form="model_patch")
    with RunStore(tmp_path / "r.chi", create=True) as store:
        store.set_manifest({"model": "maker/m"})
        store.write(TrialRecord("x__y-1", 0, "", patch, Verdict(True)))
        line = json.loads(text_of(store, "predictions"))

    assert line == {
        "instance_id": "x__y-1",
        "model_name_or_path": "maker/m",
        "task_id": "x__y-1",
        "model_patch": "diff",
    }


def test_trajectories_are_files(store, tmp_path):
    assert export_lines(store, "atif") is None
    assert export_files(store, "atif", tmp_path / "atif") == []
    assert sorted(path.name for path in (tmp_path / "atif").iterdir()) == ["a-0.json", "b-0.json"]


def test_tasks_whose_names_are_alike_as_files_have_a_file_each(tmp_path):
    tasks = ["a/b", "a_b", "A_b", "x" * 300, "x" * 299]
    with RunStore(tmp_path / "r.chi", create=True) as store:
        for task in tasks:
            store.write(TrialRecord(task, 0, "", Submission("x"), Verdict(True)))
        export_files(store, "atif", tmp_path / "atif")

    found = [json.loads(path.read_text()) for path in (tmp_path / "atif").iterdir()]
    assert sorted(document["extra"]["task_id"] for document in found) == sorted(tasks)


def test_a_format_that_the_runs_benchmark_does_not_have(store, tmp_path):
    with pytest.raises(UsageError, match="letters can be written as jsonl, json, predictions, "):
        export_files(store, "swe-bench", tmp_path)


@pytest.mark.parametrize(
    ("manifest", "name"),
    [
        ({"model": "maker/m", "agent": "react"}, "maker/m"),
        ({"agent": "oracle"}, "oracle"),
        ({"predictions": "gone.jsonl"}, "gone"),
        ({"predictions": "named.jsonl"}, "theirs"),
    ],
)
def test_who_made_the_answers(tmp_path, monkeypatch, manifest, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "named.jsonl").write_text('{"id": 1, "model_name_or_path": "theirs"}\n')
    made_here = {"settings": {}, **manifest}
    with RunStore(":memory:", create=True) as store:
        store.set_manifest({**made_here, "seal": seal(made_here)})

        assert answered_by(store) == name


def test_a_path_in_a_run_from_elsewhere_is_not_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "named.jsonl").write_text('{"id": 1, "model_name_or_path": "read"}\n')
    with RunStore(":memory:", create=True) as store:
        store.set_manifest({"settings": {}, "predictions": "named.jsonl", "seal": "0" * 64})

        assert answered_by(store) == "named"
