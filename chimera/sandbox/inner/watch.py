"""Holds the processes of one request to their limits, ends them, and says how they went."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import suppress
from typing import Any

from .confine import Confinement, read_stat

CHUNK = 1 << 16
LONGEST_LOOK_AWAY = 100  # milliseconds
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Watch:
    """One request: it is over when the judge says so, or ends, or the answer where none judges.

    CPU time and memory are those of the answer's process and all it started; the judge has as much
    CPU time again. Wall time stands still while they wait for a processor, so that a loaded machine
    decides nothing.
    """

    def __init__(
        self,
        control: socket.socket,
        confinement: Confinement,
        limits: dict[str, Any],
        answer_pid: int,
        judge_pid: int = 0,
        bench: socket.socket | None = None,
    ) -> None:
        self.control = control
        self.confinement = confinement
        self.limits = limits
        self.answer_pid = answer_pid
        self.judge_pid = judge_pid
        self.bench = bench
        self.limit: str | None = None
        self.cpu_seconds = 0.0
        self.answer_code: int | None = None
        self.judge_code: int | None = None
        self.pipes: dict[int, int] = {}
        self.room: dict[int, int] = {}
        self.judge_start = cpu_time(judge_pid)
        self.deadline = time.monotonic() + limits["wall_seconds"]
        self.looked, self.worked = time.monotonic(), 0.0

    def copy_pipe(self, source: int, target: int) -> None:
        """Copy what comes through a pipe to a file, up to the limit of output."""
        os.set_blocking(source, False)
        self.pipes[source] = target
        self.room[source] = self.limits["output_bytes"]

    def until_over(self) -> None:
        awaited = self.bench.fileno() if self.bench else os.pidfd_open(self.answer_pid)
        poll = select.poll()
        poll.register(awaited, select.POLLIN)
        poll.register(self.control, select.POLLHUP)
        for pipe in self.pipes:
            poll.register(pipe, select.POLLIN)
        over = False
        while not over:
            for descriptor, _ in poll.poll(LONGEST_LOOK_AWAY):
                if descriptor == self.control.fileno():
                    os._exit(0)  # the host is gone, and all of us go with it
                if descriptor == awaited:
                    over = True
                elif not self.copy_some(descriptor):
                    poll.unregister(descriptor)
            if not over:
                self.check_limits()
        if self.bench:
            self.hear_judge(self.bench)
        else:
            os.close(awaited)
            self.reap_answer()
            for pipe in self.pipes:  # what the ended program left there
                while self.room[pipe] and readable(pipe) and self.copy_some(pipe):
                    pass

    def hear_judge(self, bench: socket.socket) -> None:
        """A word from the judge, or the silence of one that ended. Either way the answer ends."""
        try:
            word = bench.recv(16)
        except OSError:
            word = b""
        if word != b"done" or self.limit:  # at a limit it was killed, even if it spoke just before
            _, status = os.waitpid(self.judge_pid, 0)
            self.judge_code = os.waitstatus_to_exitcode(status)
        self.cpu_seconds = cpu_time(self.answer_pid)
        os.kill(self.answer_pid, signal.SIGKILL)

    def finish(self) -> None:
        """Reap what was ended; nothing of this request is left afterwards."""
        if self.answer_code is None:
            self.reap_answer()

    def reap_answer(self) -> None:
        _, status, used = os.wait4(self.answer_pid, 0)
        self.answer_code = os.waitstatus_to_exitcode(status)
        self.cpu_seconds = used.ru_utime + used.ru_stime
        if not self.confinement.namespaces:
            end_strays(self.answer_pid, self.judge_pid)

    def reply(self) -> dict[str, Any]:
        return {
            "answer": self.answer_code,
            "judge": self.judge_code,
            "cpu_seconds": self.cpu_seconds,
            "limit": self.limit,
        }

    def copy_some(self, pipe: int) -> bool:
        """Copy what is there; False at its end."""
        try:
            data = os.read(pipe, CHUNK)
        except BlockingIOError:
            return True
        if len(data) > self.room[pipe]:
            data = data[: self.room[pipe]]
            self.stop("output size")
        self.room[pipe] -= len(data)
        os.write(self.pipes[pipe], data)
        return bool(data)

    def check_limits(self) -> None:
        used, memory, busy = self.usage()
        judged = cpu_time(self.judge_pid) - self.judge_start if self.judge_pid else 0.0
        now, worked = time.monotonic(), used + judged
        if busy:  # what was not worked since the last look went into waiting for a turn
            self.deadline += max(0.0, now - self.looked - max(0.0, worked - self.worked))
        self.looked, self.worked = now, worked
        if max(used, judged) >= self.limits["cpu_seconds"]:
            self.stop("CPU time")
        elif memory >= self.limits["memory_bytes"]:
            self.stop("memory")
        elif now >= self.deadline:
            self.stop("wall time")

    def usage(self) -> tuple[float, int, bool]:
        """CPU seconds and resident bytes of the answer and its descendants, and whether one of them
        or the judge has work to do at this moment, on a processor or waiting for one."""
        used, memory, busy = cpu_time(self.answer_pid), 0, False
        if not self.confinement.namespaces:  # the processes of others are there as well
            pids = [pid for pid in (self.answer_pid, self.judge_pid) if pid]
            return used, memory, any(state(pid) == b"R" for pid in pids)
        ticks, proc = 0, self.confinement.proc
        for pid in filter(str.isdigit, os.listdir(proc)):
            with suppress(OSError):
                fields = read_stat(pid, proc)
                busy = busy or (fields[0] == b"R" and pid != self.confinement.number)
                if fields[3] != self.confinement.session:
                    ticks += sum(map(int, fields[11:15]))
                    memory += int(fields[21]) * PAGE
        return max(used, ticks / TICKS), memory, busy

    def stop(self, limit: str) -> None:
        if self.limit is not None:
            return
        self.limit = limit
        for pid in (self.answer_pid, self.judge_pid):
            if pid and self.answer_code is None:
                os.kill(pid, signal.SIGKILL)


def cpu_time(pid: int) -> float:
    """CPU seconds of one process so far, by the kernel's clock for it; 0 when it has ended."""
    try:
        return time.clock_gettime((~pid << 3) | 2) if pid else 0.0
    except OSError:
        return 0.0


def state(pid: int) -> bytes:
    """R for a process on a processor or waiting for one; nothing when it has ended."""
    try:
        return read_stat(pid)[0]
    except OSError:
        return b""


def readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def end_strays(answer_pid: int, judge_pid: int) -> None:
    """Without a process namespace: end what an answer left behind; orphans have come to us."""
    with suppress(ProcessLookupError):
        os.killpg(answer_pid, signal.SIGKILL)
    while strays := children() - {judge_pid}:
        for pid in strays:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def children() -> set[int]:
    with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
        return {int(pid) for pid in file.read().split()}
