"""Harbor's registry file, with tasks beside it and in repositories."""

from __future__ import annotations

import json
import subprocess

import pytest

from chimera.errors import DatasetError
from chimera.eval.benchmarks.harbor import Harbor
from tests.eval.kits.task_folders.examples import harbor_task


def written(place, *sets):
    listed = [
        {"name": name, "version": version, "description": "", "tasks": tasks}
        for name, version, tasks in sets
    ]
    place.mkdir(exist_ok=True)
    (place / "registry.json").write_text(json.dumps(listed))
    return place / "registry.json"


def committed(place):
    place.mkdir(parents=True)
    harbor_task(place / "tasks")
    author = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "tasks"]):
        subprocess.run(["git", "-C", str(place), *command], check=True)
    shown = subprocess.run(
        ["git", "-C", str(place), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    )
    return shown.stdout.strip()


def test_tasks_lie_beside_the_file_or_in_a_repository_at_its_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    commit = committed(tmp_path / "clones/owner/tasks")
    harbor_task(tmp_path / "here")
    tasks = {
        "git_url": "https://example.org/owner/tasks.git",
        "git_commit_id": commit,
        "path": "tasks/answer-it",
        "name": "answer-it",
    }
    file = written(
        tmp_path,
        ("near", "1.0", [{"name": "answer-it", "path": "here/answer-it"}]),
        ("far", "2.0", [tasks]),
    )

    near = Harbor(file, name="near")
    far = Harbor(file, name="far@2.0", repositories=tmp_path / "clones")

    assert near.tasks()[0]["directory"] == str(tmp_path / "here/answer-it")
    assert far.tasks()[0]["prompt"] == near.tasks()[0]["prompt"]


@pytest.mark.parametrize(
    ("name", "version"), [("a", "head"), ("a@1.9", "1.9"), ("b", "1.10"), ("b@1.9", "1.9")]
)
def test_the_named_version_is_taken_or_the_highest(tmp_path, name, version):
    sets = [("a", "1.9"), ("a", "head"), ("b", "1.9"), ("b", "1.10")]
    for each, number in sets:
        harbor_task(tmp_path / each / number)
    entries = [
        (each, number, [{"name": "x", "path": f"{each}/{number}/answer-it"}])
        for each, number in sets
    ]
    task = Harbor(written(tmp_path, *entries), name=name).tasks()[0]

    assert task["directory"].split("/")[-2] == version


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        ({"path": "../x", "git_url": "https://a.b/o/n", "git_commit_id": "0" * 40}, "outside"),
        ({"path": "x", "git_url": "ext::sh -c id", "git_commit_id": "0" * 40}, "no address"),
        ({"path": "x", "git_url": "https://a.b/o/n", "git_commit_id": None}, "no commit"),
        ({"path": "x", "git_url": "https://a.b/o/n", "git_commit_id": "--x"}, "no commit"),
    ],
)
def test_hostile_entries_are_refused(tmp_path, task, problem):
    file = written(tmp_path, ("a", "1", [{"name": "x", **task}]))

    with pytest.raises(DatasetError, match=problem):
        Harbor(file).tasks()


def test_of_several_data_sets_one_is_to_be_named(tmp_path):
    file = written(tmp_path, ("a", "1", []), ("b", "1", []))

    with pytest.raises(DatasetError, match="it has: a@1, b@1"):
        Harbor(file).tasks()
