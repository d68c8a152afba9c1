"""The agent inside the two official programs, with a scripted model and real containers."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.full

AGENTS = "chimera.benchmarks.terminal_bench_agent"
DOCKERFILE = "FROM {image}\nWORKDIR /app\n"
INSTRUCTION = "Write 42 to /app/answer.txt."
REPLIES = [
    {"commands": [{"keys": "echo 42 > /app/answer.txt\n", "wait": 20}], "done": False},
    {"commands": [], "done": True},
    {"commands": [], "done": True},
]
HARBOR_FILES = {
    "task.toml": (
        'version = "1.0"\n[agent]\ntimeout_sec = 120.0\n[verifier]\ntimeout_sec = 60.0\n'
        "[environment]\ncpus = 1\nmemory_mb = 1024\n"
    ),
    "instruction.md": INSTRUCTION,
    "environment/Dockerfile": DOCKERFILE,
    "tests/test.sh": (
        '#!/bin/sh\nif [ "$(cat /app/answer.txt)" = 42 ]; then echo 1; else echo 0; fi '
        "> /logs/verifier/reward.txt\n"
    ),
}
YAML_FILES = {
    "task.yaml": (
        f"instruction: {INSTRUCTION}\ndifficulty: easy\nparser_name: pytest\n"
        "max_agent_timeout_sec: 120\nmax_test_timeout_sec: 60\ndisable_asciinema: true\n"
    ),
    "Dockerfile": DOCKERFILE,
    "docker-compose.yaml": (
        'version: "3"\nservices:\n  client:\n'
        "    build: {context: ., network: host}\n"
        "    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}\n"
        "    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}\n"
        '    command: ["sh", "-c", "sleep infinity"]\n    network_mode: none\n'
        "    environment:\n      - TEST_DIR=${T_BENCH_TEST_DIR}\n"
        "    volumes:\n"
        "      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}\n"
        "      - ${T_BENCH_TASK_AGENT_LOGS_PATH}:${T_BENCH_CONTAINER_AGENT_LOGS_PATH}\n"
    ),
    "run-tests.sh": "python3 -m pytest /tests/test_outputs.py -rA\n",
    "tests/test_outputs.py": (
        "from pathlib import Path\n\n\ndef test_answer():\n"
        "    assert Path('/app/answer.txt').read_text() == '42\\n'\n"
    ),
    "solution.sh": "echo 42 > /app/answer.txt\n",
}


def program(variable: str, name: str) -> str:
    """A program beside the interpreter that `variable` names."""
    python = os.environ.get(variable)
    if not python:
        reason = f"{variable} names no interpreter with the official program"
        if os.environ.get("CHIMERA_REQUIRE_ALL") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return str(Path(python).with_name(name))


def written(place: Path, files: dict[str, str], image: str) -> Path:
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text.replace("{image}", image))
    return place


def run(command: list[str], place: Path) -> None:
    variables = {
        **os.environ,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "HARBOR_TELEMETRY": "0",
        "PYTHONPATH": str(Path(__file__).parent),
    }
    done = subprocess.run(
        command, cwd=place, env=variables, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def model(place: Path) -> str:
    script = place / "replies.json"
    script.write_text(json.dumps([json.dumps(reply) for reply in REPLIES]))
    return f"scripted/{script}"


def test_harbor_gives_the_agent_its_reward(tmp_path, docker_image):
    """Needs CHIMERA_HARBOR_PYTHON, an interpreter that has harbor and chimera installed."""
    harbor = program("CHIMERA_HARBOR_PYTHON", "harbor")
    task = written(tmp_path / "write-answer", HARBOR_FILES, docker_image)

    def trial_of(agent: str) -> dict[str, Any]:
        run(
            [
                harbor, "run", "-p", str(task), "-a", agent, "-m", model(tmp_path), "-q", "-y",
                "-e", "harbor_engine:EngineEnvironment", "-o", "jobs", "--job-name", agent[-5:],
            ],
            tmp_path,
        )  # fmt: skip
        (trial,) = (tmp_path / "jobs" / agent[-5:]).glob("write-answer__*/result.json")
        result = json.loads(trial.read_text())
        assert result["exception_info"] is None
        return result

    solved = trial_of(f"{AGENTS}:HarborChimeraAgent")
    assert solved["verifier_result"]["rewards"] == {"reward": 1.0}
    assert solved["agent_info"]["name"] == "chimera"
    assert solved["agent_result"]["n_input_tokens"] > 0
    assert solved["agent_result"]["metadata"]["stop_reason"] == "done"
    assert trial_of("nop")["verifier_result"]["rewards"] == {"reward": 0.0}


def test_terminal_bench_resolves_with_the_agent(tmp_path, docker_image):
    """Needs CHIMERA_TERMINAL_BENCH_PYTHON, with terminal-bench and chimera, and Compose."""
    tb = program("CHIMERA_TERMINAL_BENCH_PYTHON", "tb")
    compose = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if compose.returncode:
        pytest.skip("'docker compose' is not installed: terminal-bench starts containers with it")
    written(tmp_path / "tasks/write-answer", YAML_FILES, docker_image)

    def results(*agent: str) -> dict[str, Any]:
        run(
            [
                tb, "run", "--dataset-path", "tasks", *agent, "-m", model(tmp_path),
                "--run-id", agent[-1][-5:], "--output-path", "runs", "--no-livestream",
            ],
            tmp_path,
        )  # fmt: skip
        return json.loads((tmp_path / "runs" / agent[-1][-5:] / "results.json").read_text())

    solved = results("--agent-import-path", f"{AGENTS}:ChimeraAgent")
    assert solved["resolved_ids"] == ["write-answer"]
    assert solved["results"][0]["total_input_tokens"] > 0
    assert results("--agent", "nop")["resolved_ids"] == []
