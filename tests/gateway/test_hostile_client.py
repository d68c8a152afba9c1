"""What a hostile program sends to the gateway: it neither leads out, nor costs what is not known,
nor stays out of the record."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import Any

import httpx
import pytest

from chimera.environments import EnvironmentSpec, start_environment
from chimera.gateway import recording, server
from chimera.gateway.forwarder import HEADER
from chimera.gateway.recording import Recording
from chimera.gateway.tunnel import MOST_SERVED, Tunnel
from chimera.providers.journal import Journal, JournaledCall, conversation_key
from chimera.providers.limiter import limiter_for
from chimera.providers.meter import Budget, CallRecord, Meter, TrialLimits
from chimera.types import Message, Response, Usage
from tests.gateway.conftest import FORMATS, provider_of
from tests.gateway.upstream import cost, truth

PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:generateContent",
}
CONTENT: dict[str, dict[str, Any]] = {
    "chat": {"messages": [{"role": "user", "content": "Well?"}]},
    "responses": {"input": "Well?"},
    "anthropic": {"messages": [{"role": "user", "content": "Well?"}], "max_tokens": 9},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Well?"}]}]},
}


def document(part: dict[str, Any]) -> dict[str, Any]:
    """Anthropic's parts can hold others, at any depth."""
    return {"type": "document", "source": {"type": "content", "content": [part]}}


def ask(door: Any, spoken: str, body: dict[str, Any] | bytes, token: str = "") -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(CONTENT[spoken] | body).encode()
    bearer = {"authorization": f"Bearer {token or door.token}"}
    return httpx.post(
        door.address + PATHS[spoken], content=content, headers=bearer, trust_env=False, timeout=60
    )


@pytest.mark.parametrize(
    ("spoken", "extra", "withheld"),
    [
        ("chat", {"n": 8}, "n"),
        ("chat", {"service_tier": "priority"}, "service_tier"),
        ("chat", {"web_search_options": {}}, "web_search_options"),
        ("chat", {"models": ["dearest"]}, "models"),
        ("chat", {"plugins": [{"id": "web"}]}, "plugins"),
        ("chat", {"base_url": "http://elsewhere"}, "base_url"),
        ("responses", {"tools": [{"type": "web_search"}]}, "web_search"),
        ("responses", {"tools": [{"type": "mcp", "server_url": "http://x"}]}, "mcp"),
        (
            "responses",
            {"tools": [{"type": "namespace", "name": "x", "tools": [{"type": "web_search"}]}]},
            "web_search",
        ),
        (
            "responses",
            {
                "input": [
                    {"type": "tool_search_output", "tools": [{"type": "mcp", "u": "http:"}]},
                    {"role": "user", "content": "Well?"},
                ]
            },
            "mcp",
        ),
        ("responses", {"service_tier": "priority"}, "service_tier"),
        ("anthropic", {"tools": [{"type": "web_fetch_20250910"}]}, "web_fetch_20250910"),
        ("anthropic", {"mcp_servers": [{"url": "http://x"}]}, "mcp_servers"),
        ("anthropic", {"service_tier": "auto"}, "service_tier"),
        (
            "anthropic",
            {"system": [{"type": "text", "text": "x", "cache_control": {"ttl": "1h"}}]},
            "cache_control.ttl",
        ),
        (
            "anthropic",
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            document(
                                {
                                    "type": "text",
                                    "text": "x",
                                    "cache_control": {"type": "ephemeral", "ttl": "1h"},
                                }
                            )
                        ],
                    }
                ]
            },
            "cache_control.ttl",
        ),
        (
            "anthropic",
            {"context_management": {"edits": [{"type": "compact_20260112"}]}},
            "compact_20260112",
        ),
        ("gemini", {"tools": [{"googleSearch": {}}]}, "googleSearch"),
        ("gemini", {"tools": [{"functionDeclarations": [], "urlContext": {}}]}, "functionDecl"),
        ("gemini", {"generationConfig": {"candidateCount": 8}}, "generationConfig.candidateCount"),
        ("gemini", {"generation_config": {"candidate_count": 8}}, "generation_config"),
    ],
)
def test_what_is_billed_apart_or_leads_out_is_withheld_and_said(
    upstream, door, spoken: str, extra: dict[str, Any], withheld: str
):
    service = upstream(["Yes."])
    opened = door(provider_of(service, spoken))

    assert ask(opened, spoken, extra).status_code == 200
    (sent,) = [body for _, _, body in service.seen]
    (name,) = opened.session.recording.steps[-1].metadata["withheld"]
    assert name.startswith(withheld)
    assert f'"{withheld.rpartition(".")[2]}' not in json.dumps(sent)
    assert "http" not in json.dumps(sent)


