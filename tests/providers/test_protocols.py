"""The tool loop against a server that keeps the rules of the model families, thirty steps each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from chimera.environments.none import NoEnvironment
from chimera.providers import CallFailed, Provider, Request, create_provider
from chimera.providers.settings import ModelSettings
from chimera.providers.wire import chat, gemini, responses
from chimera.providers.wire import messages as wire_messages
from chimera.tools.base import Tool
from chimera.types import Image, Message, Native, ToolCall, ToolResult
from tests.providers.strict_server import DONE, STEPS, StrictServer


class Clock:
    name = "clock"
    description = "The time of day"
    parameters: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {"zone": {"type": "string"}},
    }

    def execute(self, arguments: Mapping[str, Any], env: Any) -> ToolResult:
        return ToolResult("12:00")


@dataclass(frozen=True)
class Family:
    """How a family is reached, and the parts that it wants back."""

    model: str
    path: str = "/v1"
    settings: ModelSettings = ModelSettings()


FAMILIES = {
    "openai": Family("openai/gpt-5.4", settings=ModelSettings(protocol="responses")),
    "deepseek": Family("deepseek/deepseek-reasoner"),
    "gemini-chat": Family("google/gemini-3-pro", settings=ModelSettings(protocol="chat")),
    "anthropic": Family("anthropic/claude-opus-4-5", "", ModelSettings(thinking_tokens=2048)),
    "gemini": Family("google/gemini-3-pro", ""),
    "azure": Family("azure/gpt-5.4", ""),
    "bedrock": Family("bedrock/anthropic.claude-x", "", ModelSettings(thinking_tokens=2048)),
    "vertex-claude": Family("vertex/claude-x", "/v1", ModelSettings(thinking_tokens=2048)),
    "vertex-gemini": Family("vertex/gemini-3-pro", ""),
}
CLAUDE = ("anthropic", "bedrock", "vertex-claude")
each_family = pytest.mark.parametrize("family", FAMILIES)


@pytest.fixture
def server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, google_key: str
) -> Iterator[StrictServer]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "nobody-knows-it")
    server = StrictServer()
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "p")
    monkeypatch.setenv("CLOUD_ML_REGION", "europe-west1")
    account = {
        "type": "service_account",
        "client_email": "tests@p.iam.gserviceaccount.com",
        "private_key": google_key,
        "token_uri": f"{server.address}/token",
    }
    file = tmp_path / "account.json"
    file.write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    yield server
    server.close()


@pytest.fixture(scope="module")
def google_key() -> str:
    """A service account's key, of this run alone."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    return (
        rsa.generate_private_key(public_exponent=65537, key_size=2048)
        .private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        .decode()
    )


def provider_of(family: str, server: StrictServer, **settings: Any) -> Provider:
    chosen = FAMILIES[family]
    return create_provider(
        chosen.model,
        base_url=server.address + chosen.path,
        api_key="key",
        price="1/2",
        attempts=1,
        settings=replace(chosen.settings, **settings),
    )


def converse(
    provider: Provider, change: Callable[[Message], Message] = lambda message: message
) -> list[Message]:
    """The conversation until the model says something; `change` is done to each of its turns."""
    tools: list[Tool] = [Clock()]
    messages = [Message.system("Be exact."), Message.user("Ask the clock.")]
    for _ in range(STEPS + 1):
        turn = provider.complete(messages, tools=tools, max_tokens=100).message()
        messages.append(change(turn))
        for call in turn.tool_calls:
            result = tools[0].execute(call.arguments or {}, NoEnvironment())
            messages.append(Message.tool(result.output, call.id))
        if not turn.tool_calls:
            break
    return messages


@each_family
def test_thirty_steps_with_tools_are_accepted(family: str, server: StrictServer):
    messages = converse(provider_of(family, server))
    turns = [message for message in messages if message.role == "assistant"]

    assert server.refusals == []
    assert len(turns) == STEPS + 1
    assert turns[-1].content == DONE
    assert [len(turn.tool_calls) for turn in turns[:6]] == [1, 1, 1, 1, 2, 1]
    assert family == "gemini-chat" or all(turn.reasoning for turn in turns)


@each_family
def test_what_other_models_need_is_all_there_without_what_is_carried(
    family: str, server: StrictServer
):
    """A conversation of one family can be shown to another: text and calls say it all."""
    provider = provider_of(family, server)
    turn = provider.complete([Message.user("Hello.")], tools=[Clock()], max_tokens=9).message()

    assert turn.tool_calls[0].arguments == {"zone": "z0"}
    assert turn.native is not None


