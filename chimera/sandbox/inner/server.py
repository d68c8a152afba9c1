"""The warm interpreter: forks an answer for every request, and watches over it and its judge.

It never reads a program or a test: they come as file descriptors and are read by the process they
are for, so nothing of one verdict is in the memory that the next answer is forked from. The judge
is a process of its own that runs trusted code only; it serves one verdict after another, each in
fresh names, and is replaced now and then and after anything unusual.
"""

from __future__ import annotations

import builtins
import gc
import json
import os
import resource
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from . import answer, judge
from .confine import Confinement
from .groups import Group
from .link import Link
from .watch import JUDGE_KEEPS, Account, Watch

PRELOADED = (
    "bisect", "collections", "copy", "functools", "heapq", "itertools", "math", "operator",
    "random", "re", "string", "typing",
)  # fmt: skip
LARGEST_REQUEST = 1 << 16
VERDICTS_OF_A_JUDGE = 1000


class Server:
    def __init__(self, control: socket.socket, confinement: Confinement, memory: int) -> None:
        self.control = control
        self.confinement = confinement
        self.memory = memory
        self.fault_read, self.fault_write = os.pipe()
        os.set_blocking(self.fault_read, False)
        self.answer_link = Link(3, trusting=True)  # made here, so that no answer has to
        self.bench: socket.socket | None = None  # where the judge hears of its cases
        self.judge_pid = 0
        self.verdicts = 0

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
            watch = kinds[request["kind"]](request["limits"], *descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            self.control.send(json.dumps(watch.reply() | self.faults()).encode())
            watch.finish()

    def faults(self) -> dict[str, str]:
        """What a child wrote that could not confine itself; no answer ever holds that pipe."""
        try:
            return {"fault": os.read(self.fault_read, 4096).decode("utf-8", "replace")}
        except BlockingIOError:
            return {}

    # The three kinds of request

    def judged(self, limits: dict[str, Any], program: int, checks: int, report: int) -> Watch:
        """A process for the answer, and the judge."""
        ours, theirs = socket.socketpair()

        def serve() -> None:
            keep_only(0, 0, 0, theirs.fileno(), program)
            answer.serve(self.answer_link, answer.read_all(4))

        bench = self.seat_judge()
        with ours, theirs:
            account, answer_pid = self.start_answer(limits, serve)
            waits = self.confinement.waits_of(answer_pid)
            descriptors = [ours.fileno(), checks, report, waits]
            socket.send_fds(bench, [b"%d" % answer_pid], descriptors)
            os.close(waits)
        watch = Watch(self.control, account, limits, answer_pid, self.judge_pid, bench)
        watch.until_over()
        if (
            watch.judge_code is not None
            or self.verdicts >= VERDICTS_OF_A_JUDGE
            or self.confinement.judge_memory(self.judge_pid) >= JUDGE_KEEPS
        ):
            self.dismiss_judge()
        return watch

    def shared(self, limits: dict[str, Any], program: int, checks: int, report: int) -> Watch:
        """One process for the answer and the tests that need its own objects."""

        def both() -> None:
            keep_only(0, 0, 0, program, checks, report)
            judge.decide_shared(answer.read_all(3), 4, 5)

        account, answer_pid = self.start_answer(limits, both)
        watch = Watch(self.control, account, limits, answer_pid)
        watch.until_over()
        return watch

    def program(
        self, limits: dict[str, Any], program: int, stdin: int, output: int, errors: int
    ) -> Watch:
        """A program that reads standard input and writes standard output."""
        output_read, output_write = os.pipe()
        errors_read, errors_write = os.pipe()

        def script() -> int:
            os.lseek(stdin, 0, os.SEEK_SET)
            keep_only(stdin, output_write, errors_write, program)
            return answer.run_script(answer.read_all(3))

        account, answer_pid = self.start_answer(limits, script)
        os.close(output_write)
        os.close(errors_write)
        watch = Watch(self.control, account, limits, answer_pid)
        watch.copy_pipe(output_read, output)
        watch.copy_pipe(errors_read, errors)
        watch.until_over()
        os.close(output_read)
        os.close(errors_read)
        return watch

    # Processes

    def start_answer(
        self, limits: dict[str, Any], body: Callable[[], int | None]
    ) -> tuple[Account, int]:
        self.confinement.clean_scratch(limits["file_bytes"])
        account = Account(self.confinement, limits)
        pid = self.confinement.fork_answer()
        if pid == 0:
            self.in_child(lambda: self.confinement.enter_answer(limits), body)
        return account, pid

    def seat_judge(self) -> socket.socket:
        self.verdicts += 1
        if self.bench is not None:
            return self.bench
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

        def sit() -> None:
            answers = self.confinement.answers
            clock = [] if answers is None else [answers.clock]
            keep_only(0, 0, 0, theirs.fileno(), *clock)
            judge.sit(3, 4 if clock else None)

        self.judge_pid = os.fork()
        if self.judge_pid == 0:
            self.in_child(lambda: self.confinement.enter_judge(self.memory), sit)
        theirs.close()
        self.bench = ours
        self.verdicts = 0
        return ours

    def dismiss_judge(self) -> None:
        """The next verdict gets a new judge; this one leaves when its bench closes."""
        assert self.bench is not None
        self.bench.close()
        self.bench = None

    def in_child(self, confine: Callable[[], None], body: Callable[[], int | None]) -> NoReturn:
        """Run `body` confined in a freshly forked process, which ends here whatever happens."""
        code = 1
        try:
            try:
                confine()
            except BaseException as error:
                os.write(self.fault_write, str(error).encode()[:1000])
                raise
            gc.enable()
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


def preload(names: list[str]) -> None:
    """Import what answers often import. What such modules would do after each fork is left out:
    `random` would seed itself anew, and a verdict must not depend on that."""
    register, os.register_at_fork = os.register_at_fork, lambda **functions: None
    for name in names:
        __import__(name)
    os.register_at_fork = register


def rehearse() -> None:
    """Have an answer's part in a conversation often enough for Python to have adapted the code, so
    that it does not begin to do so, and to copy what it changes, in every answer."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        judging = Link(ours.fileno(), trusting=False)
        answering = Link(theirs.fileno(), trusting=True)
        answering.names = {"f": lambda value: value}
        values: list[Any] = [1, "a", [2]]
        questions: list[list[Any]] = [
            ["names", ["f"]],
            *[["call", 0, [each]] for each in values] * 20,
        ]
        for question in questions:
            judging.send(["ask", 1, *question])
            answering.serve(answering.receive(None))
            judging.receive(None)


def main() -> None:
    settings = json.loads(sys.argv[1])
    control = socket.socket(fileno=settings["control"])
    confinement = Confinement(
        settings["namespaces"],
        settings["user"],
        settings["scratch"],
        settings["readable"],
        *map(Group, settings["groups"]),
    )
    confinement.enter_server()
    preload([*PRELOADED, *settings["packages"]])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]
    rehearse()
    gc.collect()
    gc.freeze()
    gc.disable()
    if confinement.answers is not None:
        confinement.answers.settle()
    server = Server(control, confinement, settings["memory"])
    control.send(b'{"ready": true}')
    server.serve_forever()
