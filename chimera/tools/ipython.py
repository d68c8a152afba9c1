"""A Python session as a tool: it lives inside the task's environment, one for each."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chimera.environments.base import Environment, Machine, Process, machine
from chimera.environments.streams import Kept
from chimera.types import JSON, ToolResult

OUTPUT_BYTES = 30_000
TIMEOUT = 30.0
RUNNER = Path(__file__).with_name("ipython_runner.py")
FIND_PYTHON = (
    'for p in python3 python; do command -v $p >/dev/null && exec $p -u -c "$0"; done; '
    "echo 'no Python in this environment'; exit 127"
)


@dataclass(frozen=True, slots=True)
class Cell:
    """How a cell ended. `error` says what went wrong in a line, None when nothing did."""

    output: str
    error: str | None = None


class IPythonSession:
    """One interpreter inside `env`. It starts with its first cell and again after it was lost."""

    def __init__(self, env: Machine, cwd: str | None = None) -> None:
        self._env = env
        self._cwd = cwd
        self._process: Process | None = None
        self._leftover = b""
        self._lock = threading.Lock()

    def run(
        self, code: str, timeout: float = TIMEOUT, hang_timeout: float = 30.0
    ) -> tuple[str, bool]:
        """The cell's output and whether it ran to its end."""
        cell = self.cell(code, timeout, hang_timeout)
        return cell.output if cell.error is None else f"{cell.output}{cell.error}", not cell.error

    def cell(self, code: str, timeout: float = TIMEOUT, hang_timeout: float = 30.0) -> Cell:
        """Run a cell. One that takes longer is interrupted, and the session lives on; one that
        does not let itself be interrupted within `hang_timeout` costs the session."""
        with self._lock:
            deadline = time.monotonic() + self._env.require_time(timeout)
            process = self._alive()
            mark = secrets.token_hex(16)
            reader = CellReader(process, mark, self._leftover)
            order = json.dumps({"code": code, "mark": mark}).encode("ascii") + b"\n"
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it has ended: reading tells
                process.stdin.write(order)
                process.stdin.flush()
            if reader.read(deadline):
                return self._finished(reader)
            process.send_signal(signal.SIGINT)
            if reader.read(time.monotonic() + max(1.0, self._env.remaining(hang_timeout))):
                finished = self._finished(reader)
                if reader.ended:
                    return finished
                return Cell(finished.output, f"the cell was interrupted after {timeout:g} s")
            self._end()
            return Cell(
                reader.output(),
                f"the cell did not stop when interrupted after {timeout:g} s, so the session was "
                "restarted: variables and imports are lost",
            )

    def _finished(self, reader: CellReader) -> Cell:
        if reader.ended:
            code = self._end()
            why = f"the Python session ended (exit code {code}) and starts anew: its state is lost"
            return Cell(reader.output(), why)
        self._leftover = reader.leftover
        return Cell(reader.output(), None if reader.ok else "the cell raised an exception")

    def _alive(self) -> Process:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = self._env.open_process(
                ["sh", "-c", FIND_PYTHON, RUNNER.read_text()], cwd=self._cwd
            )
        return self._process

    def _end(self) -> int | None:
        process, self._process, self._leftover = self._process, None, b""
        if process is None:
            return None
        code = process.poll()
        if code is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(0.5)  # it may just be on its way out
        if code is None:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(10)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        return code

    def health(self) -> bool:
        """Whether an interpreter is running."""
        return self._process is not None and self._process.poll() is None

    def restart(self) -> None:
        """Forget all state; the next cell starts a new interpreter."""
        self.shutdown()

    def shutdown(self) -> None:
        with self._lock:
            self._end()


class CellReader:
    """Reads a cell's output up to its mark, keeping no more than `OUTPUT_BYTES` of it."""

    def __init__(self, process: Process, mark: str, leftover: bytes) -> None:
        assert process.stdout is not None
        self._descriptor = process.stdout.fileno()
        self._mark = mark.encode()
        self._kept = Kept(OUTPUT_BYTES)
        self._kept.add(leftover)
        self._pending = b""
        self.leftover = b""  # what background threads wrote after the end, for the next cell
        self.ended = False
        self.ok = False

    def read(self, deadline: float) -> bool:
        """Whether the cell is over, one way or the other; False when `deadline` came first."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                return False
            data = os.read(self._descriptor, 65536)
            if not data:
                self.ended = True
                return True
            self._pending += data
            before, mark, after = self._pending.partition(self._mark)
            report, newline, self.leftover = after.partition(b"\n")
            if newline:
                self._kept.add(before)
                self._pending = b""
                self.ok = bool(json.loads(report).get("ok"))
                return True
            if not mark and len(self._pending) > 2 * len(self._mark):
                self._kept.add(self._pending[: -len(self._mark)])
                self._pending = self._pending[-len(self._mark) :]

    def output(self) -> str:
        if self._pending:
            self._kept.add(self._pending)
            self._pending = b""
        return self._kept.content().decode("utf-8", "replace")


class IPythonTool:
    """Runs cells in the session of the environment it is called with; state stays between them."""

    name = "ipython"
    description = (
        "Run Python code in a session that keeps its variables. Shows what the code prints and the "
        "value of a last expression. A cell that takes longer than `timeout` seconds is "
        "interrupted; the session lives on."
    )
    parameters: Mapping[str, JSON] = {
        "type": "object",
        "properties": {
            "code": {"type": "string", "description": "Python code, any number of lines"},
            "timeout": {"type": "number", "description": "Seconds it may take (default 30)"},
        },
        "required": ["code"],
    }

    def __init__(
        self,
        cwd: str | None = None,
        session: IPythonSession | None = None,
        hang_timeout: float = 30.0,
    ) -> None:
        self._cwd = cwd
        self._session = session
        self._hang_timeout = hang_timeout
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._sessions: weakref.WeakKeyDictionary[Environment, IPythonSession] = (
            weakref.WeakKeyDictionary()
        )

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._cwd, None, self._hang_timeout)

    def session(self, env: Environment) -> IPythonSession:
        """The session of `env`, which is never another environment's."""
        if self._session is not None:
            return self._session
        with self._lock:
            if env not in self._sessions:
                self._sessions[env] = IPythonSession(machine(env), self._cwd)
            return self._sessions[env]

    def execute(self, arguments: Mapping[str, JSON], env: Environment) -> ToolResult:
        timeout = float(arguments.get("timeout") or TIMEOUT)
        cell = self.session(env).cell(str(arguments["code"]), timeout, self._hang_timeout)
        return ToolResult(cell.output, cell.error)

    def health(self, env: Environment) -> bool:
        return self.session(env).health()

    def restart(self, env: Environment) -> None:
        self.session(env).restart()

    def shutdown(self) -> None:
        """End every session of this tool."""
        with self._lock:
            sessions = list(self._sessions.values())
        for session in [*sessions, *([self._session] if self._session else [])]:
            session.shutdown()
