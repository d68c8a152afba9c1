"""A proxy in front of a real model server that fails on demand, once for each fault in its plan."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Answer:
    """A status and a body instead of the server's."""

    status: int = 200
    body: bytes = b"{}"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Cut:
    """The server's real answer, ended after half of its bytes."""


@dataclass(frozen=True)
class Drip:
    """The server's real answer, one byte at a time."""

    seconds: float = 0.05


@dataclass(frozen=True)
class Hang:
    """Nothing at all, for longer than anybody waits."""


@dataclass(frozen=True)
class Reset:
    """The connection is closed before any answer."""


Fault = Answer | Cut | Drip | Hang | Reset

RATE_LIMITED = Answer(429, b'{"error": {"message": "slow down"}}', (("Retry-After", "0.2"),))
SERVER_ERROR = Answer(500, b'{"error": {"message": "oops"}}')
UNAVAILABLE = Answer(503, b"<html>busy</html>")
OVERLOADED = Answer(529, b'{"type": "error", "error": {"type": "overloaded_error"}}')
MALFORMED = Answer(200, b'{"choices": [{"mess')
NOT_AN_OBJECT = Answer(200, b"[]")
EMPTY = Answer(200, b'{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 0}}')


@dataclass
class FaultProxy:
    """Faults are used up in order by the requests that come; after them all is forwarded."""

    upstream: str
    plan: deque[Fault] = field(default_factory=deque)
    arrivals: list[float] = field(default_factory=list)
    bodies: list[dict[str, object]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.block_on_close = False  # clients keep their connections open
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def fail_with(self, faults: Iterable[Fault]) -> None:
        self.plan.extend(faults)

    def close(self) -> None:
        self.released.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def _handler(proxy: FaultProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with proxy.lock:
                proxy.arrivals.append(time.monotonic())
                proxy.bodies.append(json.loads(body))
                fault = proxy.plan.popleft() if proxy.plan else None
            try:
                self._respond(
                    fault, lambda: _forward(proxy.upstream, self.path, self.headers, body)
                )
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def _respond(self, fault: Fault | None, real: Callable[[], Answer]) -> None:
            if isinstance(fault, Reset):
                self.close_connection = True
            elif isinstance(fault, Hang):
                proxy.released.wait(30)
                self.close_connection = True
            elif isinstance(fault, Answer):
                self._send(fault, lambda data: [data])
            elif isinstance(fault, Drip):
                self._send(real(), lambda data: _dripping(data, fault.seconds, proxy.released))
            elif isinstance(fault, Cut):
                self._send(real(), lambda data: [data[: len(data) // 2]])
                self.close_connection = True
            else:
                self._send(real(), lambda data: [data])

        def _send(self, answer: Answer, parts: Callable[[bytes], Iterable[bytes]]) -> None:
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer.body)))
            for name, value in answer.headers:
                self.send_header(name, value)
            self.end_headers()
            for part in parts(answer.body):
                self.wfile.write(part)
                self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def _dripping(data: bytes, seconds: float, released: threading.Event) -> Iterable[bytes]:
    for index in range(len(data)):
        if released.wait(seconds):
            return
        yield data[index : index + 1]


_asked: dict[tuple[str, str, bytes], Answer] = {}
_asking = threading.Lock()


def _forward(upstream: str, path: str, headers: object, body: bytes) -> Answer:
    """The server's answer; the same question is put to the model once only, to save its time."""
    key = (upstream, path, body)
    with _asking:
        if key not in _asked:
            answer = _ask(upstream, path, headers, body)
            if answer.status != 200:
                return answer
            _asked[key] = answer
        return _asked[key]


def _ask(upstream: str, path: str, headers: object, body: bytes) -> Answer:
    connection = http.client.HTTPConnection(urlsplit(upstream).netloc, timeout=120)
    try:
        kept = {
            name: value
            for name, value in headers.items()  # type: ignore[attr-defined]
            if name.lower() in ("authorization", "x-api-key", "content-type", "anthropic-version")
        }
        connection.request("POST", path, body, kept)
        response = connection.getresponse()
        return Answer(response.status, response.read())
    finally:
        connection.close()
