"""Whether two mathematical answers are equal, by named published rules, in processes that end.

The rules run in a pool of confined worker processes: an answer that sends a computer algebra
system on an endless journey costs its CPU time and is not equal; it never hangs the run.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import IO

from chimera.confinement.namespaces import bwrap, namespaces_refused
from chimera.errors import GraderError, UsageError

PACKAGES = ("math_verify", "pylatexenc", "sympy")
CPU_SECONDS = 10
MEMORY_BYTES = 4 * 1024**3
#: Far above the CPU time, for a machine under load: only a stuck process is ended by it.
WALL_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Equality:
    """The answer of one rule; `limit` names the limit that ended the comparison, if one did."""

    equal: bool
    limit: str | None = None


def compare(given: str, gold: str, *, rule: str) -> Equality:
    """Whether `given` equals `gold` by a rule: hendrycks, prm800k, math-verify.

    `math-verify-reply` takes both texts as they are instead of as an answer and its gold.
    """
    return compare_by(given, gold, (rule,))[rule]


def compare_by(given: str, gold: str, rules: Collection[str]) -> dict[str, Equality]:
    """The same by several rules, in one question to one process as long as none ends it."""
    with _TURNS:
        equal = _ask(_POOL.take(), given, gold, rules)
        if equal is not None:
            return {rule: Equality(equal[rule]) for rule in rules}
        # only in a process of its own is it sure that the answer ended it, and by which rule
        return {rule: _compare_alone(given, gold, rule) for rule in rules}


def _compare_alone(given: str, gold: str, rule: str) -> Equality:
    equal = _ask(_Worker(), given, gold, (rule,))
    if equal is None:
        return Equality(False, limit=f"{CPU_SECONDS} s of CPU time or {MEMORY_BYTES >> 30} GiB")
    return Equality(equal[rule])


def _ask(worker: _Worker, given: str, gold: str, rules: Collection[str]) -> dict[str, bool] | None:
    try:
        equal = worker.ask({"rules": list(rules), "given": given, "gold": gold})
    except BaseException:
        worker.kill()
        raise
    if equal is None:
        worker.kill()
    else:
        _POOL.give(worker)
    return equal


class _Worker:
    """One process that answers comparisons."""

    def __init__(self) -> None:
        missing = [name for name in PACKAGES if find_spec(name) is None]
        if missing:
            raise UsageError(
                f"comparing mathematical answers needs {', '.join(missing)}\n"
                "  Install it: pip install 'chimera-eval[math]'"
            )
        command = [sys.executable, "-I", "-m", "chimera.eval.benchmarks._math500.worker"]
        self._process = subprocess.Popen(
            [*_confinement(), *command, str(CPU_SECONDS), str(MEMORY_BYTES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
        )
        if self._read() is None:
            self.kill()
            raise GraderError("the process that compares mathematical answers did not start")

    def ask(self, request: Mapping[str, str | list[str]]) -> dict[str, bool] | None:
        """The reply, or None when the process ended instead of answering."""
        stream = self._stream(self._process.stdin)
        try:
            stream.write(json.dumps(request).encode() + b"\n")
            stream.flush()
        except BrokenPipeError:
            return None
        return self._read()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _read(self) -> dict[str, bool] | None:
        timer = threading.Timer(WALL_SECONDS, self._process.kill)
        timer.start()
        try:
            line = self._stream(self._process.stdout).readline()
        finally:
            timer.cancel()
        return json.loads(line) if line.endswith(b"\n") else None

    @staticmethod
    def _stream(stream: IO[bytes] | None) -> IO[bytes]:
        if stream is None:
            raise GraderError("the process that compares mathematical answers has no pipes")
        return stream


class _Pool:
    """Idle workers; as many exist as were ever needed at once, at most one a core."""

    def __init__(self) -> None:
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._owner = os.getpid()

    def take(self) -> _Worker:
        if self._owner != os.getpid():  # after a fork the pipes belong to the parent
            self._idle, self._owner = queue.SimpleQueue(), os.getpid()
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            return _Worker()

    def give(self, worker: _Worker) -> None:
        self._idle.put(worker)

    def close(self) -> None:
        """End every idle worker."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._idle.get_nowait().kill()


_POOL = _Pool()
#: A comparison is all computation: more at once than there are cores only take memory.
_TURNS = threading.BoundedSemaphore(os.cpu_count() or 1)


def close() -> None:
    """End the worker processes; the next comparison starts new ones."""
    _POOL.close()


def _confinement() -> list[str]:
    """A bubblewrap prefix (no network, nothing writable), where this machine can do it."""
    if namespaces_refused() is not None:
        return []
    mounts = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    return bwrap("--unshare-user-try", "--die-with-parent", *mounts, "--")
