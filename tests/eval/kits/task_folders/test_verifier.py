"""What a verifier says, read: rewards, summaries, declared tests; and verdicts in containers."""

from __future__ import annotations

import json
import subprocess

import pytest

from chimera.agents.terminal.agent import TerminalAgent
from chimera.environments.base import EnvironmentSpec
from chimera.environments.local import LocalEnvironment
from chimera.errors import GraderError, UsageError
from chimera.eval.benchmarks.terminal_bench import TerminalBench
from chimera.eval.kits.task_folders.folders import load_task
from chimera.eval.kits.task_folders.verifier import declared_tests, pytest_summary, read_rewards
from chimera.eval.submitters import NopAgent, OracleAgent
from chimera.eval.values import Submission
from chimera.providers.scripted import Reply, Script, ScriptedProvider
from tests.eval.kits.task_folders.examples import (
    TASK_TOML,
    commands,
    harbor_task,
    run,
    write,
    yaml_task,
)


@pytest.mark.parametrize(
    ("json_file", "text_file", "rewards"),
    [
        (None, b"1\n", {"reward": 1.0}),
        (None, b" 0.5 ", {"reward": 0.5}),
        (None, b"1e0", {"reward": 1.0}),
        (None, b"-1", {"reward": -1.0}),
        (b'{"reward": 0}', b"1", {"reward": 0.0}),
        (b'{"a": 1, "b": 0.5}', None, {"a": 1.0, "b": 0.5}),
        (b'{"reward": true}', None, {"reward": 1.0}),
    ],
)
def test_rewards(json_file, text_file, rewards):
    assert read_rewards(json_file, text_file) == rewards


@pytest.mark.parametrize(
    ("json_file", "text_file"),
    [
        (None, None),
        (None, b""),
        (None, b"\n"),
        (None, b"pass"),
        (None, b"nan"),
        (None, b"inf"),
        (b'{"reward": "1"}', None),
        (b'{"reward": NaN}', None),
        (b"[1]", b"1"),
        (b"{}", None),
        (b"{", None),
    ],
)
def test_what_is_no_reward_is_a_fault(json_file, text_file):
    with pytest.raises(GraderError):
        read_rewards(json_file, text_file)


BANNER = "===== short test summary info =====\n"


@pytest.mark.parametrize(
    ("output", "summary"),
    [
        ("no banner", None),
        (BANNER, {}),
        (BANNER + "PASSED a.py::t\nFAILED b.py::u - a - b", {"t": "PASSED", "u - a": "FAILED"}),
        (BANNER + "FAILED a.py::t\nPASSED b.py::t", {"t": "PASSED"}),
        (BANNER + "XPASS a.py::t", {"t": "XPASS"}),
        (BANNER + "ERROR a.py - ImportError", {"a.py - ImportError": "ERROR"}),
        (BANNER + "PASSED a.py::T::t[x y]", {"T::t[x y]": "PASSED"}),
        (BANNER + "\x1b[32mPASSED\x1b[0m a.py::t", {"t": "PASSED"}),
    ],
)
def test_the_summary_is_read_by_the_official_rules(output, summary):
    assert pytest_summary(output) == summary


def test_declared_tests_are_read_without_running(tmp_path):
    place = write(
        tmp_path,
        {
            "tests/test_outputs.py": "import nothing_here\nimport pytest\ndef test_a(): ...\n"
            "class TestB:\n    def test_c(self): ...\n    def helper(self): ...\n"
            "@pytest.mark.skip\ndef test_d(): ...\n",
            "tests/test_other.py": "def test_e(): ...\n",
            "task.yaml": "instruction: x",
            "run-tests.sh": "pytest $TEST_DIR/test_outputs.py -rA",
        },
    )

    assert declared_tests(load_task(place)) == ["test_a", "test_c"]


