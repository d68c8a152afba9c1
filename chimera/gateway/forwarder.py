"""Runs inside an environment: listens on its loopback and carries connections over its own pipes.

It needs nothing but some Python 3.6 and is given as text (`python3 -c`), so that no file is left.
A frame is a connection's number, what happened and how many bytes follow:

    O  opened (number 0: the port that is listened on follows)
    D  data
    C  closed; from either side, and answered by nobody
"""

import contextlib
import os
import select
import socket
import struct
from typing import Any

HEADER = struct.Struct(">IcI")
CHUNK = 65536
MOST_CONNECTIONS = 64


def frame(number: int, kind: bytes, data: bytes = b"") -> None:
    rest = memoryview(HEADER.pack(number, kind, len(data)) + data)
    while rest:
        rest = rest[os.write(1, rest) :]


def read_exactly(size: int) -> bytes:
    parts = []
    while size:
        part = os.read(0, min(size, CHUNK))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class Forwarder:
    """Connections by number; what a client has not read yet waits in `unsent`."""

    def __init__(self) -> None:
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(MOST_CONNECTIONS)
        self.clients: dict[int, socket.socket] = {}
        self.unsent: dict[int, bytes] = {}
        self.last = 0

    def run(self) -> None:
        frame(0, b"O", str(self.listener.getsockname()[1]).encode())
        while True:
            reading: list[Any] = [0, *self.clients.values()]
            if len(self.clients) < MOST_CONNECTIONS:
                reading.append(self.listener)
            writing = [self.clients[number] for number in self.unsent]
            ready, writable, _ = select.select(reading, writing, [])
            numbers = {client: number for number, client in self.clients.items()}
            for client in writable:
                self.send(numbers[client])
            for source in ready:
                if source == 0:
                    self.take()
                elif source is self.listener:
                    self.accept()
                elif numbers[source] in self.clients:
                    self.receive(numbers[source])

    def accept(self) -> None:
        client, _ = self.listener.accept()
        client.setblocking(False)
        self.last += 1
        self.clients[self.last] = client
        frame(self.last, b"O")

    def receive(self, number: int) -> None:
        try:
            data = self.clients[number].recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            frame(number, b"D", data)
        else:
            self.close(number)
            frame(number, b"C")

    def take(self) -> None:
        number, kind, size = HEADER.unpack(read_exactly(HEADER.size))
        data = read_exactly(size)
        if number not in self.clients:
            return
        if kind == b"D":
            self.unsent[number] = self.unsent.get(number, b"") + data
            self.send(number)
        elif number in self.unsent:
            self.unsent[number] += data
            self.finish(number)
        else:
            self.close(number)

    def send(self, number: int) -> None:
        if number not in self.unsent:
            return
        try:
            sent = self.clients[number].send(self.unsent[number])
        except BlockingIOError:
            return
        except OSError:
            self.close(number)
            return
        rest = self.unsent[number][sent:]
        if rest:
            self.unsent[number] = rest
        else:
            del self.unsent[number]

    def finish(self, number: int) -> None:
        """Deliver what is left, however slowly it is read, and close."""
        client = self.clients[number]
        client.settimeout(10)
        with contextlib.suppress(OSError):
            client.sendall(self.unsent[number])
        self.close(number)

    def close(self, number: int) -> None:
        self.unsent.pop(number, None)
        self.clients.pop(number).close()


if __name__ == "__main__":
    with contextlib.suppress(EOFError, BrokenPipeError):  # the host has gone
        Forwarder().run()
