"""Trials in a bounded pool of daemon threads on this machine."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")


class ThreadExecutor(Generic[JobT, ResultT]):
    """Three calls: `start`, `submit`, `result`. The caller keeps `pending` small."""

    def __init__(self, work: Callable[[JobT], ResultT], workers: int) -> None:
        self._work = work
        self._jobs: queue.Queue[JobT | None] = queue.Queue()
        self._results: queue.Queue[ResultT | BaseException] = queue.Queue()
        self._threads = [
            threading.Thread(target=self._serve, daemon=True, name=f"chimera-trial-{index}")
            for index in range(workers)
        ]
        self.pending = 0

    @property
    def workers(self) -> int:
        return len(self._threads)

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def submit(self, job: JobT) -> None:
        self.pending += 1
        self._jobs.put(job)

    def result(self, timeout: float | None = None) -> ResultT:
        """The next finished job's result; raises `queue.Empty` when none came in time."""
        outcome = self._results.get(timeout=timeout)
        self.pending -= 1
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def discard_waiting(self) -> None:
        """Forget the jobs that no worker has begun."""
        try:
            while True:
                self._jobs.get_nowait()
                self.pending -= 1
        except queue.Empty:
            pass

    def stop(self) -> None:
        """No further job is begun; workers end with what they are doing."""
        self.discard_waiting()
        for _ in self._threads:
            self._jobs.put(None)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self._results.put(self._work(job))
            except BaseException as error:  # noqa: BLE001 - raised again by `result`
                self._results.put(error)
