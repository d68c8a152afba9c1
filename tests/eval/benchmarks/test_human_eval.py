"""HumanEval: verdicts of the official grader, gold, nothing, extraction."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chimera.environments.none import NoEnvironment
from chimera.eval.benchmarks import HumanEval
from chimera.eval.harness import Harness
from chimera.eval.values import Submission

#: What the official grader (3 s of wall time, one process) decided on each completion.
VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parent / "vectors" / "human_eval.jsonl").read_text().splitlines()
]
#: Forged passes do not count: a disarmed timer, an object that equals everything.
DEVIATIONS = {"disable alarm": False, "override check after? class eq": False}


@pytest.fixture(scope="module")
def benchmark():
    return HumanEval()


@pytest.fixture(scope="module")
def tasks(benchmark):
    return {task["id"]: task for task in benchmark.tasks()}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_verdicts_agree_with_the_official_grader(benchmark, tasks, vector):
    submission = Submission(text=vector["completion"], form="completion")
    verdict = benchmark.grade(tasks[vector["task_id"]], submission, NoEnvironment())

    assert verdict.passed is DEVIATIONS.get(vector["name"], vector["passed"]), verdict.why


def test_every_reference_passes_and_nothing_fails(benchmark):
    from chimera.eval.submitters import NopAgent, OracleAgent

    gold = Harness(benchmark=benchmark, agent=OracleAgent()).run()
    assert (gold.total, gold.passed) == (164, 164)
    isolations = {result.metrics["isolation"] for result in gold.results}
    assert "shared" not in isolations
    nothing = Harness(benchmark=benchmark, agent=NopAgent()).run()
    assert (nothing.total, nothing.failed) == (164, 164)


@pytest.mark.parametrize(
    ("reply", "passed"),
    [
        ("```python\ndef add(x, y):\n    return x + y\n```", True),
        ("    return x + y", True),
        ("First try:\n```python\ndef add(x, y):\n    return x - y\n```\nBetter:\n"
         "```python\ndef add(x, y):\n    return x + y\n```", True),
        ("```bash\nrm -rf /\n```\nThat is all.", False),
        ("", False),
        ("I would add them.", False),
    ],
)  # fmt: skip
def test_answers_are_extracted_from_replies(benchmark, tasks, reply, passed):
    task = tasks["HumanEval/53"]

    assert benchmark.evaluate(task, reply, NoEnvironment()) is passed


def test_helpers_of_the_prompt_are_the_judges_own(benchmark, tasks):
    # Task 32 checks a root with the prompt's `poly`; an answer that redefines it gains nothing.
    cheat = tasks["HumanEval/32"]["header"] + (
        "    return 0.0\n\ndef poly(xs, x):\n    return 0.0\n"
    )
    submission = Submission(text=cheat, form="solution")

    assert not benchmark.grade(tasks["HumanEval/32"], submission, NoEnvironment()).passed


def test_prompts_do_not_hold_the_answer(tasks):
    assert all(task["gold"].strip() not in task["prompt"] for task in tasks.values())
    assert all("def check(candidate" not in task["prompt"] for task in tasks.values())
