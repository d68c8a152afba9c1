"""What is seen of an answer's processes while they run."""

from __future__ import annotations

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


def test_a_process_that_has_work_to_do_is_told_from_one_that_waits(
    account: Account, process: tuple[int, bool]
) -> None:
    """A wait for a processor does not count against an answer; a wait for anything else does."""
    if process[1]:
        assert all(account.usage(process[0], 0).busy for _ in range(50))
    else:
        while account.usage(process[0], 0).busy:  # until it has come to its wait, where it stays
            time.sleep(0.01)
        assert not any(account.usage(process[0], 0).busy for _ in range(50))


@pytest.mark.parametrize("namespaces", [True, False])
def test_a_process_of_another_session_is_the_answers(
    account: Account, process: tuple[int, bool], namespaces: bool
) -> None:
    account.confinement.namespaces = namespaces

    seen = account.usage(process[0], 0)

    assert seen.memory > 1 << 20
    assert seen.cpu > 0
    assert seen.processes >= 1
    assert seen.busy or not process[1]


def test_wall_time_stands_still_for_those_who_wait_for_a_processor_but_not_for_ever(
    account: Account,
) -> None:
    ours, theirs = socket.socketpair()
    with (
        ours,
        theirs,
        subprocess.Popen(
            [sys.executable, "-c", "while True: pass"], start_new_session=True
        ) as busy,
    ):
        watch = Watch(ours, account, LIMITS, busy.pid)
        first = watch.deadline
        watch.looked -= 1
        watch.check_limits()
        moved = watch.deadline
        watch.looked -= 1000
        watch.check_limits()
        busy.kill()

    assert first < moved < watch.deadline == watch.last_deadline


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
