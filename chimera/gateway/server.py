"""The HTTP side: connections in, calls to sessions out. What comes in is hostile."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from chimera.gateway.session import Call, Session
from chimera.gateway.wires import Target, target_of
from chimera.providers.sdk import parsed
from chimera.types import JSON

MOST_REQUEST_BYTES = 32 * 1024**2
#: Of all requests of a gateway that are not answered yet: read, they take many times as much.
MOST_BYTES_UNDER_WAY = 64 * 1024**2
IDLE_SECONDS = 3600.0
PING_SECONDS = 15.0
#: A client that takes nothing for so long has gone: a call under way is in the way of others.
UNREAD_SECONDS = 30.0
MODEL_LISTS = ("/v1/models", "/models", "/v1beta/models")


class BadRequest(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Gateway:
    """Serves the sessions it was given, over any connection."""

    def __init__(self, *sessions: Session) -> None:
        self.sessions = sessions
        self._held = 0
        self._lock = threading.Lock()

    def hold(self, size: int) -> None:
        """Make room for a part of a request, or give it back; a `BadRequest` when there is none."""
        with self._lock:
            if size > 0 and self._held + size > MOST_BYTES_UNDER_WAY:
                raise BadRequest(429, "too much is asked at once")
            self._held += size

    def session(self, token: str) -> Session | None:
        return next((session for session in self.sessions if session.opens(token)), None)

    def serve(self, connection: socket.socket) -> None:
        """Serve one connection to its end."""
        with connection, contextlib.suppress(OSError, ValueError):
            handler = _handler(self)
            handler(connection, ("inside", 0), self)  # type: ignore[arg-type]

    def listen(self, host: str, port: int) -> ThreadingHTTPServer:
        """A server on an address of this machine; its `serve_forever` is the caller's."""
        server = _Server((host, port), _handler(self))
        server.daemon_threads = True
        return server


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news."""


def _handler(gateway: Gateway) -> type[_Handler]:
    return type("Handler", (_Handler,), {"gateway": gateway})


class _Handler(BaseHTTPRequestHandler):
    gateway: ClassVar[Gateway]
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "chimera", ""
    timeout = IDLE_SECONDS
    _size = 0  # of the request that is answered

    def log_message(self, *_: object) -> None:
        """What is to be known of a call is recorded by its session."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        session = self._session()
        if session is None:
            self._json(401, {"error": {"message": "this token is not known here"}})
        elif urlsplit(self.path).path in MODEL_LISTS:
            self._json(200, _model_list(session.models()[0]))
        else:
            self._json(404, {"error": {"message": f"there is nothing at {self.path}"}})

    def do_POST(self) -> None:
        """Answer a request; nothing is read of one that is for nobody."""
        target, session = target_of(urlsplit(self.path).path), self._session()
        self._size = 0
        try:
            if target is None:
                raise BadRequest(404, f"there is nothing at {self.path}")
            if session is None:
                self.close_connection = True
                self._json(401, target.wire.error(401, "invalid_api_key", "the token is not known"))
                return
            self._answer(target, session)
        except BadRequest as error:
            self.close_connection = True
            self._json(error.status, {"error": {"message": str(error)}})
        finally:
            self.gateway.hold(-self._size)

    def _answer(self, target: Target, session: Session) -> None:
        body = self._body()
        call = Call(target, body, {name.lower(): value for name, value in self.headers.items()})
        if target.count:
            self._json(200, session.count(call))
            return
        out = _Out(self, streaming=call.stream)
        self.connection.settimeout(UNREAD_SECONDS)
        with out.kept_alive():
            session.answer(call, out)
        out.finish()
        self.connection.settimeout(self.timeout)

    def _session(self) -> Session | None:
        """Whose token this is, wherever the client's format puts it."""
        bearer = self.headers.get("authorization", "")
        query = parse_qs(urlsplit(self.path).query)
        tokens = (
            bearer[7:] if bearer[:7].lower() == "bearer " else "",
            self.headers.get("x-api-key", ""),
            self.headers.get("x-goog-api-key", ""),
            *query.get("key", ()),
        )
        found = (self.gateway.session(token.strip()) for token in tokens if token)
        return next((session for session in found if session is not None), None)

    def _body(self) -> dict[str, JSON]:
        if self.headers.get("content-encoding", "identity") != "identity":
            raise BadRequest(415, "compressed requests are not taken")
        try:
            content = parsed(self._content())
        except ValueError:
            raise BadRequest(400, "the request is not JSON") from None
        if not isinstance(content, dict):
            raise BadRequest(400, "the request is no JSON object")
        return content

    def _content(self) -> bytes:
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            return self._chunks()
        length = self.headers.get("content-length", "0")
        if not re.fullmatch("[0-9]{1,10}", length) or int(length) > MOST_REQUEST_BYTES:
            raise BadRequest(413, f"a request has at most {MOST_REQUEST_BYTES} bytes")
        return self._taken(int(length))

    def _taken(self, size: int) -> bytes:
        self.gateway.hold(size)
        self._size += size
        return self.rfile.read(size)

    def _chunks(self) -> bytes:
        content, size = bytearray(), 0  # a list of small parts takes many times as much
        while True:
            try:
                length = int(self.rfile.readline(64).split(b";")[0], 16)
            except ValueError:
                raise BadRequest(400, "a chunk has no length") from None
            size += length
            if length < 0 or size > MOST_REQUEST_BYTES:
                raise BadRequest(413, f"a request has at most {MOST_REQUEST_BYTES} bytes")
            content += self._taken(length)
            self.rfile.readline(1024)
            if length == 0:
                return bytes(content)

    def _json(self, status: int, value: JSON) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class _Out:
    """The answer to one call: JSON at once, or a stream that is kept alive while it is awaited."""

    def __init__(self, handler: _Handler, *, streaming: bool) -> None:
        self._handler = handler
        self._streaming = streaming
        self._started = False
        self._over = threading.Event()
        self._gone = False
        self._lock = threading.Lock()

    def send(self, data: bytes) -> None:
        if not self._streaming:
            self._plain(200, data)
            return
        with self._lock:
            self._start()
            self._chunk(data)

    def fail(self, status: int, body: JSON) -> None:
        content = json.dumps(body).encode()
        with self._lock, contextlib.suppress(OSError):
            if self._started:  # too late for a status: an event says it
                self._chunk(b"event: error\ndata: " + content + b"\n\n")
            else:
                self._plain(status, content)

    def _plain(self, status: int, content: bytes) -> None:
        self._streaming = False
        self._over.set()
        handler = self._handler
        handler.send_response(status)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(content)))
        if status >= 400:
            handler.send_header("x-should-retry", "false")
        handler.end_headers()
        self._write(content)

    def _start(self) -> None:
        if self._started:
            return
        self._started = True
        self._handler.send_response(200)
        self._handler.send_header("content-type", "text/event-stream")
        self._handler.send_header("cache-control", "no-cache")
        self._handler.send_header("transfer-encoding", "chunked")
        self._handler.end_headers()

    def _chunk(self, data: bytes) -> None:
        if data:
            self._write(b"%x\r\n%b\r\n" % (len(data), data))

    def _write(self, data: bytes) -> None:
        """Write, to one who may not read: of what was cut off, nothing follows."""
        if self._gone:
            raise BrokenPipeError
        try:
            self._handler.wfile.write(data)
        except OSError:
            self._gone = self._handler.close_connection = True
            raise

    @contextlib.contextmanager
    def kept_alive(self) -> Iterator[None]:
        """Write a comment from time to time, so that no client takes a long thought for the end."""
        pinging = threading.Thread(target=self._ping, daemon=True)
        if self._streaming:
            pinging.start()
        try:
            yield
        finally:
            self._over.set()

    def _ping(self) -> None:
        while not self._over.wait(PING_SECONDS):
            with self._lock:
                if self._over.is_set():
                    return
                try:
                    self._start()
                    self._chunk(b": waiting\n\n")
                except OSError:
                    return

    def finish(self) -> None:
        if self._started:
            with contextlib.suppress(OSError):
                self._write(b"0\r\n\r\n")


def _model_list(model: str) -> JSON:
    """One model, in a form that every client finds its own fields in."""
    entry = {"id": model, "object": "model", "type": "model", "display_name": model}
    named = {"name": f"models/{model}", "displayName": model}
    return {"object": "list", "data": [entry], "models": [named], "has_more": False}
