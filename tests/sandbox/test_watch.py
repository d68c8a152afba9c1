"""What is seen of an answer's processes while they run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from chimera.sandbox.inner.confine import Confinement
from chimera.sandbox.inner.watch import Account, Watch

LIMITS = {
    "wall_seconds": 5.0,
    "cpu_seconds": 5.0,
    "memory_bytes": 1 << 40,
    "processes": 1 << 20,
    "file_bytes": 1 << 40,
}


@pytest.fixture(params=["while True: pass", "input()"])
def process(request: pytest.FixtureRequest) -> Iterator[tuple[int, bool]]:
    """A process of another session, and whether it has work to do."""
    code = f"print(flush=True)\n{request.param}"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as running:
        assert running.stdout is not None
        running.stdout.readline()
        yield running.pid, request.param.startswith("while")
        running.kill()


@pytest.fixture
def account() -> Account:
    return Account(Confinement(False, None, "", []), LIMITS)


def test_the_kernel_tells_who_waits_for_a_processor(account: Account) -> None:
    """A wait for a processor does not count against an answer; a wait for anything else does."""
    core = min(os.sched_getaffinity(0))
    spin = f"import os; os.sched_setaffinity(0, [{core}])\nwhile True: pass"
    programs = [spin, spin, "input()"]
    running = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) for code in programs
    ]
    try:
        numbers = [str(each.pid) for each in running]
        while max(map(account.confinement.waited, numbers[:2])) < 0.5:
            time.sleep(0.05)
        slept = account.confinement.waited(numbers[2])
    finally:
        for each in running:
            each.kill()
            each.communicate()

    assert slept < 0.5
    assert account.confinement.waited(numbers[0]) == 0.0  # it is gone


@pytest.mark.parametrize("namespaces", [True, False])
def test_a_process_of_another_session_is_the_answers(
    account: Account, process: tuple[int, bool], namespaces: bool
) -> None:
    account.confinement.namespaces = namespaces

    seen = account.usage(process[0], 0)

    assert seen.memory > 1 << 20
    assert seen.cpu > 0
    assert seen.processes >= 1
    assert str(process[0]) in seen.numbers


def test_wall_time_stands_still_for_those_who_wait_for_a_processor_but_not_for_ever(
    account: Account, process: tuple[int, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = socket.socketpair()
    deadlines = []
    with ours, theirs:
        watch = Watch(ours, account, {**LIMITS, "cpu_seconds": 1000}, process[0])
        for waited in (1.0, 1000.0):
            monkeypatch.setattr(Confinement, "waited", lambda _, number, waited=waited: waited)
            watch.began = time.monotonic() - LIMITS["wall_seconds"]
            watch.deadline = time.monotonic()
            watch.check_limits()
            deadlines.append(watch.deadline - watch.began)

    assert deadlines[0] == pytest.approx(LIMITS["wall_seconds"] + 1.0)
    assert watch.deadline == watch.last_deadline
    assert watch.limit is None


def test_a_judge_killed_at_a_limit_is_gone_even_if_it_had_just_decided(account: Account) -> None:
    """Else the next verdict would be put before a judge that is no more."""
    processes = [
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in "ab"
    ]
    bench, judge = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with processes[0], processes[1], bench, judge:
        pids = [process.pid for process in processes]
        watch = Watch(bench, account, LIMITS, *pids, bench)
        judge.send(b"done")

        watch.stop("wall time")
        watch.hear_judge(bench)

        assert watch.judge_code == -signal.SIGKILL
