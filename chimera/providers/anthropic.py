"""Anthropic's messages, and the services that offer an endpoint compatible with it."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Any

from chimera.providers.base import Provider, Request
from chimera.providers.http import new_client
from chimera.providers.openai import CONNECT_SECONDS
from chimera.providers.prices import Price, table_price
from chimera.providers.sdk import post, readable, talk
from chimera.providers.settings import merge
from chimera.providers.wire import messages
from chimera.types import JSON, Response

BETA_HEADER = "anthropic-beta"
#: Lets a model with a budget of thought think between its calls, too.
INTERLEAVED = "interleaved-thinking-2025-05-14"

_clients: dict[tuple[int, str, str, bool, bool], Any] = {}
_lock = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class AnthropicProvider(Provider):
    base_url: str
    api_key: str = field(default="", repr=False)
    bearer: bool = False  # the key goes as `Authorization: Bearer`, as other makers' endpoints want
    proxies: bool = True
    prompt_caching: bool = True

    def __post_init__(self) -> None:
        self.check_protocol("messages")

    @property
    def endpoint(self) -> str:
        return f"{self.base_url} {self.model}"

    def identity(self) -> dict[str, JSON]:
        return {
            "model": self.name,
            "served_as": self.model,
            "base_url": self.base_url,
            **self.settings.identity(),
        }

    def price(self) -> Price | None:
        return self.price_override or table_price(self.model, self.base_url)

    def start(self) -> None:
        """Load what the first call would, once and not in every trial's thread at once."""
        _ = self._client(), self.price()

    def _call(self, request: Request) -> Response:
        import anthropic

        arguments, client = self._arguments(request), self._client()

        def send() -> bytes:
            connect = min(CONNECT_SECONDS, request.timeout)
            timeout = anthropic.Timeout(request.timeout, connect=connect)
            return post(client, "/v1/messages", arguments, self._headers(arguments), timeout)

        body = talk(anthropic, self.name, send, request.timeout)
        with readable(self.name):
            return messages.read_reply(self.name, body, request)

    def _client(self) -> Any:
        return _client_for(self.base_url, self.api_key, self.bearer, self.proxies)

    def _arguments(self, request: Request) -> dict[str, Any]:
        """The request's body."""
        body = messages.request_body(self.model, request, self.settings)
        if self.prompt_caching:
            messages.set_cache_marks(body)
        merge(body, self.settings.fields())
        return body

    def _headers(self, body: dict[str, Any]) -> list[tuple[str, str]]:
        """The user's headers, and the beta that thinking with tools needs."""
        headers = dict(self.settings.headers)
        thinking = body.get("thinking")
        if body.get("tools") and isinstance(thinking, dict) and "budget_tokens" in thinking:
            named = [headers[BETA_HEADER]] if headers.get(BETA_HEADER) else []
            headers[BETA_HEADER] = ",".join([*named, INTERLEAVED])
        return list(headers.items())


def _client_for(base_url: str, api_key: str, bearer: bool, proxies: bool) -> Any:
    """The one SDK client of an endpoint and key in this process; it never retries by itself."""
    import anthropic

    key = (os.getpid(), base_url, api_key, bearer, proxies)
    with _lock:
        client = _clients.get(key)
        if client is None:
            client = _clients[key] = anthropic.Anthropic(
                base_url=base_url,
                api_key=None if bearer else api_key or "none",
                auth_token=api_key if bearer else None,
                max_retries=0,
                http_client=new_client(anthropic.DefaultHttpxClient, proxies=proxies),
            )
        return client
