"""Holds the processes of one request to their limits, ends them, and says how they went."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import time
from contextlib import suppress
from typing import Any

from .confine import Confinement

CHUNK = 1 << 16
LONGEST_LOOK_AWAY = 0.1
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Watch:
    """One request: it is over when the judge ends, or the answer where there is no judge.

    CPU time and memory are those of the answer's process and all it started.
    """

    def __init__(
        self,
        control: socket.socket,
        confinement: Confinement,
        limits: dict[str, Any],
        answer_pid: int,
        judge_pid: int | None = None,
    ) -> None:
        self.control = control
        self.confinement = confinement
        self.limits = limits
        self.answer_pid = answer_pid
        self.judge_pid = judge_pid
        self.limit: str | None = None
        self.pipes: dict[int, int] = {}
        self.room: dict[int, int] = {}
        self.deadline = time.monotonic() + limits["wall_seconds"]

    def copy_pipe(self, source: int, target: int) -> None:
        """Copy what comes through a pipe to a file, up to the limit of output."""
        os.set_blocking(source, False)
        self.pipes[source] = target
        self.room[source] = self.limits["output_bytes"]

    def until_over(self) -> dict[str, Any]:
        awaited = os.pidfd_open(self.judge_pid or self.answer_pid)
        poll = select.poll()
        poll.register(awaited, select.POLLIN)
        poll.register(self.control, select.POLLHUP)
        for pipe in self.pipes:
            poll.register(pipe, select.POLLIN)
        over = False
        while not over:
            for descriptor, _ in poll.poll(1000 * LONGEST_LOOK_AWAY):
                if descriptor == self.control.fileno():
                    os._exit(0)  # the host is gone, and all of us go with it
                if descriptor == awaited:
                    over = True
                elif not self.copy_some(descriptor):
                    poll.unregister(descriptor)
            if not over:
                self.check_limits()
        os.close(awaited)
        return self.collect()

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
        used, memory = self.usage()
        if max(used, cpu_time(self.judge_pid)) >= self.limits["cpu_seconds"]:
            self.stop("CPU time")
        elif memory >= self.limits["memory_bytes"]:
            self.stop("memory")
        elif time.monotonic() >= self.deadline:
            self.stop("wall time")

    def usage(self) -> tuple[float, int]:
        """CPU seconds and resident bytes of the answer and its descendants."""
        used, memory = cpu_time(self.answer_pid), 0
        if not self.confinement.namespaces:
            return used, memory
        ticks = 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
                if fields[3] != self.confinement.session:
                    ticks += sum(map(int, fields[11:15]))
                    memory += int(fields[21]) * PAGE
        return max(used, ticks / TICKS), memory

    def stop(self, limit: str) -> None:
        if self.limit is not None:
            return
        self.limit = limit
        for pid in (self.answer_pid, self.judge_pid):
            if pid:
                os.kill(pid, signal.SIGKILL)

    def collect(self) -> dict[str, Any]:
        """End what is left of the answer, reap it, and say how it went."""
        if self.judge_pid:
            os.kill(self.answer_pid, signal.SIGKILL)
        _, status, used = os.wait4(self.answer_pid, 0)
        if not self.confinement.namespaces:
            end_strays(self.answer_pid, self.judge_pid, self.confinement.scratch)
        for pipe in self.pipes:  # what the ended program left there
            while self.room[pipe] and self.copy_some(pipe) and select.select([pipe], [], [], 0)[0]:
                pass
        reply = {
            "answer": os.waitstatus_to_exitcode(status),
            "cpu_seconds": used.ru_utime + used.ru_stime,
        }
        if self.judge_pid:
            _, status, _ = os.wait4(self.judge_pid, 0)
            reply["judge"] = os.waitstatus_to_exitcode(status)
        return {**reply, "limit": self.limit}


def cpu_time(pid: int | None) -> float:
    """CPU seconds of one process so far, by the kernel's clock for it; 0 when it has ended."""
    try:
        return time.clock_gettime((~pid << 3) | 2) if pid else 0.0
    except OSError:
        return 0.0


def end_strays(answer_pid: int, judge_pid: int | None, scratch: str) -> None:
    """Without a process namespace: end what an answer left behind, and empty its scratch."""
    with suppress(ProcessLookupError):
        os.killpg(answer_pid, signal.SIGKILL)
    while strays := children() - {judge_pid or 0}:
        for pid in strays:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    for entry in os.scandir(scratch):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


def children() -> set[int]:
    """Our children, orphans that came to us among them."""
    with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
        return {int(pid) for pid in file.read().split()}
