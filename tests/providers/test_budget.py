"""Money: whatever fails, however many ask at once, a run never spends more than its budget."""

from __future__ import annotations

import contextlib
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimera.errors import BudgetExceeded, LimitReached, ProviderError, UsageError
from chimera.providers import Provider, Request, create_provider
from chimera.providers.base import CallFailed, most_input_tokens
from chimera.providers.meter import Budget, Meter, TrialLimits, metered
from chimera.providers.prices import FlatPrice, Price
from chimera.types import Message, Response, Usage

PRICE = FlatPrice(1.0, 10.0)


@dataclass
class Service:
    """Bills what it does, whether or not the answer arrives."""

    outcomes: list[str]
    billed: float = 0.0
    calls: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, request: Request) -> Response:
        with self.lock:
            outcome = self.outcomes[self.calls % len(self.outcomes)]
            self.calls += 1
            assert request.max_tokens is not None
            words = sum(len(message.content.split()) for message in request.messages)
            usage = Usage(words, request.max_tokens if outcome == "long" else 1)
            if outcome in ("short", "long", "cut", "crash"):
                self.billed += PRICE.cost(usage)
        if outcome == "cut":
            raise CallFailed("cut off", retryable=True, maybe_charged=True)
        if outcome == "crash":
            raise RuntimeError("a bug")
        if outcome == "refused":
            raise CallFailed("429", retryable=True, rate_limited=True)
        if outcome == "denied":
            raise CallFailed("401", retryable=False)
        return Response("fine", usage=usage)


class Billing(Provider):
    def __init__(self, service: Service, attempts: int = 3) -> None:
        super().__init__(name="billing", model="billing", attempts=attempts)
        object.__setattr__(self, "service", service)

    def price(self) -> Price | None:
        return PRICE

    @property
    def endpoint(self) -> str:
        return f"billing {id(self)}"

    def _call(self, request: Request) -> Response:
        return self.service.serve(request)  # type: ignore[attr-defined]


OUTCOMES = st.sampled_from(["short", "long", "cut", "refused", "denied", "crash"])


@settings(max_examples=40, deadline=None)
@given(
    outcomes=st.lists(OUTCOMES, min_size=1, max_size=12),
    dollars=st.floats(0.0, 0.05),
    words=st.integers(1, 200),
    max_tokens=st.none() | st.integers(1, 2000),
)
def test_a_run_never_spends_more_than_its_budget(
    outcomes: list[str], dollars: float, words: int, max_tokens: int | None
):
    service = Service(outcomes)
    provider = Billing(service)
    budget = Budget(dollars)
    meters = [Meter(budget=budget) for _ in range(12)]

    def trial(meter: Meter) -> None:
        with metered(meter), contextlib.suppress(ProviderError, BudgetExceeded, RuntimeError):
            provider.complete([Message.user("word " * words)], max_tokens=max_tokens)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(6) as pool:
        patch.setattr("chimera.providers.base.FIRST_BACKOFF_SECONDS", 1e-4)
        list(pool.map(trial, meters))

    assert service.billed <= dollars + 1e-9
    assert service.billed <= budget.spent + 1e-9 <= dollars + 1e-6
    assert budget.reserved == 0.0
    assert sum(meter.cost or 0.0 for meter in meters) == pytest.approx(budget.spent)


def test_a_call_waits_for_money_that_running_calls_may_give_back():
    budget = Budget(10.0)
    budget.reserve(8.0)
    entered = threading.Event()

    def second() -> None:
        entered.set()
        budget.reserve(5.0)

    thread = threading.Thread(target=second)
    thread.start()
    entered.wait()
    budget.settle(8.0, 1.0)
    thread.join(10)

    assert not thread.is_alive()
    assert (budget.spent, budget.reserved) == (1.0, 5.0)


def test_money_that_cannot_come_back_is_not_waited_for():
    budget = Budget(10.0, spent=6.0)

    with pytest.raises(BudgetExceeded, match=r"\$5.0000") as caught:
        budget.reserve(5.0)
    assert not caught.value.retryable
    budget.reserve(3.0)
    with pytest.raises(BudgetExceeded) as caught:
        budget.reserve(2.0, timeout=0.01)
    assert caught.value.retryable  # once the others have settled


@pytest.mark.parametrize("spoken", [False, True])
def test_a_call_that_no_budget_would_bear_is_the_trials_own_limit(spoken: bool):
    """Once the model has spoken; else every trial would meet it."""
    provider = Billing(Service(["short"]))
    with metered(Meter(budget=Budget(0.01))):
        if spoken:
            provider.complete([Message.user("?")], max_tokens=1)
        with pytest.raises(LimitReached if spoken else BudgetExceeded):
            provider.complete([Message.user("?")], max_tokens=10**9)


def test_a_budget_travels_without_its_reservations():
    budget = Budget(10.0, spent=6.0)
    budget.reserve(1.0)

    again = pickle.loads(pickle.dumps(budget))

    assert (again.total, again.spent, again.reserved) == (10.0, 6.0, 0.0)


@pytest.mark.parametrize(
    "meter", [Meter(budget=Budget(1.0)), Meter(limits=TrialLimits(max_cost=1.0))]
)
def test_money_cannot_be_limited_where_the_price_is_unknown(meter: Meter):
    provider = create_provider("openai/unheard-of", base_url="http://127.0.0.1:9/v1")
    with metered(meter), pytest.raises(UsageError, match="price of 'openai/unheard-of'"):
        provider.complete([Message.user("?")])

    assert meter.calls == []


def test_the_money_of_a_trial_is_bounded_too():
    provider = Billing(Service(["long"]))
    with metered(Meter(limits=TrialLimits(max_cost=0.001))) as meter:
        provider.complete([Message.user("?")], max_tokens=1000)
        with pytest.raises(LimitReached) as caught:
            provider.complete([Message.user("?")], max_tokens=1000)

    assert caught.value.limit == "cost"
    assert len(meter.calls) == 1


def test_an_answer_is_bounded_when_money_is():
    class Asking(Billing):
        def _call(self, request: Request) -> Response:
            asked.append(request.max_tokens)
            return Response("", usage=Usage(1, 1))

    asked: list[int | None] = []
    provider = Asking(Service([]))
    provider.complete([Message.user("?")])
    with metered(Meter(budget=Budget(1.0))):
        provider.complete([Message.user("?")])

    assert asked == [None, 8192]


@given(st.text(max_size=300))
def test_no_text_has_more_tokens_than_are_reserved(text: str):
    request = Request((Message.user(text),))

    assert most_input_tokens(request) >= len(text.encode("utf-8", "surrogatepass"))
