"""Terminal-Bench: the real tasks, and which of them are run."""

from __future__ import annotations

import pickle

import pytest

from chimera.errors import DatasetError, UsageError
from chimera.eval.benchmarks.terminal_bench import TerminalBench
from tests.eval.kits.task_folders.examples import harbor_task


def test_all_real_tasks_load(dataset, tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path))

    tasks = TerminalBench(dataset("terminal-bench")).tasks()

    assert (len(tasks), {task["form"] for task in tasks}) == (88, {"yaml"})
    assert all(task["prompt"].strip() for task in tasks)
    assert {t["id"] for t in tasks if t["services"]} >= {"nginx-request-logging", "pypi-server"}


def test_tasks_are_chosen_by_id(tmp_path):
    harbor_task(tmp_path)

    assert TerminalBench(tmp_path, tasks=["answer-it"]).tasks()
    with pytest.raises(DatasetError, match="no task fits"):
        TerminalBench(tmp_path, tasks=["other"]).tasks()


def test_settings_are_told_and_survive_a_process(tmp_path):
    benchmark = TerminalBench(tmp_path, base_images=["a=b"], uv_cache=tmp_path, time_factor=2)

    assert pickle.loads(pickle.dumps(benchmark)).options() == {
        "tasks": [],
        "base_images": {"a": "b"},
        "network": None,
        "time_factor": 2.0,
        "verifier_network": True,
    }


def test_a_base_image_without_another_is_refused():
    with pytest.raises(UsageError, match="expected NAME=OTHER, got 'ubuntu'"):
        TerminalBench(base_images=["ubuntu"])


def test_the_limit_of_the_task_is_the_agents(tmp_path):
    harbor_task(tmp_path)
    benchmark = TerminalBench(tmp_path, time_factor=2)
    (task,) = benchmark.tasks()

    assert benchmark.agent_seconds(task) == 240.0
