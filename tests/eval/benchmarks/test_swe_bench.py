"""SWE-bench Lite and Verified: loading, configuration, and real instances end to end."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import pytest

from chimera.agents.react import ReactAgent
from chimera.environments.none import NoEnvironment
from chimera.errors import DatasetError, GraderError, UsageError
from chimera.eval.benchmarks.swe_bench import (
    SWEBench,
    SWEBenchConfig,
    SWEBenchInstance,
    configured_agent,
)
from chimera.eval.benchmarks.swe_bench_verified import SWEBenchVerified
from chimera.eval.kits.patches import diffs
from chimera.eval.kits.repositories.swe_instance import command_of, directives
from chimera.eval.trial import StartBackend
from chimera.eval.values import Submission
from chimera.providers.scripted import ScriptedProvider
from chimera.types import Response, ToolCall

ROW = {
    "instance_id": "owner__repo-1",
    "repo": "owner/repo",
    "base_commit": "0" * 40,
    "problem_statement": "It {breaks}.",
    "patch": "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n",
    "test_patch": "diff --git a/t.py b/t.py\n--- a/t.py\n+++ b/t.py\n@@ -1 +1 @@\n-a\n+b\n",
    "FAIL_TO_PASS": '["t.py::test_a"]',
    "PASS_TO_PASS": ["t.py::test_b"],
}


def write(path: Path, rows) -> Path:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        path.write_text(json.dumps(rows))
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", [ROW]),
        ("a.json", {"tasks": [ROW]}),
        ("a.jsonl", [ROW]),
        ("a.jsonl.gz", [ROW]),
    ],
)
def test_every_form_of_data_set_loads(tmp_path, name, content):
    (task,) = SWEBench(write(tmp_path / name, content)).tasks()

    assert task["instance"].fail_to_pass == ("t.py::test_a",)
    assert task["instance"].pass_to_pass == ("t.py::test_b",)
    assert "It {breaks}." in task["prompt"]
    assert "+b" not in task["prompt"]
    assert task["instance"].image_name == "swebench/sweb.eval.x86_64.owner_1776_repo-1:latest"


def test_parquet_loads(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.Table.from_pylist([{**ROW, "PASS_TO_PASS": '["t.py::test_b"]'}])
    parquet.write_table(table, tmp_path / "test.parquet")

    assert len(SWEBench(tmp_path).tasks()) == 1


def test_damaged_rows_are_refused(tmp_path):
    for column, value in (("FAIL_TO_PASS", "[1]"), ("FAIL_TO_PASS", "x"), ("eval_type", "odd")):
        with pytest.raises(DatasetError):
            SWEBench(write(tmp_path / "a.json", [{**ROW, column: value}])).tasks()


def test_columns_of_swebench_5_are_used(tmp_path):
    script = ": '>>>>> Start Test Output'\npytest -rA t.py\n: '>>>>> End Test Output'\n"
    row = {**ROW, "image": "img", "eval_script": script, "log_parser": "parse_log_flask"}
    (task,) = SWEBench(write(tmp_path / "a.json", [row])).tasks()

    plan = task["instance"].plan(timeout=1, in_official_image=True)

    assert task["instance"].image_name == "img"
    assert plan.command.endswith("conda activate testbed && pytest -rA t.py")
    assert command_of("nothing") == ""


def test_an_instance_without_settings_says_what_it_needs(tmp_path):
    benchmark = SWEBench(write(tmp_path / "a.json", [ROW]))
    (task,) = benchmark.tasks()

    with pytest.raises(GraderError, match="eval_settings"):
        benchmark.grade(task, Submission("x"), NoEnvironment())
    with pytest.raises(UsageError, match="--environment docker"):
        benchmark.open_environment(task, StartBackend("bubblewrap"))


def test_added_instances_need_no_data_set():
    benchmark = SWEBench()
    benchmark.add_instance(SWEBenchInstance("a__b-1", "a/b", "c", "statement"))

    assert [instance.instance_id for instance in benchmark.instances] == ["a__b-1"]
    assert pickle.loads(pickle.dumps(benchmark)).instances[0].repo == "a/b"


def test_directives_are_the_official_ones():
    patch = (
        "diff --git a/tests/x/test_a.py b/tests/x/test_a.py\n--- a/tests/x/test_a.py\n"
        "+++ b/tests/x/test_a.py\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/tests/d.json b/tests/d.json\n"
        "--- a/tests/d.json\n+++ b/tests/d.json\n@@ -1 +1 @@\n-a\n+b\n"
    )
    assert directives(patch, "a/b") == ["tests/x/test_a.py"]
    assert directives(patch, "django/django") == ["x.test_a"]


def test_configurations():
    lite, verified = SWEBenchConfig.for_lite(), SWEBenchConfig.for_verified()

    assert (lite.max_steps, lite.ipython, lite.condense_every_n_steps) == (100, False, 0)
    assert (verified.max_steps, verified.ipython) == (500, True)
    assert [step for step in range(101) if verified.should_condense(step)] == [25, 50, 75, 100]
    assert not any(lite.should_condense(step) for step in range(200))
    assert lite.build_ipython_tool() is None
    assert verified.build_ipython_tool().name == "ipython"
    assert verified.build_condensation().keep_last == 20
    for wrong in ({"max_steps": 0}, {"condense_every_n_steps": -1}, {"variant": "other"}):
        with pytest.raises(UsageError):
            SWEBenchConfig(**wrong)


def test_agents_are_configured_agent():
    from chimera.agents import create_agent

    agent = create_agent("react", model="scripted/text:done")
    ready = configured_agent(agent, SWEBenchConfig.for_verified())

    assert ready.max_steps == 500
    assert ready.loop.condense_every_n_steps == 25
    assert ready.loop.compaction.provider is agent.provider
    assert "ipython" in [getattr(tool, "name", tool) for tool in ready.tools]
    lite = configured_agent(agent, SWEBenchConfig.for_lite())
    assert "ipython" not in [getattr(tool, "name", tool) for tool in lite.tools]
    asked = create_agent("react", model="scripted/text:done", max_steps=7)
    assert configured_agent(asked, SWEBenchConfig.for_verified()).max_steps == 7


def test_real_data_sets_load(dataset):
    place = dataset("swe-bench")
    assert len(SWEBench(place).tasks()) == 300
    assert len(SWEBench(place, split="dev").tasks()) == 23
    verified = SWEBenchVerified(place).tasks()
    assert len(verified) == 500
    assert sum(bool(task["instance"].requirement) for task in verified) > 150
    assert all(task["instance"].test_command for task in verified)


@pytest.fixture
def cached(monkeypatch):
    """Virtual environments are costly: they stay between runs of the tests."""
    if "CHIMERA_CACHE_DIR" not in os.environ:
        place = Path.home() / ".cache" / "chimera" / "tests"
        monkeypatch.setenv("CHIMERA_CACHE_DIR", str(place))


def find(dataset, name: str):
    place = dataset("swe-bench")
    for kind in (SWEBench, SWEBenchVerified):
        benchmark = kind(place, test_timeout=900)
        for task in benchmark.tasks():
            if task["id"] == name:
                return benchmark, task
    raise AssertionError(name)


def graded(benchmark, task, submission, backend="bubblewrap"):
    with benchmark.open_grading_environment(task, StartBackend(backend)) as env:
        return benchmark.grade(task, submission, env)


@pytest.mark.slow
def test_a_real_instance(dataset, require, cached):
    require("bwrap", "git")
    benchmark, task = find(dataset, "pytest-dev__pytest-7571")

    gold = graded(benchmark, task, benchmark.gold(task))

    assert gold.passed, gold.why
    assert gold.metrics["resolved"] == "FULL"
    assert gold.metrics["environment"] == "rebuilt"
    for mutant in islice(benchmark.mutants(task), 2):
        assert not graded(benchmark, task, mutant).passed


@dataclass(frozen=True, kw_only=True)
class Forgetful(ScriptedProvider):
    """Makes its calls in their order, however much of the conversation was condensed away."""

    calls: tuple[tuple[str, dict[str, str]], ...] = ()
    asked: list[str] = field(default_factory=list)

    def _call(self, request):
        if not request.tools:
            self.asked.append("summary")
            return Response("The fix is being written.")
        number = self.asked.count("step")
        self.asked.append("step")
        name, arguments = self.calls[number]
        return Response("", (ToolCall(str(number), name, arguments),), stop_reason="tool_calls")


def test_an_agent_solves_a_real_instance(dataset, require, cached):
    """A scripted model works through react with IPython, and the conversation is condensed."""
    require("bwrap", "git")
    _, task = find(dataset, "pytest-dev__pytest-7571")
    benchmark = SWEBenchVerified(
        dataset("swe-bench"), condense_every_n_steps=2, max_steps=20, test_timeout=900
    )
    benchmark.config = replace(benchmark.config, condense_keep_last=2)
    fix = task["instance"].patch
    write_fix = f"open('/tmp/fix.diff', 'w').write({fix!r})"
    apply_fix = "import subprocess\nsubprocess.run(['git', 'apply', '/tmp/fix.diff'], check=True)"
    model = Forgetful(
        name="scripted/forgetful",
        model="forgetful",
        calls=(
            ("bash", {"command": "git log --oneline"}),
            ("ipython", {"code": write_fix}),
            ("bash", {"command": "git status"}),
            ("ipython", {"code": apply_fix}),
            ("bash", {"command": "git status --short"}),
            ("submit", {"answer": "done"}),
        ),
    )
    agent = benchmark.prepare_agent(ReactAgent(provider=model))
    with benchmark.open_environment(task, StartBackend("bubblewrap")) as env:
        result = agent.run(task["prompt"], env)
        submission = benchmark.collect(task, result, env)

    assert "summary" in model.asked
    assert diffs.paths(submission.text) == diffs.paths(fix)
    assert submission.form == "model_patch"
    assert graded(benchmark, task, submission).passed


RECORDED = Path(__file__).with_name("vectors") / "swe_bench_rebuilt.json"


def recorded() -> list[str]:
    return json.loads(RECORDED.read_text())["bubblewrap"] if RECORDED.exists() else []


@pytest.mark.full
@pytest.mark.parametrize("name", recorded())
def test_recorded_instances(dataset, require, cached, name):
    """Gold is resolved; nothing, and gold without its largest hunk, are not."""
    require("bwrap", "git")
    benchmark, task = find(dataset, name)

    gold = graded(benchmark, task, benchmark.gold(task))

    assert gold.passed, gold.why
    for mutant in islice(benchmark.mutants(task), 2):
        assert not graded(benchmark, task, mutant).passed


@pytest.mark.full
@pytest.mark.parametrize("name", recorded()[:5])
def test_hostile_patches_on_real_instances(dataset, require, cached, name):
    require("bwrap", "git")
    benchmark, task = find(dataset, name)

    for attack, submission in benchmark.attacks(task):
        assert not graded(benchmark, task, submission).passed, attack


def test_instances_without_a_clone_are_told_apart_from_those_with_one(dataset, tmp_path):
    (tmp_path / "pallets" / "flask.git").mkdir(parents=True)
    benchmark = SWEBench(dataset("swe-bench"), repositories=str(tmp_path))
    tasks = [task for task in benchmark.tasks() if task["id"].startswith(("astropy", "pallets"))]

    lacks = benchmark.out_of_reach(tasks, "bubblewrap")

    told = next(lack for lack in lacks if "has no clone of astropy/astropy" in lack.remedy)
    assert told.tasks == {task["id"] for task in tasks if task["id"].startswith("astropy")}
