"""Answers without a model: the reference, nothing, stored ones."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from chimera.environments import Environment
from chimera.environments.none import NoEnvironment
from chimera.errors import AgentError, UsageError
from chimera.eval.benchmark import Benchmark
from chimera.eval.runs.database import encode
from chimera.eval.submitters import SUBMITTERS, Stored, create_submitter
from chimera.eval.trial import Submitter
from chimera.eval.values import Submission, Task
from chimera.types import AgentResult


class Sums(Benchmark[Task]):
    def name(self) -> str:
        return "sums"

    def tasks(self) -> list[Task]:
        return [Task(id="a", prompt="1 + 1"), Task(id="b", prompt="2 + 2")]

    def evaluate(self, task: Task, agent_output: str, env: Environment) -> bool:
        return agent_output == "2"

    def gold(self, task: Task) -> Submission | None:
        return Submission("2") if task["id"] == "a" else None


def test_oracle_hands_in_the_reference_and_nop_nothing():
    benchmark = Sums()
    tasks = benchmark.tasks()

    assert (
        create_submitter("oracle", {}).submit(benchmark, tasks[0], 0, NoEnvironment()).text == "2"
    )
    with pytest.raises(UsageError, match="no reference answer"):
        create_submitter("oracle", {}).submit(benchmark, tasks[1], 0, NoEnvironment())
    assert create_submitter("nop", {}).run("1 + 1", NoEnvironment()) == AgentResult("")


def test_replay_hands_in_the_nth_stored_answer(tmp_path: Path):
    file = tmp_path / "predictions.jsonl"
    lines = [("a", "2"), ("b", "4"), ("a", "3")]
    file.write_text("".join(json.dumps({"task_id": i, "output": o}) + "\n" for i, o in lines))
    agent = pickle.loads(pickle.dumps(create_submitter("replay", {"path": str(file)})))
    benchmark = Sums()
    first, second = benchmark.tasks()

    handed = [
        agent.submit(benchmark, task, sample, NoEnvironment()).text
        for task, sample in ((first, 0), (first, 1), (second, 0))
    ]

    assert handed == ["2", "3", "4"]
    with pytest.raises(AgentError, match="none for its sample 1"):
        agent.submit(benchmark, second, 1, NoEnvironment())
    assert len(agent.identity()["predictions"]) == 64


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("oracle", {"x": "1"}, "no option 'x'"),
        ("nop", {"path": "x"}, "no option 'path'"),
        ("replay", {}, "needs a prediction file"),
        ("replay", {"path": "/nowhere.jsonl"}, "no prediction file"),
        ("replay:/nowhere.jsonl", {}, "no prediction file"),
    ],
)
def test_what_cannot_be_made_is_said(name: str, options: dict[str, str], complaint: str):
    with pytest.raises(UsageError, match=complaint):
        create_submitter(name, options)


def test_only_those_that_know_answers_hand_in_themselves(tmp_path: Path):
    file = tmp_path / "predictions.jsonl"
    file.touch()
    made = {name: create_submitter(f"{name}:{file}", {}) for name in SUBMITTERS}

    assert [name for name, each in made.items() if isinstance(each, Submitter)] == [
        "oracle",
        "replay",
    ]


def test_a_stored_answer_is_named_by_its_digest_however_deep_or_long_it_is() -> None:
    """The first of a prediction file stands in the run's manifest, which has bounds."""
    deep: list[object] = []
    for _ in range(300):
        deep = [deep]
    found = [Stored(Submission(data={"x": each})).identity() for each in (deep, [], "x" * 10**7)]

    assert all(len(encode(each)) < 100 for each in found)
    assert len({str(each) for each in found}) == 3
