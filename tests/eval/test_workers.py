"""The loop that feeds a pool: everything once, little ahead, nothing begun after the end."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from chimera import interrupts
from chimera.eval.workers import MOST_AT_ONCE, ThreadExecutor, batches, results


def test_every_job_gives_one_result():
    found = list(results(ThreadExecutor(lambda n: n * n, 3), range(50)))

    assert sorted(found) == [n * n for n in range(50)]


def test_jobs_are_taken_as_they_are_needed():
    taken: list[int] = []

    def jobs() -> Iterator[int]:
        for n in range(100):
            taken.append(n)
            yield n

    found = results(ThreadExecutor(lambda n: n, 2), jobs())
    next(found)

    assert len(taken) == 2  # until a first result is there, one a worker
    next(found)
    assert len(taken) <= 5
    found.close()
    assert len(taken) <= 5


def test_nothing_is_taken_while_it_is_to_be_held_and_others_are_under_way():
    taken: list[int] = []

    def jobs() -> Iterator[int]:
        for n in range(8):
            taken.append(n)
            yield n

    seen = []
    for batch in batches(ThreadExecutor(lambda n: n, 3), jobs(), hold=lambda: len(seen) < 3):
        seen.extend(batch)
        if len(seen) <= 3:
            assert len(taken) == 3

    assert sorted(seen) == list(range(8))


def test_after_finish_only_what_was_begun_comes_back():
    release, began = threading.Event(), []

    def work(n: int) -> int:
        began.append(n)
        if n:
            release.wait(10)
        return n

    executor = ThreadExecutor(work, 1)
    found = results(executor, range(100))
    first = next(found)
    executor.finish()
    release.set()
    rest = list(found)

    assert first == 0
    assert sorted([first, *rest]) == sorted(began)
    assert len(began) <= 3


def until_all_have_ended(executor: ThreadExecutor[int, int]) -> None:
    while executor._results.qsize() < executor.pending:
        time.sleep(0.01)


def test_results_that_are_there_come_together():
    executor = ThreadExecutor(lambda n: n, MOST_AT_ONCE + 6)
    found = batches(executor, range(MOST_AT_ONCE + 6))
    first = next(found)
    until_all_have_ended(executor)
    rest = list(found)

    assert sorted(sum(rest, first)) == list(range(MOST_AT_ONCE + 6))
    assert len(rest) <= 2
    assert all(len(batch) <= MOST_AT_ONCE for batch in rest)


def test_what_ended_before_an_error_comes_before_it():
    def work(n: int) -> int:
        if n == 3:
            raise ValueError("job 3")
        return n

    executor = ThreadExecutor(work, 1)
    found = batches(executor, range(4))
    seen = next(found)
    while len(seen) < 3:
        until_all_have_ended(executor)
        seen.extend(next(found))

    assert seen == [0, 1, 2]
    with pytest.raises(ValueError, match="job 3"):
        next(found)


def test_an_error_of_a_job_is_raised_and_ends_the_workers():
    def work(n: int) -> int:
        raise ValueError(f"job {n}")

    executor = ThreadExecutor(work, 1)
    with pytest.raises(ValueError, match="job 0"):
        list(results(executor, range(10)))
    assert executor.finishing


def test_an_interrupt_that_was_lost_on_its_way_is_heard():
    """An exception in a finalizer goes nowhere; the run that waits asks."""
    with pytest.raises(KeyboardInterrupt):
        interrupts._heard(signal.SIGINT, None)
    waits = threading.Event()
    executor = ThreadExecutor(lambda _: waits.wait(30), 1)

    with pytest.raises(KeyboardInterrupt):
        list(results(executor, [1]))

    waits.set()
    assert interrupts._asked == []


def interrupted(times: int, stored: list[int]) -> None:
    """A run in which Ctrl-C comes while its first result is being stored."""
    for result in results(ThreadExecutor(lambda n: n, 1), range(10)):
        for _ in range(times):
            interrupts._heard(signal.SIGINT, None)
        stored.append(result)


def test_a_run_is_interrupted_between_two_results_alone():
    """An exception where a lock was just taken would leave it closed for ever."""
    stored: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(1, stored)

    assert stored == [0]
    with pytest.raises(KeyboardInterrupt):
        interrupts._heard(signal.SIGINT, None)  # nobody looks any more
    interrupts._asked.clear()


def test_a_second_interrupt_is_raised_at_once():
    stored: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(2, stored)

    assert stored == []


TOO_MANY = """
import resource, threading
from chimera.errors import UsageError
from chimera.eval.workers import ThreadExecutor, results

used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
threading.stack_size(8 * 1024**2)
resource.setrlimit(resource.RLIMIT_AS, (used + 200 * 1024**2,) * 2)
try:
    list(results(ThreadExecutor(lambda n: n, 500), range(3)))
except UsageError as error:
    print(error)
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join(20)
print(threading.active_count())
"""


def test_more_threads_than_the_machine_gives_are_told_and_those_begun_end():
    done = subprocess.run(
        [sys.executable, "-c", TOO_MANY], capture_output=True, text=True, check=True
    )

    said, left = done.stdout.splitlines()
    assert said.startswith("500 at once are too many here: of their threads ")
    assert said.endswith("ask for fewer with -n")
    assert left == "1"