def _without(native: Native, *path: Any) -> Native:
    """The turn as it came, but for what lies at the path."""

    def cut(value: Any, path: tuple[Any, ...]) -> Any:
        key, *rest = path
        if isinstance(value, dict):
            if rest:
                return {**value, key: cut(value[key], tuple(rest))}
            return {k: v for k, v in value.items() if k != key}
        if rest:
            return [cut(each, tuple(rest)) if i == key else each for i, each in enumerate(value)]
        return [each for i, each in enumerate(value) if i != key]

    return replace(native, content=cut(native.content, path))


@pytest.mark.parametrize(
    ("family", "path", "complaint"),
    [
        ("openai", (0,), "without its required 'reasoning' item"),
        ("openai", (0, "encrypted_content"), "Items are not persisted"),
        ("openai", (0, "id"), "Invalid"),
        ("openai", (1,), "following item"),
        ("openai", (1, "id"), "Invalid"),
        ("deepseek", ("reasoning_content",), "Missing `reasoning_content`"),
        ("gemini-chat", ("tool_calls", 0, "extra_content"), "missing a thought_signature"),
        ("anthropic", (0,), "cannot be modified"),
        ("anthropic", (0, "signature"), "cannot be modified"),
        ("anthropic", (0, "thinking"), "cannot be modified"),
        ("anthropic", (1,), "cannot be modified"),
        ("anthropic", (1, "data"), "cannot be modified"),
        ("gemini", (1, "thoughtSignature"), "missing a thought_signature"),
    ],
)
def test_a_carried_part_that_is_dropped_is_refused(
    family: str, path: tuple[Any, ...], complaint: str, server: StrictServer
):
    def drop(turn: Message) -> Message:
        assert turn.native is not None
        return replace(turn, native=_without(turn.native, *path))

    with pytest.raises(CallFailed, match=complaint):
        converse(provider_of(family, server), drop)


@each_family
def test_a_turn_without_anything_carried_is_refused(family: str, server: StrictServer):
    with pytest.raises(CallFailed, match="400"):
        converse(provider_of(family, server), lambda turn: replace(turn, native=None))

    assert len([body for body in server.bodies if "access_token" not in body]) == 2


def test_chat_completions_refuse_tools_of_models_that_want_responses(server: StrictServer):
    with pytest.raises(CallFailed, match="use /v1/responses"):
        converse(provider_of("openai", server, protocol="chat"))


@each_family
def test_tokens_of_cache_and_reasoning_are_counted_apart(family: str, server: StrictServer):
    usage = (
        provider_of(family, server)
        .complete([Message.user("Hello.")], tools=[Clock()], max_tokens=9)
        .usage
    )

    written = 50 if family in CLAUDE else 0
    assert (usage.input_tokens, usage.output_tokens) == (100, 20)
    assert (usage.cached_tokens, usage.cache_write_tokens) == (40, written)
    assert usage.reasoning_tokens == 7


def test_the_stable_prefix_is_cached_and_a_single_question_is_not(server: StrictServer):
    provider = provider_of("anthropic", server)
    converse(provider)
    body = server.bodies[-1]
    marked = [
        (index, place)
        for index, turn in enumerate(body["messages"])
        for place, block in enumerate(turn["content"])
        if "cache_control" in block
    ]

    assert "cache_control" in body["system"][-1]
    last = len(body["messages"]) - 1
    assert [index for index, _ in marked] == [last - 2, last]
    assert "cache_control" not in str(server.bodies[0]["tools"])
    server.bodies.clear()
    with pytest.raises(CallFailed):  # the server wants tools with its thinking, which is no matter
        provider.complete([Message.user("Once.")], max_tokens=9)
    assert "cache_control" not in str(server.bodies)


