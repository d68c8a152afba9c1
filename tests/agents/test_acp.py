"""Agents of the Agent Client Protocol, with their model behind the gateway and with their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from chimera.agents import create_agent
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
