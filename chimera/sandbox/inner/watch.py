"""Holds the processes of one request to their limits, ends them, and says how they went."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import suppress
from typing import Any, NamedTuple

from .confine import Confinement
from .link import LOAD, STRETCH
from .trees import larger

CHUNK = 1 << 16
LONGEST_LOOK_AWAY = 100  # milliseconds
JUDGE_KEEPS = 256 << 20  # bytes a judge may hold between verdicts, and beyond the answer's limit
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SOCKET_BYTES = 212_992  # what can wait in a socket, which no process has resident
MOST_FILES = 4096


#: The judge runs the checks on the answer, and again on the record of what it said.
CHECKED_TWICE = 2


class Usage(NamedTuple):
    """CPU seconds and bytes of the answer and its descendants, how many processes and threads they
    are, the judge's bytes, and whether one of them all has work to do at this moment, on a
    processor or waiting for one."""

    cpu: float
    memory: int
    processes: int
    judge_memory: int
    numbers: list[str]
    judge_numbers: list[str]


class Account:
    """What an answer and all it starts use, from before its first process on.

    With a control group the kernel keeps it. Without, it is read off the processes: those that
    ended are in the times of the one that waited for them, or wait themselves to be waited for.
    """

    def __init__(self, confinement: Confinement, limits: dict[str, Any]) -> None:
        self.confinement = confinement
        self.answers, self.judges = confinement.answers, confinement.judges
        confinement.count_processes()
        if self.answers is not None and self.judges is not None:
            self.answers.bound(limits["memory_bytes"], limits["processes"])
            self.judges.bound(limits["memory_bytes"] + JUDGE_KEEPS, limits["processes"])
            self.killed_before = self.answers.kills() + self.judges.kills()
            self.cpu_before = self.answers.cpu_seconds() - time.process_time()

    def exact_cpu(self) -> float:
        """All CPU time so far, of the living and the dead; only a control group knows."""
        if self.answers is None:
            return 0.0
        return max(0.0, self.answers.cpu_seconds() - time.process_time() - self.cpu_before)

    def starved(self) -> bool:
        """Whether the kernel had to end a process for want of memory."""
        if self.answers is None or self.judges is None:
            return False
        return self.answers.kills() + self.judges.kills() > self.killed_before

    def usage(self, answer_pid: int, judge_pid: int) -> Usage:
        ticks, memory, processes, judge_memory = 0, 0, 0, 0
        numbers: list[str] = []
        judge_numbers: list[str] = []
        for number, fields in self.confinement.processes():
            if self.confinement.of_the_answer(fields, answer_pid):
                numbers.append(number)
                ticks += sum(map(int, fields[11:15]))
                memory += (
                    int(fields[21]) * PAGE + self.confinement.descriptors(number) * SOCKET_BYTES
                )
                processes += int(fields[17])
            elif self.confinement.of_the_judge(number, fields, judge_pid):
                judge_numbers.append(number)
                judge_memory = max(judge_memory, int(fields[21]) * PAGE)
        if self.answers is not None:
            return Usage(self.exact_cpu(), 0, 0, 0, numbers, judge_numbers)
        memory += self.confinement.sockets() * SOCKET_BYTES
        cpu = max(cpu_time(answer_pid), ticks / TICKS)
        return Usage(cpu, memory, processes, judge_memory, numbers, judge_numbers)


class Watch:
    """One request: it is over when the judge says so, or ends, or the answer where none judges.

    CPU time and memory are those of the answer's process and all it started; the judge has as much
    of both again. Wall time stands still while they wait for a processor, so that a loaded machine
    decides little, but never for longer than `STRETCH` allows. The kernel's own account says how
    long one of them waited: an answer that sleeps and is at work whenever it is looked at did not.
    """

    def __init__(
        self,
        control: socket.socket,
        account: Account,
        limits: dict[str, Any],
        answer_pid: int,
        judge_pid: int = 0,
        bench: socket.socket | None = None,
    ) -> None:
        self.control = control
        self.account = account
        self.confinement = account.confinement
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
        self.judge_waited: dict[str, float] | None = None  # before this request
        self.began = time.monotonic()
        self.deadline = self.began + limits["wall_seconds"]
        self.last_deadline = self.began + STRETCH * limits["wall_seconds"]

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
                    self.kill_answer()
                    os._exit(0)  # the host is gone, and all of us go with it
                if descriptor == awaited:
                    over = True
                elif not self.copy_some(descriptor):
                    poll.unregister(descriptor)
            if not over or self.confinement.must_look:
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
        self.cpu_seconds = self.account.exact_cpu()
        self.kill_answer()
        if self.account.answers is None:
            self.reap_answer()
        self.check_end()

    def finish(self) -> None:
        """Reap what was ended; nothing of this request is left afterwards."""
        if self.answer_code is None:
            self.reap_answer()

    def reap_answer(self) -> None:
        if not self.confinement.namespaces:
            self.kill_answer()
        _, status, used = os.wait4(self.answer_pid, 0)
        self.answer_code = os.waitstatus_to_exitcode(status)
        seconds = used.ru_utime + used.ru_stime
        if not self.confinement.namespaces:
            seconds += end_strays(self.judge_pid)
        self.cpu_seconds = self.account.exact_cpu() or seconds
        self.check_end()

    def check_end(self) -> None:
        """What no look could see: the whole of the CPU time, and a death for want of memory."""
        if self.limit is None and self.account.starved():
            self.limit = "memory"
        elif self.limit is None and self.cpu_seconds >= self.limits["cpu_seconds"]:
            self.limit = "CPU time"

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
        seen = self.account.usage(self.answer_pid, self.judge_pid)
        judged = cpu_time(self.judge_pid) - self.judge_start if self.judge_pid else 0.0
        now, waited = time.monotonic(), self.confinement.waited
        if self.judge_waited is None:
            self.judge_waited = {number: waited(number) for number in seen.judge_numbers}
        if now >= self.deadline:
            judge = [waited(n) - self.judge_waited.get(n, 0.0) for n in seen.judge_numbers]
            longest = max([*map(waited, seen.numbers), *judge], default=0.0)
            own = self.began + self.limits["wall_seconds"] + longest
            self.deadline = min(max(self.deadline, own), self.last_deadline)
        if max(seen.cpu, judged / CHECKED_TWICE) >= self.limits["cpu_seconds"]:
            self.stop("CPU time")
        elif self.too_large(seen):
            self.stop("memory")
        elif seen.processes > self.limits["processes"]:
            self.stop("processes")
        elif not self.confinement.namespaces and larger(
            self.confinement.scratch, self.limits["file_bytes"], MOST_FILES
        ):
            self.stop("file size")
        elif now >= self.deadline:
            self.stop("wall time" if self.deadline < self.last_deadline else LOAD)

    def too_large(self, seen: Usage) -> bool:
        most = self.limits["memory_bytes"]
        too_large = seen.memory >= most or seen.judge_memory >= most + JUDGE_KEEPS
        return too_large or self.account.starved()

    def stop(self, limit: str) -> None:
        if self.limit is not None:
            return
        self.limit = limit
        self.kill_answer()
        if self.judge_pid:
            os.kill(self.judge_pid, signal.SIGKILL)

    def kill_answer(self) -> None:
        """End it with all it started: a process namespace dies with its first process, and without
        one no descendant can leave the answer's process group."""
        if self.answer_code is None:
            os.kill(self.answer_pid, signal.SIGKILL)
            if not self.confinement.namespaces:
                with suppress(ProcessLookupError):  # killed before it had made its group
                    os.killpg(self.answer_pid, signal.SIGKILL)


def cpu_time(pid: int) -> float:
    """CPU seconds of one process so far, by the kernel's clock for it; 0 when it has ended."""
    try:
        return time.clock_gettime((~pid << 3) | 2) if pid else 0.0
    except OSError:
        return 0.0


def readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def end_strays(judge_pid: int) -> float:
    """Without a process namespace: end what an answer left behind, since orphans have come to us;
    their CPU seconds."""
    seconds = 0.0
    while strays := children() - {judge_pid}:
        for pid in strays:
            os.kill(pid, signal.SIGKILL)
            used = os.wait4(pid, 0)[2]
            seconds += used.ru_utime + used.ru_stime
    return seconds


def children() -> set[int]:
    with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
        return {int(pid) for pid in file.read().split()}
