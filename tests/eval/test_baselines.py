"""Agents end to end on a real task of every benchmark: recorded, and here run and graded again.

Where a run needs clones, images or packages of the network, the record alone is looked at: it was
made with the command that the manifest names.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chimera.cache import file_digest
from chimera.eval.harness import Harness
from chimera.eval.registry import adapters
from chimera.eval.regrade import planned_answers
from chimera.eval.run import run
from chimera.eval.values import Prediction

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "baselines.py"
#: What is graded in the agent's own environment, so that no stored answer is enough.
IN_PLACE = ("custom",)
#: Programs that runs without other needs call.
PROGRAMS = {"custom": ("bwrap",), "aider-polyglot": ("bwrap",)}


def script() -> Any:
    if "baselines" not in sys.modules:
        spec = importlib.util.spec_from_file_location("baselines", SCRIPT)
        assert spec is not None
        assert spec.loader is not None
        sys.modules["baselines"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["baselines"])
    return sys.modules["baselines"]


BASELINES = script().Baseline.all()
LINES = script().lines()
HERE = [name for name, each in BASELINES.items() if not each.needs]


@pytest.fixture(autouse=True)
def data(request: pytest.FixtureRequest, dataset: Callable[[str], Path], require: Any) -> None:
    """The data set of the benchmark that a test is about."""
    name = getattr(request.node, "callspec", None) and request.node.callspec.params.get("name")
    if name is not None and BASELINES[name].dataset is None:
        dataset("swe-bench" if name == "swe-bench-verified" else name)
    for program in PROGRAMS.get(str(name), ()):
        require(program)


def test_every_benchmark_has_a_script():
    assert adapters().keys() == BASELINES.keys()


def test_every_script_solved_its_task_and_the_small_model_came_to_an_end():
    for line in LINES:
        assert line["task_id"] == BASELINES[line["benchmark"]].task
        assert line["stop_reason"], line["benchmark"]
        assert line["model"] != "scripted" or line["status"] == "passed", line["benchmark"]
    for model in ("scripted", "local/smollm2"):
        assert {line["benchmark"] for line in LINES if line["model"] == model} == BASELINES.keys()


def test_the_manifest_names_every_file_as_it_is():
    place = ROOT / "data" / "baselines"
    manifest = json.loads((place / "manifest.json").read_text("utf-8"))

    assert manifest.keys() == {file.name for file in place.glob("*.jsonl")}
    for name, told in manifest.items():
        assert told["sha256"] == file_digest(place / name), name
    assert manifest["agents.jsonl"]["total"] == len(LINES)


@pytest.mark.parametrize("name", HERE)
def test_a_scripted_agent_solves_a_real_task(name: str, tmp_path: Path):
    settings = BASELINES[name].settings(script().SCRIPTED, tmp_path, None)

    with run(settings, runs=tmp_path / "runs").store as store:
        (record,) = store.records()

    assert (record.status, record.task_id) == ("passed", BASELINES[name].task), record.why


@pytest.mark.parametrize("name", [name for name in HERE if name not in IN_PLACE])
def test_stored_answers_get_the_verdict_they_got(name: str, prepared: Callable[..., None]):
    benchmark = BASELINES[name].create()
    task = next(task for task in benchmark.tasks() if task["id"] == BASELINES[name].task)
    prepared(benchmark, [task])
    graded = {
        line["model"]: (line["status"], answer)
        for line in LINES
        if line["benchmark"] == name and line["status"] != "error"
        if (answer := script().stored_submission(benchmark, task, line)) is not None
    }

    for model, (status, answer) in graded.items():
        planned = planned_answers(benchmark, [Prediction(task["id"], answer)])
        harness = Harness(benchmark=benchmark, agent=planned[0][2], predictions=planned)
        (result,) = harness.run().results
        assert result.status == status, (model, result.why)