@pytest.mark.parametrize(
    ("spoken", "extra"),
    [
        ("responses", {"previous_response_id": "resp_1"}),
        ("responses", {"background": True}),
        ("responses", {"input": [{"type": "item_reference", "id": "rs_1"}]}),
        ("responses", {"input": [{"role": "user", "content": "x"}, {"id": "msg_1"}]}),
        ("responses", {"input": [{"role": "user", "content": "x"}, {"id": "m", "type": None}]}),
        (
            "chat",
            {"messages": [{"role": "user", "content": [{"type": "video", "video": ["http:"]}]}]},
        ),
        (
            "responses",
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
        ),
        ("chat", {"messages": [{"role": "user", "content": [{"image_url": {"url": "http://x"}}]}]}),
        ("chat", {"messages": [{"role": "user", "content": [{"file": {"file_id": "f"}}]}]}),
        ("anthropic", {"messages": [{"content": [{"type": "image", "source": {"type": "url"}}]}]}),
        (
            "responses",
            {
                "input": [
                    {
                        "type": "computer_call_output",
                        "call_id": "c",
                        "output": {"type": "computer_screenshot", "image_url": "http://x"},
                    }
                ]
            },
        ),
        (
            "chat",
            {"messages": [{"role": "user", "content": [{"video_url": {"url": "http://x"}}]}]},
        ),
        (
            "anthropic",
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "tool_result",
                                "tool_use_id": "t",
                                "content": [
                                    document(
                                        {
                                            "type": "image",
                                            "source": {"type": "url", "url": "http://x"},
                                        }
                                    )
                                ],
                            }
                        ],
                    }
                ]
            },
        ),
        ("anthropic", {"system": [{"type": "image", "source": {"type": "file"}}]}),
        (
            "gemini",
            {
                "contents": [
                    {
                        "role": "user",
                        "parts": [
                            {
                                "functionResponse": {
                                    "name": "f",
                                    "response": {},
                                    "parts": [{"fileData": {"fileUri": "http://x"}}],
                                }
                            }
                        ],
                    }
                ]
            },
        ),
        ("gemini", {"systemInstruction": {"parts": [{"fileData": {"fileUri": "http://x"}}]}}),
        ("gemini", {"cachedContent": "cachedContents/1"}),
        ("gemini", {"contents": [{"parts": [{"fileData": {"fileUri": "http://x"}}]}]}),
    ],
)
def test_what_lies_elsewhere_is_refused(upstream, door, spoken: str, extra: dict[str, Any]):
    service = upstream(["Yes."])

    assert ask(door(provider_of(service, spoken)), spoken, extra).status_code == 400
    assert service.seen == []


MEDIA: dict[str, tuple[Any, Any]] = {
    "chat": (
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:,x"}},
    ),
    "responses": (
        {"type": "input_image", "image_url": "data:image/png;base64,aGk="},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:,x"},
    ),
    "anthropic": (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"type": "document",
         "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="}},
    ),
    "gemini": (
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        {"inlineData": {"mimeType": "video/mp4", "data": "aGk="}},
    ),
}  # fmt: skip


def saying(spoken: str, part: dict[str, Any]) -> dict[str, Any]:
    if spoken == "gemini":
        return {"contents": [{"role": "user", "parts": [part]}]}
    return {"input" if spoken == "responses" else "messages": [{"role": "user", "content": [part]}]}


