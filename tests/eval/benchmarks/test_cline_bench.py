"""Cline Bench: the real folders, and tasks given as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chimera.errors import DatasetError
from chimera.eval.benchmarks.cline_bench import ClineBench


def test_all_real_tasks_load(dataset, tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path))

    tasks = ClineBench(dataset_path=dataset("cline-bench")).tasks()

    assert (len(tasks), {task["form"] for task in tasks}) == (12, {"toml"})
    assert sorted({task["agent_seconds"] for task in tasks}) == [1800.0, 3600.0]
    assert all(task["prompt"].strip() for task in tasks)


@pytest.mark.parametrize("form", ["directory", "json", "jsonl"])
def test_cline_tasks_as_json(tmp_path, monkeypatch, form):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    row = {
        "id": "one",
        "instruction": "Do it.",
        "docker_image": "example",
        "setup": ["touch /ready"],
        "test_command": "test -e /done",
        "solution": "touch /done",
        "workdir": "/app",
        "agent_timeout_sec": 60,
    }
    place = tmp_path / "data"
    place.mkdir()
    path = {"directory": place, "json": place / "t.json", "jsonl": place / "t.jsonl"}[form]
    (place / "t.jsonl" if form == "jsonl" else place / "t.json").write_text(json.dumps(row))

    (task,) = ClineBench(dataset_dir=path).tasks()

    folder = Path(task["directory"])
    assert (task["id"], task["prompt"], task["agent_seconds"]) == ("one", "Do it.", 60.0)
    assert "FROM example" in (folder / "environment/Dockerfile").read_text()
    assert "touch /ready" in (folder / "environment/Dockerfile").read_text()
    assert "test -e /done" in (folder / "tests/test.sh").read_text()


def test_a_row_cannot_write_outside_its_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    row = {
        "id": "one",
        "prompt": "x",
        "docker_image": "e",
        "tests": {"../../../../x": "", "test.sh": ""},
    }
    (tmp_path / "t.json").write_text(json.dumps(row))

    with pytest.raises(DatasetError, match="outside the task"):
        ClineBench(dataset_path=tmp_path / "t.json").tasks()
