"""Settings of models on their way: into requests, into a run's identity, out of a resumed run."""

from __future__ import annotations

import pytest

from chimera.agents.direct import DirectAgent
from chimera.agents.react import ReactAgent
from chimera.errors import UsageError
from chimera.eval.run import RunSettings, prepare
from chimera.providers.secrets import PLACEHOLDER, redact
from chimera.providers.settings import ModelSettings, model_settings


def test_options_are_fields_headers_and_the_protocol():
    settings = model_settings(
        {
            "reasoning.summary": "auto",
            "reasoning.max_tokens": "5",
            "store": "true",
            "header.X-Team": "blue",
            "protocol": "chat",
        },
        top_p=0.5,
    )

    assert settings.fields() == {"reasoning": {"summary": "auto", "max_tokens": 5}, "store": True}
    assert settings.headers == (("x-team", "blue"),)
    assert (settings.protocol, settings.top_p) == ("chat", 0.5)


def test_a_secret_header_is_in_no_record_and_asked_for_again():
    settings = model_settings({"header.Authorization": "Bearer of-a-secret-thing"})

    assert "of-a-secret-thing" not in str(settings.identity())
    assert "of-a-secret-thing" not in redact("sent Bearer of-a-secret-thing")
    with pytest.raises(UsageError, match="give it again"):
        model_settings({"header.authorization": PLACEHOLDER})


@pytest.mark.parametrize("field", ["messages", "model", "tools", "input", "contents.parts"])
def test_what_the_conversation_decides_is_no_option(field: str):
    with pytest.raises(UsageError, match="the conversation's own"):
        model_settings({field: "x"})


def test_settings_that_are_not_set_leave_the_identity_as_it_was():
    assert ModelSettings().identity() == {}


def _agent(letters: str, **settings: object) -> DirectAgent:
    given = {"model": "scripted/echo", "agent": "direct", **settings}
    agent = prepare(RunSettings(letters, **given)).agent  # type: ignore[arg-type]
    assert isinstance(agent, DirectAgent)
    return agent


@pytest.mark.parametrize(
    "settings",
    [
        {"reasoning_effort": "high"},
        {"thinking_tokens": 100},
        {"top_p": 0.5},
        {"model_option": ("service_tier=flex",)},
        {"model_option": ("header.x-team=blue",)},
    ],
    ids=str,
)
def test_what_changes_answers_is_part_of_the_identity(letters: str, settings: dict[str, object]):
    assert _agent(letters, **settings).identity() != _agent(letters).identity()
    assert _agent(letters, **settings).identity() == _agent(letters, **settings).identity()


def test_how_many_calls_run_at_once_is_not(letters: str):
    agent = _agent(letters, max_connections=7)

    assert agent.provider.max_connections == 7
    assert agent.identity() == _agent(letters).identity()


def test_the_summary_is_written_by_another_model(letters: str):
    settings = RunSettings(
        letters, model="scripted/echo", agent="react", role=("summary=scripted/text:short",)
    )
    agent = prepare(settings).agent

    assert isinstance(agent, ReactAgent)
    assert [provider.name for provider in agent.providers()] == [
        "scripted/echo",
        "scripted/text:short",
    ]


@pytest.mark.parametrize(
    ("role", "complaint"),
    [
        ("chef=scripted/echo", "there are the roles judge, user, summary"),
        ("summary", "expected KEY=VALUE"),
        ("judge=scripted/echo", "judge_model"),
    ],
)
def test_a_role_that_nobody_plays_is_refused(letters: str, role: str, complaint: str):
    with pytest.raises(UsageError, match=complaint):
        prepare(RunSettings(letters, model="scripted/echo", role=(role,)))


def test_a_judge_and_a_user_are_options_of_the_benchmark():
    from chimera.eval.benchmarks.tau_bench import Tau2Bench

    roles = ("judge=scripted/echo", "user=scripted/text:hi")
    benchmark = RunSettings("tau2-bench", role=roles).create_benchmark()

    assert isinstance(benchmark, Tau2Bench)
    assert benchmark.settings.judge_model == "scripted/echo"
    assert benchmark.settings.user_model == "scripted/text:hi"


def test_a_batch_is_for_one_question_without_a_time_limit(letters: str):
    for settings, complaint in (
        ({"agent": "react"}, "agent 'direct'"),
        ({"agent": "direct", "timeout": 5.0}, "--timeout"),
        ({"agent": "direct"}, "models of OpenAI and Anthropic"),
    ):
        given = {"model": "scripted/echo", "batch": "0123", **settings}
        with pytest.raises(UsageError, match=complaint):
            prepare(RunSettings(letters, **given))  # type: ignore[arg-type]


def test_the_record_says_that_a_preset_is_no_product(letters: str):
    settings = RunSettings(letters, model="scripted/echo", agent="claude_code")

    assert "not Claude Code" in prepare(settings).manifest()["agent_about"]
