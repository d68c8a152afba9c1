"""The official package in one warm process for all verdicts: starting it takes seconds."""

from __future__ import annotations

import atexit
import json
import selectors
import signal
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any

from chimera.errors import GraderError
from chimera.types import JSON

DRIVER = Path(__file__).with_name("official.py")
SECONDS = 180.0


class OutOfTimeError(Exception):
    """One result took more CPU time than any reply of values does."""


@dataclass(eq=False)
class Package:
    """A process of the Python that has the package; it is started anew when it ended."""

    python: str
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _process: subprocess.Popen[bytes] | None = None
    _complaints: IO[bytes] | None = None

    def result(self, job: JSON) -> dict[str, Any]:
        """What the package decides.

        `GraderError` where it decides nothing, `OutOfTimeError` where it took all of its CPU time.
        """
        with self._lock:
            try:
                told = json.loads(self._line(json.dumps(job).encode() + b"\n"))
            except (OSError, ValueError, subprocess.TimeoutExpired) as error:
                raise GraderError(f"webarena-verified gave no result: {error}") from None
        if "result" not in told:
            raise GraderError(f"webarena-verified gave no result: {told.get('fault')}")
        return dict(told["result"])

    def _line(self, job: bytes) -> bytes:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(job)
            process.stdin.flush()
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                if not selector.select(SECONDS):
                    raise TimeoutError(f"none within {SECONDS:g} s")
            line = process.stdout.readline()
            if not line.endswith(b"\n"):
                if process.wait(10) == -signal.SIGXCPU:
                    raise OutOfTimeError("it took all of its CPU time")
                raise ValueError(self._last_words() or "it ended")
        except (OSError, ValueError, OutOfTimeError, subprocess.TimeoutExpired):
            self.close()
            raise
        return line

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
            self._process = subprocess.Popen(
                [self.python, "-I", str(DRIVER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
            )
        return self._process

    def _last_words(self) -> str:
        if self._complaints is None:
            return ""
        self._complaints.seek(0)
        return self._complaints.read()[-300:].decode("utf-8", "replace").strip()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
        if self._complaints is not None:
            self._complaints.close()
            self._complaints = None


@cache
def warm_package(python: str) -> Package:
    """The one process of this interpreter; it ends with ours."""
    package = Package(python)
    atexit.register(package.close)
    return package
