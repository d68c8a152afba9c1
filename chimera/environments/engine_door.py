"""A container engine for tests that start containers, with a door that lets little through.

Tests that use Testcontainers talk to the engine, and whoever may talk to an engine is root on its
machine. Here they talk to this door instead, through a socket of their own. Only containers of
named images are made, without any setting that reaches outside; they share the network of the
container that asked, where that has none, so that nobody else is reached; and only what was made
through the door can be seen, used and removed through it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import socketserver
import tempfile
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from chimera.environments.engine import RUN, Engine, image_map
from chimera.errors import UsageError

#: Where the engine listens unless a variable of its client says otherwise.
ENGINE_SOCKET = "/var/run/docker.sock"
#: Where the tests find the door.
DOOR = "/run/chimera-engine"
SOCKET = "engine.sock"
MOST_HEAD, MOST_BODY = 64 * 1024, 64 * 1024**2
MEMORY = 2 * 1024**3
#: Makes Testcontainers use the door and nothing that it would not let through.
VARIABLES = {
    "DOCKER_HOST": f"unix://{DOOR}/{SOCKET}",
    "TESTCONTAINERS_HOST_OVERRIDE": "localhost",
    "TESTCONTAINERS_RYUK_DISABLED": "true",
    "TESTCONTAINERS_CHECKS_DISABLE": "true",
}
#: Answers that go on for as long as what they tell of.
STREAMED = ("/logs", "/attach", "/start", "/wait", "/archive")
_VERSION = r"(?:/v[\d.]+)?"
_FREE = re.compile(rf"{_VERSION}/(?:_ping|version|info)")
_IMAGE = re.compile(rf"{_VERSION}/images/(?P<image>.+)/json")
_CREATE = re.compile(rf"{_VERSION}/containers/create")
_LIST = re.compile(rf"{_VERSION}/(?:containers|images|networks)/json")
_USE = re.compile(
    rf"{_VERSION}/containers/(?P<id>[0-9a-f]{{12,64}})"
    r"(?P<what>/(?:json|start|stop|kill|wait|logs|exec|archive|attach|resize|stats|top))?"
)
_EXEC = re.compile(rf"{_VERSION}/exec/(?P<exec>[0-9a-f]{{12,64}})/(?:start|json|resize)")
#: What a new container may say for itself.
_KEPT = ("Cmd", "Entrypoint", "Env", "WorkingDir", "User", "Labels", "Healthcheck", "Tty",
         "OpenStdin", "AttachStdin", "AttachStdout", "AttachStderr", "StopSignal")  # fmt: skip
#: What a command in one may.
_EXECUTED = ("Cmd", "Env", "WorkingDir", "User", "Tty", "AttachStdin", "AttachStdout",
             "AttachStderr")  # fmt: skip


@dataclass(slots=True)
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""

    @property
    def path(self) -> str:
        return unquote(urlsplit(self.target).path)

    def bytes(self) -> bytes:
        lines = [f"{self.method} {self.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


def engine_socket() -> str:
    """Where the engine listens that the client talks to, on this machine alone."""
    place = os.environ.get("DOCKER_HOST") or f"unix://{ENGINE_SOCKET}"
    if not place.startswith("unix://"):
        raise UsageError(
            f"tests can start containers of an engine on this machine alone, not of {place}: "
            "set DOCKER_HOST to unix://SOCKET, or unset it"
        )
    return place.removeprefix("unix://")


class Refused(Exception):
    """A request that the door does not let through."""


@dataclass(slots=True)
class EngineDoor:
    """A door for one container; closing it removes all that was made through it."""

    images: Collection[str]
    directory: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="chimera-door-")))
    container: str = ""  # the one whose network is shared; set once it is there
    made: dict[str, dict[str, Any]] = field(default_factory=dict)  # id → the ports it exposes
    executions: set[str] = field(default_factory=set)
    engine: str = field(default_factory=engine_socket)
    _server: socketserver.BaseServer | None = None

    def open(self) -> Self:
        self.directory.chmod(0o755)
        place = str(self.directory / SOCKET)
        self._server = _Server(place, _handler(self))
        Path(place).chmod(0o666)
        threading.Thread(target=self._server.serve_forever, daemon=True, name="door").start()
        return self

    def mounts(self) -> dict[str, str]:
        return {str(self.directory): DOOR}

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        for name in list(self.made):
            Engine.find().remove(name)
        shutil.rmtree(self.directory, ignore_errors=True)

    # --- what is let through

    def admitted(self, request: Request) -> Request:
        """The request as it goes to the engine; `Refused` where it does not."""
        path, method = request.path, request.method
        if method == "GET" and (_FREE.fullmatch(path) or _LIST.fullmatch(path)):
            return request
        if method == "GET" and (found := _IMAGE.fullmatch(path)):
            name = self._image(found["image"])
            return Request("GET", f"/images/{name}/json", request.headers)
        if method == "POST" and _CREATE.fullmatch(path):
            return self._create(request)
        if found := _USE.fullmatch(path):
            self._own(found["id"])
            if found["what"] == "/exec":
                return _with_body(request, request.target, _only(_EXECUTED, request.body))
            if found["what"] or method == "DELETE":
                return request
        if (found := _EXEC.fullmatch(path)) and found["exec"] in self.executions:
            return request
        raise Refused(f"{method} {path}")

    def _own(self, name: str) -> None:
        if not any(made.startswith(name) for made in self.made):
            raise Refused(f"the container {name}")

    def _image(self, name: str) -> str:
        plain = re.sub(r"^(?:docker\.io/)?(?:library/)?", "", name)
        if plain not in self.images:
            raise Refused(f"the image {plain}")
        return image_map().get(plain, plain)

    def _create(self, request: Request) -> Request:
        body = _only(_KEPT, request.body)
        body["Image"] = self._image(str(json.loads(request.body)["Image"]))
        body["Labels"] = {**(body.get("Labels") or {}), "chimera.run": RUN}
        body["HostConfig"] = {
            "NetworkMode": f"container:{self.container}",
            "Memory": MEMORY,
            "MemorySwap": MEMORY,
            "PidsLimit": 1024,
            "SecurityOpt": ["no-new-privileges"],
        }
        return _with_body(request, "/containers/create", body)

    # --- what comes back

    def answered(self, request: Request, status: int, body: bytes) -> bytes:
        """The engine's answer as the tests see it."""
        if status >= 300 or request.method not in ("GET", "POST"):
            return body
        path = request.path
        if _CREATE.fullmatch(path):
            asked = json.loads(request.body)
            self.made[json.loads(body)["Id"]] = dict(asked.get("ExposedPorts") or {})
        elif _USE.fullmatch(path) and path.endswith("/exec"):
            self.executions.add(json.loads(body)["Id"])
        elif _LIST.fullmatch(path):
            return self._own_alone(path, body)
        elif (found := _USE.fullmatch(path)) and found["what"] == "/json":
            return self._seen(json.loads(body))
        return body

    def _own_alone(self, path: str, body: bytes) -> bytes:
        listed = json.loads(body)
        if path.endswith("/containers/json"):
            return json.dumps([each for each in listed if each["Id"] in self.made]).encode()
        return b"[]"

    def _seen(self, container: Mapping[str, Any]) -> bytes:
        """A container whose ports are published to the machine that the tests run on."""
        exposed: dict[str, Any] = {port: {} for port in self.made[container["Id"]]}
        ports = {
            port: [{"HostIp": "127.0.0.1", "HostPort": port.partition("/")[0]}] for port in exposed
        }
        settings = {**container["NetworkSettings"], "Ports": ports, "IPAddress": "127.0.0.1"}
        settings["Networks"] = {"bridge": {"IPAddress": "127.0.0.1", "Gateway": "127.0.0.1"}}
        config = {**container["Config"], "ExposedPorts": exposed, "Hostname": "localhost"}
        return json.dumps({**container, "NetworkSettings": settings, "Config": config}).encode()


