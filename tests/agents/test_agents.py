"""Agents by name, and those that need no loop: direct, command."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from chimera.agents import AGENTS, Agent, as_agent, create_agent
from chimera.agents.coding import CODING_AGENTS
from chimera.agents.presets import PRESETS
from chimera.environments import Environment
from chimera.environments.none import NoEnvironment
from chimera.errors import AgentError, UsageError
from chimera.providers.meter import Budget, Meter, TrialLimits, metered
from chimera.types import AgentResult


class Shouting:
    """A user's own agent."""

    def __init__(self, loud: bool = False, model: str | None = None) -> None:
        self.loud = loud
        self.model = model

    def run(self, prompt: str, env: Environment) -> AgentResult:
        return AgentResult(prompt.upper() if self.loud else prompt)


def test_direct_asks_once():
    agent = create_agent("direct", model="scripted/echo", temperature=0.0)

    result = agent.run("hello", NoEnvironment())

    assert (result.output, result.steps, result.stop_reason) == ("hello", 1, "done")
    assert [step.message.role for step in result.trajectory] == ["user", "assistant"]
    assert isinstance(agent, Agent)


def test_direct_keeps_the_limits_of_the_trial():
    meter = Meter(limits=TrialLimits(max_tokens=1))
    agent = create_agent("direct", model="scripted/echo")
    with metered(meter):
        agent.run("first", NoEnvironment())
        result = agent.run("second", NoEnvironment())

    assert (result.output, result.stop_reason) == ("", "limit:tokens")


@pytest.mark.parametrize("name", [name for name in AGENTS if name not in ("command", "acp")])
def test_every_agent_is_a_value_made_by_its_name(name: str):
    agent = create_agent(name, model="scripted/echo", seed=3)

    again = pickle.loads(pickle.dumps(agent))

    assert again == agent
    assert again.identity() == agent.identity()
    assert json.dumps(agent.identity())
    assert agent.identity()["agent"] == name


@pytest.mark.parametrize("name", sorted(CODING_AGENTS))
def test_every_coding_agent_is_a_value_made_by_its_name(name: str):
    agent = create_agent(name, model="scripted/echo", max_steps=5, options={"arguments": "-x,-y"})

    again = pickle.loads(pickle.dumps(agent))

    assert again == agent
    assert again.identity() == agent.identity()
    assert (agent.identity()["agent"], agent.arguments) == (name, ("-x", "-y"))
    assert list(agent.providers()) == [agent.provider]


def test_the_product_and_our_preset_of_nearly_its_name_are_told_apart():
    product, preset = (
        create_agent(name, model="scripted/echo") for name in ("claude-code", "claude_code")
    )

    assert product.identity()["packages"] == ["@anthropic-ai/claude-code@2.1.197"]
    assert type(preset).__name__ == "ReactAgent"


def test_presets_differ_as_their_names_promise():
    assert PRESETS["weasel"]["tools"] == ("bash",)
    assert PRESETS["shrew"]["max_steps"] == 30
    assert len(PRESETS["shrew"]["tools"]) == 4
    assert PRESETS["ferret"]["confined_only"] is True
    assert "ipython" in PRESETS["mink"]["tools"]
    assert create_agent("shrew", model="scripted/echo", max_steps=5).max_steps == 5


@pytest.mark.parametrize(
    ("name", "arguments", "complaint"),
    [
        ("direkt", {}, "unknown agent"),
        ("direct", {"model": "scripted/echo", "max_steps": 3}, "takes no 'max_steps'"),
        ("direct", {"model": "scripted/echo", "options": {"colour": "red"}}, "no option 'colour'"),
        ("command", {}, "needs a command"),
        ("react", {"model": "scripted/echo", "max_steps": 0}, "at least one step"),
        ("nowhere.to.be.found:Agent", {}, "no module"),
        ("json:Agent", {}, "has no 'Agent'"),
        ("json:loads", {}, "is no class"),
        ("nobody.py:Agent", {}, "no file nobody.py"),
        ("oracle", {}, "unknown agent"),
    ],
)
def test_what_cannot_be_made_is_said(name: str, arguments: dict[str, Any], complaint: str):
    with pytest.raises(UsageError, match=complaint):
        create_agent(name, **arguments)


def test_an_agent_of_ones_own_gets_its_options():
    agent = create_agent(f"{__name__}:Shouting", model="any", options={"loud": "true"})

    assert agent.run("hey", NoEnvironment()).output == "HEY"
    assert agent.model == "any"


