"""Warm servers, one verdict at a time each, shared by all threads of this process.

Nothing starts at import. A server whose control socket closes ends with all it started, so nothing
outlives this process, however that ends.
"""

from __future__ import annotations

import atexit
import dataclasses
import json
import os
import secrets
import signal
import socket
import subprocess
import tempfile
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from chimera.activity import doing
from chimera.confinement.cgroups import Cgroup, Handles
from chimera.errors import EnvironmentFault
from chimera.sandbox import launch
from chimera.sandbox.inner.link import STRETCH
from chimera.sandbox.inner.trees import remove_tree

START_SECONDS = 60.0
GRACE_SECONDS = 30.0  # beyond the longest wall time, for a server to say so
JUDGE_MEMORY = 8 << 30  # address space: values of an answer are decoded there
REPLY_BYTES = 1 << 16
KILLED = {"answer": -signal.SIGKILL, "judge": None, "cpu_seconds": 0.0}
CONTROL_LIMITS = {
    "cpu_seconds": 10.0,
    "wall_seconds": 60.0,
    "memory_bytes": 1 << 30,
    "processes": 8,
    "file_bytes": 1 << 20,
    "output_bytes": 1 << 20,
}


class ServerLost(EnvironmentFault):
    """A server ended while an answer was under way."""


class Worker:
    """One warm server, with a control group for it and its answers and one for its judge."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = tuple(packages)
        self.isolation: Literal["namespaces", "process"] = launch.isolation()
        self.scratch: str | None = None
        self.modules: str | None = None
        self.groups = [Cgroup.create(), Cgroup.create()]
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs, _opened(self.groups) as handles:
                self.process = self._start(theirs, handles)
        except BaseException:  # a package that is not here: there is no process to end
            self.control.close()
            self._leave_nothing()
            raise
        try:
            self._ready()
        except BaseException:
            self.close()
            raise

    def _start(self, theirs: socket.socket, handles: Sequence[Handles]) -> subprocess.Popen[bytes]:
        confined = self.isolation == "namespaces"
        if not confined:
            self.scratch = tempfile.mkdtemp(prefix="chimera-answer-")
            self.modules = tempfile.mkdtemp(prefix="chimera-modules-")
            launch.link_modules(self.packages, self.modules)
        settings: dict[str, object] = {
            "control": theirs.fileno(),
            "namespaces": confined,
            "user": (1 << 30) + 2 * secrets.randbits(28) if os.geteuid() == 0 else None,
            "scratch": self.scratch or "",
            "readable": [] if confined else launch.readable(self.packages),
            "packages": self.packages,
            "memory": JUDGE_MEMORY,
            "groups": [dataclasses.asdict(each) for each in handles],
        }
        if self.modules is None:
            command = launch.confined_command(settings, self.packages)
        else:
            command = launch.arguments(settings, self.modules)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            env=launch.variables(),
            pass_fds=[theirs.fileno(), *(fd for each in handles for fd in each.descriptors())],
            cwd="/",
            start_new_session=True,  # an interrupt at the terminal is ours to handle
        )

    def _ready(self) -> None:
        self.control.settimeout(START_SECONDS)
        try:
            ready = self.control.recv(REPLY_BYTES)
        except OSError as error:
            raise EnvironmentFault(f"the sandbox did not start: {error}", retryable=True) from None
        if not ready:
            raise EnvironmentFault(f"the sandbox did not start: {self._said()}")

    def _said(self) -> str:
        self._errors.seek(0)
        text = self._errors.read(10_000).decode("utf-8", "replace").strip()
        return text.splitlines()[-1] if text else "it said nothing"

    def ask(self, request: dict[str, Any], descriptors: Sequence[int], seconds: float) -> Any:
        """Send one request and wait for its reply; a fault leaves this worker closed.

        A server that is silent for longer than an answer may last was held up by it.
        """
        try:
            self.control.settimeout(STRETCH * seconds + GRACE_SECONDS)
            socket.send_fds(self.control, [json.dumps(request).encode()], list(descriptors))
            reply = self.control.recv(REPLY_BYTES)
        except TimeoutError:
            self.close()
            return {**KILLED, "limit": "wall time"}
        except OSError as error:
            self.close()
            raise ServerLost(f"the sandbox does not answer: {error}", retryable=True) from None
        if not reply:
            said = self._said()
            self.close()
            raise ServerLost(f"the sandbox ended: {said}", retryable=True)
        answer = json.loads(reply)
        if "fault" in answer:
            raise EnvironmentFault(f"the sandbox cannot confine: {answer['fault']}", retryable=True)
        return answer

    def close(self) -> None:
        self.control.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            for pid in (*_children(self.process.pid), self.process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()
        self._errors.close()
        self._leave_nothing()

    def _leave_nothing(self) -> None:
        for group in self.groups:
            group.remove()
        for place in filter(None, (self.scratch, self.modules)):
            remove_tree(place)

    @property
    def open(self) -> bool:
        """Neither closed nor dead."""
        return self.control.fileno() >= 0 and self.process.poll() is None


class Bereft:
    """In place of a worker, for an answer that ended two of them while others are served."""

    isolation: Literal["namespaces", "process"]

    def __init__(self) -> None:
        self.isolation = launch.isolation()

    def ask(self, request: dict[str, Any], descriptors: Sequence[int], seconds: float) -> Any:
        return {**KILLED, "limit": "sandbox"}


@contextmanager
def _opened(groups: Sequence[Cgroup]) -> Iterator[list[Handles]]:
    """The control files of these groups while a server is started; none where one has none."""
    opened = [handles for group in groups if (handles := group.handles())]
    try:
        yield opened if len(opened) == len(groups) else []
    finally:
        for handles in opened:
            handles.close()


def _children(pid: int) -> list[int]:
    """Bubblewrap's own child: the first process of its namespace, with which all others end."""
    try:
        return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    except OSError:
        return []


