"""The bash-only protocol in real environments: one fenced command a reply, and the end word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chimera.agents import create_agent
from chimera.agents.mini import END_WORD, FENCE, MiniAgent, observation, submission
from chimera.environments import Environment
from chimera.providers import Provider
from chimera.types import CommandResult

Script = Callable[[list[Any]], Provider]


def block(command: str) -> str:
    return f"THOUGHT: this is next.\n\n```{FENCE}\n{command}\n```"


def told(result: Any) -> list[str]:
    return [step.message.content for step in result.trajectory if step.message.role == "user"][1:]


def test_commands_run_in_shells_of_their_own_until_the_answer_is_handed_in(
    env: Environment, script: Script
):
    provider = script(
        [
            block("cd / && X=1 && echo here > note.txt; pwd"),
            block("echo ${X:-gone}; pwd | wc -l; echo oops >&2; exit 3"),
            block(f"echo {END_WORD} && echo 'the patch'"),
        ]
    )

    result = MiniAgent(provider=provider).run("Do it.", env)

    assert result.stop_reason == "submitted"
    assert result.output == "the patch\n"
    assert result.steps == 3
    second = told(result)[1]
    assert "<returncode>3</returncode>" in second
    assert "gone" in second
    assert "oops" in second


@pytest.mark.parametrize(
    ("replies", "stop_reason", "steps"),
    [
        (["no command"], "stuck", 3),
        ([block("true") + block("true")], "stuck", 3),
        (["no command", block("true"), "no", "no", "no"], "stuck", 5),
        ([block("true")], "limit:steps", 4),
        ([block(f"echo {END_WORD}; exit 1")], "limit:steps", 4),
        ([block(f"echo before; echo {END_WORD}")], "limit:steps", 4),
    ],
)
def test_how_it_ends_otherwise(
    env: Environment, script: Script, replies: list[str], stop_reason: str, steps: int
):
    agent = MiniAgent(provider=script(replies), max_steps=5 if steps == 5 else 4)

    result = agent.run("Do it.", env)

    assert (result.stop_reason, result.steps) == (stop_reason, steps)
    assert result.output == ""


def test_money_ends_it(env: Environment, script: Script):
    from chimera.providers import create_provider

    provider = create_provider(f"scripted/text:{block('true')}", price="1000000/1000000")
    result = MiniAgent(provider=provider).run("Do it.", env)

    assert (result.stop_reason, result.steps) == ("limit:cost", 1)


def test_long_output_is_cut_in_the_middle():
    text = observation(CommandResult(b"a" * 6000 + b"b" * 6000, b"", 0))

    assert "2000 characters elided" in text
    assert text.count("a" * 5000) == 1
    assert len(text) < 10_600


def test_the_end_word_counts_alone_in_the_first_line():
    assert submission(CommandResult(f"{END_WORD}\nx".encode(), b"", 0)) == "x"
    assert submission(CommandResult(f"{END_WORD} x".encode(), b"", 0)) is None
    assert submission(CommandResult(f"{END_WORD}\nx".encode(), b"", 1)) is None


def test_it_goes_by_its_name():
    agent = create_agent("mini", model="scripted/echo", max_steps=7)

    assert isinstance(agent, MiniAgent)
    assert agent.max_steps == 7
    assert agent.identity()["agent"] == "mini"
