"""The far end of a command whose streams go as lines of text, each of them counted and summed.

It is sent to the place as it is (`bridge.py`) and needs Python 3.11's standard library alone. Text
passes unharmed through what decodes or wraps it. What was lost on its way, came twice or was
altered does not pass. Neither side sends more than `WINDOW` bytes that the other has not taken, so
that nothing between them fills up, whatever a service does with a reader that is slow.
"""

from __future__ import annotations

import base64
import os
import select
import signal
import struct
import subprocess
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

INPUT, OUTPUT, ERRORS, TAKEN, BEAT, EXIT = range(6)  # an empty INPUT is its end
HEAD, SUM = struct.Struct(">IB"), struct.Struct(">I")
WINDOW = 1 << 21
BLOCK = 12_000  # a line of it has 16 kB
LONGEST = 2 * BLOCK
SHORT, LAST_SECONDS = 0.05, 5.0


class Broken(Exception):
    """What came is not what the other end says."""


class Lines:
    """One end's way of saying: what it says, and what it heard, frame by frame."""

    def __init__(self) -> None:
        self._said = self._heard = 0
        self._incoming = bytearray()

    def say(self, kind: int, data: bytes = b"") -> bytes:
        head = HEAD.pack(self._said, kind)
        self._said = (self._said + 1) % (1 << 32)
        return base64.b64encode(head + data + SUM.pack(zlib.crc32(head + data))) + b"\n"

    def hear(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        self._incoming += data
        *lines, rest = self._incoming.split(b"\n")
        self._incoming = rest
        if len(rest) > LONGEST:
            raise Broken("a line has no end")
        for line in lines:
            yield self._frame(bytes(line))

    def _frame(self, line: bytes) -> tuple[int, bytes]:
        try:
            frame = base64.b64decode(line, validate=True)
            number, kind = HEAD.unpack_from(frame)
        except (ValueError, struct.error):
            raise Broken(f"a line is none of ours: {line[:80]!r}") from None
        if SUM.pack(zlib.crc32(frame[: -SUM.size])) != frame[-SUM.size :]:
            raise Broken("a line was changed on its way")
        if number != self._heard:
            raise Broken(f"line {self._heard} is missing, {number} came")
        self._heard = (self._heard + 1) % (1 << 32)
        return kind, frame[HEAD.size : -SUM.size]


class Command:
    """A command here, whose streams are carried over this process's input and output."""

    def __init__(self, command: list[str], patience: float) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
        )
        self._patience = patience
        self._lines = Lines()
        self._outgoing = bytearray(self._lines.say(BEAT))
        self._input: bytearray | None = bytearray()  # None: it has ended
        self._ending = False
        self._room = WINDOW
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._output = {
            self._process.stdout.fileno(): OUTPUT,
            self._process.stderr.fileno(): ERRORS,
        }
        for descriptor in (0, 1, self._stdin):
            os.set_blocking(descriptor, False)
        self._heard = self._beaten = time.monotonic()
        self._ended: float | None = None

    @property
    def _stdin(self) -> int:
        assert self._process.stdin is not None
        return self._process.stdin.fileno()

    def carry(self) -> None:
        """Until its exit code is told; without one where the other end is gone."""
        try:
            while not self._over():
                self._turn(SHORT if not self._output else 1.0)
            self._outgoing += self._lines.say(EXIT, str(self._process.returncode).encode())
            self._output.clear()
            while self._outgoing:
                self._turn(1.0)
        except (Broken, EOFError, OSError):
            pass  # nobody is there who could be told
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _over(self) -> bool:
        if self._process.poll() is None:
            return False
        self._ended = self._ended or time.monotonic()
        return not self._output or time.monotonic() - self._ended > LAST_SECONDS

    def _turn(self, seconds: float) -> None:
        now = time.monotonic()
        if now - self._heard > self._patience:
            raise EOFError
        if now - self._beaten > self._patience / 4:
            self._beaten = now
            self._outgoing += self._lines.say(BEAT)
        poll = select.poll()
        poll.register(0, select.POLLIN)
        if self._outgoing:
            poll.register(1, select.POLLOUT)
        if self._input:
            poll.register(self._stdin, select.POLLOUT)
        for descriptor in self._output if self._room else ():
            poll.register(descriptor, select.POLLIN)
        events = dict(poll.poll(min(seconds, self._patience / 4) * 1000))
        if 0 in events:
            self._hear()
        for descriptor in [each for each in self._output if each in events]:
            self._read(descriptor)
        if self._input is not None:
            self._feed()
        if 1 in events:
            with suppress(BlockingIOError):
                del self._outgoing[: os.write(1, memoryview(self._outgoing)[:65536])]

    def _hear(self) -> None:
        data = os.read(0, 65536)
        if not data:
            raise EOFError
        self._heard = time.monotonic()
        for kind, content in self._lines.hear(data):
            if kind == TAKEN:
                self._room += int(content)
            elif kind == INPUT and not content:
                self._ending = True
            elif kind == INPUT and self._input is not None:
                self._input += content
            elif kind == INPUT:
                self._take(len(content))

    def _read(self, descriptor: int) -> None:
        if not self._room:
            return
        data = os.read(descriptor, min(BLOCK, self._room))
        if data:
            self._room -= len(data)
            self._outgoing += self._lines.say(self._output[descriptor], data)
        else:
            del self._output[descriptor]

    def _feed(self) -> None:
        assert self._input is not None
        gone = False
        if self._input:
            try:
                taken = os.write(self._stdin, memoryview(self._input)[:65536])
            except BlockingIOError:
                return
            except BrokenPipeError:
                taken, gone = len(self._input), True
            del self._input[:taken]
            self._take(taken)
        if gone or (self._ending and not self._input):
            self._input = None
            assert self._process.stdin is not None
            self._process.stdin.close()

    def _take(self, size: int) -> None:
        self._outgoing += self._lines.say(TAKEN, str(size).encode())


def main(job: dict[str, Any]) -> None:
    try:
        command = Command(job["command"], job["patience"])
    except OSError as error:
        lines = Lines()
        why = f"{job['command'][0]}: {error.strerror}\n".encode()
        os.write(1, lines.say(ERRORS, why) + lines.say(EXIT, b"127"))
    else:
        command.carry()
