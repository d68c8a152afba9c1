"""The agents around the loop: in Chimera's environments, and as Harbor calls them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from chimera.agents import create_agent
from chimera.benchmarks.terminal_bench_agent import ChimeraAgent, HarborChimeraAgent, TerminalAgent
from chimera.environments.base import EnvironmentSpec
from chimera.environments.local import LocalEnvironment
from chimera.providers.scripted import Reply, Script, ScriptedProvider

DONE = json.dumps({"commands": [], "done": True})
WRITE = json.dumps({"commands": [{"keys": "echo 42 > answer.txt\n", "wait": 20}], "done": False})


def scripted(*replies: str) -> ScriptedProvider:
    script = Script(tuple(Reply(reply) for reply in replies))
    return ScriptedProvider(name="scripted/test", model="test", script=script)


def test_the_native_agent_works_with_a_tmux_inside_the_environment(require, tmp_path):
    require("tmux")
    variables = {"TMUX_TMPDIR": str(tmp_path)}
    agent = TerminalAgent(provider=scripted(WRITE, DONE, DONE))

    with LocalEnvironment.start(EnvironmentSpec(variables=variables)) as env:
        result = agent.run("Write 42 to answer.txt", env)
        written = env.read_text("answer.txt")
        env.run_command(["tmux", "kill-server"])

    assert written == "42\n"
    assert (result.stop_reason, result.steps) == ("done", 3)
    assert result.usage.total_tokens > 0


def test_the_agent_has_a_name(tmp_path):
    agent = create_agent("terminal", model="scripted/echo", max_steps=7)

    assert isinstance(agent, TerminalAgent)
    assert agent.max_steps == 7
    assert agent.identity()["agent"] == "terminal"
    assert ChimeraAgent.name() == HarborChimeraAgent.name() == "chimera"


class HostEnvironment:
    """As much of Harbor's environment as agents use, on this machine."""

    def __init__(self, place: Path) -> None:
        self.place = place

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None):
        done = await asyncio.to_thread(
            subprocess.run,
            ["sh", "-c", command],
            cwd=self.place,
            capture_output=True,
            text=True,
            timeout=timeout_sec,
            env={**os.environ, "TMUX_TMPDIR": str(self.place)},
            check=False,
        )
        return SimpleNamespace(stdout=done.stdout, stderr=done.stderr, return_code=done.returncode)


def test_harbor_calls_by_keyword_and_gets_tokens_and_a_log(require, tmp_path):
    require("tmux")
    agent = HarborChimeraAgent(
        logs_dir=tmp_path / "logs", provider=scripted("?", WRITE, DONE, DONE)
    )
    environment, context = HostEnvironment(tmp_path), SimpleNamespace()

    async def trial() -> None:
        await agent.setup(environment=environment)
        await agent.run(instruction="Write 42", environment=environment, context=context)
        await environment.exec("tmux kill-server")

    asyncio.run(trial())

    assert (tmp_path / "answer.txt").read_text() == "42\n"
    assert context.n_input_tokens > 0
    assert context.n_output_tokens > 0
    assert context.metadata == {"turns": 4, "malformed_replies": 1, "stop_reason": "done"}
    last = (tmp_path / "logs/chimera.jsonl").read_text().splitlines()[-1]
    assert json.loads(last)["stop_reason"] == "done"


def test_terminal_bench_reports_tokens_and_failure_modes(tmp_path):
    pytest.importorskip("terminal_bench", reason="terminal-bench is not installed")
    from terminal_bench.agents.failure_mode import FailureMode

    class Session:
        def send_keys(self, keys: list[str]) -> None: ...

        def capture_pane(self, capture_entire: bool = False) -> str:
            return "$ "

        def get_asciinema_timestamp(self) -> float:
            return 0.0

    def mode(*replies: str, **options: int) -> FailureMode:
        agent = ChimeraAgent(provider=scripted(*replies), **options)
        result = agent.perform_task("x", Session(), logging_dir=tmp_path)
        assert result.total_input_tokens > 0
        return result.failure_mode

    assert mode(DONE) is FailureMode.NONE
    assert mode("?") is FailureMode.FATAL_LLM_PARSE_ERROR
    assert mode(WRITE, max_turns=1) is FailureMode.AGENT_TIMEOUT
