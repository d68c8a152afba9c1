"""Agents of the Agent Client Protocol, with their model behind the gateway and with their own."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from chimera.agents import acp, create_agent
from chimera.agents.acp import ACPAgent
from chimera.environments import Machine
from chimera.errors import AgentError, UsageError
from chimera.providers.meter import Meter, TrialLimits, metered

PROGRAM = Path(__file__).with_name("acp_program.py")


@pytest.fixture
def program(env: Machine) -> str:
    env.write_file(".program/agent.py", PROGRAM.read_bytes())
    return "acp:python3 .program/agent.py"


def test_it_works_with_the_model_that_it_is_offered(env: Machine, program: str):
    agent = create_agent(program, model="scripted/text:hello", options={"price": "1000/1000"})
    meter = Meter()
    with metered(meter):
        result = agent.run("Write hello.", env)

    assert env.read_text("out.txt") == "hello\n"
    assert (result.output, result.stop_reason, result.steps) == ("Written.", "done", 1)
    assert [step.message.content for step in result.trajectory] == ["Write hello.", "hello"]
    assert result.cost == meter.cost == pytest.approx(meter.usage.total_tokens / 1000)


def test_without_a_model_it_tells_its_own_story(env: Machine, program: str):
    result = create_agent(program).run("Write hello.", env)

    assert env.read_text("out.txt") == "hello\n"
    assert [step.message.role for step in result.trajectory] == [
        "user", "assistant", "tool", "assistant"
    ]  # fmt: skip
    assert (result.output, result.cost) == ("Written.", None)


def test_a_limit_ends_it_and_is_told(env: Machine, program: str):
    agent = create_agent(program, model="scripted/text:hello")
    with metered(Meter(TrialLimits(max_tokens=1), usage=agent.provider.complete([]).usage)):
        result = agent.run("Write hello.", env)

    assert result.stop_reason == "limit:tokens"


@pytest.mark.parametrize("command", ["true", "echo '{}'; echo broken >&2", "exit 3"])
def test_a_program_that_does_not_speak_is_an_error(env: Machine, command: str):
    with pytest.raises(AgentError, match="ended before it answered 'initialize'"):
        create_agent(f"acp:{command}").run("Hello.", env)


def test_a_command_is_needed():
    with pytest.raises(UsageError, match="needs a command"):
        create_agent("acp:")


def test_a_program_that_never_listens_ends_with_its_time(env: Machine):
    """It asks for what is more than a pipe holds, and reads none of it."""
    env.write_file("big.txt", "x" * 300_000)
    asking = {"id": 1, "method": "fs/read_text_file", "params": {"path": "big.txt"}}
    program = f"import time\nprint({json.dumps(asking)!r}, flush=True)\ntime.sleep(600)"
    agent = ACPAgent(command=f"python3 -c {shlex.quote(program)}", timeout=3.0)

    assert agent.run("Well?", env).stop_reason == "limit:time"


def test_what_it_tells_is_kept_up_to_a_bound(env: Machine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(acp, "MOST_TOLD_BYTES", 10_000)
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x" * 99}}
    told = {"method": "session/update", "params": {"update": chunk}}
    program = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        f"    for _ in range(1000): print({json.dumps(told)!r})\n"
        "    print(json.dumps({'id': json.loads(line)['id'], 'result': {}}), flush=True)\n"
    )
    result = ACPAgent(command=f"python3 -c {shlex.quote(program)}").run("Well?", env)

    assert 0 < len(result.output) < 10_000