@pytest.mark.parametrize("make", [harbor_task, pytest.param(yaml_task, marks=pytest.mark.slow)])
def test_the_solution_passes_and_nothing_fails(tmp_path, image, make, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CHIMERA_DOCKER_IMAGE_MAP", json.dumps({"not-to-be-had:1": image}))
    make(tmp_path / "tasks", "not-to-be-had:1")

    solved = run(tmp_path / "tasks", OracleAgent())
    assert solved.passed, solved.why
    assert solved.verdict.metrics["image"] == "rebuilt"
    nothing = run(tmp_path / "tasks", NopAgent())
    assert nothing.status == "failed"
    assert nothing.verdict.value == 0.0


@pytest.mark.slow
def test_solutions_and_tests_take_from_clones_what_is_at_a_code_host(tmp_path, image):
    clone = write(tmp_path / "clones/owner/name", {"answer.txt": "42\n"})
    author = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(clone), *command], check=True)
    place = harbor_task(tmp_path / "tasks", image)
    cloned = "git clone -q https://github.com/owner/name.git /tmp/{}\n"
    judged = (
        "cmp /tmp/true/answer.txt /app/answer.txt; echo $((1 - $?)) > /logs/verifier/reward.txt\n"
    )
    write(
        place,
        {
            "solution/solve.sh": cloned.format("copy") + "cp /tmp/copy/answer.txt /app\n",
            "tests/test.sh": cloned.format("true") + judged,
        },
    )

    solved, wrong = (
        run(tmp_path / "tasks", agent, repositories=tmp_path / "clones")
        for agent in (OracleAgent(), commands("ls /opt/clones; echo 41 > /app/answer.txt"))
    )

    assert solved.passed, solved.why
    assert wrong.status == "failed"


@pytest.mark.slow
def test_partial_rewards_are_kept_and_missing_ones_are_errors(tmp_path, image):
    place = harbor_task(tmp_path, image)

    partial = run(tmp_path, commands("echo 41 > /app/answer.txt"))
    (place / "tests/test.sh").write_text("#!/bin/sh\nexit 0\n")
    missing = run(tmp_path, commands("mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt"))

    assert (partial.status, partial.verdict.value) == ("failed", 0.5)
    assert missing.status == "error"
    assert "wrote no reward" in missing.why


@pytest.mark.slow
def test_a_verifier_that_hangs_is_a_failure(tmp_path, image):
    place = harbor_task(tmp_path, image)
    toml = TASK_TOML.replace("timeout_sec = 300.0", "timeout_sec = 1.0")
    write(place, {"task.toml": toml, "tests/test.sh": "#!/bin/sh\nsleep 600\n"})

    record = run(tmp_path, OracleAgent())

    assert record.status == "failed"
    assert "did not end" in record.why


@pytest.mark.slow
def test_an_agent_is_stopped_at_the_limit_of_the_task_and_graded(tmp_path, image):
    place = harbor_task(tmp_path, image)
    toml = TASK_TOML.replace("timeout_sec = 120.0", "timeout_sec = 20.0")
    late = {"keys": "echo 42 > answer.txt; sleep 600; rm answer.txt\n", "wait": 600}
    script = Script((Reply(json.dumps({"commands": [late], "done": False})),))
    write(place, {"task.toml": toml})

    record = run(
        tmp_path,
        TerminalAgent(provider=ScriptedProvider(name="scripted/test", model="test", script=script)),
    )

    assert (record.status, record.stop_reason) == ("passed", "limit:time")


def test_nothing_is_run_outside_a_container(tmp_path):
    harbor_task(tmp_path)
    benchmark = TerminalBench(tmp_path)
    (task,) = benchmark.tasks()

    with LocalEnvironment.start(EnvironmentSpec()) as env:
        for work in (
            lambda: benchmark.grade(task, Submission(), env),
            lambda: benchmark.oracle(task, env),
        ):
            with pytest.raises(UsageError, match="need containers"):
                work()
