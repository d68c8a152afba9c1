"""A command in a sandbox of a service, whose three streams are those of this process.

    python -m chimera.environments.remote.bridge DESCRIPTOR

The job is read from the descriptor. A service carries lines of text (`far.py`), and no word of its
own is believed: the exit code is what the far end says last, after all that it had to say. Without
that this process ends with `LOST`, as `ssh` does, and says what became of the sandbox.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import secrets
import select
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from chimera.environments.remote import far
from chimera.environments.remote.far import (
    BEAT,
    BLOCK,
    ERRORS,
    EXIT,
    INPUT,
    OUTPUT,
    TAKEN,
    WINDOW,
    Broken,
    Lines,
)
from chimera.environments.remote.services import Line, ServiceSandbox
from chimera.errors import ChimeraError
from chimera.plugins import load_class

STDIN, STDOUT, STDERR = 0, 1, 2
LOST, KILLED = 255, 128  # by a signal, from here on
START_SECONDS = 60.0  # for a command to begin
#: What may wait here unread: the window as text, with words about it. More is none of ours.
MOST = 4 * WINDOW
BATCH = 1 << 16
BOOT = """
import base64, json, os, sys
if os.isatty(0):
    import tty
    tty.setraw(0)
os.write(1, b"\\n{mark}\\n")
job = json.loads(base64.b64decode(open(0, "rb", 0, closefd=False).readline()))
names = {{"__name__": "far"}}
exec(job["source"], names)
names["main"](job)
"""


class Lost(Exception):
    """The connection is of no use any more."""


class Unread(Exception):
    """Chimera closed the environment, or ended."""


def words(python: str, mark: str) -> list[str]:
    """The command that makes ready for a job, in words without a sign that a shell would read."""
    source = base64.b64encode(BOOT.format(mark=mark).encode()).decode()
    return [python, "-I", "-c", f"import base64;exec(base64.b64decode('{source}'))"]


class Near:
    """This process's streams and a command's, until its exit code came."""

    def __init__(self, line: Line, command: Sequence[str], mark: str, patience: float) -> None:
        self._line, self._mark, self._patience = line, f"\n{mark}\n".encode(), patience
        self._job = {
            "source": Path(far.__file__).read_text(),
            "command": list(command),
            "patience": patience,
        }
        self._lines = Lines()
        self._waking, self._wake = os.pipe()
        self._heard: queue.SimpleQueue[bytes | Exception | None] = queue.SimpleQueue()
        self._sending: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._came = self._taken = 0  # bytes of it, each counted by one thread alone
        self._before: bytearray | None = bytearray()  # what was said before the mark; None: after
        self._output = bytearray()
        self._room, self._reading, self._code = WINDOW, True, -1
        self._last = self._beaten = time.monotonic()

    def carry(self) -> int:
        """The exit code, once the command ended and all of its output is written."""
        os.set_blocking(STDOUT, False)
        for each in (self._listen, self._speak):
            threading.Thread(target=each, daemon=True).start()
        while self._code < 0 or self._output:
            self._turn()
        return self._code

    # --- two threads, because services' calls block

    def _listen(self) -> None:
        end: Exception | None = None
        try:
            for data in self._line:
                self._came += len(data)
                if self._came - self._taken > MOST:
                    raise Broken("it says more than anybody asked for")
                self._tell(data)
        except Exception as error:  # noqa: BLE001 - whatever a service's package raises
            end = error
        self._tell(end)

    def _speak(self) -> None:
        try:
            while True:
                data = self._sending.get()
                while len(data) < BATCH and not self._sending.empty():
                    data += self._sending.get()
                self._line.send(data)
        except Exception as error:  # noqa: BLE001 - whatever a service's package raises
            self._tell(error)

    def _tell(self, what: bytes | Exception | None) -> None:
        self._heard.put(what)
        os.write(self._wake, b"!")

    # --- the loop

    def _turn(self) -> None:
        now, begun = time.monotonic(), self._before is None
        patience = self._patience if begun else max(self._patience, START_SECONDS)
        if now - self._last > patience and self._code < 0:
            raise Lost(f"nothing was heard for {patience:g} s")
        if begun and now - self._beaten > self._patience / 4:
            self._beaten = now
            self._say(BEAT)
        poll = select.poll()
        poll.register(self._waking, select.POLLIN)
        poll.register(STDOUT, select.POLLOUT if self._output else 0)
        if begun and self._reading and self._room:
            poll.register(STDIN, select.POLLIN)
        events = dict(poll.poll(self._patience / 4 * 1000))
        if events.get(STDOUT, 0) & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
            raise Unread
        if STDIN in events:
            self._read()
        if self._waking in events:
            os.read(self._waking, BATCH)
            while not self._heard.empty() and self._code < 0:
                self._hear(self._heard.get())
        if self._output:
            self._write()

    def _say(self, kind: int, data: bytes = b"") -> None:
        self._sending.put(self._lines.say(kind, data))

    def _read(self) -> None:
        data = os.read(STDIN, min(BLOCK, self._room))
        self._room -= len(data)
        self._reading = bool(data)
        self._say(INPUT, data)

    def _write(self) -> None:
        with suppress(BlockingIOError):
            try:
                size = os.write(STDOUT, memoryview(self._output)[:BATCH])
            except BrokenPipeError:
                raise Unread from None
            del self._output[:size]
            self._say(TAKEN, str(size).encode())

    def _hear(self, what: bytes | Exception | None) -> None:
        if what is None:
            raise Lost(f"it ended without an exit code{self._aside()}")
        if isinstance(what, Exception):
            raise Lost(f"{what or type(what).__name__}{self._aside()}") from what
        self._taken += len(what)
        self._last = time.monotonic()
        if self._before is not None:
            self._before += what
            _, found, what = bytes(self._before).partition(self._mark)
            if not found:
                del self._before[:-BATCH]
                return
            self._before = None
            self._sending.put(base64.b64encode(json.dumps(self._job).encode()) + b"\n")
        for kind, content in self._lines.hear(what):
            self._serve(kind, content)

    def _serve(self, kind: int, content: bytes) -> None:
        if kind == OUTPUT:
            self._output += content
        elif kind == ERRORS:
            os.write(STDERR, content)
            self._say(TAKEN, str(len(content)).encode())
        elif kind == TAKEN:
            self._room = min(self._room + abs(int(content)), WINDOW)
        elif kind == EXIT:
            code = int(content)
            self._code = code if code >= 0 else KILLED - code

    def _aside(self) -> str:
        """What was said before the command began, where it did not."""
        if not self._before:
            return ""
        return ": " + bytes(self._before).decode("utf-8", "replace").strip()[-2000:]


def main() -> int:
    with os.fdopen(int(sys.argv[1]), "rb") as file:
        job: dict[str, Any] = json.load(file)
    kind = load_class(
        job["kind"],
        ServiceSandbox,  # type: ignore[type-abstract]
        what="service",
        shipped={},
        group="chimera.sandboxes",
    )
    place, settings = job["place"], job["settings"]
    mark = f"chimera-{secrets.token_hex(8)}"
    try:
        line = kind.line(place, settings, words(settings["python"], mark))
        code = Near(line, job["command"], mark, float(settings["patience"])).carry()
        if code > KILLED:
            print(kind.fate(place), file=sys.stderr)
        return code
    except Unread:
        with suppress(ChimeraError):
            kind.end(place)  # whoever would do it may be gone
    except (Lost, Broken, ValueError) as error:
        said = kind.scrubbed(f"the connection to the sandbox {place} ended: {error}")
        print(said, kind.fate(place), sep="\n", file=sys.stderr)
    except ChimeraError as error:
        print(error, file=sys.stderr)
    return LOST


if __name__ == "__main__":
    ended_with = main()
    sys.stderr.flush()
    os._exit(ended_with)  # services' packages leave threads behind
