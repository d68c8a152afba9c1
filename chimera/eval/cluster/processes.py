"""A run's nodes as processes of this machine, each on a core of its own, joined to it by pipes.

What Python does in threads of one process shares one core: with many fast model calls that is what
ends first. A process that is lost is replaced, and its trials run again elsewhere.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from socket import socketpair

from chimera.errors import EnvironmentFault, fault
from chimera.eval.cluster.messages import (
    Job,
    Joined,
    Lost,
    Message,
    Refused,
    Reserve,
    Setup,
    Throttled,
)
from chimera.eval.trial import close_open_environments

CLOSE_SECONDS = 15.0
#: By the module's own name, so that both sides mean the same classes.
START = f"import sys; from {__name__} import serve; serve(int(sys.argv[1]))"
#: How many processes in a row may end before they take part, in each place.
MOST_SILENT = 3


@dataclass(frozen=True, slots=True)
class Answered:
    """The driver's reply to a `Reserve`: a refusal's text, or None for yes."""

    ticket: int
    refusal: str | None


@dataclass(frozen=True, slots=True)
class Hello:
    """The first that a node hears: its name, the run, and how many there are of it here."""

    name: str
    setup: Setup
    nodes: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The driver wants nothing more; a node says the same when it has ended what it had."""


class Line:
    """One end of a pipe on which many threads speak and one listens; `EOFError` when it is cut."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._speaking = threading.Lock()

    def say(self, value: object) -> None:
        try:
            with self._speaking:
                self._connection.send(value)
        except OSError as error:
            raise EOFError("nobody is at the other end") from error

    def hear(self) -> object:
        try:
            return self._connection.recv()
        except (EOFError, OSError) as error:
            raise EOFError from error
        except Exception as error:
            raise EOFError(f"what it said cannot be read: {fault(error)}") from error


# The driver's side


@dataclass(slots=True)
class _Process:
    place: int
    process: subprocess.Popen[bytes]
    line: Line
    joined: bool = False
    closed: threading.Event = field(default_factory=threading.Event)


class ProcessCarrier:
    """Starts so many nodes, and carries between them and the driver."""

    def __init__(self, setup: Setup, processes: int) -> None:
        self._setup = setup
        self._silent = [0] * processes  # in a row, of each place
        self._visits = [0] * processes
        self._nodes: dict[str, _Process] = {}
        self._out: dict[int, str] = {}  # places that will have no node, and why
        self._events: queue.SimpleQueue[tuple[Message, int | None] | EnvironmentFault]
        self._events = queue.SimpleQueue()
        self._tickets = itertools.count(1)
        self._asked: dict[int, tuple[str, int]] = {}  # who asked, and by which number
        self._ended = False
        self._lock = threading.Lock()

    def start(self) -> None:
        for place in range(len(self._silent)):
            self._add(place)

    def next(self, timeout: float) -> tuple[Message, int | None]:
        event = self._events.get(timeout=timeout)
        if isinstance(event, EnvironmentFault):
            raise event
        return event

    def send(self, node: str, job: Job) -> None:
        self._say(node, job)

    def reply(self, ticket: int, refusal: str | None) -> None:
        node, number = self._asked.pop(ticket)
        self._say(node, Answered(number, refusal))

    def slow_down(self, node: str, endpoint: str, seconds: float) -> None:
        self._say(node, Throttled(node, endpoint, seconds))

    def wish(self, nodes: int) -> None:
        """There are no others."""

    def give_up(self, node: str) -> None:
        with self._lock:
            lost = self._nodes.pop(node, None)
        if lost is None:
            return
        lost.process.kill()
        code, place = lost.process.wait(), lost.place
        self._silent[place] = 0 if lost.joined else self._silent[place] + 1
        if self._silent[place] < MOST_SILENT:
            self._add(place)
        else:
            self._rule_out(place, f"it ended {MOST_SILENT} times before that ({_told(code)})")

    def close(self) -> None:
        """End every node, with what its trials have running."""
        self._ended = True
        with self._lock:
            nodes, self._nodes = self._nodes, {}
        for each in nodes.values():
            with contextlib.suppress(EOFError):
                each.line.say(Closed())
        for each in nodes.values():
            each.closed.wait(CLOSE_SECONDS)
            each.process.kill()
            each.process.wait()

    def _add(self, place: int) -> None:
        self._visits[place] += 1
        visit = self._visits[place]
        name = f"process-{place + 1}" + (f"-{visit}" if visit > 1 else "")
        ours, theirs = socketpair()
        with theirs:
            program = [sys.executable, "-P", "-c", START, str(theirs.fileno())]
            try:
                process = subprocess.Popen(
                    program, stdin=subprocess.DEVNULL, stdout=2, pass_fds=[theirs.fileno()]
                )
            except OSError as error:
                ours.close()
                raise EnvironmentFault(f"no process could be started: {error}") from None
        node = _Process(place, process, Line(Connection(ours.detach())))
        with self._lock:
            self._nodes[name] = node
        with contextlib.suppress(EOFError):  # its end is heard below
            node.line.say(Hello(name, self._setup, len(self._silent)))
        listen = threading.Thread(target=self._listen, args=(name, node), daemon=True)
        listen.start()

    def _say(self, name: str, value: object) -> None:
        with self._lock:
            node = self._nodes.get(name)
        if node is not None:
            with contextlib.suppress(EOFError):  # what is lost with a node is known by its end
                node.line.say(value)

    def _listen(self, name: str, node: _Process) -> None:
        try:
            while not isinstance(message := node.line.hear(), Closed):
                self._take(name, node, message)
        except EOFError as error:
            if not self._ended:
                node.process.kill()  # which has ended, unless what it said cannot be read
                code = node.process.wait()
                why = str(error) or f"its process ended: {_told(code)}"
                self._events.put((Lost(name, why), None))
        node.closed.set()

    def _take(self, name: str, node: _Process, message: object) -> None:
        if isinstance(message, tuple):
            number, request = message
            ticket = next(self._tickets)
            self._asked[ticket] = name, number
            self._events.put((request, ticket))
            return
        node.joined = node.joined or isinstance(message, Joined)
        self._events.put((message, None))  # type: ignore[arg-type]
        if isinstance(message, Refused):
            self._rule_out(node.place, message.why)

    def _rule_out(self, place: int, why: str) -> None:
        self._out[place] = why
        if len(self._out) == len(self._silent):
            self._events.put(EnvironmentFault(f"no process can take part: {why}"))


def _told(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


# The node's side


class PipeDesk:
    """The driver, as a node's threads reach it."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._replies: dict[int, queue.SimpleQueue[str | None]] = {}
        self._numbers = itertools.count(1)

    def post(self, message: Message) -> None:
        try:
            self._line.say(message)
        except EOFError:
            end()

    def ask(self, message: Reserve) -> str | None:
        number = next(self._numbers)
        self._replies[number] = reply = queue.SimpleQueue[str | None]()
        try:
            self._line.say((number, message))
        except EOFError:
            end()
        return reply.get()

    def answered(self, answer: Answered) -> None:
        self._replies.pop(answer.ticket).put(answer.refusal)


def end() -> None:
    """Nobody can be told anything: end with what trials have running."""
    close_open_environments()
    os._exit(1)


def serve(descriptor: int) -> None:
    """Be a node until the driver wants nothing more, or is gone."""
    from chimera.eval.cluster.node import Node
    from chimera.providers.limiter import limiter_for
    from chimera.sandbox.pool import share_machine

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the driver's to hear
    line = Line(Connection(descriptor))
    desk = PipeDesk(line)
    try:
        hello = line.hear()
        assert isinstance(hello, Hello)
        share_machine(hello.nodes)
        node = Node(hello.name, hello.setup, desk)
        threading.Thread(target=node.join, daemon=True).start()
        while not isinstance(message := line.hear(), Closed):
            if isinstance(message, Job):
                node.take(message)
            elif isinstance(message, Answered):
                desk.answered(message)
            elif isinstance(message, Throttled):
                limiter_for(message.endpoint).refused(float("inf"), message.seconds)
        node.close()
        line.say(Closed())
    except EOFError:
        end()
    os._exit(0)  # threads may wait for services
