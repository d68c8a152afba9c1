"""What a program that asked through the gateway has come to: whose doing its end was."""

from __future__ import annotations

import contextlib
import threading
import time

import httpx
import pytest

from chimera.agents.gatewayed import outcome
from chimera.errors import ProviderError
from chimera.gateway.door import Door
from chimera.providers.meter import Meter, TrialLimits
from chimera.types import CommandResult
from tests.gateway.conftest import provider_of
from tests.gateway.test_session import ask

ENDED_WELL = CommandResult(b"wrong", b"", 0)
TIME_WAS_UP = CommandResult(b"", b"", -9, timed_out=True)


def asked_aside(opened: Door) -> None:
    """A call that is under way when this returns."""

    def asking() -> None:
        with contextlib.suppress(httpx.HTTPError):  # nobody waits for it
            ask(opened)

    threading.Thread(target=asking, daemon=True).start()
    while not opened.session._under_way:
        time.sleep(0.01)


def come_to(opened: Door, result: CommandResult) -> str:
    return outcome("it", opened.session, result, "said").stop_reason


def test_a_service_that_hangs_until_the_time_is_up_is_a_fault(upstream, door):
    opened = door(provider_of(upstream(["Yes."], pause=600), "chat"))
    asked_aside(opened)
    while opened.session.unanswered is None:  # until it has waited for half of its time
        opened.session.end()

    with pytest.raises(ProviderError, match="had not answered"):
        come_to(opened, TIME_WAS_UP)


def test_a_service_that_answers_others_meanwhile_does_not_hang(upstream, door):
    service = upstream(["Yes."])
    opened = door(provider_of(service, "chat"))
    ask(opened)
    service.pause = 600
    asked_aside(opened)
    opened.session._opened -= 600
    opened.session.end()

    assert come_to(opened, TIME_WAS_UP) == "limit:time"


def test_an_agent_that_dawdles_has_reached_its_limit(upstream, door):
    opened = door(provider_of(upstream(["Yes."]), "chat"))
    ask(opened)
    opened.session.end()

    assert come_to(opened, TIME_WAS_UP) == "limit:time"


@pytest.mark.parametrize("result", [ENDED_WELL, TIME_WAS_UP])
def test_a_service_that_failed_at_the_end_is_a_fault(upstream, door, result):
    opened = door(provider_of(upstream(["Yes."], failures=[500] * 9), "chat"))
    ask(opened)
    opened.session.end()

    with pytest.raises(ProviderError, match="HTTP 500"):
        come_to(opened, result)


def test_a_call_that_the_trials_end_cuts_off_is_a_fault(upstream, door):
    meter = Meter(TrialLimits(seconds=0.5), deadline=time.monotonic() + 0.5)
    opened = door(provider_of(upstream(["Yes."], failures=[500], pause=600), "chat"), meter)
    ask(opened)

    with pytest.raises(ProviderError, match="attempt 2"):
        come_to(opened, TIME_WAS_UP)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_what_is_refused_of_a_client_that_was_answered_is_its_own(upstream, door, status: int):
    service = upstream(["Yes."])
    opened = door(provider_of(service, "chat"))
    ask(opened)
    service.failures.append(status)
    ask(opened)

    assert come_to(opened, ENDED_WELL) == "refused"
    assert come_to(opened, TIME_WAS_UP) == "limit:time"
    with pytest.raises(ProviderError, match=str(status)):
        come_to(opened, CommandResult(b"", b"", 1))


def test_a_service_that_takes_nothing_is_a_fault(upstream, door):
    opened = door(provider_of(upstream(["Yes."], failures=[400]), "chat"))
    ask(opened)

    with pytest.raises(ProviderError, match="HTTP 400"):
        come_to(opened, ENDED_WELL)