def _only(keys: Collection[str], body: bytes) -> dict[str, Any]:
    asked = json.loads(body)
    return {key: asked[key] for key in keys if asked.get(key) is not None}


def _with_body(request: Request, target: str, body: Mapping[str, Any]) -> Request:
    text = json.dumps(body).encode()
    return Request("POST", target, {**request.headers, "content-length": str(len(text))}, text)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


def _handler(door: EngineDoor) -> type[socketserver.BaseRequestHandler]:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                _serve(door, self.request)

    return Handler


def _serve(door: EngineDoor, client: socket.socket) -> None:
    """One request a connection: what is not said does not have to be told apart."""
    request = _read(client)
    if request is None:
        return
    try:
        admitted = door.admitted(request)
    except (Refused, ValueError, KeyError, TypeError, AttributeError) as reason:
        text = json.dumps({"message": f"not let through: {reason}"}).encode()
        client.sendall(_head(403, len(text)) + text)
        return
    hijacked = _EXEC.fullmatch(request.path) and "upgrade" in admitted.headers
    admitted.headers["connection"] = "Upgrade" if hijacked else "close"
    with socket.socket(socket.AF_UNIX) as engine:
        engine.connect(door.engine)
        engine.sendall(admitted.bytes())
        if request.path.endswith(STREAMED):
            _stream(client, engine)
            return
        status, body = _whole(engine)
        body = door.answered(request, status, body)
        client.sendall(_head(status, len(body)) + body)


