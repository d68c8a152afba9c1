"""OpenAI's two interfaces, and the many services and servers that speak the older one."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Literal

from chimera.errors import UsageError
from chimera.providers.base import Provider, Request
from chimera.providers.http import new_client
from chimera.providers.prices import Price, table_price
from chimera.providers.sdk import post, readable, talk
from chimera.providers.settings import merge
from chimera.providers.wire import chat, responses
from chimera.types import JSON, Response

CONNECT_SECONDS = 20.0

_clients: dict[tuple[int, str, str, bool], Any] = {}
_lock = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class OpenAIProvider(Provider):
    base_url: str
    api_key: str = field(default="", repr=False)
    #: OpenAI's own models take the newer name, which reasoning models insist on.
    max_tokens_field: str = "max_tokens"
    #: "by_tools": the Responses interface where there are tools, as OpenAI's own models take them
    #: together with reasoning there alone; chat completions else.
    protocol: Literal["chat", "responses", "by_tools"] = "chat"

    def __post_init__(self) -> None:
        self.check_protocol("chat", "responses")
        if self.settings.thinking_tokens is not None:
            raise UsageError(
                f"'{self.name}' has no field for --thinking-tokens\n  Use --reasoning-effort, or "
                "the service's own field: --model-option FIELD=VALUE."
            )

    @property
    def endpoint(self) -> str:
        return f"{self.base_url} {self.model}"

    def identity(self) -> dict[str, JSON]:
        return {
            "model": self.name,
            "served_as": self.model,
            "base_url": self.base_url,
            "extra_body": {},
            **self.settings.identity(),
        }

    def price(self) -> Price | None:
        return self.price_override or table_price(self.model, self.base_url)

    def start(self) -> None:
        """Load what the first call would, once and not in every trial's thread at once."""
        _ = self._client(), self.price()

    def wire(self, request: Request) -> ModuleType:
        """The wire format in which a request is sent."""
        chosen = self.settings.protocol or self.protocol
        if chosen == "by_tools":
            chosen = "responses" if request.tools else "chat"
        return responses if chosen == "responses" else chat

    def _call(self, request: Request) -> Response:
        import openai

        arguments, wire, client = self._arguments(request), self.wire(request), self._client()
        path = "/responses" if wire is responses else "/chat/completions"

        def send() -> bytes:
            timeout = openai.Timeout(request.timeout, connect=min(CONNECT_SECONDS, request.timeout))
            return post(client, path, arguments, self.settings.headers, timeout)

        body = talk(openai, self.name, send, request.timeout)
        with readable(self.name):
            response: Response = wire.read_reply(self.name, body, request)
        return response

    def _client(self) -> Any:
        return client_for(self.base_url, self.api_key)

    def _arguments(self, request: Request) -> dict[str, Any]:
        """The request's body."""
        if self.wire(request) is responses:
            body = responses.request_body(self.model, request, self.settings)
        else:
            field = self.max_tokens_field
            body = chat.request_body(self.model, request, self.settings, max_tokens_field=field)
        merge(body, self.settings.fields())
        return body


def client_for(base_url: str, api_key: str, *, proxies: bool = True) -> Any:
    """The one SDK client of an endpoint and key in this process; it never retries by itself."""
    import openai

    key = (os.getpid(), base_url, api_key, proxies)  # connections must not be shared by forks
    with _lock:
        client = _clients.get(key)
        if client is None:
            client = _clients[key] = openai.OpenAI(
                base_url=base_url,
                api_key=api_key or "none",
                max_retries=0,
                http_client=new_client(openai.DefaultHttpxClient, proxies=proxies),
            )
        return client
