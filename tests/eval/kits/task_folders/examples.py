"""Task folders of both forms to test with, and how they are run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chimera.eval.benchmarks.terminal_bench import TerminalBench
from chimera.eval.proof.validate import Stored
from chimera.eval.trial import StartBackend, TrialSpec, run_trial
from chimera.eval.values import Submission, TrialRecord

TASK_TOML = """version = "1.0"
[metadata]
difficulty = "easy"
unknown = true
[agent]
timeout_sec = 120.0
[verifier]
timeout_sec = 300.0
[verifier.env]
GREETING = "${CHIMERA_TEST_GREETING:-hello}"
[environment]
cpus = 1
memory = "1G"
allow_internet = false
"""
#: Decides by what the task asks for, and says so as pytest would.
CHECK = """#!/bin/sh
if [ "$(cat /app/answer.txt 2>/dev/null)" = 42 ]; then status=PASSED reward=1
elif [ "$(cat /app/answer.txt 2>/dev/null)" = 41 ]; then status=PASSED reward=0.5
else status=FAILED reward=0; fi
echo "=== test session starts ==="
echo "=== short test summary info ==="
echo "$status ../tests/test_outputs.py::test_answer"
"""


def write(place: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


def harbor_task(root: Path, image: str = "example") -> Path:
    return write(
        root / "answer-it",
        {
            "task.toml": TASK_TOML,
            "instruction.md": "Write 42 to /app/answer.txt",
            "environment/Dockerfile": f"FROM {image}\nRUN mkdir -p /app\nWORKDIR /app\n",
            "tests/test.sh": CHECK + "echo $reward > /logs/verifier/reward.txt\n",
            "tests/test_outputs.py": "def test_answer():\n    pass\n",
            "solution/solve.sh": "#!/bin/sh\necho 42 > /app/answer.txt\n",
            ".DS_Store": "",
        },
    )


def yaml_task(root: Path, image: str = "example") -> Path:
    return write(
        root / "answer-it",
        {
            "task.yaml": "instruction: |-\n  Write 42 to /app/answer.txt\nparser_name: pytest\n"
            "difficulty: easy\nmax_agent_timeout_sec: 100\nmax_test_timeout_sec: 300\n",
            "Dockerfile": f"FROM {image}\nRUN mkdir -p /app\nWORKDIR /app\n",
            "docker-compose.yaml": "services:\n  client: {}\n",
            "run-tests.sh": CHECK.replace("reward=", "x=") + "# runs test_outputs.py\n",
            "tests/test_outputs.py": "def test_answer():\n    pass\n",
            "solution.sh": "#!/bin/sh\necho 42 > /app/answer.txt\n",
        },
    )


def pytest_task(root: Path, image: str = "example") -> Path:
    """A task whose tests are pytest's, run from the working directory with the image's Python."""
    place = harbor_task(root, image)
    (place / "tests/test.sh").write_text(
        "#!/bin/bash\npython3 -m pytest -rA /tests/test_outputs.py\n"
        "echo $((! $?)) > /logs/verifier/reward.txt\n"
    )
    (place / "tests/test_outputs.py").write_text(
        "from pathlib import Path\n\n\ndef test_answer():\n"
        "    assert Path('/app/answer.txt').read_text().strip() == '42'\n"
    )
    return place


def run(place: Path, agent: Any, **options: Any) -> TrialRecord:
    benchmark = TerminalBench(place, **options)
    task = benchmark.tasks()[0]
    return run_trial(TrialSpec(benchmark, task, 0, agent, StartBackend("docker"), attempts=1))


def commands(script: str) -> Stored:
    """An agent that runs a script."""
    return Stored(Submission(text=script, form="commands"))
