"""Fails that the speed of a machine may have decided are marked."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimera.eval.benchmark import Benchmark
from chimera.eval.benchmarks import CustomBenchmark
from chimera.eval.controls import Controls
from chimera.eval.proof.validate import validate
from chimera.eval.submitters import Stored
from chimera.eval.timing import tests_speed as looks_at_a_clock
from chimera.eval.timing import timed
from chimera.eval.trial import StartBackend, TrialSpec
from chimera.eval.values import Submission, Verdict

CLOCK = "import time\n\ndef check(reply):\n    time.perf_counter()\n    return reply == 'x'\n"


class Plain(Benchmark):
    beside: tuple[Path, ...] = ()

    def name(self):
        return "plain"

    def tasks(self):
        return []

    def files_beside(self, task):
        return self.beside


@pytest.mark.parametrize(
    ("passed", "metrics", "task", "seconds", "mark"),
    [
        (False, {}, {"tests": "assert f() == 1"}, 1.0, None),
        (True, {"timed_out": True}, {"tests": CLOCK}, 100.0, None),
        (False, {"timed_out": True}, {}, 1.0, "limit"),
        (False, {"test_timeouts": 1}, {}, 1.0, "limit"),
        (False, {"limit": "CPU time of a call"}, {}, 1.0, "limit"),
        (False, {"limit": "memory"}, {}, 1.0, None),
        (False, {}, {"test_files": {"test_a.py": CLOCK}}, 1.0, "clock"),
        (False, {}, {"prompt": CLOCK}, 1.0, None),
        (False, {}, {}, 61.0, "slow"),
    ],
)
def test_a_fail_says_whether_time_may_have_decided_it(passed, metrics, task, seconds, mark):
    verdict = timed(Plain(), task, Verdict(passed, metrics=metrics), seconds)

    assert verdict.metrics.get("timed") == mark


@pytest.mark.parametrize(
    ("file", "found"), [("tests/test_it.py", True), ("a_test.py", True), ("it.py", False)]
)
def test_tests_in_files_beside_the_task_are_read(tmp_path, file, found):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(CLOCK)
    benchmark = Plain()
    benchmark.beside = (tmp_path,)

    assert looks_at_a_clock(benchmark, {}) is found


def test_a_command_that_runs_out_of_time_is_marked():
    row = {"id": "t", "prompt": "p", "test_command": "sleep 9", "timeout_s": 0.2}
    benchmark = CustomBenchmark(tasks_list=[row])
    (task,) = benchmark.tasks()
    answer = Stored(Submission("x"))

    record = Controls().run(TrialSpec(benchmark, task, 0, answer, StartBackend("local")))

    assert (record.status, record.verdict.metrics["timed"]) == ("failed", "limit")


def test_a_record_lists_the_tasks_whose_tests_look_at_a_clock(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path))
    tests = {"test_a.py": "def test_a():\n    assert True\n"}
    row = {"prompt": "p", "expected": "x"}
    rows = [{**row, "id": "a", "test_files": tests}, {**row, "id": "b", "test_files": {"t": CLOCK}}]

    report = validate(CustomBenchmark(tasks_list=rows), StartBackend("none"), mutants=0)

    assert report.counts()["timed"] == ["b"]
