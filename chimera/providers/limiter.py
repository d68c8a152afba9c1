"""How many calls one endpoint gets at once: it adapts to the endpoint's own refusals."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

INITIAL_LIMIT = 32.0
HIGHEST_LIMIT = 16_384.0


class AdaptiveLimiter:
    """Slow start, then additive increase and multiplicative decrease, as TCP does.

    Until the first refusal the limit doubles with each round of successes, as long as it is used;
    then a 429 halves it, and a round of successes raises it by one. Refusals of calls that were
    already under way when the limit was halved do not halve it again.
    """

    def __init__(self, initial: float = INITIAL_LIMIT, highest: float = HIGHEST_LIMIT) -> None:
        self.limit = initial
        self.running = 0
        self._refused = False
        self.answered = False
        self._highest = highest
        self._halved_at = float("-inf")
        self._not_before = float("-inf")
        self._changed = threading.Condition()

    def acquire(self, timeout: float | None = None) -> float | None:
        """Wait for a turn; the moment it began (for `refused`), or None when `timeout` passed."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            return self._turn(end)

    def _turn(self, end: float | None) -> float | None:
        while True:
            now = time.monotonic()
            pause = self._not_before - now
            if pause <= 0 and self.running < max(1, int(self.limit)):
                self.running += 1
                return now
            if end is not None and now >= end:
                return None
            waits = [wait for wait in (pause if pause > 0 else None, end and end - now) if wait]
            self._changed.wait(min(waits) if waits else None)

    def keep_to(self, most: int) -> None:
        """Never let more than `most` run at once; so many from the start, as that is known."""
        with self._changed:
            if self._highest != most:
                self.limit = most if not self._refused else min(self.limit, most)
                self._highest = float(most)
                self._changed.notify_all()

    def release(self) -> None:
        with self._changed:
            self.running -= 1
            self._changed.notify()

    def succeeded(self) -> None:
        with self._changed:
            self.answered = True
            slow_start = not self._refused and 2 * self.running >= self.limit
            step = 1.0 if slow_start else 1.0 / self.limit
            self.limit = min(self._highest, self.limit + step)
            self._changed.notify(2)

    def refused(self, began: float, pause: float = 0.0) -> bool:
        """A call begun at `began` got a 429: none for `pause` seconds; whether fewer at once."""
        with self._changed:
            now = time.monotonic()
            self._refused = True
            if halved := began > self._halved_at:
                self.limit = max(1.0, self.limit / 2)
                self._halved_at = now
            self._not_before = max(self._not_before, now + pause)
            self._changed.notify_all()
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
