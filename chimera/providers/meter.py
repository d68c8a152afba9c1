"""What a trial may spend and has spent; providers ask before and tell after each call."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chimera.activity import doing
from chimera.errors import BudgetExceeded, LimitReached
from chimera.types import Step, Usage

if TYPE_CHECKING:
    from chimera.providers.journal import Journal


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """Bounds of one trial; None is no bound. `seconds` bounds the agent's work, not the grading."""

    max_steps: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One model call as the run store keeps it."""

    model: str
    usage: Usage
    cost: float | None
    started: float
    seconds: float
    attempts: int = 1
    cached: bool = False
    error: str | None = None


class Budget:
    """Money of a whole run. The worst case of a call is reserved before it is made.

    Without a `total` it is only an account.
    """

    def __init__(self, total: float | None, spent: float = 0.0) -> None:
        self.total = total
        self.spent = spent
        self.reserved = 0.0
        self._settled = threading.Condition()
        self._calls = 0

    def reserve(self, worst_case: float, timeout: float | None = None) -> None:
        """Set `worst_case` aside; wait (at most `timeout`) while others' reserves are in the way.

        Raises `BudgetExceeded` when it does not fit and no running call can give money back; one
        that can be tried again when they had not done so in time.
        """
        end = None if timeout is None else time.monotonic() + timeout
        total = math.inf if self.total is None else self.total
        with self._settled:
            while self.spent + self.reserved + worst_case > total + 1e-12:
                left = None if end is None else end - time.monotonic()
                may_fit = self.may_fit_later(worst_case)
                if not may_fit or (left is not None and left <= 0):
                    raise BudgetExceeded(
                        f"the next call may cost ${worst_case:.4f}, but of the budget of "
                        f"${total:g} ${self.spent:.4f} is spent and ${self.reserved:.4f} "
                        "reserved; --max-tokens makes what a call may cost smaller",
                        retryable=may_fit,
                    )
                with doing("waiting for money that other calls have reserved"):
                    self._settled.wait(left)
            self.reserved += worst_case
            self._calls += 1

    def never_fits(self, worst_case: float) -> bool:
        """Whether it is more than the whole, whatever is spent."""
        return self.total is not None and worst_case > self.total + 1e-12

    def may_fit_later(self, worst_case: float) -> bool:
        """Whether it can fit once calls under way have given money back."""
        total = math.inf if self.total is None else self.total
        return self.spent + worst_case <= total + 1e-12 and self._calls > 0

    def settle(self, worst_case: float, actual: float) -> None:
        """Give a reservation back and book what the call really cost."""
        with self._settled:
            self._calls -= 1
            self.reserved = max(0.0, self.reserved - worst_case) if self._calls else 0.0
            self.spent += actual
            self._settled.notify_all()

    def __getstate__(self) -> dict[str, float | None]:
        return {"total": self.total, "spent": self.spent}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["total"], state["spent"])  # type: ignore[misc]


@dataclass(slots=True)
class Meter:
    """The account of one trial. Providers find it with `current_meter()`."""

    limits: TrialLimits = TrialLimits()
    budget: Budget | None = None
    sample: int = 0
    deadline: float | None = None  # time.monotonic()
    calls: list[CallRecord] = field(default_factory=list)
    usage: Usage = Usage()
    cost: float | None = 0.0  # None as soon as one call's price is unknown
    #: How many of the calls are not those of the agent that is at work.
    earlier: int = 0
    #: Whether it was given a reply that had been paid before.
    replied_again: bool = False
    #: What the agent did so far, for a trial that ends in an error; agents may set it.
    trajectory: Sequence[Step] = ()
    #: Where replies are kept until the trial is stored, for agents that can be given them again.
    journal: Journal | None = None
    #: What calls under way may use at most, and how many there are.
    _pending: tuple[int, float, int] = (0, 0.0, 0)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _changed: threading.Condition | None = field(default=None, repr=False, compare=False)

    @property
    def budget_bounded(self) -> bool:
        """Whether the run's money is limited."""
        return self.budget is not None and self.budget.total is not None

    @property
    def answered(self) -> bool:
        """Whether the agent's model has spoken."""
        return self.replied_again or any(call.error is None for call in self.calls[self.earlier :])

    def check(self) -> None:
        """Raise `LimitReached` when the trial may not make another call."""
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise LimitReached("time", f"the trial's {self.limits.seconds:g} s are used up")
        limit = self.limits.max_tokens
        if limit is not None and self.usage.total_tokens >= limit:
            raise LimitReached("tokens", f"{self.usage.total_tokens} of {limit} tokens are used")
        money = self.limits.max_cost
        if money is not None and (self.cost or 0.0) >= money:
            raise LimitReached("cost", f"${self.cost or 0.0:.4f} of ${money:.4f} are spent")

    @contextmanager
    def call_under_way(self, tokens: int, cost: float) -> Iterator[None]:
        """A call that may use so much at most. It is held back while others under way may use up
        what the trial has: together they go beyond a limit no further than one after the other."""
        with self._lock:
            changed = self._changed = self._changed or threading.Condition(self._lock)
            while self._pending[2] and self._may_be_used_up() and self.remaining_seconds() != 0.0:
                changed.wait(self.remaining_seconds())
            self.check()
            self._add_pending(tokens, cost, 1)
        try:
            yield
        finally:
            with self._lock:
                self._add_pending(-tokens, -cost, -1)
                changed.notify_all()

    def _may_be_used_up(self) -> bool:
        tokens, cost, _ = self._pending
        limits = self.limits
        return (
            limits.max_tokens is not None and self.usage.total_tokens + tokens >= limits.max_tokens
        ) or (limits.max_cost is not None and (self.cost or 0.0) + cost >= limits.max_cost)

    def _add_pending(self, tokens: int, cost: float, calls: int) -> None:
        before = self._pending
        self._pending = (before[0] + tokens, before[1] + cost, before[2] + calls)

    def remaining_seconds(self) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def record(self, call: CallRecord) -> None:
        with self._lock:  # an agent may ask several things at once
            self.calls.append(call)
            self.usage = self.usage + call.usage
            if call.cost is None or self.cost is None:
                self.cost = None
            else:
                self.cost += call.cost


_current: ContextVar[Meter | None] = ContextVar("chimera_meter", default=None)


def steps_allowed(most: int) -> int:
    """How many steps an agent of `most` may take in this trial."""
    meter = current_meter()
    limit = None if meter is None else meter.limits.max_steps
    return most if limit is None else min(limit, most)


def current_meter() -> Meter | None:
    return _current.get()


class metered:
    """Let providers that are asked inside find this meter."""

    __slots__ = ("_meter", "_token")

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def __enter__(self) -> Meter:
        self._token = _current.set(self._meter)
        return self._meter

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
