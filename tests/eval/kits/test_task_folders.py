"""Task folders: loading both forms, rewards, summaries, and verdicts in containers."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
from pathlib import Path

import pytest

from chimera.agents.terminal.agent import TerminalAgent
from chimera.environments.base import EnvironmentSpec
from chimera.environments.local import LocalEnvironment
from chimera.errors import DatasetError, GraderError, UsageError
from chimera.eval.benchmarks.cline_bench import ClineBench
from chimera.eval.benchmarks.terminal_bench import TerminalBench
from chimera.eval.kits.task_folders.benchmark import (
    load_task,
    needs_services,
    task_directories,
    with_base_images,
)
from chimera.eval.kits.task_folders.integrity import _planted, _relied_on
from chimera.eval.kits.task_folders.verifier import (
    declared_tests,
    pytest_summary,
    read_rewards,
    resolved,
)
from chimera.eval.proof.validate import Stored
from chimera.eval.submitters import NopAgent, OracleAgent
from chimera.eval.trial import StartBackend, TrialSpec, run_trial
from chimera.eval.values import Submission
from chimera.providers.scripted import Reply, Script, ScriptedProvider
from tests.conftest import missing

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


def test_the_toml_form(tmp_path):
    task = load_task(harbor_task(tmp_path))

    assert (task["id"], task["form"]) == ("answer-it", "toml")
    assert task["prompt"] == "Write 42 to /app/answer.txt"
    assert (task["agent_seconds"], task["verifier_seconds"]) == (120.0, 300.0)
    assert (task["memory_mb"], task["network"], task["cpus"]) == (1024, False, 1.0)
    assert task["metadata"] == {"difficulty": "easy"}
    assert resolved(task["verifier_variables"]) == {"GREETING": "hello"}
    assert TerminalBench(tmp_path, time_factor=2.0).agent_seconds(task) == 240.0


def test_the_yaml_form(tmp_path):
    task = load_task(yaml_task(tmp_path))

    assert (task["id"], task["form"]) == ("answer-it", "yaml")
    assert (task["agent_seconds"], task["verifier_seconds"]) == (100.0, 300.0)
    assert task["network"]


def test_all_real_tasks_load(dataset, tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path))

    terminal = TerminalBench(dataset("terminal-bench")).tasks()
    cline = ClineBench(dataset_path=dataset("cline-bench")).tasks()

    assert (len(terminal), {task["form"] for task in terminal}) == (88, {"yaml"})
    assert (len(cline), {task["form"] for task in cline}) == (12, {"toml"})
    assert sorted({task["agent_seconds"] for task in cline}) == [1800.0, 3600.0]
    assert all(task["prompt"].strip() for task in [*terminal, *cline])
    assert {t["id"] for t in terminal if t["services"]} >= {"nginx-request-logging", "pypi-server"}


def test_the_newer_real_files_are_read(dataset, tmp_path):
    original = dataset("terminal-bench/tb2.1-form/fix-git")
    folder = harbor_task(tmp_path)
    (folder / "task.toml").write_bytes((original / "task.toml").read_bytes())

    task = load_task(folder)

    assert (task["agent_seconds"], task["verifier_seconds"]) == (900.0, 900.0)
    assert task["image"] == "alexgshaw/fix-git:20260403"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"task.toml": "not toml ["}, "answer-it"),
        ({"task.toml": "[[steps]]\nname = 'a'\n"}, "several steps"),
    ],
)
def test_damaged_tasks_are_refused(tmp_path, change, problem):
    place = write(harbor_task(tmp_path), change)

    with pytest.raises(DatasetError, match=problem):
        load_task(place)


def test_folders_are_found_and_incomplete_ones_are_not_tasks(tmp_path):
    harbor_task(tmp_path / "tasks")
    write(tmp_path / "tasks/half", {"task.toml": "", "instruction.md": ""})

    assert [place.name for place in task_directories(tmp_path)] == ["answer-it"]
    assert TerminalBench(tmp_path).tasks()[0]["id"] == "answer-it"
    assert pickle.loads(pickle.dumps(TerminalBench(tmp_path))).options()["time_factor"] == 1.0


def test_tasks_are_chosen_by_id(tmp_path):
    harbor_task(tmp_path)

    assert TerminalBench(tmp_path, tasks=["answer-it"]).tasks()
    with pytest.raises(DatasetError, match="no task fits"):
        TerminalBench(tmp_path, tasks=["other"]).tasks()


@pytest.mark.parametrize("form", ["directory", "json", "jsonl"])
def test_cline_tasks_as_json(tmp_path, monkeypatch, form):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    row = {
        "id": "one",
        "instruction": "Do it.",
        "docker_image": "example",
        "setup": ["touch /ready"],
        "test_command": "test -e /done",
        "solution": "touch /done",
        "workdir": "/app",
        "agent_timeout_sec": 60,
    }
    place = tmp_path / "data"
    place.mkdir()
    path = {"directory": place, "json": place / "t.json", "jsonl": place / "t.jsonl"}[form]
    (place / "t.jsonl" if form == "jsonl" else place / "t.json").write_text(json.dumps(row))

    (task,) = ClineBench(dataset_dir=path).tasks()

    folder = Path(task["directory"])
    assert (task["id"], task["prompt"], task["agent_seconds"]) == ("one", "Do it.", 60.0)
    assert "FROM example" in (folder / "environment/Dockerfile").read_text()
    assert "touch /ready" in (folder / "environment/Dockerfile").read_text()
    assert "test -e /done" in (folder / "tests/test.sh").read_text()


def test_a_row_cannot_write_outside_its_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    row = {
        "id": "one",
        "prompt": "x",
        "docker_image": "e",
        "tests": {"../../../../x": "", "test.sh": ""},
    }
    (tmp_path / "t.json").write_text(json.dumps(row))

    with pytest.raises(DatasetError, match="outside the task"):
        ClineBench(dataset_path=tmp_path / "t.json").tasks()


def test_base_images_are_replaced_in_a_copy(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    context = write(
        tmp_path / "context",
        {"Dockerfile": "FROM a:1 AS b\nFROM --platform=x c\nCOPY --from=a:1 /x /\n"},
    )

    same = with_base_images(context, {"other": "x"})
    changed = with_base_images(context, {"a:1": "mine", "c": "yours"})

    assert same == context
    assert (changed / "Dockerfile").read_text() == (
        "FROM mine AS b\nFROM --platform=x yours\nCOPY --from=mine /x /\n"
    )
    assert (context / "Dockerfile").read_text().startswith("FROM a:1")


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
            "run-tests.sh": "pytest $TEST_DIR/test_outputs.py -rA",
        },
    )

    assert declared_tests(place) == ["test_a", "test_c"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import requests\nrequests.get('http://localhost:80')", True),
        ("# nothing on localhost here", False),
        ("run('pip install --index-url http://127.0.0.1:8080/simple x')", True),
        ("import requests", False),
    ],
)
def test_tasks_with_servers_are_recognised(tmp_path, text, expected):
    assert needs_services(write(tmp_path, {"tests/test_outputs.py": text})) is expected


@pytest.mark.parametrize(
    ("path", "relied_on", "planted"),
    [
        ("/usr/bin/bash", True, True),
        ("/usr/local/bin/uv", True, True),
        ("/usr/bin/python3.13", True, False),
        ("/usr/lib/python3/dist-packages/sitecustomize.py", True, True),
        ("/usr/bin/curl", True, False),
        ("/usr/bin/gcc", False, False),
        ("/app/bash", False, False),
        ("/etc/ld.so.preload", True, True),
        ("/usr/local/lib/python3.13/site-packages/_pytest/main.py", True, False),
    ],
)
def test_what_a_verifier_relies_on(path, relied_on, planted):
    assert _relied_on(path) is relied_on
    assert _planted(path) is planted


@pytest.fixture(scope="session")
def image(require) -> str:
    """A small image that is on this machine: CHIMERA_TEST_IMAGE or a Debian base."""
    docker = require("docker")
    names = [os.environ.get("CHIMERA_TEST_IMAGE", ""), "chimera-base:bookworm", "debian:bookworm"]
    for name in filter(None, names):
        found = subprocess.run([docker, "image", "inspect", name], capture_output=True, check=False)
        if found.returncode == 0:
            return name
    missing("no container image to test with: set CHIMERA_TEST_IMAGE")
    return ""


def run(place: Path, agent):
    benchmark = TerminalBench(place)
    task = benchmark.tasks()[0]
    return run_trial(TrialSpec(benchmark, task, 0, agent, StartBackend("docker"), attempts=1))


def commands(script: str) -> Stored:
    return Stored(Submission(text=script, form="commands"))


@pytest.mark.parametrize("make", [harbor_task, yaml_task])
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


def test_partial_rewards_are_kept_and_missing_ones_are_errors(tmp_path, image):
    place = harbor_task(tmp_path, image)

    partial = run(tmp_path, commands("echo 41 > /app/answer.txt"))
    (place / "tests/test.sh").write_text("#!/bin/sh\nexit 0\n")
    missing = run(tmp_path, commands("mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt"))

    assert (partial.status, partial.verdict.value) == ("failed", 0.5)
    assert missing.status == "error"
    assert "wrote no reward" in missing.why


def test_a_verifier_that_hangs_is_a_failure(tmp_path, image):
    place = harbor_task(tmp_path, image)
    toml = TASK_TOML.replace("timeout_sec = 300.0", "timeout_sec = 1.0")
    write(place, {"task.toml": toml, "tests/test.sh": "#!/bin/sh\nsleep 600\n"})

    record = run(tmp_path, OracleAgent())

    assert record.status == "failed"
    assert "did not end" in record.why


def test_an_agent_is_stopped_at_the_limit_of_the_task_and_graded(tmp_path, image):
    place = harbor_task(tmp_path, image)
    toml = TASK_TOML.replace("timeout_sec = 120.0", "timeout_sec = 3.0")
    late = {"keys": "echo 42 > answer.txt; sleep 4; rm answer.txt\n", "wait": 60}
    script = Script((Reply(json.dumps({"commands": [late], "done": False})),))
    write(place, {"task.toml": toml})

    record = run(
        tmp_path,
        TerminalAgent(provider=ScriptedProvider(name="scripted/test", model="test", script=script)),
    )

    assert (record.status, record.stop_reason, record.steps) == ("passed", "limit:time", 1)


@pytest.mark.parametrize("make", [harbor_task, pytest.param(yaml_task, marks=pytest.mark.full)])
def test_attacks_fail(tmp_path, image, make):
    make(tmp_path, image)
    benchmark = TerminalBench(tmp_path)
    (task,) = benchmark.tasks()

    for name, submission in benchmark.attacks(task):
        record = run(tmp_path, Stored(submission))
        assert record.status == "failed", (name, record.why)


def test_servers_stay_and_everything_else_ends(tmp_path, image):
    place = yaml_task(tmp_path, image)
    check = (
        "#!/bin/bash\necho '=== test session starts ==='\n"
        "pgrep -f 'sleep 54321' > /dev/null && status=FAILED || status=PASSED\n"
        "(exec 3<> /dev/tcp/127.0.0.1/8123) 2>/dev/null || status=FAILED\n"
        "(exec 3<> /dev/tcp/127.0.0.1/8124) 2>/dev/null || status=FAILED\n"
        "echo '=== short test summary info ==='\n"
        'echo "$status ../tests/test_outputs.py::test_answer"\n'
    )
    server = (
        "import socket,time;s=socket.socket();s.bind(('127.0.0.1',8123));s.listen();time.sleep(999)"
    )
    # As a server that has changed its user: nobody sees what it has open.
    hidden = "import ctypes;ctypes.CDLL(None).prctl(4,0,0,0,0);" + server.replace("8123", "8124")
    write(
        place,
        {
            "run-tests.sh": check,
            "tests/test_outputs.py": "import socket\n# 127.0.0.1\ndef test_answer(): ...\n",
            "solution.sh": f'setsid python3 -c "{server}" &\nsetsid python3 -c "{hidden}" &\n'
            "setsid sleep 54321 &\nsleep 3\n",
        },
    )

    record = run(tmp_path, OracleAgent())

    assert record.passed, record.why


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
