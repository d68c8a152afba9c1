"""The warm interpreter: forks an answer and a judge for every request, and holds them to their limits.

It never reads a program or a test: they come as file descriptors and are read by the process they
are for, so nothing of one verdict is in the memory that the next answer is forked from.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from . import answer, judge
from .codec import load, to_bytes
from .confine import Confinement
from .link import Link

PRELOADED = (
    "bisect", "collections", "copy", "functools", "heapq", "itertools", "math", "operator", "random",
    "re", "string", "typing",
)  # fmt: skip
CHUNK = 1 << 16
SEED = 20210707  # tests that draw random inputs draw the same ones every time


class Server:
    def __init__(self, control: socket.socket, confinement: Confinement) -> None:
        self.control = control
        self.confinement = confinement

    def serve_forever(self) -> None:
        while True:
            data, descriptors, _, _ = socket.recv_fds(self.control, CHUNK, 8)
            if not data:
                return
            request = json.loads(data)
            try:
                reply = getattr(self, f"run_{request['kind']}")(request, descriptors)
            except OSError as error:
                reply = {"fault": str(error)}
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)
            self.control.send(json.dumps(reply).encode())

    # The three kinds of request

    def run_judged(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """An answer's process and a judge's."""
        program, checks, report = descriptors
        ours, theirs = socket.socketpair()
        limits = request["limits"]

        def serve() -> None:
            keep_only(0, 0, 0, {theirs.fileno(): answer.LINK, program: 4})
            answer.serve(answer.read_all(4))

        def decide(answer_pid: int) -> None:
            keep_only(0, 0, 0, {ours.fileno(): 3, checks: 4, report: 5})
            link = Link(3, trusting=False, answer_pid=answer_pid)
            found = judge.judge(link, load(answer.read_all(4)))
            os.write(5, to_bytes(found))

        with ours, theirs:
            answer_pid = self.start_answer(limits, serve)
            judge_pid = self.start_judge(limits, lambda: decide(answer_pid))
        watch = Watch(self, limits, answer_pid, judge_pid)
        return watch.until_over()

    def run_shared(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """One process for the answer and the tests that need its own objects."""
        program, checks, report = descriptors
        limits = request["limits"]

        def both() -> None:
            keep_only(0, 0, 0, {program: 3, checks: 4, report: 5})
            found = judge.shared(answer.read_all(3), load(answer.read_all(4)))
            os.write(5, to_bytes(found))

        return Watch(self, limits, self.start_answer(limits, both), None).until_over()

    def run_program(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """A program that reads standard input and writes standard output."""
        program, stdin, output, errors = descriptors
        limits = request["limits"]
        out_read, out_write = os.pipe()
        error_read, error_write = os.pipe()

        def script() -> int:
            os.lseek(stdin, 0, os.SEEK_SET)
            keep_only(stdin, out_write, error_write, {program: 3})
            source = answer.read_all(3)
            return answer.run_script(source)

        try:
            pid = self.start_answer(limits, script)
            os.close(out_write)
            os.close(error_write)
            watch = Watch(self, limits, pid, None)
            watch.drain = {out_read: (output, "stdout"), error_read: (errors, "stderr")}
            return watch.until_over()
        finally:
            os.close(out_read)
            os.close(error_read)

    # Processes

    def start_answer(self, limits: dict[str, Any], body: Callable[[], int | None]) -> int:
        pid = self.confinement.fork_answer()
        if pid == 0:
            in_child(lambda: self.confinement.enter_answer(limits), body)
        return pid

    def start_judge(self, limits: dict[str, Any], body: Callable[[], None]) -> int:
        pid = os.fork()
        if pid == 0:
            in_child(lambda: self.confinement.enter_judge(limits), body)
        return pid


NOT_CONFINED = 203


def in_child(confine: Callable[[], None], body: Callable[[], int | None]) -> NoReturn:
    """Run `body` confined in a freshly forked process, which ends here whatever happens."""
    code = NOT_CONFINED
    try:
        confine()
        code = 1
        gc.enable()
        sys.modules["random"].seed(SEED)
        code = body() or 0
    finally:
        os._exit(code)


def keep_only(stdin: int, stdout: int, stderr: int, moved: dict[int, int]) -> None:
    """Arrange descriptors: 0 to 2, then those in `moved` at their places; close all others."""
    high = {}
    for number, source in enumerate([stdin, stdout, stderr]):
        high[number] = os.dup2(source, 200 + number)
    for source, target in moved.items():
        high[target] = os.dup2(source, 210 + target)
    for target, source in high.items():
        os.dup2(source, target, inheritable=target < 3)
    os.closerange(max(high) + 1, 65536)
    answer.reopen_standard_streams()


class Watch:
    """Waits for the processes of one request; ends them at a limit."""

    def __init__(
        self, server: Server, limits: dict[str, Any], answer_pid: int, judge_pid: int | None
    ) -> None:
        self.server = server
        self.limits = limits
        self.answer_pid = answer_pid
        self.judge_pid = judge_pid
        self.limit: str | None = None
        self.drain: dict[int, tuple[int, str]] = {}
        self.sizes: dict[str, int] = {"stdout": 0, "stderr": 0}
        self.deadline = time.monotonic() + limits["wall_seconds"]

    def until_over(self) -> dict[str, Any]:
        awaited = self.judge_pid or self.answer_pid
        descriptor = os.pidfd_open(awaited)
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(self.server.control, select.POLLHUP)
        for pipe in self.drain:
            poll.register(pipe, select.POLLIN)
        try:
            while True:
                events = dict(poll.poll(1000 * self.next_look()))
                if self.server.control.fileno() in events:
                    os._exit(0)  # the host is gone, and all of us with it
                for pipe in self.drain.keys() & events.keys():
                    self.read_output(pipe, poll)
                if descriptor in events:
                    break
                self.check_limits()
        finally:
            os.close(descriptor)
        return self.collect()

    def next_look(self) -> float:
        """Seconds until a limit could have been reached."""
        cpu_left = self.limits["cpu_seconds"] - self.cpu_used()
        return max(0.005, min(cpu_left, self.deadline - time.monotonic(), 5.0))

    def cpu_used(self) -> float:
        used = 0.0
        for pid in (self.answer_pid, self.judge_pid):
            if pid:
                try:
                    used = max(used, time.clock_gettime((~pid << 3) | 2))
                except OSError:  # it has ended
                    continue
        return used

    def check_limits(self) -> None:
        if self.limit is not None:
            return
        if self.cpu_used() >= self.limits["cpu_seconds"]:
            self.stop("CPU time")
        elif time.monotonic() >= self.deadline:
            self.stop("wall time")

    def stop(self, limit: str) -> None:
        self.limit = limit
        for pid in (self.answer_pid, self.judge_pid):
            if pid:
                os.kill(pid, signal.SIGKILL)

    def read_output(self, pipe: int, poll: select.poll) -> None:
        target, name = self.drain[pipe]
        data = os.read(pipe, CHUNK)
        if not data:
            poll.unregister(pipe)
            return
        room = self.limits["output_bytes"] - self.sizes[name]
        self.sizes[name] += len(data)
        os.write(target, data[: max(room, 0)])
        if len(data) > room and self.limit is None:
            self.stop("output size")

    def collect(self) -> dict[str, Any]:
        """End what is left, reap it, and say how it went."""
        if self.judge_pid is not None:
            os.kill(self.answer_pid, signal.SIGKILL)
        _, status, used = os.wait4(self.answer_pid, 0)
        for pipe, (_, name) in self.drain.items():
            os.set_blocking(pipe, False)
            self.drain_rest(pipe, name)
        reply = {
            "answer": os.waitstatus_to_exitcode(status),
            "cpu_seconds": used.ru_utime + used.ru_stime,
            "limit": self.limit,
        }
        if self.judge_pid is not None:
            _, status, used = os.wait4(self.judge_pid, 0)
            reply["judge"] = os.waitstatus_to_exitcode(status)
            reply["judge_cpu_seconds"] = used.ru_utime + used.ru_stime
        if not self.server.confinement.namespaces:
            end_strays(self.answer_pid, self.server.confinement.scratch)
        return reply

    def drain_rest(self, pipe: int, name: str) -> None:
        """What the ended program left in a pipe."""
        target, _ = self.drain[pipe]
        while True:
            try:
                data = os.read(pipe, CHUNK)
            except BlockingIOError:
                return
            if not data:
                return
            room = self.limits["output_bytes"] - self.sizes[name]
            self.sizes[name] += len(data)
            os.write(target, data[: max(room, 0)])
            if len(data) > room and self.limit is None:
                self.limit = "output size"


def end_strays(session: int, scratch: str) -> None:
    """Without a process namespace: end what an answer left behind, and empty its scratch."""
    import shutil

    try:
        os.killpg(session, signal.SIGKILL)
    except ProcessLookupError:
        pass
    while True:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            children = [int(each) for each in file.read().split()]
        for child in children:
            os.kill(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    for entry in os.scandir(scratch):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


def main() -> None:
    settings = json.loads(sys.argv[1])
    control = socket.socket(fileno=settings["control"])
    confinement = Confinement(settings["namespaces"], settings["user"], settings["scratch"])
    confinement.enter_server()
    for name in (*PRELOADED, *settings["packages"]):
        __import__(name)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open("/dev/null", os.O_RDWR), 0)
    gc.collect()
    gc.freeze()
    gc.disable()
    control.send(json.dumps({"ready": True, "python": sys.version}).encode())
    Server(control, confinement).serve_forever()