@pytest.mark.parametrize(
    ("family", "settings", "expected"),
    [
        ("openai", {"reasoning_effort": "high"}, {"reasoning": {"effort": "high"}}),
        ("deepseek", {"reasoning_effort": "high"}, {"reasoning_effort": "high"}),
        ("deepseek", {"top_p": 0.5}, {"top_p": 0.5}),
        ("openai", {"body": (("reasoning.summary", "auto"),)}, {"reasoning": {"summary": "auto"}}),
        (
            "anthropic",
            {"reasoning_effort": "low", "body": (("metadata.user_id", "me"),)},
            {"output_config": {"effort": "low"}, "metadata": {"user_id": "me"}},
        ),
        ("gemini", {"thinking_tokens": 64},
         {"generationConfig": {"maxOutputTokens": 73, "thinkingConfig": {
             "thinkingBudget": 64, "includeThoughts": True}}}),
        ("gemini", {"reasoning_effort": "low"},
         {"generationConfig": {"maxOutputTokens": 9, "thinkingConfig": {
             "thinkingLevel": "LOW", "includeThoughts": True}}}),
        ("gemini", {"body": (("safetySettings", []),)}, {"safetySettings": []}),
    ],
)  # fmt: skip
def test_settings_reach_the_request(
    family: str, settings: dict[str, Any], expected: dict[str, Any], server: StrictServer
):
    provider = provider_of(family, server, headers=(("x-team", "blue"),), **settings)
    provider.complete([Message.user("Hello.")], tools=[Clock()], max_tokens=9)

    assert {key: server.bodies[0].get(key) for key in expected} == expected
    assert server.headers[0]["x-team"] == "blue"


@each_family
def test_a_gateway_reads_the_conversation_that_a_provider_sent(family: str, server: StrictServer):
    provider = provider_of(family, server)
    messages = converse(provider)
    wires = {"openai": responses, "azure": responses}
    wires |= dict.fromkeys(("gemini", "vertex-gemini"), gemini)
    wires |= dict.fromkeys(CLAUDE, wire_messages)

    found = wires.get(family, chat).read_conversation(server.bodies[-1])

    sent = messages[:-1]
    assert [message.role for message in found] == [message.role for message in sent]
    assert [message.content for message in found] == [message.content for message in sent]
    assert [message.tool_calls for message in found] == [message.tool_calls for message in sent]
    assert [message.call_id for message in found] == [message.call_id for message in sent]


PICTURE = Image("image/png", "aGVsbG8=")


@pytest.mark.parametrize("wire", [chat, responses, wire_messages, gemini])
def test_pictures_go_out_and_are_read_again(wire: Any):
    call = ToolCall("one", "clock", {}, "{}")
    messages = (
        Message.user("Look.", [PICTURE]),
        Message.assistant("", [call]),
        Message.tool("12:00", "one", [PICTURE]),
    )
    model = () if wire is gemini else ("m",)
    body = wire.request_body(*model, Request(messages), ModelSettings())

    found = wire.read_conversation(body)

    assert "aGVsbG8=" in str(body)
    assert [image for message in found for image in message.images] == [PICTURE, PICTURE]


#: A call by words that no service takes for a name, in turns that go back as they came.
ODD = "no such tool"
ODD_CALLS: dict[Any, dict[str, Any]] = {
    chat: {"choices": [{"message": {"content": "", "reasoning_content": "So.", "tool_calls": [
        {"id": "1", "function": {"name": ODD, "arguments": "{}"}}]}}]},
    responses: {"output": [
        {"type": "function_call", "call_id": "1", "name": ODD, "arguments": "{}"}]},
    wire_messages: {"content": [
        {"type": "thinking", "thinking": "So.", "signature": "s"},
        {"type": "tool_use", "id": "1", "name": ODD, "input": {}}]},
    gemini: {"candidates": [{"content": {"parts": [
        {"functionCall": {"id": "1", "name": ODD, "args": {}}}]}}]},
}  # fmt: skip


class Odd(Clock):
    name = ODD


@pytest.mark.parametrize("wire", [chat, responses, wire_messages, gemini])
@pytest.mark.parametrize(("offered", "sent"), [(Clock(), "no_such_tool"), (Odd(), ODD)])
def test_a_call_by_no_name_goes_back_in_a_form_that_services_take(
    wire: Any, offered: Any, sent: str
):
    usage = {"usage": {"input_tokens": 1}, "usageMetadata": {"promptTokenCount": 1}}
    said = wire.read_reply("x", {**ODD_CALLS[wire], **usage}, Request(())).message()
    messages = (Message.user("Well?"), said, Message.tool("There is none.", "1"))
    model = () if wire is gemini else ("m",)

    for turn in (said, replace(said, native=None)):
        request = Request((messages[0], turn, messages[2]), (offered,))
        body = wire.request_body(*model, request, ModelSettings())
        (found,) = wire.read_conversation(body)[1].tool_calls
        assert (found.name, said.tool_calls[0].name) == (sent, ODD)
