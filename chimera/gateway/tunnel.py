"""The host's end of the forwarder: each connection inside becomes a socket here.

Everything that comes through is hostile: a program inside can write to the forwarder's pipes.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from chimera.environments.base import Machine, Process
from chimera.errors import EnvironmentFault
from chimera.gateway import forwarder
from chimera.gateway.forwarder import CHUNK, HEADER, MOST_CONNECTIONS

SOURCE = Path(forwarder.__file__)
SHOWN_CHARACTERS = 500
#: With those whose client has gone, and whose call has not ended.
MOST_SERVED = 4 * MOST_CONNECTIONS


class Tunnel:
    """A forwarder running in `env`; `serve(connection)` is called in a thread for each client.

    `port` is where the inside finds it, on its own loopback.
    """

    def __init__(
        self, env: Machine, python: Sequence[str], serve: Callable[[socket.socket], None]
    ) -> None:
        self._serve = serve
        self.connections: dict[int, socket.socket] = {}
        self._lock = threading.Lock()
        self._room = threading.Semaphore(MOST_SERVED)
        source = SOURCE.read_text(encoding="utf-8")
        self._process: Process = env.open_process([*python, "-c", source], cwd="/")
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin: IO[bytes] = self._process.stdin
        self._stdout: IO[bytes] = self._process.stdout
        self.port = self._told_port()
        threading.Thread(target=self._read, daemon=True, name="chimera-tunnel").start()

    def _told_port(self) -> int:
        opened = self._frame()
        if opened is None or not opened[2].isdigit() or not 0 < int(opened[2]) < 65536:
            stderr = self._process.stderr
            said = b"" if stderr is None or opened else stderr.read(SHOWN_CHARACTERS)
            self.close()
            raise EnvironmentFault(
                "the gateway's forwarder did not start inside: "
                + said.decode("utf-8", "replace").strip()
            )
        return int(opened[2])

    def _frame(self) -> tuple[int, bytes, bytes] | None:
        """The next frame; None at the end, and for anything that is no frame."""
        try:
            header = self._exactly(HEADER.size)
            if header is None:
                return None
            number, kind, size = HEADER.unpack(header)
            data = self._exactly(size) if size <= CHUNK else None
        except (OSError, ValueError):  # closed from here
            return None
        return None if data is None else (number, kind, data)

    def _exactly(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            part = self._stdout.read(size - len(data))
            if not part:
                return None
            data += part
        return data

    def _read(self) -> None:
        while (frame := self._frame()) is not None:
            number, kind, data = frame
            connection = self.connections.get(number)
            if kind == b"O" and connection is None:
                self._open(number)
            elif kind == b"D" and connection is not None:
                with contextlib.suppress(OSError):
                    connection.sendall(data)
            elif kind == b"C" and connection is not None:
                self._drop(number)
        for number in list(self.connections):
            self._drop(number)

    def _open(self, number: int) -> None:
        if len(self.connections) >= MOST_CONNECTIONS or not self._room.acquire(blocking=False):
            self._write(number, b"C")
            return
        ours, theirs = socket.socketpair()
        self.connections[number] = ours
        threading.Thread(target=self._attend, args=(theirs,), daemon=True).start()
        threading.Thread(target=self._pump, args=(number, ours), daemon=True).start()

    def _attend(self, connection: socket.socket) -> None:
        try:
            self._serve(connection)
        finally:
            self._room.release()

    def _pump(self, number: int, ours: socket.socket) -> None:
        """Carry what the server writes to the client inside."""
        while True:
            try:
                data = ours.recv(CHUNK)
            except OSError:
                data = b""
            if not data:
                break
            self._write(number, b"D", data)
        if self.connections.get(number) is ours:  # not one that was opened since by this number
            del self.connections[number]
            self._write(number, b"C")
        ours.close()

    def _write(self, number: int, kind: bytes, data: bytes = b"") -> None:
        rest = memoryview(HEADER.pack(number, kind, len(data)) + data)
        with self._lock, contextlib.suppress(OSError, ValueError):
            while rest:
                rest = rest[self._stdin.write(rest) :]

    def _drop(self, number: int) -> None:
        """The client has gone: the server sees the end of its connection."""
        connection = self.connections.pop(number, None)
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for number in list(self.connections):
            self._drop(number)
        self._process.kill()
        for stream in (self._stdin, self._stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
