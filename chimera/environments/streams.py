"""Reading a command's output while it runs, bounded in memory and in time."""

from __future__ import annotations

import os
import select
import time
from collections import deque
from collections.abc import Mapping

from chimera.types import CommandResult

CHUNK = 65536
TIMED_OUT = 124
GRACE = 0.05  # seconds for output of a pipeline's last members once the command itself has ended


class Kept:
    """The first and the last bytes of a stream: never more than `bound`, however much comes."""

    def __init__(self, bound: int) -> None:
        self.bound = max(bound, 2)
        self.total = 0
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self.bound // 2 - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data)
            self._tail_bytes += len(data)
            allowed = self.bound - self.bound // 2
            while self._tail_bytes - len(self._tail[0]) >= allowed:
                self._tail_bytes -= len(self._tail.popleft())

    @property
    def truncated(self) -> bool:
        return self.total > self.bound

    def content(self) -> bytes:
        """What was kept; where bytes were left out, a line says how many."""
        tail = b"".join(self._tail)
        if not self.truncated:
            return bytes(self._head) + tail
        tail = tail[-(self.bound - self.bound // 2) :]
        left_out = self.total - len(self._head) - len(tail)
        return bytes(self._head) + b"\n[%d bytes left out]\n" % left_out + tail


def collect(
    streams: Mapping[int, Kept],
    *,
    stdin: tuple[int, bytes] | None = None,
    ended: int | None = None,
    deadline: float,
) -> tuple[bool, list[int]]:
    """Read `streams` until the command ended; False when `deadline` (monotonic) came first.

    `ended` is a descriptor that becomes readable at the command's end; without it the end is the
    end of all streams. Also returned: the streams that background processes still hold open.
    `stdin` is a non-blocking descriptor and what to write to it; it is closed when that is done.
    """
    poll = select.poll()
    reading = set(streams)
    for descriptor in reading:
        os.set_blocking(descriptor, False)
        poll.register(descriptor, select.POLLIN)
    if ended is not None:
        poll.register(ended, select.POLLIN)
    pending = memoryview(b"")
    writing = -1
    if stdin is not None:
        writing, pending = stdin[0], memoryview(stdin[1])
        os.set_blocking(writing, False)
        poll.register(writing, select.POLLOUT)
    over = False
    try:
        while reading or (ended is not None and not over):
            left = deadline - time.monotonic()
            if left <= 0:
                return over, sorted(reading)
            events = poll.poll(left * 1000)
            for descriptor, _ in events:
                if descriptor == ended:
                    over = True
                    poll.unregister(ended)
                    deadline = min(deadline, time.monotonic() + GRACE)
                elif descriptor == writing:
                    pending = write_some(writing, pending)
                    if not pending:
                        poll.unregister(writing)
                        os.close(writing)
                        writing = -1
                elif not read_some(descriptor, streams[descriptor]):
                    poll.unregister(descriptor)
                    reading.discard(descriptor)
        return True, []
    finally:
        if writing >= 0:
            os.close(writing)


def read_some(descriptor: int, kept: Kept) -> bool:
    """Whether there may be more to come."""
    try:
        data = os.read(descriptor, CHUNK)
    except BlockingIOError:
        return True
    kept.add(data)
    return bool(data)


def write_some(descriptor: int, pending: memoryview) -> memoryview:
    """What is still to be written; nothing when the reader has gone."""
    try:
        return pending[os.write(descriptor, pending[:CHUNK]) :]
    except BlockingIOError:
        return pending
    except BrokenPipeError:
        return memoryview(b"")


def command_result(stdout: Kept, stderr: Kept, code: int | None, started: float) -> CommandResult:
    """What became of a command; without an exit code it ran out of time."""
    return CommandResult(
        stdout.content(),
        stderr.content(),
        TIMED_OUT if code is None else code,
        timed_out=code is None,
        truncated=stdout.truncated or stderr.truncated,
        duration=time.monotonic() - started,
    )