@pytest.mark.parametrize("spoken", FORMATS)
def test_a_budget_bounds_pictures_and_takes_nothing_that_has_no_bound(upstream, door, spoken: str):
    """A picture of ten bytes has thousands of tokens, a document of ten as many as you like."""
    picture, document = MEDIA[spoken]
    service = upstream(["Yes."])
    small, large = (
        door(provider_of(service, spoken), Meter(budget=Budget(most))) for most in (5.0, 40.0)
    )
    bound = {"max_tokens": 9, "max_output_tokens": 9, "generationConfig": {"maxOutputTokens": 9}}

    def status(opened: Any, body: dict[str, Any]) -> int:
        return ask(opened, spoken, body | bound).status_code

    assert status(door(provider_of(service, spoken)), saying(spoken, document)) == 200
    assert [status(large, saying(spoken, part)) for part in (picture, document)] == [200, 400]
    assert [status(small, body) for body in ({}, saying(spoken, picture))] == [200, 402]


PDF = "data:application/pdf;base64,aGk="
PICTURE = {"mimeType": "image/png", "data": "aGk="}
DOCUMENT = {"mimeType": "application/pdf", "data": "aGk="}


@pytest.mark.parametrize(
    ("spoken", "part"),
    [
        ("chat", {"type": "image_url", "image_url": {"url": PDF}}),
        ("chat", {"type": "file", "file": {"file_data": PDF}, **MEDIA["chat"][0]}),
        ("chat", {"type": "document_url", "document_url": PDF}),
        ("chat", {"type": "video", "video": "data:video/mp4;base64,aGk="}),
        ("responses", {"type": "input_file", "file_url": PDF}),
        ("responses", {**MEDIA["responses"][0], "type": "input_file", "file_data": PDF}),
        ("gemini", {"inlineData": None, "inline_data": DOCUMENT}),
        ("gemini", {"inlineData": PICTURE, "inline_data": DOCUMENT}),
        ("gemini", {"inlineData": PICTURE | {"mime_type": "application/pdf"}}),
    ],
)
def test_a_document_is_one_by_any_name(upstream, door, spoken: str, part: dict[str, Any]):
    """It is no picture because it is sent as one, or beside one."""
    service = upstream(["Yes."])
    opened = door(provider_of(service, spoken), Meter(budget=Budget(1e9)))

    assert ask(opened, spoken, saying(spoken, part)).status_code == 400
    assert service.seen == []


def test_what_a_program_leaves_out_of_its_context_is_passed_on(upstream, door):
    service = upstream(["Yes."])
    edits = {"edits": [{"type": "clear_tool_uses_20250919"}]}
    ask(door(provider_of(service, "anthropic")), "anthropic", {"context_management": edits})

    assert service.seen[0][2]["context_management"] == edits


def test_what_a_tool_said_or_was_told_is_no_reference(upstream, door):
    said = {"fileData": "x", "source": {"type": "url"}}
    gemini = {"contents": [
        {"role": "user", "parts": [{"text": "Well?"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": said}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": said}}]},
    ]}  # fmt: skip
    anthropic = {"messages": [
        {"role": "user", "content": "Well?"},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "t", "name": "f", "input": said}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]},
    ]}  # fmt: skip
    for spoken, body in (("gemini", gemini), ("anthropic", anthropic)):
        opened = door(provider_of(upstream(["Yes."]), spoken))

        assert ask(opened, spoken, body).status_code == 200


@pytest.mark.parametrize(
    ("spoken", "bounds", "sent"),
    [
        (
            "chat",
            {"max_completion_tokens": 9, "max_tokens": 10**6},
            {"max_completion_tokens": 9},
        ),
        ("chat", {"max_completion_tokens": 1e6}, {"max_tokens": 8192}),
        ("chat", {"max_tokens": 10**30}, {"max_tokens": 8192}),
        (
            "gemini",
            {"generationConfig": {"maxOutputTokens": 9, "max_output_tokens": 10**6}},
            {"maxOutputTokens": 9},
        ),
    ],
)
def test_the_bound_that_is_reserved_is_the_only_one_that_is_sent(
    upstream, door, spoken: str, bounds: dict[str, Any], sent: dict[str, int]
):
    service = upstream(["Yes."])
    ask(door(provider_of(service, spoken), Meter(budget=Budget(1e9))), spoken, bounds)

    ((_, _, body),) = service.seen
    given = body.get("generationConfig", body)
    assert {name: given[name] for name in given if "max" in name.lower()} == sent


