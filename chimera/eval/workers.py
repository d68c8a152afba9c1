"""Trials in a bounded pool of daemon threads on this machine, and the loop that feeds it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Generic, Protocol, TypeVar

from chimera.errors import UsageError
from chimera.eval.values import Control, TrialRecord
from chimera.interrupts import looked_for, raise_asked
from chimera.providers.meter import Budget

#: Results that are handed on together, at the most.
MOST_AT_ONCE = 64

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")
TakenT = TypeVar("TakenT", contravariant=True)
GivenT = TypeVar("GivenT", covariant=True)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the trials of a run share, wherever they are run."""

    budget: Budget | None
    checkpoint: Callable[[TrialRecord], object]
    started: Callable[[str, int], None]
    doing: Callable[[str, int, str, float], None] = lambda *_: None
    #: Keeps a control that a trial rests on.
    controlled: Callable[[Control], object] = lambda _: None


class Executor(Protocol[TakenT, GivenT]):
    """Takes jobs and gives results, in the order in which they end; the caller is one thread."""

    pending: int
    finishing: bool

    @property
    def workers(self) -> int: ...
    def start(self) -> None: ...
    def submit(self, job: TakenT, /) -> None: ...
    def result(self, timeout: float | None = None) -> GivenT: ...
    def finish(self) -> None: ...
    def stop(self) -> None: ...
    def ended(self) -> Iterator[GivenT]: ...


class ThreadExecutor(Generic[JobT, ResultT]):
    """Three calls: `start`, `submit`, `result`. The caller keeps `pending` small."""

    def __init__(self, work: Callable[[JobT], ResultT], workers: int) -> None:
        self._work = work
        self._jobs: queue.SimpleQueue[JobT | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[ResultT | BaseException] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._serve, daemon=True, name=f"chimera-trial-{index}")
            for index in range(workers)
        ]
        self.pending = 0
        self.finishing = False

    @property
    def workers(self) -> int:
        return len(self._threads)

    def start(self) -> None:
        for started, thread in enumerate(self._threads):
            try:
                thread.start()
            except RuntimeError as error:  # of the threads or the memory that a machine allows
                raise UsageError(
                    f"{self.workers:,} at once are too many here: of their threads {started:,} "
                    f"could be started ({error}); ask for fewer with -n"
                ) from None

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

    def finish(self) -> None:
        """Begin no further job: those that no worker has begun are forgotten."""
        self.finishing = True
        with suppress(queue.Empty):
            while True:
                self._jobs.get_nowait()
                self.pending -= 1

    def stop(self) -> None:
        """Finish; workers end with what they are doing."""
        self.finish()
        for _ in self._threads:
            self._jobs.put(None)

    def ended(self) -> Iterator[ResultT]:
        """The results that are there already, for one who will not wait for more."""
        with suppress(queue.Empty):
            while True:
                outcome = self._results.get_nowait()
                if not isinstance(outcome, BaseException):
                    yield outcome

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self._results.put(self._work(job))
            except BaseException as error:  # noqa: BLE001 - raised again by `result`
                self._results.put(error)


def results(executor: Executor[JobT, ResultT], jobs: Iterable[JobT]) -> Generator[ResultT]:
    """What the jobs came to, in the order in which they end."""
    with closing(batches(executor, jobs, most=1)) as found:
        for batch in found:
            yield from batch


def batches(
    executor: Executor[JobT, ResultT],
    jobs: Iterable[JobT],
    *,
    hold: Callable[[], bool] = lambda: False,
    most: int = MOST_AT_ONCE,
) -> Generator[list[ResultT]]:
    """What the jobs came to, in the order in which they end: each with those that are there too.

    Two a worker are taken ahead, once a first result is there; while `hold()`, none as long as
    others are under way. After `executor.finish()` only the results of these still come.
    """
    waiting = iter(jobs)
    ahead = 1
    try:
        executor.start()
        with looked_for():
            while True:
                idle = executor.finishing or (hold() and executor.pending)
                room = 0 if idle else executor.workers * ahead - executor.pending
                for job in islice(waiting, max(0, room)):
                    executor.submit(job)
                if executor.pending == 0:
                    return
                raise_asked()
                try:
                    batch = [executor.result(timeout=0.5)]  # wakes for Ctrl-C
                except queue.Empty:
                    continue
                ahead = 2
                failure = _add_ended(executor, batch, most)
                yield batch
                if failure is not None:
                    raise failure
    finally:
        executor.stop()


def _add_ended(
    executor: Executor[JobT, ResultT], batch: list[ResultT], most: int
) -> BaseException | None:
    """Take the results that are there already, up to one that is an exception."""
    try:
        while len(batch) < most:
            batch.append(executor.result(timeout=0))
    except queue.Empty:
        return None
    except BaseException as error:  # noqa: BLE001 - raised when those before it are stored
        return error
    return None
