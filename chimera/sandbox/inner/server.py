"""The warm interpreter: forks an answer and a judge for every request, and watches over them.

It never reads a program or a test: they come as file descriptors and are read by the process they
are for, so nothing of one verdict is in the memory that the next answer is forked from.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from . import answer, judge
from .codec import load, to_bytes
from .confine import Confinement
from .link import Link
from .watch import Watch

PRELOADED = (
    "bisect", "collections", "copy", "functools", "heapq", "itertools", "math", "operator",
    "random", "re", "string", "typing",
)  # fmt: skip
LARGEST_REQUEST = 1 << 16
SEED = 20210707  # tests that draw random inputs draw the same ones every time


class Server:
    def __init__(self, control: socket.socket, confinement: Confinement) -> None:
        self.control = control
        self.confinement = confinement
        self.fault_read, self.fault_write = os.pipe()
        os.set_blocking(self.fault_read, False)

    def serve_forever(self) -> None:
        kinds: dict[str, Callable[..., Any]] = {
            "judged": self.judged,
            "shared": self.shared,
            "program": self.program,
        }
        while True:
            data, descriptors, _, _ = socket.recv_fds(self.control, LARGEST_REQUEST, 8)
            if not data:
                return
            request = json.loads(data)
            reply = kinds[request["kind"]](request["limits"], *descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            self.control.send(json.dumps(reply | self.faults()).encode())

    def faults(self) -> dict[str, str]:
        """What a child wrote that could not confine itself; no answer ever holds that pipe."""
        try:
            return {"fault": os.read(self.fault_read, 4096).decode("utf-8", "replace")}
        except BlockingIOError:
            return {}

    # The three kinds of request

    def judged(self, limits: dict[str, Any], program: int, checks: int, report: int) -> Any:
        """A process for the answer and one for its judge."""
        ours, theirs = socket.socketpair()

        def serve() -> None:
            keep_only(0, 0, 0, theirs.fileno(), program)
            answer.serve(3, answer.read_all(4))

        def decide() -> None:
            keep_only(0, 0, 0, ours.fileno(), checks, report)
            link = Link(3, trusting=False, answer_pid=answer_pid)
            answer.write_all(5, to_bytes(judge.judge(link, load(answer.read_all(4)))))

        with ours, theirs:
            answer_pid = self.start_answer(limits, serve)
            judge_pid = self.start_judge(limits, decide)
        return Watch(self.control, self.confinement, limits, answer_pid, judge_pid).until_over()

    def shared(self, limits: dict[str, Any], program: int, checks: int, report: int) -> Any:
        """One process for the answer and the tests that need its own objects."""

        def both() -> None:
            keep_only(0, 0, 0, program, checks, report)
            found = judge.shared(answer.read_all(3), load(answer.read_all(4)))
            answer.write_all(5, to_bytes(found))

        answer_pid = self.start_answer(limits, both)
        return Watch(self.control, self.confinement, limits, answer_pid).until_over()

    def program(
        self, limits: dict[str, Any], program: int, stdin: int, output: int, errors: int
    ) -> Any:
        """A program that reads standard input and writes standard output."""
        output_read, output_write = os.pipe()
        errors_read, errors_write = os.pipe()

        def script() -> int:
            os.lseek(stdin, 0, os.SEEK_SET)
            keep_only(stdin, output_write, errors_write, program)
            return answer.run_script(answer.read_all(3))

        answer_pid = self.start_answer(limits, script)
        os.close(output_write)
        os.close(errors_write)
        watch = Watch(self.control, self.confinement, limits, answer_pid)
        watch.copy_pipe(output_read, output)
        watch.copy_pipe(errors_read, errors)
        reply = watch.until_over()
        os.close(output_read)
        os.close(errors_read)
        return reply

    # Processes

    def start_answer(self, limits: dict[str, Any], body: Callable[[], int | None]) -> int:
        pid = self.confinement.fork_answer()
        if pid == 0:
            self.in_child(lambda: self.confinement.enter_answer(limits), body)
        return pid

    def start_judge(self, limits: dict[str, Any], body: Callable[[], None]) -> int:
        pid = os.fork()
        if pid == 0:
            self.in_child(lambda: self.confinement.enter_judge(limits), body)
        return pid

    def in_child(self, confine: Callable[[], None], body: Callable[[], int | None]) -> NoReturn:
        """Run `body` confined in a freshly forked process, which ends here whatever happens."""
        code = 1
        try:
            try:
                confine()
            except OSError as error:
                os.write(self.fault_write, str(error).encode()[:1000])
                raise
            gc.enable()
            sys.modules["random"].seed(SEED)
            code = body() or 0
        finally:
            os._exit(code)


def keep_only(*descriptors: int) -> None:
    """Make these descriptors 0, 1, 2 and so on, and close all others."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, 100 + number)
    for number in range(len(descriptors)):
        os.dup2(100 + number, number, inheritable=number < 3)
    os.closerange(len(descriptors), 1 << 20)
    answer.reopen_standard_streams()


def main() -> None:
    settings = json.loads(sys.argv[1])
    control = socket.socket(fileno=settings["control"])
    confinement = Confinement(settings["namespaces"], settings["user"], settings["scratch"])
    confinement.enter_server()
    for name in (*PRELOADED, *settings["packages"]):
        __import__(name)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    gc.collect()
    gc.freeze()
    gc.disable()
    server = Server(control, confinement)
    control.send(json.dumps({"ready": True}).encode())
    server.serve_forever()
