"""What a model sent goes back to it through a client whose format has no place for it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from chimera.providers import Provider
from chimera.providers.base import Request
from chimera.providers.journal import Journal, JournaledCall, conversation_key
from chimera.providers.meter import CallRecord, Meter
from chimera.types import Image, Message, Native, Response, ToolCall, Usage
from tests.gateway.test_hostile_client import ask

QUESTION = [{"role": "user", "content": "Well?"}]


@dataclass(frozen=True, kw_only=True)
class Signing(Provider):
    """Calls a tool with other arguments each time, by ids that it uses again, and signs it."""

    seen: list[Request] = field(default_factory=list)

    def _call(self, request: Request) -> Response:
        self.seen.append(request)
        turn = sum(message.role == "assistant" for message in request.messages)
        arguments = {"command": f"ls {turn}"}
        call = ToolCall("call_0", "bash", arguments, json.dumps(arguments))
        native = Native("own", {"signature": f"of turn {turn}"})
        return Response("", (call,), Usage(1, 1), stop_reason="tool_calls", native=native)


def signing() -> Signing:
    return Signing(name="own/signing", model="signing")


def going_on(before: list[Any], door: Any) -> list[Any]:
    """The conversation with the model's next turn and its tool's result."""
    said = ask(door, "chat", {"messages": before}).json()["choices"][0]["message"]
    return [*before, said, {"role": "tool", "tool_call_id": "call_0", "content": "a.txt"}]


def carried(provider: Signing) -> list[Any]:
    """What the last request brought back: arguments and signatures of the model's turns."""
    turns = [message for message in provider.seen[-1].messages if message.role == "assistant"]
    return [
        (turn.tool_calls[0].arguments, turn.native and turn.native.content["signature"])
        for turn in turns
    ]


TURNS = [({"command": f"ls {turn}"}, f"of turn {turn}") for turn in range(2)]


def test_turns_with_the_same_ids_are_told_apart(door):
    provider = signing()
    opened = door(provider)
    going_on(going_on(going_on(QUESTION, opened), opened), opened)

    assert carried(provider) == TURNS


def test_what_was_signed_before_a_kill_goes_back_after_it(door, tmp_path: Path):
    """The client is answered from the journal and goes on; the service wants its signatures."""
    file = tmp_path / "run.chi.calls" / "trial.jsonl"
    killed = door(signing(), Meter(journal=Journal(file.parent, file.name)))
    going_on(going_on(QUESTION, killed), killed)

    provider = signing()
    again = door(provider, Meter(journal=Journal(file.parent, file.name)))
    going_on(going_on(going_on(QUESTION, again), again), again)

    assert len(provider.seen) == 1
    assert carried(provider) == TURNS


@pytest.mark.parametrize(
    "forged",
    [
        {"cost": -100.0},
        {"cost": float("nan")},
        {"cost": "free"},
        {"usage": {"input_tokens": -5, "output_tokens": 1}},
        {"usage": {"input_tokens": "many", "output_tokens": 1}},
        {"seconds": None},
    ],
)
def test_an_account_that_no_call_can_have_is_none(door, tmp_path: Path, forged: dict[str, Any]):
    """The trial takes these accounts over: less than nothing would lift its limits."""
    file = tmp_path / "run.chi.calls" / "trial.jsonl"
    going_on(QUESTION, door(signing(), Meter(journal=Journal(file.parent, file.name))))
    (line,) = file.read_text().splitlines()
    value = json.loads(line)
    value["account"] |= forged
    file.write_text(f"{line}\n{json.dumps(value)}\n")

    assert len(Journal(file.parent, file.name).left) == 1


def test_an_answer_to_another_picture_is_none_to_this(tmp_path: Path):
    first, second = (
        [Message.user("What is it?", [Image("image/png", data)])] for data in ("AAAA", "BBBB")
    )
    journal = Journal(tmp_path / "run.chi.calls", "trial.jsonl")
    account = CallRecord("m", Usage(), 0.0, 0.0, 0.0)
    journal.add(JournaledCall(conversation_key("chat", first), b"A cat.", account))
    left = Journal(journal.directory, journal.name)

    assert left.take(conversation_key("chat", second)) is None
    assert left.take(conversation_key("chat", first)) is not None


@pytest.mark.parametrize("linked", ["file", "directory", "device"])
def test_a_journal_that_leads_elsewhere_is_none(tmp_path: Path, linked: str):
    """A stranger's run can have one beside it."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "trial.jsonl").write_text("precious\n")
    calls = tmp_path / "run.chi.calls"
    if linked == "directory":
        calls.symlink_to(elsewhere)
    else:
        calls.mkdir()
        target = elsewhere / "trial.jsonl" if linked == "file" else Path("/dev/zero")
        (calls / "trial.jsonl").symlink_to(target)
    journal = Journal(calls, "trial.jsonl")
    journal.add(JournaledCall("key", b"reply", CallRecord("m", Usage(), 0.0, 0.0, 0.0)))

    assert journal.left == []
    assert (elsewhere / "trial.jsonl").read_text() == "precious\n"
