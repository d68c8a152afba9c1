"""A service that fails in every way: no lost call, no wrong account, no secret in a message."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import pytest

from chimera.errors import LimitReached, ProviderError
from chimera.providers import Provider, base, create_provider
from chimera.providers.base import CallFailed
from chimera.providers.limiter import limiter_for
from chimera.providers.meter import Budget, Meter, TrialLimits, metered
from chimera.providers.sdk import retry_after, status_failure
from chimera.types import Message
from tests.providers.fault_proxy import (
    EMPTY,
    MALFORMED,
    NOT_AN_OBJECT,
    OVERLOADED,
    RATE_LIMITED,
    SERVER_ERROR,
    UNAVAILABLE,
    Answer,
    Cut,
    Drip,
    Fault,
    FaultProxy,
    Hang,
    Reset,
)

QUESTION = [Message.user("Say yes.")]
WITHOUT_CHARGE = [RATE_LIMITED, SERVER_ERROR, UNAVAILABLE, OVERLOADED]
MAYBE_CHARGED = [Cut(), MALFORMED, NOT_AN_OBJECT, EMPTY, Reset(), Drip(), Hang()]


def name_of(fault: Fault) -> str:
    return f"{fault.status}-{fault.body[:12]!r}" if isinstance(fault, Answer) else repr(fault)


@pytest.mark.parametrize("fault", [*WITHOUT_CHARGE, *MAYBE_CHARGED], ids=name_of)
def test_a_passing_fault_is_retried_and_accounted_once(
    through_proxy: Callable[..., Provider], proxy: FaultProxy, fault: Fault
):
    proxy.fail_with([fault])
    slow = isinstance(fault, Drip | Hang)
    provider = through_proxy(timeout=3.0 if slow else 600.0)
    budget = Budget(1000.0)
    with metered(Meter(budget=budget)) as meter:
        response = provider.complete(QUESTION, temperature=0.0, max_tokens=4)

    assert response.content
    assert len(proxy.arrivals) == 2
    [call] = meter.calls
    assert call.attempts == 2
    assert call.error is None
    assert budget.reserved == 0.0
    price = response.usage.total_tokens / 1000
    if fault in WITHOUT_CHARGE:
        assert budget.spent == pytest.approx(price)
    else:  # the service may bill the lost answer: it counts at its worst case
        assert budget.spent > price
    assert call.cost == response.cost == pytest.approx(budget.spent)


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        ("down", "down"),
        ({"message": "wrong key", "type": "request", "code": "key"}, "wrong key (request, key)"),
        ({"type": "error", "error": {"type": "auth", "message": "wrong key"}}, "wrong key (auth)"),
        ({"error": {"message": "wrong key"}}, "wrong key"),
        ({"error": "wrong key"}, "{'error': 'wrong key'}"),
        ({"message": 7}, "{'message': 7}"),
    ],
)
def test_a_refusal_says_first_what_the_service_said(detail: object, said: str):
    assert str(status_failure("x/y", 401, {}, detail)) == f"x/y: HTTP 401: {said}"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_cannot_pass_is_not_tried_again(
    through_proxy: Callable[..., Provider], proxy: FaultProxy, status: int
):
    proxy.fail_with([Answer(status, b'{"error": {"message": "no"}}')])
    budget = Budget(1000.0)
    with metered(Meter(budget=budget)) as meter, pytest.raises(CallFailed, match=str(status)) as e:
        through_proxy().complete(QUESTION, temperature=0.0, max_tokens=4)

    assert e.value.retryable is False
    assert len(proxy.arrivals) == 1
    assert budget.spent == budget.reserved == 0.0
    assert meter.calls[0].error is not None


def test_an_exhausted_quota_is_no_passing_refusal(
    through_proxy: Callable[..., Provider], proxy: FaultProxy
):
    proxy.fail_with([Answer(429, b'{"error": {"code": "insufficient_quota"}}')])

    with pytest.raises(CallFailed, match="insufficient_quota") as caught:
        through_proxy().complete(QUESTION, temperature=0.0, max_tokens=4)

    assert caught.value.retryable is False


def test_a_fault_that_stays_is_a_provider_error_after_all_attempts(
    through_proxy: Callable[..., Provider], proxy: FaultProxy
):
    proxy.fail_with([SERVER_ERROR] * 3)
    with metered(Meter()) as meter, pytest.raises(ProviderError, match="HTTP 500") as caught:
        through_proxy(attempts=3).complete(QUESTION, temperature=0.0, max_tokens=4)

    assert caught.value.retryable is True
    assert [call.attempts for call in meter.calls] == [3]
    assert meter.cost == 0.0


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("Mon, 01 Jan 2020 99999999999999999999:00:00 GMT", None),
        ("Mon, 01 Jan 2020 00:00:00 GMT", 0.0),
        ("soon", None),
        ("2", 2.0),
    ],
)
def test_a_pause_that_is_none_is_not_asked_for(said: str, seconds: float | None):
    assert retry_after({"retry-after": said}) == seconds


def test_retry_after_is_waited_for_by_every_call(
    through_proxy: Callable[..., Provider], proxy: FaultProxy
):
    proxy.fail_with([Answer(429, b"{}", (("Retry-After", "1"),))])
    provider = through_proxy()
    before = limiter_for(provider.endpoint).limit
    provider.complete(QUESTION, temperature=0.0, max_tokens=4)

    first, second = proxy.arrivals
    assert second - first >= 1.0
    assert limiter_for(provider.endpoint).limit < before


def test_a_wait_beyond_the_trial_is_not_begun(
    through_proxy: Callable[..., Provider], proxy: FaultProxy
):
    proxy.fail_with([Answer(429, b"{}", (("Retry-After", "100"),))])
    meter = Meter(limits=TrialLimits(seconds=60.0), deadline=time.monotonic() + 60.0)
    with metered(meter), pytest.raises(CallFailed, match="HTTP 429") as caught:
        through_proxy().complete(QUESTION, temperature=0.0, max_tokens=4)

    assert caught.value.retryable is True
    assert caught.value.retry_after == 100.0
    assert len(proxy.arrivals) == 1


def test_a_server_that_wants_an_hour_is_not_waited_for(
    through_proxy: Callable[..., Provider], proxy: FaultProxy
):
    proxy.fail_with([Answer(503, b"{}", (("Retry-After", "3600"),))])
    with pytest.raises(CallFailed, match="HTTP 503") as caught:
        through_proxy().complete(QUESTION, temperature=0.0, max_tokens=4)

    assert caught.value.retryable is False
    assert len(proxy.arrivals) == 1


@pytest.mark.parametrize("fault", [Hang(), Drip()], ids=name_of)
def test_a_hang_until_the_end_of_the_trial_is_a_fault_not_a_verdict(
    through_proxy: Callable[..., Provider], proxy: FaultProxy, fault: Fault
):
    proxy.fail_with([fault] * 3)
    budget = Budget(1000.0)
    meter = Meter(limits=TrialLimits(seconds=3.0), budget=budget, deadline=time.monotonic() + 3.0)
    with metered(meter), pytest.raises(CallFailed, match="trial's time ran out"):
        through_proxy().complete(QUESTION, temperature=0.0, max_tokens=4)

    assert budget.reserved == 0.0
    assert budget.spent > 0.0
    assert meter.cost == pytest.approx(budget.spent)


def test_an_agent_that_comes_too_late_has_reached_its_limit(
    through_proxy: Callable[..., Provider], proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
):
    proxy.fail_with([Hang()])
    meter = Meter(limits=TrialLimits(seconds=100.0), deadline=time.monotonic() + 1.0)
    with metered(meter), pytest.raises(LimitReached) as caught:
        through_proxy().complete(QUESTION, temperature=0.0, max_tokens=4)

    assert caught.value.limit == "time"


def test_time_lost_to_failures_is_not_the_agents(
    through_proxy: Callable[..., Provider], proxy: FaultProxy
):
    proxy.fail_with([SERVER_ERROR, Hang()])
    meter = Meter(limits=TrialLimits(seconds=100.0), deadline=time.monotonic() + 4.0)
    with metered(meter), pytest.raises(CallFailed, match="attempt 2"):
        through_proxy().complete(QUESTION, temperature=0.0, max_tokens=4)


@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
def test_nobody_listening_costs_nothing(sdk: str):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    provider = create_provider(f"{sdk}/x", base_url=address, attempts=2, price="1000/1000")
    budget = Budget(1000.0)
    with metered(Meter(budget=budget)), pytest.raises(CallFailed, match="no connection") as caught:
        provider.complete(QUESTION, max_tokens=4)

    assert (caught.value.retryable, caught.value.everywhere) == (False, True)
    assert budget.spent == budget.reserved == 0.0


def test_a_key_echoed_by_a_service_is_redacted(
    through_proxy: Callable[..., Provider], proxy: FaultProxy
):
    key = through_proxy().api_key  # type: ignore[attr-defined]
    proxy.fail_with([Answer(400, f'{{"error": {{"message": "bad key {key}"}}}}'.encode())])
    with pytest.raises(CallFailed) as caught:
        through_proxy().complete(QUESTION, temperature=0.0, max_tokens=4)

    assert key not in str(caught.value)
    assert "[redacted]" in str(caught.value)


def test_backoff_grows_and_never_undercuts_the_server():
    waits = [base._backoff(attempt, None) for attempt in range(1, 12)]

    assert all(0 < wait <= base.LONGEST_BACKOFF_SECONDS for wait in waits)
    assert base._backoff(1, 30.0) >= 30.0