class Turns:
    """Permits handed out in the order they were asked for, so that nobody waits for ever."""

    def __init__(self, permits: int) -> None:
        self._free = permits
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, threading.Event]] = deque()

    @contextmanager
    def take(self, permits: int) -> Iterator[None]:
        turn = threading.Event()
        with self._lock:
            self._waiting.append((permits, turn))
            self._admit()
        if not turn.is_set():
            with doing("waiting for a free core"):
                turn.wait()
        try:
            yield
        finally:
            with self._lock:
                self._free += permits
                self._admit()

    def _admit(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._free:
            permits, turn = self._waiting.popleft()
            self._free -= permits
            turn.set()


class Pool:
    """At most `size` verdicts at a time; `alone=True` waits until no other is under way."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._turns = Turns(size)
        self._lock = threading.Lock()
        self._idle: dict[tuple[str, ...], list[Worker]] = defaultdict(list)
        self._closed = False

    @contextmanager
    def lease(self, packages: Sequence[str] = (), *, alone: bool = False) -> Iterator[Worker]:
        with self._turns.take(self.size if alone else 1):
            key = tuple(packages)
            worker = self._idle_worker(key) or Worker(key)
            try:
                yield worker
            except BaseException:
                worker.close()  # whatever it was doing, the next verdict must not meet it
                raise
            with self._lock:
                keep = worker.open and not self._closed
                if keep:
                    self._idle[key].append(worker)
            if not keep:
                worker.close()

    def _idle_worker(self, key: tuple[str, ...]) -> Worker | None:
        while True:
            with self._lock:
                worker = self._idle[key].pop() if self._idle[key] else None
            if worker is None or worker.open:
                return worker
            worker.close()  # it died meanwhile

    def close(self) -> None:
        with self._lock:
            self._closed = True
            workers = [worker for idle in self._idle.values() for worker in idle]
            self._idle.clear()
        for worker in workers:
            worker.close()


_pool: Pool | None = None
_pool_lock = threading.Lock()
_sharers = 1


def share_machine(processes: int) -> None:
    """So many processes as this one give verdicts here; said before the first one."""
    global _sharers
    _sharers = processes


def pool() -> Pool:
    """The process-wide pool, made on first use."""
    global _pool
    with _pool_lock:
        if _pool is None:
            # One more than there are processors: judge and answer wait for each other.
            _pool = Pool(1 + (os.cpu_count() or 1) // _sharers)
        return _pool


def close_all() -> None:
    """End every warm server of this process; the next verdict starts new ones."""
    global _pool
    with _pool_lock:
        closing, _pool = _pool, None
    if closing is not None:
        closing.close()


def _forget() -> None:
    """In a forked child: the servers belong to the parent."""
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


def with_worker(
    action: Callable[[Any], Any], packages: Sequence[str] = (), *, alone: bool = False
) -> Any:
    """`action` with a leased worker; when the sandbox itself breaks, once more, alone.

    If its server ends in both and yet serves an empty program, that is the answer's doing.
    """
    try:
        with pool().lease(packages, alone=alone) as worker:
            return action(worker)
    except EnvironmentFault as fault:
        if not fault.retryable:
            raise
    try:
        with pool().lease(packages, alone=True) as worker:
            return action(worker)
    except ServerLost:
        with pool().lease(packages, alone=True) as worker:
            if not _serves(worker):
                raise
    return action(Bereft())


def _serves(worker: Worker) -> bool:
    """Whether an empty program ends well."""
    files = [os.memfd_create("control", os.MFD_CLOEXEC) for _ in range(4)]
    try:
        reply = worker.ask({"kind": "program", "limits": CONTROL_LIMITS}, files, 60.0)
    finally:
        for file in files:
            os.close(file)
    return bool(reply["answer"] == 0 and reply["limit"] is None)


atexit.register(close_all)
os.register_at_fork(after_in_child=_forget)
