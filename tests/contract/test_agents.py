"""What every agent keeps: it is a value, it says who it is, it obeys the limits of the trial."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest

from chimera.agents import AGENTS, create_agent
from chimera.environments import EnvironmentSpec
from chimera.eval.benchmark import Benchmark
from chimera.eval.submitters import SUBMITTERS, create_submitter
from chimera.eval.trial import StartBackend, TrialSpec, run_trial
from chimera.eval.values import Task
from chimera.providers.meter import TrialLimits

LONG = 40
CALL = {"tool_calls": [{"name": "bash", "arguments": {"command": "true"}}]}
#: Each says what the agents of its kind go on with for ever.
ENDLESS = {"terminal": '{"analysis": "", "plan": "", "commands": [{"keystrokes": "true\\n"}]}'}
agents = pytest.mark.parametrize("name", sorted({*AGENTS, *SUBMITTERS}))


class Endless(Benchmark[Task]):
    """A task that nobody finishes."""

    environments = ("local",)

    def name(self) -> str:
        return "endless"

    def tasks(self) -> Sequence[Task]:
        return [{"id": "one", "prompt": "Go on."}]

    def environment(self, task: Task) -> EnvironmentSpec:
        return EnvironmentSpec(needs=frozenset({"commands"}))

    def evaluate(self, task: Task, agent_output: str, env: object) -> bool:
        return False


@pytest.fixture
def made(tmp_path: Path):
    """`made(name)`: the agent of that name, on a model that never stops of itself."""

    def make(name: str):
        reply = ENDLESS.get(name, CALL)
        script = tmp_path / "script.json"
        script.write_text(json.dumps([reply] * LONG))
        answers = tmp_path / "answers.jsonl"
        answers.write_text('{"task_id": "one", "output": "x"}\n')
        if name in SUBMITTERS:
            return create_submitter(name, {"path": str(answers)} if name == "replay" else {})
        if name == "command":
            return create_agent("command:while true; do sleep 0.1; done # {prompt}")
        if name == "acp":
            return create_agent("acp:while true; do sleep 0.1; done")
        return create_agent(name, model=f"scripted/{script}")

    return make


@agents
def test_it_is_a_value_that_says_who_it_is(made, name: str):
    agent = made(name)
    again = pickle.loads(pickle.dumps(agent))

    assert json.dumps(again.identity(), sort_keys=True) == json.dumps(
        agent.identity(), sort_keys=True
    )


@pytest.mark.parametrize("name", sorted(AGENTS.keys() - {"acp", "command", "direct", "ferret"}))
def test_it_stops_at_the_limit_of_steps(made, require, name: str):
    if name == "terminal":
        require("tmux")
    record = _trial(made(name), TrialLimits(max_steps=2))

    assert record.stop_reason.startswith("limit")
    assert record.steps <= 3


@pytest.mark.parametrize("name", ["command", "acp"])
def test_a_command_stops_at_the_limit_of_time(made, name: str):
    record = _trial(made(name), TrialLimits(seconds=1.0))

    assert record.stop_reason.startswith("limit") or record.error is not None


def _trial(agent: object, limits: TrialLimits):
    benchmark = Endless()
    spec = TrialSpec(benchmark, benchmark.tasks()[0], 0, agent, StartBackend("local"), limits)
    return run_trial(spec)
