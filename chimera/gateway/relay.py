"""A request passed on as it is, to a service that speaks the client's own format."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chimera.gateway.wires.base import Asked, Wire, stream_data
from chimera.providers.anthropic import AnthropicProvider
from chimera.providers.base import CallFailed, Provider, Request
from chimera.providers.gemini import ADDRESS, GeminiProvider
from chimera.providers.http import MOST_BODY_BYTES, new_client
from chimera.providers.openai import CONNECT_SECONDS, OpenAIProvider
from chimera.providers.prices import Price
from chimera.providers.sdk import decoded, malformed, readable, status_failure
from chimera.providers.secrets import MINIMUM_LENGTH, PLACEHOLDER
from chimera.providers.settings import merge
from chimera.types import JSON, Response

_clients: dict[int, Any] = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where a service takes requests of a format, the headers that open it, and those that it needs
    where the client has none."""

    address: str
    headers: Mapping[str, str] = field(repr=False)
    defaults: Mapping[str, str] = field(default_factory=dict)

    def keys(self) -> tuple[bytes, ...]:
        """What no client may read."""
        found = (value.removeprefix("Bearer ") for value in self.headers.values())
        return tuple(key.encode() for key in found if len(key) >= MINIMUM_LENGTH)


def upstream_for(provider: Provider, wire: Wire, *, stream: bool) -> Upstream | None:
    """Where the provider's service takes requests of this format; None: it speaks another."""
    if type(provider) is AnthropicProvider and wire.name == "anthropic":
        key = provider.api_key
        opener = {"authorization": f"Bearer {key}"} if provider.bearer else {"x-api-key": key}
        address = f"{provider.base_url.rstrip('/')}/v1/messages"
        return Upstream(address, opener, {"anthropic-version": "2023-06-01"})
    if type(provider) is OpenAIProvider and wire.name in _spoken(provider):
        path = "chat/completions" if wire.name == "chat" else "responses"
        opener = {"authorization": f"Bearer {provider.api_key}"}
        return Upstream(f"{provider.base_url.rstrip('/')}/{path}", opener)
    if type(provider) is GeminiProvider and wire.name == "gemini":
        action = "streamGenerateContent?alt=sse" if stream else "generateContent"
        base = provider.base_url or ADDRESS
        address = f"{base.rstrip('/')}/v1beta/models/{provider.model}:{action}"
        return Upstream(address, {"x-goog-api-key": provider.api_key})
    return None


def _spoken(provider: OpenAIProvider) -> tuple[str, ...]:
    """The formats of an OpenAI-compatible service: the older one, unless more is known of it."""
    chosen = provider.settings.protocol or provider.protocol
    return ("chat", "responses") if chosen == "by_tools" else (chosen,)


