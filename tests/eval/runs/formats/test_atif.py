"""Export as ATIF: the format's own rules, checked for trajectories of every shape."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from chimera.agents.compaction import SummaryCompaction
from chimera.agents.react import LoopConfig, ReactAgent
from chimera.environments import Environment
from chimera.eval.runs.formats.atif import trajectory_document
from chimera.eval.values import Submission, TrialError, TrialRecord, Verdict
from chimera.providers import Provider
from chimera.types import Message, Step, Usage

MANIFEST = {"run": "r1", "agent": "react", "model": "scripted/x", "benchmark": "sums"}


def check(document: dict[str, Any]) -> None:
    """The rules of ATIF that a reader relies on."""
    assert document["schema_version"] == "ATIF-v1.7"
    assert document["agent"].keys() >= {"name", "version"}
    assert document["steps"]
    for number, step in enumerate(document["steps"], 1):
        assert step["step_id"] == number
        assert step["source"] in ("system", "user", "agent")
        assert isinstance(step["message"], str)
        if step["source"] != "agent":
            assert not step.keys() & {"model_name", "tool_calls", "metrics"}
        if step.get("llm_call_count") == 0:
            assert "metrics" not in step
        if "timestamp" in step:
            datetime.fromisoformat(step["timestamp"])
        calls = {call["tool_call_id"] for call in step.get("tool_calls", ())}
        for result in step.get("observation", {}).get("results", ()):
            assert result.get("source_call_id") in {None, *calls}
    harbor = os.environ.get("CHIMERA_HARBOR_PYTHON")
    if harbor:  # an interpreter that has Harbor's own models
        code = (
            "import json, sys; from harbor.models.trajectories import Trajectory; "
            "Trajectory.model_validate(json.load(sys.stdin))"
        )
        subprocess.run([harbor, "-c", code], input=json.dumps(document), text=True, check=True)


@pytest.fixture
def worked(local_env: Environment, script: Callable[[list[Any]], Provider]) -> TrialRecord:
    """A trial with calls good and bad, a condensation and an answer."""
    bash = {"tool_calls": [{"name": "bash", "arguments": {"command": "seq 500"}}]}
    broken = {"content": "hm", "tool_calls": [{"name": "bash", "arguments": "{"}]}
    loop = LoopConfig(
        condense_every_n_steps=3, compaction=SummaryCompaction(keep_last=2, summary_max_tokens=50)
    )
    agent = ReactAgent(provider=script([broken, bash, bash, bash]), max_steps=5, loop=loop)
    result = agent.run("Count.", local_env)
    return TrialRecord(
        task_id="t/1",
        sample=2,
        digest="d",
        submission=Submission("7"),
        verdict=Verdict(True, "right"),
        usage=result.usage,
        cost=result.cost,
        trajectory=result.trajectory,
        stop_reason=result.stop_reason,
    )


def test_calls_and_results_share_a_step(worked: TrialRecord):
    document = trajectory_document(worked, MANIFEST, prompt="Count.")

    check(document)
    agent_steps = [step for step in document["steps"] if step["source"] == "agent"]
    assert len(agent_steps) == 5
    assert agent_steps[0]["tool_calls"][0]["extra"] == {"raw_arguments": "{"}
    assert "500" in agent_steps[1]["observation"]["results"][0]["content"]
    assert agent_steps[1]["metrics"]["completion_tokens"] > 0
    assert any("condensed" in step.get("extra", {}) for step in document["steps"])
    assert document["final_metrics"]["total_cost_usd"] == 0.0
    assert document["extra"]["status"] == "passed"


@pytest.mark.parametrize(
    "record",
    [
        TrialRecord("t", 0, "d", submission=Submission("gold"), verdict=Verdict(True)),
        TrialRecord("t", 0, "d", error=TrialError("provider", "HTTP 500"), cost=None),
        TrialRecord("t", 0, "d", trajectory=(Step(Message.tool("from nowhere", "c1")),)),
        TrialRecord(
            "t",
            0,
            "d",
            trajectory=(Step(Message.assistant("hi"), usage=Usage(1, 2), cost=None),),
            cost=None,
        ),
    ],
)
def test_trials_without_a_proper_trajectory_are_documents_too(record: TrialRecord):
    document = trajectory_document(record, {}, prompt="The task.")

    check(document)
    assert json.loads(json.dumps(document)) == document
    assert ("total_cost_usd" in document["final_metrics"]) is (record.cost is not None)


def test_a_document_is_a_file_like_any_other(worked: TrialRecord, tmp_path: Path):
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps(trajectory_document(worked, MANIFEST)))

    assert json.loads(path.read_text())["trajectory_id"] == "r1/t/1/2"
