"""What a service repeats of its key stays out of the sandbox, however it is put."""

from __future__ import annotations

import httpx
import pytest

from chimera.providers.openai import OpenAIProvider
from chimera.providers.secrets import remember_secret
from tests.gateway.conftest import FORMATS, provider_of
from tests.gateway.test_hostile_client import CONTENT, PATHS, ask
from tests.gateway.upstream import KEY
from tests.providers.test_hostile_service import service

__all__ = ["service"]

#: A key that looks like none.
PLAIN_KEY = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGH"


@pytest.mark.parametrize("status", [400, 200])
@pytest.mark.parametrize("before", [440, 460, 480])
def test_a_key_is_not_cut_through(service, door, status: int, before: int):
    """What is shown of a failure is short; it ended in the midst of a key that way."""
    remember_secret(PLAIN_KEY)
    started = service(b"x" * before + PLAIN_KEY.encode(), status)
    provider = OpenAIProvider(
        name="m", model="m", api_key=PLAIN_KEY, base_url=started.address, attempts=1
    )

    assert PLAIN_KEY[:8] not in ask(door(provider), "chat", {}).text


@pytest.mark.parametrize("spoken", FORMATS)
def test_a_key_in_a_stream_is_left_out(service, door, spoken: str):
    events = b'data: {"error": {"message": "wrong key: %b"}}\n\n' % KEY.encode()
    started = service(
        events + b": waiting\n\n" * 20_000, headers={"content-type": "text/event-stream"}
    )
    opened = door(provider_of(started, spoken))
    path = PATHS[spoken].replace("generateContent", "streamGenerateContent")
    heard = httpx.post(
        opened.address + path,
        json=CONTENT[spoken] | {"stream": True},
        headers={"authorization": f"Bearer {opened.token}"},
        trust_env=False,
        timeout=60,
    ).text

    assert "wrong key" in heard
    assert KEY not in heard
