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

from chimera.sandbox.inner.confine import Confinement, read_stat
from chimera.sandbox.inner.watch import Watch

LIMITS = {"wall_seconds": 5.0, "cpu_seconds": 5.0, "memory_bytes": 1 << 40}


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
def watch(process: tuple[int, bool]) -> Iterator[Watch]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Watch(ours, Confinement(False, None, "", []), LIMITS, process[0])


def test_a_process_that_has_work_to_do_is_told_from_one_that_waits(
    watch: Watch, process: tuple[int, bool]
) -> None:
    """A wait for a processor does not count against an answer; a wait for anything else does."""
    if process[1]:
        assert all(watch.usage()[2] for _ in range(50))
    else:
        while watch.usage()[2]:  # until it has come to its wait, where it stays
            time.sleep(0.01)
        assert not any(watch.usage()[2] for _ in range(50))


def test_in_namespaces_all_processes_but_the_server_are_looked_at(
    watch: Watch, process: tuple[int, bool]
) -> None:
    confinement = watch.confinement
    confinement.namespaces = True
    confinement.proc = os.open("/proc", os.O_RDONLY)
    confinement.number = str(os.getpid())
    confinement.session = read_stat(os.getpid())[3]
    try:
        used, memory, busy = watch.usage()
    finally:
        os.close(confinement.proc)

    assert memory > 1 << 20
    assert used > 0
    assert busy or not process[1]


def test_a_judge_killed_at_a_limit_is_gone_even_if_it_had_just_decided() -> None:
    """Else the next verdict would be put before a judge that is no more."""
    processes = [
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in "ab"
    ]
    bench, judge = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with processes[0], processes[1], bench, judge:
        pids = [process.pid for process in processes]
        watch = Watch(bench, Confinement(False, None, "", []), LIMITS, *pids, bench)
        judge.send(b"done")

        watch.stop("wall time")
        watch.hear_judge(bench)

        assert watch.judge_code == -signal.SIGKILL
