"""Tasks of several steps: one container, an instruction and a verdict for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimera.agents.base import FunctionAgent
from chimera.eval.benchmarks.harbor import Harbor
from chimera.eval.kits.task_folders.folders import load_task
from chimera.eval.kits.task_folders.steps import combined
from chimera.eval.submitters import NopAgent, OracleAgent
from chimera.eval.trial import StartBackend, TrialSpec, run_trial
from chimera.eval.values import Verdict
from tests.eval.kits.task_folders.examples import commands, run, write

SETTINGS = """
[agent]
timeout_sec = 120.0
[environment]
allow_internet = false
[[steps]]
name = "first"
min_reward = 1.0
[[steps]]
name = "second"
"""


def stepped_task(root: Path, image: str = "example", settings: str = SETTINGS) -> Path:
    check = '[ "$(cat /app/{0} 2>/dev/null)" = {0} ]; echo $((! $?)) > /logs/verifier/reward.txt\n'
    files = {
        "task.toml": settings,
        "environment/Dockerfile": f"FROM {image}\nRUN mkdir -p /app\nWORKDIR /app\n",
    }
    for step in ("first", "second"):
        files |= {
            f"steps/{step}/instruction.md": f"Write the name of the step to /app/{step}",
            f"steps/{step}/tests/test.sh": check.format(step),
            f"steps/{step}/solution/solve.sh": f"cat given > {step}\n",
            f"steps/{step}/workdir/setup.sh": f"echo {step} > given\n",
        }
    return write(root / "in-steps", files)


def test_a_step_has_what_is_its_own_over_its_task(tmp_path):
    task = load_task(stepped_task(tmp_path))

    first, second = task["steps"]
    assert task["prompt"] == first["prompt"] == "Write the name of the step to /app/first"
    assert (first["least"], second["least"]) == ({"reward": 1.0}, {})
    assert first["agent_seconds"] == 120.0
    assert second["tests"] == [f"{task['directory']}/steps/second/tests"]


@pytest.mark.parametrize(
    ("strategy", "rewards", "score", "passed"),
    [
        ("mean", [1.0, 1.0], 1.0, True),
        ("mean", [1.0, 0.0], 0.5, False),
        ("mean", [1.0], 1.0, False),
        ("final", [0.0, 1.0], 1.0, True),
    ],
)
def test_rewards_of_steps_become_the_tasks(tmp_path, strategy, rewards, score, passed):
    head = f"multi_step_reward_strategy = '{strategy}'\n"
    task = load_task(stepped_task(tmp_path, settings=head + SETTINGS))

    verdict = combined(task, [Verdict(reward >= 1, "", reward) for reward in rewards])

    assert (verdict.score, verdict.passed) == (score, passed)


def test_every_step_is_asked_and_verified(tmp_path, image):
    stepped_task(tmp_path / "tasks", image)
    asked = []

    def agent(prompt, env):
        asked.append(prompt)
        env.run_command(f"cp given {prompt.rpartition('/')[2]}")
        return "done"

    benchmark = Harbor(tmp_path / "tasks")
    prepared = benchmark.prepare_agent(FunctionAgent(agent, takes_environment=True))
    spec = TrialSpec(
        benchmark, benchmark.tasks()[0], 0, prepared, StartBackend("docker"), attempts=1
    )
    record = run_trial(spec)

    assert record.passed, record.why
    assert [prompt.rpartition("/")[2] for prompt in asked] == ["first", "second"]
    assert record.verdict.metrics["steps"] == ["reward 1", "reward 1"]


@pytest.mark.slow
def test_the_reference_passes_and_a_step_that_fails_ends_it(tmp_path, image):
    stepped_task(tmp_path / "tasks", image)

    solved = run(tmp_path / "tasks", OracleAgent())
    nothing = run(tmp_path / "tasks", NopAgent())
    first = run(tmp_path / "tasks", commands("echo first > first"))

    assert solved.passed, solved.why
    assert nothing.verdict.metrics["steps"] == ["reward 0"]
    assert first.verdict.metrics["steps"] == ["reward 1", "reward 0"]
    assert first.verdict.score == 0.5
