"""Loading task folders of both forms, and finding them."""

from __future__ import annotations

import pytest

from chimera.errors import DatasetError
from chimera.eval.kits.task_folders.folders import load_task, needs_services, task_directories
from chimera.eval.kits.task_folders.verifier import resolved
from tests.eval.kits.task_folders.examples import harbor_task, write, yaml_task


def test_the_toml_form(tmp_path):
    task = load_task(harbor_task(tmp_path))

    assert (task["id"], task["form"]) == ("answer-it", "toml")
    assert task["prompt"] == "Write 42 to /app/answer.txt"
    assert (task["agent_seconds"], task["verifier_seconds"]) == (120.0, 300.0)
    assert (task["memory_mb"], task["network"], task["cpus"]) == (1024, False, 1.0)
    assert task["metadata"] == {"difficulty": "easy"}
    assert resolved(task["verifier_variables"]) == {"GREETING": "hello"}


def test_the_yaml_form(tmp_path):
    task = load_task(yaml_task(tmp_path))

    assert (task["id"], task["form"]) == ("answer-it", "yaml")
    assert (task["agent_seconds"], task["verifier_seconds"]) == (100.0, 300.0)
    assert task["network"]


def test_the_newer_real_files_are_read(dataset, tmp_path):
    original = dataset("terminal-bench/tb2.1-form/fix-git")
    folder = harbor_task(tmp_path)
    (folder / "task.toml").write_bytes((original / "task.toml").read_bytes())

    task = load_task(folder)

    assert (task["agent_seconds"], task["verifier_seconds"]) == (900.0, 900.0)
    assert task["image"] == "alexgshaw/fix-git:20260403"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"task.toml": "not toml ["}, "answer-it"),
        ({"task.toml": "[[steps]]\nname = 'a'\n"}, "steps/a"),
        (
            {"task.toml": "[[steps]]\nname = '../b'\n", "b/instruction.md": "x"},
            "no plain name",
        ),
    ],
)
def test_damaged_tasks_are_refused(tmp_path, change, problem):
    place = write(harbor_task(tmp_path), change)

    with pytest.raises(DatasetError, match=problem):
        load_task(place)


@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ("", ""),
        ("[environment]\ngpus = 0\nmcp_servers = []\n[agent]\nuser = 'root'\n", ""),
        ("[environment]\ngpus = 1\n", "graphics processors"),
        ("[environment]\nos = 'Windows'\n", "containers of Windows"),
        ("[environment]\nnetwork_mode = 'allowlist'\n", "a list of hosts"),
        ("[agent]\nuser = 'student'\n", "a user of its own"),
        ("[[environment.mcp_servers]]\nname = 'x'\nurl = 'http://x'\n", "MCP servers"),
    ],
)
def test_what_a_task_cannot_have_is_named(tmp_path, settings, asked):
    place = write(harbor_task(tmp_path), {"task.toml": settings})

    assert load_task(place)["refused"].startswith(asked)
    assert bool(load_task(place)["refused"]) == bool(asked)


@pytest.mark.parametrize(
    ("settings", "files", "expected"),
    [
        ("", {}, None),
        ("environment_mode = 'separate'", {}, ("own:1", "environment", False)),
        ("environment_mode = 'separate'", {"tests/Dockerfile": ""}, ("", "tests", True)),
        ("environment = {docker_image = 'v:1'}", {}, ("v:1", "tests", True)),
    ],
)
def test_the_verifiers_own_image_is_found_by_harbors_order(tmp_path, settings, files, expected):
    text = f"[environment]\ndocker_image = 'own:1'\n[verifier]\n{settings}\n"
    place = write(harbor_task(tmp_path), {"task.toml": text, **files})

    own = load_task(place)["separate"]

    found = own and (own["image"], own["context"].rpartition("/")[2], own["has_tests"])
    assert found == expected


def test_folders_are_found_and_incomplete_ones_are_not_tasks(tmp_path):
    harbor_task(tmp_path / "tasks")
    write(tmp_path / "tasks/half", {"task.toml": "", "instruction.md": ""})

    assert [place.name for place in task_directories(tmp_path)] == ["answer-it"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import requests\nrequests.get('http://localhost:80')", True),
        ("# nothing on localhost here", False),
        ("run('pip install --index-url http://127.0.0.1:8080/simple x')", True),
        ("import requests", False),
    ],
)
def test_tasks_with_servers_are_recognised(tmp_path, text, expected):
    assert needs_services(write(tmp_path, {"tests/test_outputs.py": text})) is expected