@dataclass(frozen=True, kw_only=True)
class Relay(Provider):
    """One request of a client as a call to `provider`'s service, with its account and its limits.

    `sink` is given the answer's bytes as they come; once it has some, nothing is tried again.
    """

    provider: Provider
    upstream: Upstream
    wire: Wire
    asked: Asked
    body: dict[str, JSON]
    headers: Mapping[str, str]
    sink: Callable[[bytes], None]

    @classmethod
    def of(
        cls,
        provider: Provider,
        upstream: Upstream,
        wire: Wire,
        asked: Asked,
        body: dict[str, JSON],
        headers: Mapping[str, str],
        sink: Callable[[bytes], None],
    ) -> Relay:
        return cls(
            name=provider.name,
            model=provider.model,
            attempts=provider.attempts,
            timeout=provider.timeout,
            settings=provider.settings,
            max_connections=provider.max_connections,
            provider=provider,
            upstream=upstream,
            wire=wire,
            asked=asked,
            body=body,
            headers=headers,
            sink=sink,
        )

    @property
    def endpoint(self) -> str:
        return self.provider.endpoint

    def price(self) -> Price | None:
        return self.provider.price()

    def _call(self, request: Request) -> Response:
        body = self.wire.prepared(self.body, self.provider.model)
        if request.max_tokens is not None:
            body = self._bounded(body, request.max_tokens)
        merge(body, self.settings.fields())
        sent = _Sent(self.sink, self.upstream.keys())
        try:
            with readable(self.name):
                answer = self._exchange(json.dumps(body).encode(), request.timeout, sent)
                return self.wire.response(answer, self.asked)
        except CallFailed as error:
            if sent.anything:
                error.retryable, error.maybe_charged = False, True
            raise

    def _bounded(self, body: dict[str, JSON], most: int) -> dict[str, JSON]:
        bounded = self.wire.bounded(body, most)
        if isinstance(self.provider, OpenAIProvider) and "max_tokens" in bounded:
            bounded[self.provider.max_tokens_field] = bounded.pop("max_tokens")
        return bounded

    def _exchange(self, content: bytes, timeout: float, sent: _Sent) -> dict[str, JSON]:
        """Send it; the whole answer, whose bytes have gone to the sink."""
        headers = {
            **self.upstream.defaults,
            **{k: v for k, v in self.headers.items() if k in self.wire.passed_headers},
            **dict(self.settings.headers),
            **self.upstream.headers,
            "content-type": "application/json",
        }
        end = time.monotonic() + timeout
        with _faults(self.name), _opened(self.upstream.address, headers, content, timeout) as reply:
            streaming = "event-stream" in reply.headers.get("content-type", "")
            if reply.status_code != 200:
                detail = reply.read().decode("utf-8", "replace")
                raise status_failure(self.name, reply.status_code, reply.headers, detail)
            parts, size = [], 0
            for part in reply.iter_bytes():
                parts.append(part)
                size += len(part)
                if size > MOST_BODY_BYTES or time.monotonic() > end:
                    raise malformed(self.name, "the answer is too long, or took too long")
                if streaming:
                    sent(part)
        whole = b"".join(parts)
        if streaming:
            sent.end()
            return self.wire.whole(stream_data(whole))
        answer = decoded(self.name, whole)
        sent(whole)
        sent.end()
        return answer


class _Sent:
    """Hands on to a client, who may have gone: what was paid for is read to its end all the same.
    It goes on line by line, so that a key which the service repeats is seen whole, and left out."""

    def __init__(self, sink: Callable[[bytes], None], keys: Sequence[bytes]) -> None:
        self._sink, self._keys = sink, keys
        self._line: list[bytes] = []
        self._gone = False
        self.anything = False

    def __call__(self, data: bytes) -> None:
        self.anything = True
        lines, newline, rest = data.rpartition(b"\n")
        if newline:
            self._hand_on(b"".join([*self._line, lines, newline]))
            self._line = []
        self._line.append(rest)

    def end(self) -> None:
        """Nothing more comes."""
        self._hand_on(b"".join(self._line))
        self._line = []

    def _hand_on(self, data: bytes) -> None:
        for key in self._keys:
            data = data.replace(key, PLACEHOLDER.encode())
        if data and not self._gone:
            try:
                self._sink(data)
            except OSError:
                self._gone = True


@contextlib.contextmanager
def _opened(
    address: str, headers: Mapping[str, str], content: bytes, timeout: float
) -> Iterator[Any]:
    import httpx

    with _lock:
        client = _clients.get(os.getpid())
        if client is None:
            client = _clients[os.getpid()] = new_client(httpx.Client)
    bound = httpx.Timeout(timeout, connect=min(CONNECT_SECONDS, timeout))
    with client.stream(
        "POST", address, headers=dict(headers), content=content, timeout=bound
    ) as reply:
        yield reply


@contextlib.contextmanager
def _faults(name: str) -> Iterator[None]:
    """The HTTP library's errors as failures of a call."""
    import httpx

    try:
        yield
    except httpx.HTTPError as error:
        never_sent = isinstance(
            error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
        )
        raise CallFailed(
            f"{name}: {type(error).__name__}: {error}",
            retryable=True,
            maybe_charged=not never_sent,
        ) from None
