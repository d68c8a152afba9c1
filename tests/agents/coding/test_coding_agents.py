"""Real coding agents from the registries solve a task, with no network, on a scripted service.

Everything here installs hundreds of megabytes once, and is run by `make test-full`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chimera.agents import create_agent
from chimera.agents.coding import CODING_AGENTS
from chimera.agents.coding.layers import architecture
from chimera.environments import EnvironmentSpec, available, start_environment
from chimera.eval.benchmarks.custom import CustomBenchmark
from chimera.eval.harness import Harness
from chimera.eval.runs.files import SUFFIX
from chimera.eval.runs.formats.atif import trajectory_document
from chimera.eval.runs.store import RunStore
from chimera.eval.values import TrialRecord
from chimera.providers.meter import TrialLimits
from tests.conftest import missing
from tests.gateway.conftest import provider_of
from tests.gateway.upstream import KEY, PRICE, Upstream, cost

pytestmark = pytest.mark.full
#: What every agent's shell tool is called, and what its command.
SHELLS: dict[str, tuple[str, str, dict[str, str]]] = {
    "claude-code": ("Bash", "command", {"description": "work"}),
    "codex": ("exec_command", "cmd", {}),
    "gemini-cli": ("run_shell_command", "command", {}),
    "opencode": ("bash", "command", {"description": "work"}),
    "mini-swe-agent": ("bash", "command", {}),
    "openhands": ("terminal", "command", {"security_risk": "LOW", "summary": "work"}),
}
SPEAKS = {"claude-code": "anthropic", "codex": "responses", "gemini-cli": "gemini"}
#: Whether the key is anywhere that a process inside can look; and the work itself.
SEARCH = (
    "{ env; cat /proc/*/environ /proc/*/cmdline; grep -rs . /tmp /workspace $HOME /run; } "
    f"2>/dev/null > /tmp/seen; if grep -aq '{KEY[:12]}''{KEY[12:]}' /tmp/seen; "
    "then echo KEY; else echo none; fi > key.txt; cat /proc/net/route > routes.txt; rm /tmp/seen; "
    "echo hello > out.txt"
)
TASK = {
    "id": "hello",
    "prompt": "Write the word hello into the file out.txt.",
    "test_command": 'test "$(cat out.txt)" = hello && test "$(cat key.txt)" = none '
    '&& test "$(wc -l < routes.txt)" -le 1',
}
AIDER_TASK = {**TASK, "test_command": 'test "$(cat out.txt)" = hello'}
AIDER_REPLY = "out.txt\n```\nhello\n```\n"
agents = pytest.mark.parametrize("name", sorted(CODING_AGENTS))


def shell(name: str, command: str) -> tuple[str, dict[str, str]]:
    tool, argument, more = SHELLS[name]
    return tool, {argument: command, **more}


def replies(name: str) -> list[Any]:
    if name == "aider":
        return [AIDER_REPLY]
    if name == "mini-swe-agent":
        submit = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
        return [shell(name, SEARCH), shell(name, submit)]
    return [shell(name, SEARCH), "All is done."]


@pytest.fixture(params=["bubblewrap", "docker"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "docker":
        monkeypatch.setenv("CHIMERA_DOCKER_IMAGE", request.getfixturevalue("docker_image"))
    reason = available(request.param)
    if reason is not None:
        missing(f"the environment '{request.param}' cannot be used: {reason}")
    return str(request.param)


def trial(name: str, service: Upstream, backend: str, **settings: Any) -> TrialRecord:
    cls = type(create_agent(name, model="scripted/echo"))
    agent = cls(provider=provider_of(service, SPEAKS.get(name, "chat")), timeout=540.0)
    task = AIDER_TASK if name == "aider" else TASK
    store = RunStore(":memory:", create=True)
    Harness(
        CustomBenchmark(tasks_list=[task]), agent, env_factory=backend, store=store, **settings
    ).run()
    return store.record("hello", 0)


@agents
def test_it_solves_a_task(upstream: Callable[..., Upstream], backend: str, name: str):
    service = upstream(replies(name))

    record = trial(name, service, backend)

    assert (record.status, record.why) == ("passed", "")
    assert record.stop_reason == "done"
    spent = sum(cost(usage) for usage in service.served)
    assert record.cost == pytest.approx(spent)
    assert record.usage.input_tokens == sum(usage.input_tokens for usage in service.served)
    assert record.usage.cached_tokens == 40 * len(service.served)
    assert len(record.calls) == len(service.served)
    said = [step.message for step in record.trajectory if "conversation" not in step.metadata]
    assert said[-1].role == "assistant"
    assert any(TASK["prompt"] in message.content for message in said if message.role == "user")
    document = trajectory_document(record, {"run": "r", "agent": name})
    assert document["final_metrics"]["total_cost_usd"] == pytest.approx(spent)
    if name != "aider":
        assert SEARCH in json.dumps([step.get("tool_calls") for step in document["steps"]],
                                    ensure_ascii=False).replace('\\"', '"')  # fmt: skip
    assert KEY not in str(record)


@agents
def test_a_limit_on_money_ends_it_and_it_is_graded(
    upstream: Callable[..., Upstream],
    name: str,
):
    work = replies(name)[0]
    service = upstream([work] * 50)
    if name == "aider":  # it asks once for each message
        pytest.skip("aider ends after its first answer")

    record = trial(name, service, "bubblewrap", limits=TrialLimits(max_cost=0.3))

    assert (record.status, record.stop_reason) == ("passed", "limit:cost")
    assert record.cost == pytest.approx(sum(cost(usage) for usage in service.served))


def test_aider_looks_its_python_over_by_its_own_linter(upstream: Callable[..., Upstream]):
    wrong, right = ("out.py\n```\nprint('hello'" + end + "\n```\n" for end in ("", ")"))
    service = upstream([wrong] * 4 + [right])  # it begins with three turns of an example
    agent = type(create_agent("aider", model="scripted/echo"))(
        provider=provider_of(service, "chat")
    )
    task = {**TASK, "test_command": "python3 out.py"}
    store = RunStore(":memory:", create=True)
    Harness(CustomBenchmark(tasks_list=[task]), agent, env_factory="bubblewrap", store=store).run()

    assert store.record("hello", 0).passed
    asked = [str(body["messages"][-1]["content"]) for _, _, body in service.seen]
    assert len(asked) == 2
    assert "SyntaxError" in asked[1]


@pytest.mark.parametrize("name", ["claude-code", "codex"])
def test_a_killed_run_is_resumed_and_pays_nothing_twice(
    upstream: Callable[..., Upstream],
    tmp_path: Path,
    name: str,
):
    """Each command takes a while, so that `kill -9` meets the run between two answers."""
    wait = shell(name, "sleep 2; " + SEARCH)
    service = upstream([wait, wait, "All is done."])
    tasks = tmp_path / "tasks.json"
    tasks.write_text(json.dumps([TASK]))
    runs = str(tmp_path / "runs")
    maker = "anthropic" if name == "claude-code" else "openai"
    words = [
        sys.executable, "-m", "chimera", "eval", "--benchmark", "custom", "--dataset", str(tasks),
        "--agent", name, "--model", f"{maker}/scripted", "--agent-option", f"price={PRICE}",
        "--base-url", service.address + ("" if maker == "anthropic" else "/v1"),
        "--environment", "bubblewrap", "--runs-dir", runs,
    ]  # fmt: skip
    variables = {**os.environ, "OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
    running = subprocess.Popen(words, env=variables, stderr=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    end = time.monotonic() + 120
    while len(service.served) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(1.0)  # the second answer has arrived, and its command runs
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()

    done = subprocess.run([*words[:4], "--resume", "latest", "--runs-dir", runs], env=variables,
                          capture_output=True, text=True, check=False)  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(service.served) == 3
    (file,) = (tmp_path / "runs").glob(f"*{SUFFIX}")
    with RunStore(file) as store:
        record = store.record("hello", 0)
    assert record.passed
    assert record.cost == pytest.approx(sum(cost(usage) for usage in service.served))


def test_opencode_speaks_the_agent_client_protocol(upstream: Callable[..., Upstream]):
    service = upstream([shell("opencode", SEARCH), "All is done."])
    product = create_agent("opencode", model="scripted/echo")
    place = product.recipes()[0].layer().target
    baseline = "-baseline" if architecture() == "x64" else ""
    program = f"{place}/node_modules/opencode-linux-{architecture()}{baseline}/bin/opencode"
    settings = {
        "model": "lo/m",
        "provider": {
            "lo": {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": "{env:OPENAI_BASE_URL}", "apiKey": "{env:OPENAI_API_KEY}"},
                "models": {"m": {}},
            }
        },
    }
    agent = type(create_agent("acp:true"))(
        command=f"OPENCODE_DISABLE_MODELS_FETCH=1 {program} acp",
        provider=provider_of(service, "chat"),
    )
    files = {"opencode.json": json.dumps(settings).encode()}
    spec = EnvironmentSpec(mounts={**product.mounts(), **agent.mounts()}, files=files)
    with start_environment("bubblewrap", spec) as env:
        result = agent.run(TASK["prompt"], env)

        assert env.read_text("out.txt") == "hello\n"  # type: ignore[attr-defined]
    assert result.output == "All is done."


@pytest.mark.parametrize("name", ["aider", "mini-swe-agent"])
def test_it_runs_on_the_embedded_model(name: str):
    agent = create_agent(name, model="local/smollm2", options={"timeout": "240"})
    store = RunStore(":memory:", create=True)
    Harness(
        CustomBenchmark(tasks_list=[AIDER_TASK]), agent, env_factory="bubblewrap", store=store,
        limits=TrialLimits(max_steps=3),
    ).run()  # fmt: skip

    record = store.record("hello", 0)

    assert record.status in ("passed", "failed"), record.why
    assert record.usage.output_tokens > 0
    assert (record.cost, len(record.calls) <= 3) == (0.0, True)
    assert record.trajectory
