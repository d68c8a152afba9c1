"""What stand-ins of services that rent sandboxes have in common: boxes, faults, HTTP on loopback.

They speak what the services' own packages say; they were never held against the services.
"""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.environments.remote.boxes import Box

KEY = "a-key-of-the-tests"


class Refused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(eq=False)
class Rented:
    """A sandbox: what was asked for, its box, and what runs in it."""

    name: str
    asked: dict[str, Any]
    box: Box
    ended: bool = False
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, command: list[str], **pipes: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(self.box.entering(command), bufsize=0, **pipes)
        self.processes[process.pid] = process
        return process

    def end(self) -> None:
        self.ended = True
        self.box.kill()


@dataclass(eq=False)
class Service:
    """Sandboxes by their names, and what goes wrong with them."""

    folder: Path
    quota: int = 1000
    refusal: Refused | None = None  # of the next sandbox
    halve: bool = False  # the next output breaks off in the middle
    alter: bool = False  # the next output is another one
    mute: threading.Event = field(default_factory=threading.Event)  # set: nothing is said any more
    sandboxes: dict[str, Rented] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)  # requests, as a log has them
    connections: set[socket.socket] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    over: threading.Event = field(default_factory=threading.Event)

    def rent(self, asked: dict[str, Any], *, network: bool) -> Rented:
        with self.lock:
            if self.refusal is not None:
                raise self.refusal
            if len(self.sandboxes) >= self.quota:
                raise Refused(429, "you have reached the maximum number of concurrent sandboxes")
            name = f"i{secrets.token_hex(6)}"
            box = Box(self.folder / name, ["sleep", "600"], network=network)
            self.sandboxes[name] = Rented(name, asked, box)
            return self.sandboxes[name]

    def end(self, name: str) -> None:
        """End a sandbox and what is connected to it, as its time to live does."""
        with self.lock:
            rented = self.sandboxes.pop(name, None)
        if rented is None:
            raise Refused(404, f"sandbox {name} not found")
        rented.end()

    def only(self) -> Rented:
        (rented,) = self.sandboxes.values()
        return rented

    def spoiled(self, frame: bytes) -> bytes:
        """A frame as it goes out; raises where the connection is to end with half of it."""
        while self.mute.is_set() and not self.over.wait(0.1):
            pass
        if self.alter and b"A" in frame:
            self.alter = False
            return frame.replace(b"A", b"B")
        return frame

    def drop_connections(self) -> None:
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.over.set()
        self.drop_connections()
        for rented in list(self.sandboxes.values()):
            rented.end()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    service: Service

    def log_message(self, format: str, *arguments: Any) -> None:
        self.service.seen.append(format % arguments)

    def setup(self) -> None:
        super().setup()
        self.service.connections.add(self.connection)

    def finish(self) -> None:
        self.service.connections.discard(self.connection)
        with suppress(OSError):
            super().finish()

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            found = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                found += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return found
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def say(self, code: int, said: Any) -> None:
        content = b"" if said is None else json.dumps(said).encode()
        self.send_response(code)
        if said is not None:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections that end are what some tests are about."""


@contextmanager
def serving(service: Service, handler: type[Handler]) -> Iterator[str]:
    """The service's address, for as long as a block runs."""
    own = type("Own", (handler,), {"service": service})
    with Server(("127.0.0.1", 0), own) as server:
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            service.close()


PYTHON = f"{sys.base_prefix}/bin/python3"