def test_an_agent_of_ones_own_from_a_file(tmp_path: Path):
    file = tmp_path / "agent_in_a_file.py"
    file.write_text("class Quiet:\n    def run(self, prompt, env):\n        return ''\n")

    agent = create_agent(f"{file}:Quiet")

    assert agent.run("hey", NoEnvironment()) == ""


def test_what_a_users_agent_does_not_say_has_a_default():
    plain, shipped = as_agent(Shouting()), create_agent("react", model="scripted/echo")

    assert plain.identity() == f"{__name__}.Shouting"
    assert (plain.needs_environment, list(plain.providers())) == (False, [])
    assert as_agent(shipped) is shipped
    assert (shipped.needs_environment, shipped.providers()) == (True, (shipped.provider,))


def test_what_a_users_agent_says_counts():
    class Telling(Shouting):
        needs_environment = True
        provider = create_agent("direct", model="scripted/echo").provider

        def identity(self) -> str:
            return "version 2"

    agent = as_agent(Telling(loud=True))

    assert agent.run("hey", NoEnvironment()).output == "HEY"
    assert (agent.identity(), agent.needs_environment) == ("version 2", True)
    assert list(agent.providers()) == [Telling.provider]


def test_the_message_about_an_unknown_agent_lists_all_names():
    with pytest.raises(UsageError) as error:
        create_agent("nobody", others=("oracle",))

    assert all(name in str(error.value) for name in (*AGENTS, "oracle", "file.py:Class"))


def test_options_of_the_model_reach_it():
    agent = create_agent(
        "direct", model="scripted/echo", options={"price": "1/2", "attempts": "2", "timeout": "9"}
    )

    assert agent.provider.attempts == 2
    assert agent.provider.timeout == 9.0
    assert agent.provider.price().output == 2.0


def test_options_of_the_loop_reach_it():
    options = {"condense-every-n-steps": "25", "keep_last": "20", "tools": "bash,submit"}
    agent = create_agent("mink", model="scripted/echo", options=options)

    assert agent.loop.condense_every_n_steps == 25
    assert agent.loop.compaction.keep_last == 20
    assert agent.loop.context_tokens == 150_000
    assert agent.tools == ("bash", "submit")


@pytest.mark.parametrize(
    "template",
    ["command:cat", "command:printf %s {prompt}", "command:cat {prompt_file}"],
)
def test_a_command_gets_the_prompt_whole(env: Environment, template: str):
    prompt = "quote ' and \" and $HOME and {model} and\nlines"

    result = create_agent(template).run(prompt, env)

    assert result.output == prompt
    assert result.cost is None
    assert env.list_files() == []


def test_a_command_gets_only_the_variables_it_was_promised(
    env: Environment, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WANTED_API_KEY", "wanted-secret-value")
    monkeypatch.setenv("OTHER_API_KEY", "other-secret-value")
    command = (
        'command:echo "<${WANTED_API_KEY:+set}> <${OTHER_API_KEY:-unset}>"; echo $WANTED_API_KEY'
    )

    result = create_agent(command, options={"pass_env": "WANTED_API_KEY"}).run("?", env)

    assert result.output == "<set> <unset>\n[redacted]\n"


def test_a_command_that_fails_is_an_error_of_the_trial(local_env: Environment):
    with pytest.raises(AgentError, match=r"exit code 4: .*no such luck"):
        create_agent("command:echo no such luck >&2; exit 4").run("?", local_env)


def test_a_command_out_of_time_hands_in_what_it_said(local_env: Environment):
    agent = create_agent("command:echo begun; sleep 60", options={"timeout": "3"})

    result = agent.run("?", local_env)

    assert (result.output, result.stop_reason) == ("begun\n", "limit:time")


def test_a_command_is_not_run_under_a_budget_it_cannot_keep(local_env: Environment):
    with metered(Meter(budget=Budget(1.0))):
        with pytest.raises(UsageError, match="limit on money"):
            create_agent("command:true").run("?", local_env)
        assert create_agent("command:true", options={"free": "yes"}).run("?", local_env).cost == 0.0


def test_a_command_needs_somewhere_to_run():
    with pytest.raises(UsageError, match="choose --environment bubblewrap or docker"):
        create_agent("command:true").run("?", NoEnvironment())


def test_a_missing_variable_is_said_before_anything_runs(local_env: Environment):
    with pytest.raises(UsageError, match="NOT_SET_ANYWHERE"):
        create_agent("command:true", options={"pass_env": "NOT_SET_ANYWHERE"}).run("?", local_env)