@pytest.mark.parametrize("limit", ["max_cost", "max_tokens"])
def test_calls_side_by_side_go_beyond_a_limit_no_further_than_one(upstream, door, limit: str):
    service = upstream(["Yes."], pause=0.2)
    most: Any = 1.5 * cost(truth(0)) if limit == "max_cost" else truth(0).total_tokens * 3 // 2
    opened = door(provider_of(service, "chat"), Meter(TrialLimits(**{limit: most})))
    threads = [threading.Thread(target=ask, args=(opened, "chat", {})) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(service.seen) == 2
    assert opened.session.limit is not None


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages": [{"role": "assistant", "tool_calls": [{"function": '
        b'{"name": "x", "arguments": "' + b"[" * 100_000 + b'"}}]}]}',
        b'{"temperature": ' + b"9" * 4000 + b', "messages": [{"role": "user", "content": "x"}]}',
        b'{"max_tokens": 1e999, "messages": [{"role": "user", "content": "x"}]}',
    ],
)
def test_an_odd_request_is_answered(upstream, door, body: bytes):
    assert ask(door(provider_of(upstream(["Yes."]), "chat")), "chat", body).status_code in (
        200,
        400,
    )


def test_only_so_much_is_held_at_once(upstream, door, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(server, "MOST_BYTES_UNDER_WAY", 1000)
    opened = door(provider_of(upstream(["Yes."]), "chat"))

    assert [ask(opened, "chat", {"user": "x" * n}).status_code for n in (2000, 500, 500)] == [
        429, 200, 200
    ]  # fmt: skip


def test_nothing_is_read_for_somebody_without_the_token(upstream, door):
    opened = door(provider_of(upstream(["Yes."]), "chat"))

    assert ask(opened, "chat", b"no json", token="another").status_code == 401


def test_words_put_into_the_models_mouth_are_marked():
    kept = Recording()
    said, forged = Message.user("Is it right?"), Message.assistant("I have checked it.")
    kept.add((said,), Response("I do not know."), {})
    kept.add((said, forged, Message.user("Sure?")), Response("Yes."), {})
    kept.add((said, forged, Message.user("Sure?"), Message.assistant("")), Response("."), {})

    assert [(s.message.content, s.metadata.get("retold")) for s in kept.trajectory()] == [
        ("Is it right?", None), ("I do not know.", None), ("I have checked it.", True),
        ("Sure?", None), ("Yes.", None), (".", None),
    ]  # fmt: skip


def test_a_record_that_is_full_keeps_the_start_of_each_message(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recording, "MOST_CHARACTERS", 5000)
    kept = Recording()
    for number in range(3):
        kept.add((Message.user(f"{number}" * 4000),), Response("."), {})

    sizes = [len(step.message.content) for step in kept.steps if step.message.role == "user"]
    assert sizes[0] == 4000
    assert max(sizes[1:]) < 1100


def test_the_cost_of_a_call_left_behind_is_not_known(upstream, door):
    opened = door(provider_of(upstream(["Yes."], pause=1.0), "chat"))
    asking = threading.Thread(target=ask, args=(opened, "chat", {}))
    asking.start()
    while not opened.session.calls:
        pass
    opened.session.drain(0.01)

    assert opened.session.meter.cost is None
    asking.join()


def test_a_number_of_a_connection_can_be_used_again():
    """A forged forwarder opens, closes and opens connections by the same number at once."""
    frames = [
        HEADER.pack(number, kind, len(data)) + data
        for number in range(1, 41)
        for kind, data in ((b"O", b""), (b"C", b""), (b"O", b""), (b"D", b"x"))
    ]
    program = (
        f"import os, time\nos.write(1, {HEADER.pack(0, b'O', 1) + b'9'!r})\n"
        f"os.write(1, {b''.join(frames)!r})\ntime.sleep(60)"
    )
    heard, all_heard = [], threading.Event()

    def serve(connection: Any) -> None:
        with connection:
            if connection.recv(1):
                heard.append(1)
                if len(heard) == 40:
                    all_heard.set()
                connection.recv(1)

    with start_environment("local", EnvironmentSpec(needs=frozenset({"commands"}))) as env:
        tunnel = Tunnel(env, ["python3", "-c", program], serve)
        try:
            assert all_heard.wait(20)
            assert len(tunnel.connections) == 40
        finally:
            tunnel.close()


def test_calls_that_are_left_behind_are_bounded_too():
    """Each has a thread of the host's until its service answers."""
    frames = [
        HEADER.pack(number, kind, len(data)) + data
        for number in range(1, 1001)
        for kind, data in ((b"O", b""), (b"D", b"x"), (b"C", b""))
    ]
    program = (
        f"import os, time\nos.write(1, {HEADER.pack(0, b'O', 1) + b'9'!r})\n"
        f"import sys\nsys.stdout.buffer.write({b''.join(frames)!r})\nsys.stdout.flush()\n"
        "time.sleep(60)"
    )
    under_way, most, answered = 0, 0, threading.Event()

    def serve(connection: Any) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        with connection:
            answered.wait(20)
        under_way -= 1

    with start_environment("local", EnvironmentSpec(needs=frozenset({"commands"}))) as env:
        tunnel = Tunnel(env, ["python3", "-c", program], serve)
        try:
            time.sleep(3)  # no sign is given of what is refused
        finally:
            answered.set()
            tunnel.close()

    assert 0 < most <= MOST_SERVED


def test_the_very_same_question_is_answered_first(tmp_path):
    journal = Journal(tmp_path / "calls", "trial.jsonl")
    asked = [[Message.user(f"What is {n} + {n}?")] for n in (1, 2)]
    for question, reply in zip(asked, (b"2", b"4"), strict=True):
        account = CallRecord("m", Usage(), 0.0, 0.0, 0.0)
        journal.add(JournaledCall(conversation_key("chat", question), reply, account))
    left = Journal(journal.directory, journal.name)

    found = [left.take(conversation_key("chat", asked[n])) for n in (1, 0)]
    assert [call.reply for call in found if call] == [b"4", b"2"]


@pytest.mark.parametrize("spoken", FORMATS)
def test_a_stream_that_was_cut_is_no_answer(upstream, door, spoken: str):
    """Its service may bill what it had made: the call counts at its worst case."""
    calls = ("bash", {"command": "ls"})
    service = upstream([calls], cut=True)
    budget = Budget(1e9)
    opened = door(provider_of(service, spoken), Meter(budget=budget))
    body = CONTENT[spoken] | {"stream": True}
    path = PATHS[spoken].replace("generateContent", "streamGenerateContent")
    bearer = {"authorization": f"Bearer {opened.token}"}
    httpx.post(opened.address + path, json=body, headers=bearer, trust_env=False, timeout=60)

    assert opened.session.failure is not None
    assert opened.session.recording.steps == []
    assert budget.spent > cost(truth(0))


def test_a_client_that_reads_nothing_holds_nobody_up(
    upstream, door, monkeypatch: pytest.MonkeyPatch
):
    """Its call has a turn at the service, which others wait for."""
    monkeypatch.setattr(server, "UNREAD_SECONDS", 0.5)
    provider = provider_of(upstream(["x" * 20_000_000]), "chat")
    opened = door(provider)
    content = json.dumps(CONTENT["chat"] | {"stream": True}).encode()
    head = f"POST {PATHS['chat']} HTTP/1.1\r\nauthorization: Bearer {opened.token}\r\n"
    with socket.create_connection(("127.0.0.1", int(opened.address.rpartition(":")[2]))) as client:
        client.sendall(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        while not opened.session.calls:
            time.sleep(0.01)
        opened.session.drain(15)

        assert limiter_for(provider.endpoint).running == 0
        assert [call.error for call in opened.session.meter.calls] == [None]
