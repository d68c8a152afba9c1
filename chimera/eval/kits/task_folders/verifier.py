"""The verdict on a task folder: its own tests, brought in once the agent has stopped."""

from __future__ import annotations

import ast
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from chimera.environments.base import Environment, Machine
from chimera.environments.clones import brought
from chimera.environments.docker import DockerEnvironment
from chimera.environments.engine import Engine
from chimera.environments.wrapped import unwrapped
from chimera.errors import GraderError, UsageError
from chimera.eval.values import Submission, Verdict
from chimera.types import JSON, CommandResult

if TYPE_CHECKING:
    from chimera.eval.kits.task_folders.folders import HarborTask

PASSING = frozenset({"PASSED", "SKIPPED", "XFAIL"})
STATUSES = PASSING | {"FAILED", "ERROR", "XPASS"}
PYTEST_SETTINGS = ("pytest.ini", "pyproject.toml")
#: How wide the official terminal is; pytest cuts its summary lines at it.
COLUMNS = "160"
#: Where a cache of uv's downloads is mounted, for verifiers that run without network.
UV_CACHE = "/opt/uv-cache"

#: Nothing of an earlier life is left where the tests and the reward go.
CLEAN = """
[ -L /logs ] && rm -f /logs
rm -rf /logs/verifier || exit 1
mkdir -p /logs/verifier /logs/agent
"""


def run_solution(
    task: HarborTask, env: Environment, seconds: float, clones: Path | None = None
) -> Submission:
    """Run the task's own solution in `env`, as the official oracle does.

    What it takes from a code host comes from `clones`, where they are given.
    """
    env = image_machine(env)
    if not task["solution"]:
        raise UsageError(f"task {task['id']} has no solution")
    source = Path(task["solution"])
    if source.suffix == ".yaml":
        return _typed_solution(source, env)
    target, script = ("/solution", "solve.sh") if source.is_dir() else ("/oracle", source.name)
    env.copy_in(source, target if source.is_dir() else f"{target}/{script}")
    # Servers that the solution leaves running must not hold the pipe of this command.
    command = f"bash {target}/{script} > /tmp/.solution.log 2>&1 < /dev/null"
    with brought(env, clones, _text([source])) as variables:
        done = env.run_command(
            ["bash", "-c", command],
            timeout=seconds,
            variables={**resolved(task["solution_variables"]), **variables},
        )
    try:
        log = env.read_file("/tmp/.solution.log").decode("utf-8", "replace")
        env.run_command(["rm", "-rf", target, "/tmp/.solution.log"])
    except OSError:
        log = ""
    return Submission(text=log[-4000:], data={"exit_code": done.exit_code})


def _text(places: Iterable[Path]) -> str:
    """What the files at some places say: of a solution, or of tests."""
    files = (file for place in places for file in (place, *sorted(place.rglob("*"))))
    return "\n".join(file.read_text("utf-8", "replace") for file in files if file.is_file())


def _typed_solution(source: Path, env: Machine) -> Submission:
    """The older form's list of keystrokes, typed into a terminal."""
    import yaml

    from chimera.agents.terminal.tmux import TmuxTerminal, settle

    content = yaml.safe_load(source.read_text("utf-8"))
    terminal = TmuxTerminal.inside(env)
    terminal.start()
    for entry in content:
        enter = "\n" if entry.get("append_enter", True) else ""
        terminal.send(str(entry["command"]) + enter)
        settle(terminal, float(entry.get("max_timeout_sec", 180.0)))
    return Submission(text=terminal.screen())


def resolved(variables: Mapping[str, str]) -> dict[str, str]:
    """Values with `${NAME}` and `${NAME:-default}` taken from this process's variables."""

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1], match[2])
        if found is None:
            raise GraderError(f"the task needs the environment variable {match[1]}")
        return found

    pattern = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
    return {name: pattern.sub(value, text) for name, text in variables.items()}


def cut_off(env: Environment) -> None:
    """Take the network away from a container, and give it what uv would have downloaded."""
    env = image_machine(env)
    if (container := container_of(env)) is not None:
        Engine.find().call("network", "disconnect", "--force", "bridge", container)
    _must(
        env,
        f"[ -d {UV_CACHE} ] || exit 0\nrm -rf /root/.cache/uv && mkdir -p /root/.cache\n"
        f"cp -a {UV_CACHE} /root/.cache/uv",
    )


def container_of(env: Environment) -> str | None:
    """The container behind an environment, when it is one of Docker's."""
    inner = unwrapped(env)
    return inner.container if isinstance(inner, DockerEnvironment) else None


