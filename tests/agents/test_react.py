"""The tool loop, end to end: a scripted model in real environments."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from chimera.agents import create_agent, react
from chimera.agents.compaction import SummaryCompaction
from chimera.agents.react import LoopConfig, ReactAgent
from chimera.environments import Environment, EnvironmentSpec, machine, start_environment
from chimera.environments.none import NoEnvironment
from chimera.environments.wrapped import WrappedMachine
from chimera.errors import ProviderError, UsageError
from chimera.providers import ContextOverflow, Provider, Request, create_provider
from chimera.providers.base import CallFailed
from chimera.providers.meter import Meter, TrialLimits, metered
from chimera.providers.scripted import ScriptedProvider
from chimera.types import Response, Usage
from tests.agents.conftest import Person

Script = Callable[[list[Any]], Provider]


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"content": f"using {name}", "tool_calls": [{"name": name, "arguments": arguments}]}


def observations(result: Any) -> list[str]:
    return [step.message.content for step in result.trajectory if step.message.role == "tool"]


def test_files_shell_and_python_work_together_until_submit(env: Environment, script: Script):
    provider = script(
        [
            call("edit", path="note.txt", old="", new="one\ntwo\n"),
            call("edit", path="note.txt", old="two", new="three"),
            call("view", path="note.txt"),
            call("bash", command="wc -l < note.txt; echo problem >&2; exit 3"),
            call("ipython", code="x = 41\n\ndef up(n):\n\n    return n + 1\n"),
            call("ipython", code="up(x)"),
            call("submit", answer="42"),
        ]
    )

    result = ReactAgent(provider=provider).run("Write a note.", env)

    assert result.output == "42"
    assert result.stop_reason == "submitted"
    assert result.steps == 7
    assert env.read_text("note.txt") == "one\nthree\n"
    seen = observations(result)
    assert "three" in seen[2]
    assert "2" in seen[3]
    assert "problem" in seen[3]
    assert "exit code 3" in seen[3]
    assert "42" in seen[5]
    assert result.usage.total_tokens > 0
    assert result.cost == 0.0


def test_a_plain_answer_ends_the_loop_where_nobody_replies(local_env: Environment, script: Script):
    result = ReactAgent(provider=script(["the answer is 7"])).run("?", local_env)

    assert (result.output, result.stop_reason, result.steps) == ("the answer is 7", "done", 1)


def test_a_conversation_goes_on_until_the_other_side_is_done(script: Script):
    person = Person(["a book", "no, thanks"])
    provider = script(["What would you like?", "Anything else?", "Goodbye."])

    result = ReactAgent(provider=provider).run("Hello", person)

    assert person.heard == ["What would you like?", "Anything else?", "Goodbye."]
    assert result.output == "Goodbye."
    roles = [step.message.role for step in result.trajectory]
    assert roles == ["system", *["user", "assistant"] * 3]
    assert result.trajectory[0].message.content == "You serve customers."


def test_calls_that_make_no_sense_are_answered_with_what_is_wrong(
    local_env: Environment, script: Script
):
    provider = script(
        [
            call("telephone", number=1),
            {"tool_calls": [{"name": "bash", "arguments": '{"command": "ls'}]},
            call("bash"),
            call("bash", command=5),
            call("view", path="../../../etc/shadow-of-nothing"),
            "I give up",
        ]
    )

    result = ReactAgent(provider=provider).run("?", local_env)

    unknown, broken, missing, typed, outside = observations(result)
    assert "no tool 'telephone'" in unknown
    assert "bash, view, edit, ipython, submit" in unknown
    assert "not a valid JSON object" in broken
    assert "'command' is missing" in missing
    assert "must be of type string" in typed
    assert outside.startswith("Error")
    assert result.stop_reason == "done"


def test_a_model_that_only_stumbles_is_stopped(local_env: Environment, script: Script):
    agent = ReactAgent(
        provider=script([call("nonsense")]), loop=LoopConfig(max_consecutive_errors=3)
    )

    result = agent.run("?", local_env)

    assert (result.stop_reason, result.steps) == ("stuck", 3)


def test_steps_are_bounded_by_the_agent_and_by_the_trial(local_env: Environment, script: Script):
    agent = ReactAgent(provider=script([call("bash", command="true")]), max_steps=4)

    assert agent.run("?", local_env).steps == 4
    with metered(Meter(limits=TrialLimits(max_steps=2))):
        result = agent.run("?", local_env)

    assert (result.stop_reason, result.steps) == ("limit:steps", 2)
    assert result.output == "using bash"


def test_what_was_said_before_a_limit_is_handed_in(local_env: Environment, script: Script):
    agent = ReactAgent(provider=script([call("bash", command="true")]))
    with metered(Meter(limits=TrialLimits(max_tokens=100))):
        result = agent.run("?", local_env)

    assert result.stop_reason == "limit:tokens"
    assert result.output == "using bash"
    assert result.steps >= 1


def test_the_deadline_ends_a_command_and_the_loop(local_env: Environment, script: Script):
    agent = ReactAgent(provider=script([call("bash", command="sleep 60")]))
    deadline = time.monotonic() + 1.0
    local_env.deadline = deadline
    with metered(Meter(limits=TrialLimits(seconds=1.0), deadline=deadline)):
        result = agent.run("?", local_env)

    assert result.stop_reason == "limit:time"


def test_ferret_refuses_an_unconfined_environment(local_env: Environment):
    agent = create_agent("ferret", model="scripted/echo")

    with pytest.raises(UsageError, match="confined environments only"):
        agent.run("?", local_env)


def test_without_commands_there_are_no_tools(script: Script):
    provider = Recording(name="recording", model="recording")

    ReactAgent(provider=provider).run("?", NoEnvironment())

    assert [[tool.name for tool in request.tools] for request in provider.requests] == [[]]


def test_a_machine_around_another_has_its_tools_and_capabilities(local_env: Environment):
    provider = Recording(name="recording", model="recording")
    wrapped = WrappedMachine(machine(local_env))

    ReactAgent(provider=provider, tools=("bash",)).run("?", wrapped)

    assert [[tool.name for tool in request.tools] for request in provider.requests] == [["bash"]]
    assert wrapped.capabilities == local_env.capabilities


def test_one_agent_serves_many_trials_at_once(script: Script):
    provider = script(
        [call("ipython", code="import os; open('me', 'w').write('x'); x = 1"), call("submit")]
    )
    agent = pickle.loads(pickle.dumps(ReactAgent(provider=provider)))

    def trial(_: int) -> list[str]:
        with start_environment("local", EnvironmentSpec()) as env:
            agent.run("?", env)
            return env.list_files()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(trial, range(6))) == [["me"]] * 6


def test_everything_that_can_change_an_outcome_is_in_the_identity():
    agent = ReactAgent(provider=create_provider("scripted/echo"))
    changed = [
        replace(agent, max_steps=7),
        replace(agent, system_prompt="else"),
        replace(agent, tools=("bash",)),
        replace(agent, temperature=0.5),
        replace(agent, seed=1),
        replace(agent, max_tokens=9),
        replace(agent, provider=create_provider("scripted/text:no")),
        replace(agent, loop=LoopConfig(condense_every_n_steps=2)),
        replace(agent, loop=LoopConfig(compaction=SummaryCompaction(keep_last=3))),
    ]
    identities = [repr(a.identity()) for a in [agent, *changed]]

    assert len(set(identities)) == len(identities)
    assert repr(replace(agent).identity()) == identities[0]


class Recording(Provider):
    """Remembers requests; says that more than `room` messages are too many."""

    requests: list[Request]

    def __init__(self, *, name: str, model: str, room: int = 10**6, then: object = None) -> None:
        super().__init__(name=name, model=model)
        object.__setattr__(self, "requests", [])
        object.__setattr__(self, "room", room)
        object.__setattr__(self, "script", then)

    def _call(self, request: Request) -> Response:
        self.requests.append(request)
        if sum(len(m.content) for m in request.messages) > self.room:  # type: ignore[attr-defined]
            raise ContextOverflow("too long", retryable=False)
        if self.script is None:  # type: ignore[attr-defined]
            return Response("done", usage=Usage(1, 1))
        return self.script._call(request)  # type: ignore[attr-defined]


def test_a_full_context_is_condensed_and_the_work_goes_on(local_env: Environment, script: Script):
    work = script([*[call("bash", command="seq 300")] * 12, call("submit", answer="made it")])
    provider = Recording(name="r", model="r", room=6000, then=work)

    # The scripted replies count the model's messages, which condensation takes away: so the
    # loop is bounded by its steps, and must never end for want of room.
    result = ReactAgent(provider=provider, max_steps=15).run("?", local_env)

    assert result.stop_reason in ("submitted", "limit:steps")
    assert any("condensed" in step.metadata for step in result.trajectory)


def test_a_task_that_does_not_fit_is_a_fault_not_a_verdict(local_env: Environment):
    provider = Recording(name="r", model="r", room=50)

    with pytest.raises(ContextOverflow):
        ReactAgent(provider=provider).run("?" * 100, local_env)


def test_condensation_happens_every_n_steps(local_env: Environment, script: Script):
    loop = LoopConfig(
        condense_every_n_steps=4,
        compaction=SummaryCompaction(keep_last=2, summary_max_tokens=60),
    )
    provider = script([call("bash", command="seq 400")])

    result = ReactAgent(provider=provider, loop=loop, max_steps=9).run("?", local_env)

    assert sum("condensed" in step.metadata for step in result.trajectory) == 2


class Failing(Recording):
    def _call(self, request: Request) -> Response:
        raise CallFailed("HTTP 401", retryable=False)


def test_a_failing_provider_is_an_error_of_the_trial(local_env: Environment):
    with metered(Meter()) as meter, pytest.raises(ProviderError, match="401"):
        ReactAgent(provider=Failing(name="f", model="f")).run("?", local_env)

    assert [step.message.role for step in meter.trajectory] == ["system", "user"]


class Blind(ScriptedProvider):
    """A model that refuses pictures, as services refuse them."""

    def _call(self, request: Request) -> Response:
        if any(message.images for message in request.messages):
            raise CallFailed("HTTP 400: image input is not supported", retryable=False)
        return super()._call(request)


def test_a_model_that_takes_no_pictures_goes_on_without_them(
    local_env: Environment, script: Script
):
    machine(local_env).write_file("a.png", b"\x89PNG\r\n\x1a\n\0rest")
    scripted: Any = script([call("view", path="a.png"), call("submit", answer="seen")])
    blind = Blind(name="blind", model="blind", script=scripted.script)

    result = ReactAgent(provider=blind, tools=("view", "submit")).run("Look.", local_env)

    assert result.output == "seen"
    assert any(step.message.images for step in result.trajectory)


def test_a_trajectory_keeps_no_more_pictures_than_can_be_stored(
    local_env: Environment, script: Script, monkeypatch: pytest.MonkeyPatch
):
    machine(local_env).write_file("a.png", b"\x89PNG\r\n\x1a\n\0rest")
    monkeypatch.setattr(react, "KEPT_PICTURE_BYTES", 30)
    look = call("view", path="a.png")
    agent = ReactAgent(provider=script([look, look, look, "done"]), tools=("view",))

    steps = agent.run("Look.", local_env).trajectory

    assert [len(step.message.images) for step in steps if step.message.role == "tool"] == [1, 0, 0]
