"""Functions of ours on text that is not ours, in processes that end.

A pattern, a parser or a computer algebra system can take for ever over hostile text, or all memory,
and nothing else of a run moves meanwhile. Whatever is not known to be linear goes to a confined
worker: it costs its CPU time and has no value then; it never hangs the run.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import IO, Any

from chimera.confinement.namespaces import bwrap, namespaces_refused
from chimera.errors import GraderError

MEMORY_BYTES = 4 * 1024**3
#: Far above the CPU time, for a machine under load: only a stuck process is ended by it.
WALL_SECONDS = 300.0
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
            # only in a process of its own is it sure that this call ended it
            found = _ask(_Worker(tuple(modules)), request)
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


class _Worker:
    """One process that answers calls: [value], or None when it ended instead."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self.modules = modules
        self._silent = False  # its end of the pipe is closed: it has ended, or is about to
        command = [sys.executable, "-I", "-m", "chimera.eval.kits.apart_worker"]
        self._process = subprocess.Popen(
            [*_confinement(), *command, str(MEMORY_BYTES), *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
        )
        if self._read() is None:
            self.kill()
            raise GraderError("the process that reads foreign text apart did not start")

    def ask(self, request: Any) -> list[Any] | None:
        stream = self._stream(self._process.stdin)
        try:
            stream.write(json.dumps(request).encode() + b"\n")
            stream.flush()
        except BrokenPipeError:
            return None
        return self._read()

    @property
    def out_of_time(self) -> bool:
        """Whether it ended because its CPU time was over."""
        return self._process.returncode in (-signal.SIGXCPU, 128 + signal.SIGXCPU)

    def kill(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5 if self._silent else 0)  # how it ended is worth knowing
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _read(self) -> list[Any] | None:
        timer = threading.Timer(WALL_SECONDS, self._process.kill)
        timer.start()
        try:
            line = self._stream(self._process.stdout).readline()
        finally:
            timer.cancel()
        self._silent = not line.endswith(b"\n")
        return None if self._silent else json.loads(line)

    @staticmethod
    def _stream(stream: IO[bytes] | None) -> IO[bytes]:
        assert stream is not None
        return stream


class _Pool:
    """Idle workers by what they have loaded; as many exist as were ever needed at once."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, ...], queue.SimpleQueue[_Worker]] = defaultdict(
            queue.SimpleQueue
        )
        self._owner = os.getpid()

    def take(self, modules: Sequence[str]) -> _Worker:
        if self._owner != os.getpid():  # after a fork the pipes belong to the parent
            self._idle.clear()
            self._owner = os.getpid()
        try:
            return self._idle[tuple(modules)].get_nowait()
        except queue.Empty:
            return _Worker(tuple(modules))

    def give(self, worker: _Worker) -> None:
        self._idle[worker.modules].put(worker)

    def close(self) -> None:
        for idle in list(self._idle.values()):
            with contextlib.suppress(queue.Empty):
                while True:
                    idle.get_nowait().kill()


_POOL = _Pool()
#: A call is all computation: more at once than there are cores only take memory.
_TURNS = threading.BoundedSemaphore(os.cpu_count() or 1)


def _confinement() -> list[str]:
    """A bubblewrap prefix (no network, nothing writable), where this machine can do it."""
    if namespaces_refused() is not None:
        return []
    mounts = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    return bwrap("--unshare-user-try", "--die-with-parent", *mounts, "--")