def image_machine(env: Environment) -> Machine:
    """Refuse to work outside a container: solutions and verifiers write to absolute paths."""
    if isinstance(env, Machine) and "image" in env.capabilities:
        return env
    raise UsageError(f"terminal tasks need containers, not the environment '{env.name}'")


def verify(
    task: HarborTask,
    env: Environment,
    seconds: float,
    *,
    offline: bool = False,
    owns_tests: bool = False,
    clones: Path | None = None,
) -> Verdict:
    """Bring in the tests, run them for at most `seconds`, and read what they say.

    `owns_tests`: the image of the environment has the tests already. What they take from a code
    host comes from `clones`, where they are given.
    """
    env = image_machine(env)
    _must(env, CLEAN)
    if not (owns_tests and env.run_command(["test", "-e", "/tests/test.sh"]).success):
        _bring_tests(task, env)
    script = "/tests/test.sh" if task["form"] == "toml" else "/tests/run-tests.sh"
    said = _text(map(Path, task["tests"])) if clones is not None else ""
    with brought(env, clones, said) as variables:
        done = env.run_command(
            ["bash", "-c", f"chmod +x {script}; exec 2>&1; exec bash {script} < /dev/null"],
            timeout=seconds,
            variables={
                **resolved(task["verifier_variables"]),
                **variables,
                "COLUMNS": COLUMNS,
                "TEST_DIR": "/tests",
                **({"UV_OFFLINE": "1"} if offline else {}),
            },
        )
    output = done.stdout.decode("utf-8", "replace")
    metrics: dict[str, JSON] = {}
    evidence: dict[str, JSON] = {"output": output[-50_000:]}
    if done.timed_out:
        why = f"the tests did not end in {seconds:g} s"
        return Verdict(False, why, 0.0, {"timed_out": True}, evidence)
    if task["form"] == "toml":
        return _by_reward(task, env, done, output, metrics, evidence)
    return _by_summary(task, output, metrics, evidence)


def _bring_tests(task: HarborTask, env: Machine) -> None:
    _must(env, "rm -rf /tests && mkdir -p /tests")
    for folder in task["tests"]:
        env.copy_in(Path(folder), "/tests")
    if task["form"] == "yaml":
        env.copy_in(test_script(task), "/tests/run-tests.sh")
    settings = [Path(folder, name) for folder in task["tests"] for name in PYTEST_SETTINGS]
    if not any(place.exists() for place in settings):
        # Settings of pytest are looked for upwards; this ends the search before the agent's files.
        env.write_file("/tests/pytest.ini", "[pytest]\n")


def _must(env: Machine, script: str) -> CommandResult:
    done = env.run_command(["sh", "-c", script], cwd="/", timeout=120.0)
    if not done.success:
        raise GraderError(f"the place for the tests cannot be made: {done.output[-500:]}")
    return done


def _by_reward(
    task: HarborTask,
    env: Machine,
    done: CommandResult,
    output: str,
    metrics: dict[str, JSON],
    evidence: dict[str, JSON],
) -> Verdict:
    rewards = read_rewards(_file(env, "reward.json"), _file(env, "reward.txt"))
    reward = rewards.get("reward", sum(rewards.values()) / len(rewards))
    metrics = {**metrics, **({"rewards": rewards} if set(rewards) != {"reward"} else {})}
    summary = pytest_summary(output)
    if summary is None and runs_pytest(task):
        if reward <= 0:
            raise GraderError(f"the verifier ran no tests: {_last_line(output)}")
        return Verdict(False, "a reward without any test run", 0.0, metrics, evidence)
    if summary is not None and reward > 0:
        problem = _unbacked(task, summary)
        if problem:
            metrics["official_reward"] = reward
            return Verdict(False, f"reward {reward:g}, but {problem}", 0.0, metrics, evidence)
    passed = reward >= 1.0
    return Verdict(passed, f"reward {reward:g}", reward, metrics, evidence)


def _by_summary(
    task: HarborTask, output: str, metrics: dict[str, JSON], evidence: dict[str, JSON]
) -> Verdict:
    summary = pytest_summary(output)
    if summary is None:
        if "test session starts" in output:
            return Verdict(False, "the test run has no summary", 0.0, metrics, evidence)
        raise GraderError(f"the tests did not start: {_last_line(output)}")
    resolved_officially = all(status in PASSING for status in summary.values())
    if not resolved_officially:
        bad = [name for name, status in summary.items() if status not in PASSING]
        why = f"{len(bad)} of {len(summary)} tests failed, first {bad[0]}"
        return Verdict(False, why, 0.0, metrics, evidence)
    problem = _unbacked(task, summary)
    if problem:
        return Verdict(False, problem, 0.0, {**metrics, "official": True}, evidence)
    count = sum(status == "PASSED" for status in summary.values())
    return Verdict(True, f"{count} tests passed", 1.0, metrics, evidence)


