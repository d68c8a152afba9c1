"""A scripted service, and gateways in front of it and of our own models."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from chimera.gateway.door import Door
from chimera.gateway.server import Gateway
from chimera.gateway.session import Session
from chimera.providers import Provider, base
from chimera.providers.anthropic import AnthropicProvider
from chimera.providers.gemini import GeminiProvider
from chimera.providers.meter import Meter
from chimera.providers.openai import OpenAIProvider
from chimera.providers.prices import parse_price
from tests.gateway.upstream import KEY, PRICE, Upstream

FORMATS = ("chat", "responses", "anthropic", "gemini")


@pytest.fixture(autouse=True)
def _short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "FIRST_BACKOFF_SECONDS", 0.01)


@pytest.fixture
def upstream() -> Iterator[Callable[..., Upstream]]:
    """`upstream([reply, …])`: a service that answers these in order."""
    with ExitStack() as stack:

        def start(replies: list[object], **settings: object) -> Upstream:
            service = Upstream(replies, **settings)  # type: ignore[arg-type]
            stack.callback(service.close)
            return service

        yield start


def provider_of(service: Upstream, spoken: str) -> Provider:
    """The provider that talks to a service in this format."""
    settings: dict[str, Any] = {
        "name": f"{spoken}/scripted",
        "model": "scripted",
        "api_key": KEY,
        "price_override": parse_price(PRICE),
        "attempts": 3,
    }
    if spoken == "anthropic":
        return AnthropicProvider(base_url=service.address, **settings)
    if spoken == "gemini":
        return GeminiProvider(base_url=service.address, **settings)
    return OpenAIProvider(base_url=f"{service.address}/v1", protocol=spoken, **settings)


@pytest.fixture
def door() -> Iterator[Callable[..., Door]]:
    """`door(provider, …)`: a gateway to it on this machine's loopback."""
    with ExitStack() as stack:

        def opened(provider: Provider, meter: Meter | None = None, **settings: object) -> Door:
            session = Session(provider, meter or Meter(), **settings)  # type: ignore[arg-type]
            server = Gateway(session).listen("127.0.0.1", 0)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            return Door(f"http://127.0.0.1:{server.server_address[1]}", session)

        yield opened
