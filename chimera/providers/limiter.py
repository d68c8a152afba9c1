"""How many calls one endpoint gets at once: it adapts to the endpoint's own refusals."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

INITIAL_LIMIT = 32.0
HIGHEST_LIMIT = 16_384.0


class _Waiter:
    """A call that waits for its turn."""

    __slots__ = ("called", "has_turn", "of")

    def __init__(self, of: Hashable, lock: threading.Lock) -> None:
        self.of, self.has_turn = of, False
        self.called = threading.Condition(lock)


class AdaptiveLimiter:
    """Slow start, then additive increase and multiplicative decrease, as TCP does.

    Until the first refusal the limit doubles with each round of successes, as long as it is used;
    then a 429 halves it, and a round of successes raises it by one. Refusals of calls that were
    already under way when the limit was halved do not halve it again.

    Those who ask take turns, however many calls each of them has waiting: a turn goes to one who
    has none, if there is one, and else to whoever has fewest.
    """

    def __init__(self, initial: float = INITIAL_LIMIT, highest: float = HIGHEST_LIMIT) -> None:
        self.limit = initial
        self.running = 0
        self._refused = False
        self.answered = False
        self._highest = highest
        self._halved_at = float("-inf")
        self._not_before = float("-inf")
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, deque[_Waiter]] = {}
        self._running_of: Counter[Hashable] = Counter()

    def acquire(self, timeout: float | None = None, of: Hashable = None) -> float | None:
        """Wait for a turn; the moment it began (for `refused`), or None when `timeout` passed.
        `of` is who asks, and gives it back."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            waiter = _Waiter(of, self._lock)
            self._waiting.setdefault(of, deque()).append(waiter)
            self._give_turns()
            while not waiter.has_turn:
                now = time.monotonic()
                if end is not None and now >= end:
                    self._forget(waiter)
                    self._give_turns()  # it may have been the one to wait for the pause's end
                    return None
                pause = self._not_before - now
                waits = [wait for wait in (pause, end and end - now) if wait and wait > 0]
                waiter.called.wait(min(waits) if waits else None)
                self._give_turns()
            return time.monotonic()

    def _give_turns(self) -> None:
        """Let those run who may; in a pause, let one of them see to its end."""
        if self._not_before > time.monotonic():
            if self._waiting:
                next(iter(self._waiting.values()))[0].called.notify()
            return
        while self._waiting and self.running < max(1, int(self.limit)):
            of = next((each for each in self._waiting if not self._running_of[each]), None)
            if of is None:
                of = min(self._waiting, key=self._running_of.__getitem__)
            waiter = self._waiting[of][0]
            self._forget(waiter)
            waiter.has_turn = True
            self.running += 1
            self._running_of[of] += 1
            waiter.called.notify()

    def _forget(self, waiter: _Waiter) -> None:
        """It waits no more; others of the same wait behind everybody else's."""
        waiting = self._waiting.pop(waiter.of)
        waiting.remove(waiter)
        if waiting:
            self._waiting[waiter.of] = waiting

    def keep_to(self, most: int) -> None:
        """Never let more than `most` run at once; so many from the start, as that is known."""
        with self._lock:
            if self._highest != most:
                self.limit = most if not self._refused else min(self.limit, most)
                self._highest = float(most)
                self._give_turns()

    def release(self, of: Hashable = None) -> None:
        with self._lock:
            self.running -= 1
            self._running_of[of] -= 1
            if not self._running_of[of]:
                del self._running_of[of]
            self._give_turns()

    def succeeded(self) -> None:
        with self._lock:
            self.answered = True
            slow_start = not self._refused and 2 * self.running >= self.limit
            step = 1.0 if slow_start else 1.0 / self.limit
            self.limit = min(self._highest, self.limit + step)
            self._give_turns()

    def refused(self, began: float, pause: float = 0.0) -> bool:
        """A call begun at `began` got a 429: none for `pause` seconds; whether fewer at once."""
        with self._lock:
            now = time.monotonic()
            self._refused = True
            if halved := began > self._halved_at:
                self.limit = max(1.0, self.limit / 2)
                self._halved_at = now
            self._not_before = max(self._not_before, now + pause)
            self._give_turns()
            return halved


_limiters: dict[str, AdaptiveLimiter] = {}
_lock = threading.Lock()


def limiter_for(endpoint: str, most: int | None = None) -> AdaptiveLimiter:
    """The one limiter of an endpoint in this process, which lets at most `most` calls run."""
    with _lock:
        limiter = _limiters.get(endpoint)
        if limiter is None:
            limiter = _limiters[endpoint] = AdaptiveLimiter()
    if most is not None:
        limiter.keep_to(most)
    return limiter


#: Hears of an endpoint that wants fewer calls, and for how many seconds it wants none.
Listener = Callable[[str, float], None]
_listeners: list[Listener] = []


@contextmanager
def hearing_refusals(listener: Listener) -> Iterator[None]:
    """Tell `listener` whenever an endpoint wants fewer calls of this process meanwhile."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def tell_refusal(endpoint: str, pause: float) -> None:
    for listener in tuple(_listeners):
        listener(endpoint, pause)