def _unbacked(task: HarborTask, summary: Mapping[str, str]) -> str | None:
    """What is wrong with a passing summary: failures, no passed test, tests that are not in it."""
    failed = [name for name, status in summary.items() if status not in PASSING]
    if failed:
        return f"{len(failed)} tests failed, first {failed[0]}"
    if "PASSED" not in summary.values():
        return "no test passed"
    declared = declared_tests(task)
    reported = {re.split(r"[\[ ]", name.rsplit("::", 1)[-1])[0] for name in summary}
    missing = [name for name in declared if name not in reported]
    return f"{len(missing)} tests did not run, first {missing[0]}" if missing else None


def pytest_summary(output: str) -> dict[str, str] | None:
    """Test name → status from the short summary of `pytest -rA`; None when there is none.

    The official parser's rules: lines after the first banner, a name is what follows the first
    `::`, of a FAILED line the part after the last " - " goes, the last line of a name counts.
    """
    parts = re.split(r"(?<!=)=+ short test summary info =+", output, maxsplit=1)
    if len(parts) != 2:
        return None
    found: dict[str, str] = {}
    for line in parts[1].splitlines():
        status, _, rest = re.sub(r"\x1b\[[0-9;]*m", "", line).strip().partition(" ")
        if status not in STATUSES:
            continue
        if status == "FAILED":
            rest = rest.rsplit(" - ", 1)[0]
        found[rest.split("::", 1)[1].strip() if "::" in rest else rest.strip()] = status
    return found


def test_script(task: HarborTask) -> Path:
    """The script that runs the tests; those of a step stand before those of its task."""
    if task["form"] == "yaml":
        return Path(task["directory"]) / "run-tests.sh"
    places = [Path(folder) / "test.sh" for folder in reversed(task["tests"])]
    return next((place for place in places if place.is_file()), places[-1])


def _test_script_text(task: HarborTask) -> str:
    script = test_script(task)
    return script.read_text("utf-8", "replace") if script.is_file() else ""


def declared_tests(task: HarborTask) -> list[str]:
    """Names of the tests in the test files that the task's script names, read without running."""
    text = _test_script_text(task)
    files = {file.name: file for folder in task["tests"] for file in Path(folder).glob("*.py")}
    names: list[str] = []
    for _, file in sorted(files.items()):
        if file.name not in text or not file.name.startswith("test"):
            continue
        try:
            tree = ast.parse(file.read_text("utf-8", "replace"))
        except SyntaxError:
            continue
        names += _test_functions(tree.body)
    return names


def _test_functions(body: Iterable[ast.stmt]) -> list[str]:
    names: list[str] = []
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("test") and not _skipped(node):
                names.append(node.name)
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            names += _test_functions(node.body)
    return names


def _skipped(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("skip" in ast.unparse(decorator) for decorator in node.decorator_list)


def runs_pytest(task: HarborTask) -> bool:
    return "pytest" in _test_script_text(task)


def read_rewards(json_file: bytes | None, text_file: bytes | None) -> dict[str, float]:
    """Rewards by name, by Harbor's rules; anything else is a fault of the verifier."""
    if json_file is not None:
        try:
            content = json.loads(json_file)
        except ValueError as error:
            raise GraderError(f"reward.json is not JSON: {error}") from None
        if not isinstance(content, dict) or not content:
            raise GraderError("reward.json is not an object of numbers")
        rewards = {str(name): value for name, value in content.items()}
        for name, value in rewards.items():
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise GraderError(f"reward.json: {name} is {value!r}, not a finite number")
        return {name: float(value) for name, value in rewards.items()}
    if text_file is None:
        raise GraderError("the verifier wrote no reward")
    try:
        reward = float(text_file.decode("utf-8").strip())
    except ValueError:
        raise GraderError(f"reward.txt holds no number: {text_file[:80]!r}") from None
    if not math.isfinite(reward):
        raise GraderError(f"reward.txt holds {reward}, not a finite number")
    return {"reward": reward}


def _file(env: Machine, name: str) -> bytes | None:
    try:
        return env.read_file(f"/logs/verifier/{name}")
    except FileNotFoundError:
        return None


def _last_line(output: str) -> str:
    lines = [line for line in output.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else "nothing was printed"
