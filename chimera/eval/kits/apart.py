"""Functions of ours on text that is not ours, in processes that end.

A pattern, a parser or a computer algebra system can take for ever over hostile text, or all memory,
and nothing else of a run moves meanwhile. Whatever is not known to be linear goes to a confined
worker: it costs its CPU time and has no value then; it never hangs the run.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from chimera.confinement.namespaces import bwrap, namespaces_refused
from chimera.errors import EnvironmentFault
from chimera.eval.kits import apart_worker

MEMORY_BYTES = 4 * 1024**3
#: Far above the CPU time, for a machine under load: only a stuck process is ended by it.
WALL_SECONDS = 300.0
#: What calls have to take until another worker pays.
PAYS = 5.0
#: Shorter texts are read at once: even what grows with the square of them is soon done.
SHORT = 10_000


class Ended(Exception):
    """A function used up its time or its memory, or ended its process."""


def apart(
    function: Callable[..., Any], *arguments: Any, seconds: int = 10, modules: Sequence[str] = ()
) -> Any:
    """What a function of a module returns; arguments and value are JSON.

    `modules` are loaded beforehand, which does not count. Raises `Ended` when the function itself
    ended a worker of its own.
    """
    request = {
        "function": [function.__module__, function.__name__],
        "arguments": arguments,
        "seconds": seconds,
    }
    with _TURNS:
        worker = _POOL.take(modules)
        found = _ask(worker, request)
        if found is None and not worker.out_of_time:
            # only in a new process is it sure that this call ended it
            found = _ask(_POOL.new(modules), request)
    if found is None:
        raise Ended(f"{seconds} s of CPU time or {MEMORY_BYTES >> 30} GiB")
    return found[0]


def close() -> None:
    """End the worker processes; the next call starts new ones."""
    _POOL.close()


def _ask(worker: _Worker, request: Any) -> list[Any] | None:
    try:
        found = worker.ask(request)
    except BaseException:
        worker.kill()
        raise
    if found is None:
        worker.kill()
    else:
        _POOL.give(worker)
    return found


class _Nursery:
    """The process that has loaded `modules`, from which workers are forked."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair()
        self._control.settimeout(WALL_SECONDS)
        command = [sys.executable, "-I", "-m", apart_worker.__name__]
        with theirs:
            self._process = subprocess.Popen(
                [*_confinement(), *command, str(MEMORY_BYTES), *modules],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            )
        try:
            self._answer()
        except OSError:
            self.close()
            raise EnvironmentFault(
                "the process that reads foreign text apart did not start"
            ) from None

    def fork(self) -> tuple[socket.socket, int]:
        """What a new worker listens on, and its process id there; OSError when this one ended."""
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            socket.send_fds(self._control, [apart_worker.word(0)], [theirs.fileno()])
            return ours, self._answer()

    def end(self, worker: int) -> int:
        """End a worker: the signal that had ended it before, if one had."""
        with self._lock:
            self._control.sendall(apart_worker.word(worker))
            return self._answer()

    def close(self) -> None:
        """It ends its workers, and then itself, when nobody is there to ask."""
        self._control.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answer(self) -> int:
        said = self._control.recv(apart_worker.WORD, socket.MSG_WAITALL)
        if len(said) < apart_worker.WORD:
            raise ConnectionResetError
        return apart_worker.number(said)


class _Worker:
    """One process that answers calls: [value], or None when it ended instead."""

    def __init__(self, modules: tuple[str, ...], nursery: _Nursery) -> None:
        self.modules = modules
        self.out_of_time = False  # whether it ended because its CPU time was over
        self._nursery = nursery
        channel, self._process = nursery.fork()
        channel.settimeout(WALL_SECONDS)
        with channel:
            self._stream = channel.makefile("rwb")

    def ask(self, request: Any) -> list[Any] | None:
        try:
            self._stream.write(json.dumps(request).encode() + b"\n")
            self._stream.flush()
            line = self._stream.readline()
        except OSError:  # it ended, or is stuck
            return None
        return json.loads(line) if line.endswith(b"\n") else None

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            self.out_of_time = self._nursery.end(self._process) == signal.SIGXCPU
        with contextlib.suppress(OSError):
            self._stream.close()


class _Pool:
    """Idle workers by what they have loaded; as many exist as were ever needed at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nurseries: dict[tuple[str, ...], _Nursery] = {}
        self._idle: dict[tuple[str, ...], list[_Worker]] = defaultdict(list)
        self._owner = os.getpid()

    def take(self, modules: Sequence[str]) -> _Worker:
        with self._lock:
            if self._owner != os.getpid():  # after a fork the sockets belong to the parent
                self._idle.clear()
                self._nurseries.clear()
                self._owner = os.getpid()
            idle = self._idle[tuple(modules)]
            return idle.pop() if idle else self._new(tuple(modules))

    def new(self, modules: Sequence[str]) -> _Worker:
        with self._lock:
            return self._new(tuple(modules))

    def give(self, worker: _Worker) -> None:
        with self._lock:
            self._idle[worker.modules].append(worker)

    def close(self) -> None:
        with self._lock:
            self._idle.clear()
            for nursery in self._nurseries.values():
                nursery.close()
            self._nurseries.clear()

    def _new(self, modules: tuple[str, ...]) -> _Worker:
        nursery = self._nurseries.get(modules)
        if nursery is not None:
            try:
                return _Worker(modules, nursery)
            except OSError:  # someone ended it
                nursery.close()
        nursery = self._nurseries[modules] = _Nursery(modules)
        try:
            return _Worker(modules, nursery)
        except OSError as error:
            raise EnvironmentFault(
                "a process that reads foreign text apart did not start"
            ) from error


class _Turns:
    """How many calls run at once: one, and one more for each `PAYS` seconds that calls have taken.

    A worker spends its first second on what parsers and algebra learn as they go, and none learns
    from another. A call is all computation: more at once than there are cores only take memory.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._worked, self._since = 0.0, 0.0  # seconds until `_since`, by all that ran

    def __enter__(self) -> None:
        with self._changed:
            while self._running >= self._allowed():
                self._changed.wait(1)
            self._change(1)

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._change(-1)
            self._changed.notify()

    def _allowed(self) -> int:
        self._change(0)
        return min(os.cpu_count() or 1, 1 + int(self._worked / PAYS))

    def _change(self, more: int) -> None:
        now = time.monotonic()
        self._worked += self._running * (now - self._since)
        self._running, self._since = self._running + more, now


_POOL = _Pool()
_TURNS = _Turns()


def _confinement() -> list[str]:
    """A bubblewrap prefix (no network, nothing writable), where this machine can do it."""
    if namespaces_refused() is not None:
        return []
    mounts = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    return bwrap("--unshare-user-try", *mounts, "--")
