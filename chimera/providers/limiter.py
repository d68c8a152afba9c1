"""How many calls one endpoint gets at once: it adapts to the endpoint's own refusals."""

from __future__ import annotations

import threading
import time

INITIAL_LIMIT = 32.0
HIGHEST_LIMIT = 512.0


class AdaptiveLimiter:
    """Additive increase, multiplicative decrease: a 429 halves the limit, success raises it slowly.

    Refusals of calls that were already under way when the limit was halved do not halve it again.
    """

    def __init__(self, initial: float = INITIAL_LIMIT, highest: float = HIGHEST_LIMIT) -> None:
        self.limit = initial
        self.running = 0
        self.answered = False
        self._highest = highest
        self._halved_at = float("-inf")
        self._not_before = float("-inf")
        self._changed = threading.Condition()

    def acquire(self, timeout: float | None = None) -> float | None:
        """Wait for a turn; the moment it began (for `refused`), or None when `timeout` passed."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._changed:
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

    def release(self) -> None:
        with self._changed:
            self.running -= 1
            self._changed.notify()

    def succeeded(self) -> None:
        with self._changed:
            self.answered = True
            self.limit = min(self._highest, self.limit + 1.0 / self.limit)
            self._changed.notify()

    def refused(self, began: float, pause: float = 0.0) -> None:
        """A call begun at `began` got a 429: fewer at once, and none for `pause` seconds."""
        with self._changed:
            now = time.monotonic()
            if began > self._halved_at:
                self.limit = max(1.0, self.limit / 2)
                self._halved_at = now
            self._not_before = max(self._not_before, now + pause)
            self._changed.notify_all()


_limiters: dict[str, AdaptiveLimiter] = {}
_lock = threading.Lock()


def limiter_for(endpoint: str) -> AdaptiveLimiter:
    """The one limiter of an endpoint in this process."""
    with _lock:
        return _limiters.setdefault(endpoint, AdaptiveLimiter())
