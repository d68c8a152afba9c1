"""A container engine for tests that start containers, with a door that lets little through.

Tests that use Testcontainers talk to the engine, and whoever may talk to an engine is root on its
machine. Here they talk to this door instead, through a socket of their own. Only containers of
named images are made, few at once, without any setting that reaches outside; they share the network
of the container that asked, where that has none, so that nobody else is reached; and only what was
made through the door can be seen, used and removed through it.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import socketserver
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode

from chimera.environments import engine_rules as rules
from chimera.environments.engine import image_map, own_labels
from chimera.environments.engine_rules import Refused, Understood
from chimera.environments.engine_wire import (
    BLOCK,
    PATIENCE,
    Answer,
    Asked,
    Malformed,
    NoAnswer,
    Reader,
    Request,
    answer,
    read_answer,
    read_request,
    whole,
)
from chimera.errors import EnvironmentFault, UsageError

#: Where the engine listens unless a variable of its client says otherwise.
ENGINE_SOCKET = "/var/run/docker.sock"
#: Where the tests find the door.
DOOR = "/run/chimera-engine"
SOCKET = "engine.sock"
#: Through one door at once. With what each container may have, this bounds what all may have.
MOST_CONTAINERS, MOST_CONNECTIONS, MOST_EXECUTIONS = 8, 64, 10_000
MEMORY, PROCESSES, PROCESSORS = 2 * 1024**3, 1024, 2
LOG_SIZE = "64m"
ENGINE_SECONDS = 600.0  # for an answer that comes as a whole
CLOSE_SECONDS = 120.0
#: The version of the engine's API that is spoken, or the nearest that the engine has. From 1.24 on
#: a container's settings are taken when it is made, and no more at its start.
API, OLDEST_API = (1, 41), (1, 24)
#: Makes Testcontainers use the door and nothing that it would not let through.
VARIABLES = {
    "DOCKER_HOST": f"unix://{DOOR}/{SOCKET}",
    "TESTCONTAINERS_HOST_OVERRIDE": "localhost",
    "TESTCONTAINERS_RYUK_DISABLED": "true",
    "TESTCONTAINERS_CHECKS_DISABLE": "true",
}
LABEL = "chimera.door"
_ID = re.compile(r"[0-9a-f]{64}")


def engine_socket() -> str:
    """Where the engine listens that the client talks to, on this machine alone."""
    place = os.environ.get("DOCKER_HOST") or f"unix://{ENGINE_SOCKET}"
    if not place.startswith("unix://"):
        raise UsageError(
            f"tests can start containers of an engine on this machine alone, not of {place}: "
            "set DOCKER_HOST to unix://SOCKET, or unset it"
        )
    return place.removeprefix("unix://")


@dataclass(slots=True)
class EngineDoor:
    """A door for one container, in a directory that is its alone and read-only for it.

    Closing it ends all connections and removes all that was made through it.
    """

    images: Collection[str]
    directory: Path
    container: str  # the one whose network is shared
    engine: str = field(default_factory=engine_socket)
    label: str = field(default_factory=lambda: f"{LABEL}={secrets.token_hex(16)}")
    made: dict[str, Sequence[str]] = field(default_factory=dict)  # id → the ports it exposes
    gone: set[str] = field(default_factory=set)  # those of them that were removed
    executions: set[str] = field(default_factory=set)
    digests: set[str] = field(default_factory=set)  # of the images of containers that were seen
    _api: str = ""
    _creating: int = 0
    _closing: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _connections: set[socket.socket] = field(default_factory=set)
    _server: socketserver.BaseServer | None = None

    def __enter__(self) -> Self:
        self.directory.chmod(0o755)
        place = self.directory / SOCKET
        place.unlink(missing_ok=True)
        self._server = _Server(str(place), self)
        place.chmod(0o666)
        serve = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True, name="door"
        )
        serve.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._changed:
            self._closing = True
            # of a container that is being made now, the engine has still to say the name
            self._changed.wait_for(lambda: not self._creating, CLOSE_SECONDS)
            for connection in self._connections:
                with contextlib.suppress(OSError):  # it ended by itself
                    connection.shutdown(socket.SHUT_RDWR)
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        (self.directory / SOCKET).unlink(missing_ok=True)
        self._remove_all()

    def _remove_all(self) -> None:
        """Whatever carries the label, also what nobody was told of."""
        deadline = time.monotonic() + CLOSE_SECONDS
        chosen = urlencode({"all": "true", "filters": rules.filters("", self.label)})
        while listed := self._told("GET", f"/containers/json?{chosen}"):
            if time.monotonic() > deadline:
                names = ", ".join(str(each["Id"])[:12] for each in listed)
                raise EnvironmentFault(f"containers of tests cannot be removed: {names}")
            for each in listed:
                self._told("DELETE", f"/containers/{each['Id']}?force=true&v=true", (404, 409))
            time.sleep(0.05)

    # --- the engine

    @contextlib.contextmanager
    def _connected(self, *, limit: float | None = ENGINE_SECONDS) -> Iterator[socket.socket]:
        with socket.socket(socket.AF_UNIX) as engine:
            try:
                engine.connect(self.engine)
            except OSError as error:
                raise NoAnswer(str(error)) from error
            engine.settimeout(limit)  # not before: where many wait, such a one would not
            yield engine

    def _told(self, method: str, path: str, also: Collection[int] = ()) -> Any:
        """What the engine answers to the door itself; a failure is a fault but for some."""
        try:
            with self._connected() as engine:
                Asked(method, f"{self.api()}{path}").send(engine)
                said = read_answer(engine)
                body = said.json()
        except (OSError, NoAnswer) as error:
            raise EnvironmentFault(f"the container engine does not answer: {error}") from error
        if said.status >= 300 and said.status not in also:
            raise EnvironmentFault(f"the container engine says {said.status}: {body}")
        return body

    def api(self) -> str:
        """The version that is spoken, as a path begins with it."""
        if not self._api:
            with self._connected() as engine:
                Asked("GET", "/version").send(engine)
                said = read_answer(engine).json()
            newest, oldest = (_version(said, key) for key in ("ApiVersion", "MinAPIVersion"))
            spoken = max(min(API, newest), oldest)
            if spoken < OLDEST_API:
                raise NoAnswer("its API is older than 1.24")
            self._api = f"/v{spoken[0]}.{spoken[1]}"
        return self._api

    # --- what is let through

    def admitted(self, request: Request, asked: Understood) -> Asked:
        """The request as the engine gets it, every part of it built here."""
        if asked.action == "put":
            target = f"{self.api()}{_place(asked)}/archive{asked.query_text()}"
            return Asked("PUT", target, archive=request.body)
        target, body = self._built(request, asked)
        upgrade = request.upgrade and asked.action in ("attach", "begin")
        return Asked(asked.method, f"{self.api()}{target}", body, upgrade=upgrade)

    def _built(self, request: Request, asked: Understood) -> tuple[str, Any]:
        """Path and body."""
        match asked.action:
            case "create":
                return "/containers/create", self._settings(request)
            case "execute":
                if len(self.executions) >= MOST_EXECUTIONS:
                    raise Refused(f"more than {MOST_EXECUTIONS} commands")
                return f"{_place(asked)}/exec", rules.read_body(request, rules.EXECUTE)
            case "begin":
                return f"{_place(asked)}/start", rules.read_body(request, rules.BEGIN)
        rules.no_body(request)
        match asked.action:
            case "info" | "version":
                return f"/{asked.action}", None
            case "image":
                return f"/images/{quote(self._image(asked.named['image']), safe='/:@')}/json", None
            case "list":
                chosen = rules.filters(asked.query.get("filters", ""), self.label)
                return f"/containers/json{asked.query_text(filters=chosen)}", None
            case "inspect" | "result":
                return f"{_place(asked)}/json", None
            case "fetch":
                return f"{_place(asked)}/archive{asked.query_text()}", None
            case "remove":  # with its volumes, which nobody else would remove
                return f"{_place(asked)}{asked.query_text(v='true')}", None
        return f"{_place(asked)}/{asked.action}{asked.query_text()}", None

    def _own(self, asked: Understood) -> Understood:
        """It, with the full name of the container; only those made through the door have one."""
        if "exec" in asked.named and asked.named["exec"] not in self.executions:
            raise Refused(f"the command {asked.named['exec']}")
        if "id" not in asked.named:
            return asked
        found = [made for made in self.made.copy() if made.startswith(asked.named["id"])]
        if len(found) != 1:
            raise Refused(f"the container {asked.named['id']}")
        return replace(asked, named={"id": found[0]})

    def _image(self, name: str) -> str:
        if name in self.digests:
            return name
        plain = re.sub(r"^(?:docker\.io/)?(?:library/)?", "", name)
        if plain not in self.images:
            raise Refused(f"the image {plain}")
        return image_map().get(plain, plain)

    def _settings(self, request: Request) -> dict[str, Any]:
        said = rules.read_body(request, rules.CREATE)
        own = dict(label.removeprefix("--label=").split("=", 1) for label in own_labels())
        own[LABEL] = self.label.partition("=")[2]
        return {
            **said,
            "Image": self._image(said.get("Image", "")),
            "Labels": {**rules.foreign_labels(said.get("Labels")), **own},
            "HostConfig": {
                "NetworkMode": f"container:{self.container}",
                "Memory": MEMORY,
                "MemorySwap": MEMORY,
                "PidsLimit": PROCESSES,
                "NanoCpus": min(PROCESSORS, os.cpu_count() or 1) * 10**9,
                "SecurityOpt": ["no-new-privileges"],
                "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
                "LogConfig": {"Type": "json-file", "Config": {"max-size": LOG_SIZE}},
            },
        }

    # --- what comes back

    def serve(self, client: socket.socket) -> None:
        """One request a connection: what is not said does not have to be told apart."""
        with self._held(client):
            reader = Reader(client)
            request = None
            try:
                client.settimeout(PATIENCE)
                request = read_request(client, reader)
                if request is not None:
                    self._answer(client, reader, request)
            except Malformed as why:
                client.sendall(answer(400, {"message": f"not understood: {why}"}))
            except Refused as why:
                with contextlib.suppress(Malformed):  # who still writes does not read
                    assert request is not None
                    whole(request.body, BLOCK)
                client.sendall(answer(403, {"message": f"not let through: {why}"}))
            except NoAnswer as why:
                client.sendall(answer(502, {"message": f"the engine does not answer: {why}"}))

    @contextlib.contextmanager
    def _held(self, *connections: socket.socket) -> Iterator[None]:
        """Connections that end when the door is closed, if it is not so already."""
        with self._changed:
            if self._closing:
                raise ConnectionAbortedError("the door is closed")
            self._connections.update(connections)
        try:
            yield
        finally:
            with self._changed:
                self._connections.difference_update(connections)

    def _answer(self, client: socket.socket, reader: Reader, request: Request) -> None:
        asked = self._own(rules.understood(request))
        match asked.action:
            case "ping":
                text = "" if asked.method == "HEAD" else "OK"
                client.sendall(answer(200, text, self.api()[2:], text=True))
            case "none":
                client.sendall(answer(200, []))
            case "prune":  # there is nothing that could be
                client.sendall(answer(200, {"SpaceReclaimed": 0}))
            case "create":
                client.sendall(self._create(self.admitted(request, asked)))
            case "logs" | "attach" | "wait" | "fetch" | "begin":
                self._stream(client, reader, self.admitted(request, asked))
            case _:
                admitted = self.admitted(request, asked)
                with self._connected() as engine, self._held(engine):
                    admitted.send(engine)
                    client.sendall(self._shown(asked, read_answer(engine)))

    def _create(self, admitted: Asked) -> bytes:
        ports = sorted(admitted.json.pop("ExposedPorts", {}))  # the shared network has no own ones
        with self._changed:
            if self._closing:
                raise Refused("the door is closed")
            if len(self.made) - len(self.gone) + self._creating >= MOST_CONTAINERS:
                raise Refused(f"more than {MOST_CONTAINERS} containers at once")
            self._creating += 1
        try:
            with self._connected() as engine:
                admitted.send(engine)
                said = read_answer(engine)
                body = said.json()
                if said.status == 201:
                    self.made[_id_in(body, "Id")] = ports
        finally:
            with self._changed:
                self._creating -= 1
                self._changed.notify_all()
        return answer(said.status, body)

    def _shown(self, asked: Understood, said: Answer) -> bytes:
        """The engine's answer as the tests see it."""
        body = said.json()
        if asked.action == "remove" and said.status in (204, 404):
            self.gone.add(asked.named["id"])
        if said.status >= 300:
            return answer(said.status, body)
        match asked.action:
            case "info":
                body = {**rules.only(rules.INFO, body), "Labels": []}
            case "version":
                body = {**rules.only(rules.VERSION, body), "ApiVersion": self.api()[2:]}
                body["MinAPIVersion"] = "{}.{}".format(*OLDEST_API)
            case "image":
                body = rules.shown_image(body, asked.named["image"])
            case "list":
                body = [rules.shown_row(each) for each in body if each["Id"] in self.made]
            case "inspect":
                self.digests.add(str(body.get("Image")))
                body = rules.shown_container(body, self.made[asked.named["id"]])
            case "result":
                body = rules.shown_result(body)
            case "execute":
                self.executions.add(_id_in(body, "Id"))
        return answer(said.status, body)

    def _stream(self, client: socket.socket, reader: Reader, admitted: Asked) -> None:
        """The engine's bytes as they come; the tests' own only to a command they are connected to.

        On any other connection the engine would take further bytes for a request of its own.
        """
        with self._connected(limit=None) as engine, self._held(engine):
            admitted.send(engine)
            said = read_answer(engine)
            client.settimeout(None)
            client.sendall(said.head())
            if said.status == 101:
                threading.Thread(target=_carry, args=(reader, engine), daemon=True).start()
            while block := said.reader.block():
                client.sendall(block)


def _place(asked: Understood) -> str:
    """The beginning of the path of what a request names."""
    if "exec" in asked.named:
        return f"/exec/{asked.named['exec']}"
    return f"/containers/{asked.named['id']}"


def _version(said: Any, key: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})", str(rules.only((key,), said).get(key)))
    if found is None:
        raise NoAnswer("it does not say which versions of its API it has")
    return int(found[1]), int(found[2])


def _id_in(said: Any, key: str) -> str:
    name = str(rules.only((key,), said).get(key))
    if not _ID.fullmatch(name):
        raise NoAnswer("there is no id in what it says")
    return name


def _carry(reader: Reader, engine: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while block := reader.block():
            engine.sendall(block)
        engine.shutdown(socket.SHUT_WR)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, place: str, door: EngineDoor) -> None:
        super().__init__(place, socketserver.BaseRequestHandler)
        self._door = door
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            with contextlib.suppress(OSError):
                request.sendall(answer(503, {"message": "not let through: too many connections"}))
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def finish_request(self, request: Any, client_address: Any) -> None:
        try:
            with contextlib.suppress(OSError):  # one of the two has gone, or the door is closed
                self._door.serve(request)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client could fill the terminal."""