def _read(client: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        block = client.recv(65536)
        data += block
        if not block or len(data) > MOST_HEAD:
            return None
    head, _, body = data.partition(b"\r\n\r\n")
    if re.search(rb"[\x00-\x09\x0b\x0c\x0e-\x1f]|(?<!\r)\n|\r(?!\n)", head):
        return None  # the engine would read another request in it than the door
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in
               (line.partition(":") for line in lines)}  # fmt: skip
    stream = client.makefile("rb")
    if headers.pop("transfer-encoding", "").lower() == "chunked":
        body = _chunks(_Joined(body, stream))
        headers["content-length"] = str(len(body))
    length = int(headers.get("content-length", "0"))
    if length > MOST_BODY:
        return None
    while len(body) < length and (block := stream.read(min(65536, length - len(body)))):
        body += block
    return Request(method, target, headers, body[:length])


class _Joined:
    """What was read already, then what is still to come."""

    def __init__(self, first: bytes, rest: Any) -> None:
        self._first, self._rest = first, rest

    def read(self, count: int) -> bytes:
        found, self._first = self._first[:count], self._first[count:]
        while len(found) < count and (block := self._rest.read(count - len(found))):
            found += block
        return found

    def readline(self) -> bytes:
        line = b""
        while not line.endswith(b"\n") and (byte := self.read(1)):
            line += byte
        return line


def _chunks(stream: _Joined) -> bytes:
    body = b""
    while (size := int(stream.readline().partition(b";")[0] or b"0", 16)) > 0:
        body += stream.read(size)
        stream.read(2)
        if len(body) > MOST_BODY:
            break
    return body


def _whole(engine: socket.socket) -> tuple[int, bytes]:
    """Status and body of an answer after which the engine closes."""
    stream = engine.makefile("rb")
    status = int(stream.readline().split()[1])
    headers: dict[str, str] = {}
    while line := stream.readline().strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    if headers.get("transfer-encoding") == "chunked":
        return status, _chunks(_Joined(b"", stream))
    return status, stream.read(MOST_BODY)


def _head(status: int, length: int) -> bytes:
    return (
        f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"
        "Api-Version: 1.41\r\nDocker-Experimental: false\r\nOstype: linux\r\n"
        "Connection: close\r\n\r\n"
    ).encode()


def _stream(client: socket.socket, engine: socket.socket) -> None:
    """The engine's bytes as they come; the tests' own only to a command they are connected to.

    On any other connection the engine would take further bytes for a request of its own.
    """
    head = b""
    while b"\r\n\r\n" not in head and (block := engine.recv(65536)):
        head += block
    client.sendall(head)
    if head.startswith(b"HTTP/1.1 101 "):
        threading.Thread(target=_carry, args=(client, engine), daemon=True).start()
    while block := engine.recv(65536):
        client.sendall(block)


def _carry(client: socket.socket, engine: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while block := client.recv(65536):
            engine.sendall(block)
        engine.shutdown(socket.SHUT_WR)
