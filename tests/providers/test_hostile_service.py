"""A model's service that lies, never ends, or sends the client elsewhere."""

from __future__ import annotations

import gzip
import json
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from chimera.errors import ProviderError
from chimera.providers import Provider
from chimera.providers.base import CallFailed, Request, most_input_tokens
from chimera.providers.http import MOST_BODY_BYTES
from chimera.providers.meter import Meter, TrialLimits, metered
from chimera.providers.sdk import MOST_PARTS, parsed
from chimera.types import Message
from tests.gateway.conftest import FORMATS, provider_of

QUESTION = [Message.user("Well?")]
#: What each format answers with a text, and where its tokens stand.
ANSWERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "chat": lambda usage: {
        "choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}],
        "usage": usage,
    },
    "responses": lambda usage: {
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "Yes."}]}],
        "usage": usage,
    },
    "anthropic": lambda usage: {
        "content": [{"type": "text", "text": "Yes."}],
        "stop_reason": "end_turn",
        "usage": usage,
    },
    "gemini": lambda usage: {
        "candidates": [{"content": {"parts": [{"text": "Yes."}]}, "finishReason": "STOP"}],
        "usageMetadata": usage,
    },
}
#: The names of the tokens read, written and read from a cache.
NAMES = {
    "chat": ("prompt_tokens", "completion_tokens", "prompt_cache_hit_tokens"),
    "responses": ("input_tokens", "output_tokens", ""),
    "anthropic": ("input_tokens", "output_tokens", "cache_read_input_tokens"),
    "gemini": ("promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount"),
}


class Service:
    """Answers every request with the same; `seen` is what came in."""

    def __init__(self, status: int, body: bytes, headers: dict[str, str], endless: bool) -> None:
        self.seen: list[dict[str, str]] = []
        self.body = body
        service = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                service.seen.append(dict(self.headers.items()))
                self.send_response(status)
                for name, value in {"content-type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(service.body)
                try:
                    while endless:
                        self.wfile.write(body)
                except OSError:
                    pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def service() -> Iterator[Callable[..., Service]]:
    with ExitStack() as stack:

        def start(
            body: bytes | dict[str, Any] = b"",
            status: int = 200,
            headers: dict[str, str] | None = None,
            *,
            endless: bool = False,
        ) -> Service:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            started = Service(status, content, headers or {}, endless)
            stack.callback(started.close)
            return started

        yield start


def asked(provider: Provider) -> tuple[Meter, str]:
    with metered(Meter(TrialLimits(max_cost=1e6))) as meter:
        return meter, provider.complete(QUESTION).content


@pytest.mark.parametrize("spoken", FORMATS)
@pytest.mark.parametrize("told", [-5, float("nan"), float("inf"), 1e300, None, "many", True])
def test_tokens_that_nobody_counted_are_as_many_as_bytes(service, spoken: str, told: object):
    names = dict.fromkeys(NAMES[spoken][:2], told)
    usage = {name: value for name, value in names.items() if value is not None} or {"other": 1}
    odd = isinstance(told, float) and told != 1e300  # no JSON at all
    provider = provider_of(service(ANSWERS[spoken](usage)), spoken)
    if odd:
        with pytest.raises(ProviderError):
            asked(provider)
        return
    meter, _ = asked(provider)

    assert meter.usage.input_tokens == most_input_tokens(Request(tuple(QUESTION)))
    assert meter.usage.output_tokens == len("Yes.")


@pytest.mark.parametrize("spoken", ["chat", "gemini"])
def test_no_part_of_the_tokens_makes_a_price_negative(service, spoken: str):
    usage = dict(zip(NAMES[spoken], (10, 5, 10**8), strict=True))
    meter, _ = asked(provider_of(service(ANSWERS[spoken](usage)), spoken))

    assert (meter.usage.input_tokens, meter.usage.cached_tokens) == (10, 10)
    assert meter.cost is not None
    assert meter.cost > 0


@pytest.mark.parametrize("spoken", FORMATS)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_redirect_takes_the_key_to_another_host(service, spoken: str, status: int):
    other = service(ANSWERS[spoken]({}))
    first = service(b"", status, {"location": f"{other.address}/v1/chat/completions"})

    with pytest.raises(ProviderError, match=str(status)):
        asked(provider_of(first, spoken))
    assert len(first.seen) == 1
    assert other.seen == []


@pytest.mark.parametrize("spoken", FORMATS)
@pytest.mark.parametrize("status", [200, 400])
def test_a_body_without_an_end_is_given_up(service, spoken: str, status: int):
    with pytest.raises(ProviderError):
        asked(provider_of(service(b"x" * 65536, status, endless=True), spoken))


@pytest.mark.parametrize("spoken", FORMATS)
@pytest.mark.parametrize(
    ("packing", "times", "size", "read"),
    [
        ("gzip", 1, 0, True),
        ("gzip", 1, MOST_BODY_BYTES, False),
        ("gzip, gzip", 2, 0, False),
        ("deflate", 1, 0, False),
        ("br", 1, 0, False),
        ("gzip", 0, 0, False),
    ],
)
def test_no_body_is_unpacked_beyond_its_bound(
    service, spoken: str, packing: str, times: int, size: int, read: bool
):
    names = NAMES[spoken][:2]
    body = json.dumps(ANSWERS[spoken](dict.fromkeys(names, 1))).encode() + b" " * size
    for _ in range(times):
        body = gzip.compress(body)
    provider = provider_of(service(body, headers={"content-encoding": packing}), spoken)
    if read:
        assert asked(provider)[1] == "Yes."
        return
    with pytest.raises(ProviderError):
        asked(provider)


@pytest.mark.parametrize("spoken", FORMATS)
@pytest.mark.parametrize("cut", [0, 1, 8])
def test_a_packed_body_may_have_several_parts_and_is_whole_or_none(service, spoken: str, cut: int):
    body = json.dumps(ANSWERS[spoken](dict.fromkeys(NAMES[spoken][:2], 1))).encode()
    packed = gzip.compress(body[:20]) + gzip.compress(body[20:] + b" ")
    packed = packed[: len(packed) - cut]
    provider = provider_of(service(packed, headers={"content-encoding": "gzip"}), spoken)
    if not cut:
        assert asked(provider)[1] == "Yes."
        return
    with pytest.raises(ProviderError, match="cut off"):
        asked(provider)


@pytest.mark.parametrize("spoken", FORMATS[:1])
def test_packed_bytes_without_end_that_come_to_nothing_are_given_up(service, spoken: str):
    nothing = zlib.compressobj(wbits=zlib.MAX_WBITS | 16).flush(zlib.Z_SYNC_FLUSH)
    endless = service(
        nothing + b"\0\0\0\xff\xff" * 10_000, headers={"content-encoding": "gzip"}, endless=True
    )

    with pytest.raises(ProviderError):
        asked(provider_of(endless, spoken))


@pytest.mark.parametrize("spoken", FORMATS)
def test_what_has_too_many_parts_is_no_answer(service, spoken: str):
    with pytest.raises(ProviderError, match="not JSON"):
        asked(provider_of(service(b'{"a":[' + b"[]," * MOST_PARTS + b"[]]}"), spoken))


def test_what_looks_like_parts_inside_of_a_text_is_read():
    text = '[{,"' * MOST_PARTS

    assert parsed(json.dumps([text])) == [text]


@pytest.mark.parametrize("spoken", FORMATS)
def test_what_is_nested_too_deep_is_no_answer(service, spoken: str):
    with pytest.raises(ProviderError, match="not JSON"):
        asked(provider_of(service(b'{"a":' * 100_000 + b"1" + b"}" * 100_000), spoken))


@pytest.mark.parametrize(
    ("arguments", "readable"),
    [
        ('{"a": 1}', True),
        ('{"a": NaN}', False),
        ('{"a": 1e999}', False),
        ("[" * 100_000, False),
        ("[1]", False),
    ],
)
def test_odd_arguments_of_a_call_are_kept_as_text(service, arguments: str, readable: bool):
    function = {"name": "bash", "arguments": arguments}
    message = {"content": "", "tool_calls": [{"id": "1", "function": function}]}
    body = {"choices": [{"message": message}], "usage": {"prompt_tokens": 1}}
    (call,) = provider_of(service(body), "chat").complete(QUESTION).tool_calls

    assert (call.arguments is not None, call.raw_arguments) == (readable, arguments)


#: A call with half a character among its arguments.
HALF = {"command": "echo \ud83d"}
CALLS: dict[str, dict[str, Any]] = {
    "chat": {"choices": [{"message": {"content": "So \ud83d", "tool_calls": [
        {"id": "1", "function": {"name": "bash", "arguments": json.dumps(HALF)}}]}}]},
    "responses": {"output": [
        {"type": "message", "content": [{"type": "output_text", "text": "So \ud83d"}]},
        {"type": "function_call", "call_id": "1", "name": "bash", "arguments": json.dumps(HALF)}]},
    "anthropic": {"content": [
        {"type": "text", "text": "So \ud83d"},
        {"type": "tool_use", "id": "1", "name": "bash", "input": HALF}]},
    "gemini": {"candidates": [{"content": {"parts": [
        {"text": "So \ud83d"},
        {"functionCall": {"id": "1", "name": "bash", "args": HALF}}]}}]},
}  # fmt: skip


@pytest.mark.parametrize("spoken", FORMATS)
def test_half_a_character_neither_ends_a_trial_nor_costs(service, spoken: str):
    """What the model said is said back to it with the next call."""
    read, written, _ = NAMES[spoken]
    usage = {"usageMetadata" if spoken == "gemini" else "usage": {read: 1, written: 1}}
    started = service({**CALLS[spoken], **usage})
    provider = provider_of(started, spoken)
    with metered(Meter(TrialLimits(max_cost=1e6))) as meter:
        said = provider.complete(QUESTION)
        provider.complete([*QUESTION, said.message(), Message.tool("Done.", "1")])

    assert said.content == "So ?"
    assert said.tool_calls[0].arguments == {"command": "echo ?"}
    assert [(call.attempts, call.error) for call in meter.calls] == [(1, None)] * 2


@pytest.mark.parametrize("spoken", FORMATS)
def test_what_cannot_be_sent_is_not_paid_for(service, spoken: str):
    read, written, _ = NAMES[spoken]
    started = service(ANSWERS[spoken]({read: 1, written: 1}))
    with metered(Meter(TrialLimits(max_cost=1e6))) as meter:
        try:
            provider_of(started, spoken).complete([Message.user("\ud83d")])
        except ProviderError:
            assert meter.cost == 0.0
            assert meter.calls[-1].attempts == 1


def oddities(value: Any) -> Iterator[Any]:
    """A value with each of its parts replaced by what nobody expects there."""
    yield from (5, "x", [5], {"a": 5}, None, True)
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            for odd in oddities(inner):
                changed = value.copy()
                changed[key] = odd
                yield changed


@pytest.mark.parametrize("spoken", FORMATS)
def test_no_odd_answer_is_anything_but_an_answer_or_a_failed_call(service, spoken: str):
    read, written, _ = NAMES[spoken]
    usage = {"usageMetadata" if spoken == "gemini" else "usage": {read: 1, written: 1}}
    started = service()
    provider = replace(provider_of(started, spoken), attempts=1)

    for odd in oddities({**CALLS[spoken], **usage}):
        started.body = json.dumps(odd).encode()
        try:
            said = provider.complete(QUESTION)
        except CallFailed:
            continue
        assert isinstance(said.content, str)
        assert all(isinstance(call.name, str) for call in said.tool_calls)
