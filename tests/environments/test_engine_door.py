"""What the door to a container engine lets through, and what not."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import socketserver
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from chimera.environments.base import EnvironmentSpec
from chimera.environments.docker import DockerEnvironment
from chimera.environments.engine_door import (
    DOOR,
    ENGINE_SOCKET,
    MOST_CONNECTIONS,
    MOST_CONTAINERS,
    SOCKET,
    EngineDoor,
    engine_socket,
)
from chimera.environments.engine_wire import MOST_ARCHIVE, MOST_JSON, read_answer
from chimera.errors import UsageError

OWN, OTHER, COMMAND = "a" * 64, "b" * 64, "c" * 64
DIGEST = "sha256:" + "1" * 64
VERSION = {"Version": "20.10.24", "ApiVersion": "1.41", "MinAPIVersion": "1.12", "Os": "linux",
           "KernelVersion": "6.1", "BuildTime": "x"}  # fmt: skip
INFO = {
    "Name": "host-name", "HttpProxy": "http://user:word@proxy", "DockerRootDir": "/var/lib/docker",
    "ServerVersion": "20.10.24", "OperatingSystem": "Debian", "OSType": "linux", "MemTotal": 2**34,
}  # fmt: skip
CONTAINER = {
    "Id": OWN, "Image": DIGEST,
    "LogPath": "/var/lib/docker/x.log", "GraphDriver": {"Data": {"UpperDir": "/var"}},
    "Mounts": [{"Source": "/var/lib/docker/volumes/x"}], "State": {"Running": True, "Pid": 77},
    "Config": {"Hostname": "h", "Labels": {"mine": "1", "chimera.run": "x"}},
    "HostConfig": {"NetworkMode": "container:c0ffee"}, "NetworkSettings": {"SandboxKey": "/run/x"},
}  # fmt: skip


class FakeEngine(socketserver.ThreadingUnixStreamServer):
    """Records what arrives; makes and removes containers that are no more than names."""

    daemon_threads = True

    def __init__(self, place: Path) -> None:
        super().__init__(str(place), _Records)
        self.place = str(place)
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.containers: dict[str, dict[str, str]] = {}
        self.version: dict[str, str] = VERSION
        self.slow = threading.Event()  # to be set before a create is answered
        self.slow.set()
        self.made = 0

    def handle_error(self, *_: Any) -> None:
        """The door may have hung up."""

    def lines(self) -> list[str]:
        """What was asked for, but for what the door wants to know for itself."""
        return [f"{method} {path}" for method, path, *_ in self.asked if path != "/version"]


class _Records(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeEngine

    def log_message(self, *_: Any) -> None:
        pass

    def address_string(self) -> str:
        return ""

    def _asked(self) -> None:
        body = b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        body += self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.command, self.path, dict(self.headers.items()), body))
        status, said = self._said(self.path.partition("?")[0], body)
        text = b"" if status == 204 else json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _asked

    def _said(self, path: str, body: bytes) -> tuple[int, Any]:
        engine = self.server
        if path == "/version" or path.endswith("1/version"):
            return 200, engine.version
        if path.endswith("/info"):
            return 200, INFO
        if path.endswith("/containers/create"):
            engine.slow.wait(20)
            engine.made += 1
            name = f"{engine.made:064x}"
            engine.containers[name] = json.loads(body)["Labels"]
            return 201, {"Id": name, "Warnings": []}
        if path.endswith("/containers/json"):
            query = parse_qs(urlsplit(self.path).query)
            wanted = json.loads(query["filters"][0])["label"][-1].partition("=")
            rows = [
                {"Id": name, "Labels": labels, "Mounts": ["/host"]}
                for name, labels in engine.containers.items()
                if labels.get(wanted[0]) == wanted[2]
            ]
            return 200, rows
        if self.command == "DELETE":
            return (204 if engine.containers.pop(path.rpartition("/")[2], None) else 404), {}
        if path.endswith("/exec"):
            return 201, {"Id": COMMAND}
        if "/containers/" in path and path.endswith("/json"):
            return 200, CONTAINER
        if path.endswith("/json"):
            return 200, {"Id": "sha256:1", "GraphDriver": {"Data": "/var/lib/docker"}}
        return 204, None


@pytest.fixture
def engine(tmp_path):
    with FakeEngine(tmp_path / "engine.sock") as served:
        threading.Thread(target=served.serve_forever, args=(0.01,), daemon=True).start()
        yield served
        served.slow.set()
        served.shutdown()


@pytest.fixture
def door(tmp_path, engine):
    (tmp_path / "door").mkdir()
    made = EngineDoor(["postgres:17"], tmp_path / "door", "c0ffee", engine.place)
    with made as opened:
        opened.made[OWN] = ["5432/tcp"]
        opened.executions.add(COMMAND)
        engine.containers.update({OWN: marked(opened), OTHER: {}})
        yield opened


def marked(door: EngineDoor) -> dict[str, str]:
    name, _, value = door.label.partition("=")
    return {name: value}


class Client(http.client.HTTPConnection):
    def __init__(self, door: EngineDoor) -> None:
        super().__init__("localhost", timeout=20)
        self.place = str(door.directory / SOCKET)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self.place)


def ask(door: EngineDoor, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """Status and answer."""
    text = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    with contextlib.closing(Client(door)) as client:
        client.request(method, path, text, headers)
        answer = client.getresponse()
        content = answer.read()
    return answer.status, json.loads(content) if content[:1] in (b"{", b"[") else content


def raw(door: EngineDoor, content: bytes) -> bytes:
    client = Client(door)
    client.connect()
    with client.sock as sock:
        sock.sendall(content)
        return b"".join(iter(lambda: sock.recv(65536), b""))


def create(door: EngineDoor, **more: Any) -> Any:
    return ask(door, "POST", "/v1.44/containers/create", {"Image": "postgres:17", **more})


@pytest.mark.parametrize(
    ("method", "target", "sent"),
    [
        ("GET", "/v1.32/containers/json?all=true&limit=1", "/containers/json?all=true&limit=1&"),
        ("GET", "/images/docker.io%2Flibrary%2Fpostgres:17/json", "/images/postgres:17/json"),
        ("GET", f"/v1.41/containers/{OWN[:12]}/json?size=true", f"/containers/{OWN}/json"),
        ("GET", f"/containers/{OWN}/logs?since=0&stdout=true&follow=true",
         f"/containers/{OWN}/logs?since=0&stdout=true&follow=true"),
        ("POST", f"/v1.23/containers/{OWN}/start", f"/containers/{OWN}/start"),
        ("POST", f"/containers/{OWN}/stop?t=10", f"/containers/{OWN}/stop?t=10"),
        ("POST", f"/containers/{OWN}/kill?signal=KILL", f"/containers/{OWN}/kill?signal=KILL"),
        ("POST", f"/containers/{OWN}/wait?condition=next-exit",
         f"/containers/{OWN}/wait?condition=next-exit"),
        ("DELETE", f"/containers/{OWN}?force=true", f"/containers/{OWN}?force=true&v=true"),
        ("GET", f"/containers/{OWN}/archive?path=/a%26", f"/containers/{OWN}/archive?path=%2Fa%26"),
        ("POST", f"/exec/{COMMAND}/start", f"/exec/{COMMAND}/start"),
        ("GET", f"/exec/{COMMAND}/json", f"/exec/{COMMAND}/json"),
    ],
)  # fmt: skip
def test_what_tests_need_goes_on_in_the_doors_own_words(door, engine, method, target, sent):
    headers = {"X-Registry-Auth": "secret", "X-Forwarded-Host": "x", "Content-Type": "text/plain"}

    status, _ = ask(door, method, target, **headers)

    (line,) = engine.lines()
    assert status < 300
    assert line.startswith(f"{method} /v1.41{sent}")
    told = {"host", "connection", "content-type", "content-length"}
    assert {name.lower() for name in engine.asked[-1][2]} <= told
    assert "text/plain" not in str(engine.asked)


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/images/debian:bookworm/json"),
        ("POST", "/images/create?fromImage=postgres&tag=17"),
        ("POST", "/images/load"),
        ("GET", "/images/postgres:17/get"),
        ("DELETE", "/images/postgres:17"),
        ("POST", "/build"),
        ("POST", "/commit"),
        ("GET", "/events"),
        ("GET", "/system/df"),
        ("GET", "/volumes"),
        ("POST", "/volumes/create"),
        ("POST", "/networks/create"),
        ("POST", "/networks/bridge/connect"),
        ("POST", "/swarm/init"),
        ("POST", "/session"),
        ("POST", "/containers/prune"),
        ("GET", f"/containers/{OTHER}/json"),
        ("POST", f"/containers/{OTHER}/exec"),
        ("GET", f"/containers/{OTHER}/archive?path=/etc"),
        ("DELETE", f"/containers/{OTHER}"),
        ("POST", f"/exec/{OTHER}/start"),
        ("POST", f"/containers/{OWN}/update"),
        ("POST", f"/containers/{OWN}/rename?name=x"),
        ("GET", f"/containers/{OWN}/export"),
        ("GET", f"/containers/{OWN}/top?ps_args=-ef"),
        ("GET", f"/containers/{OWN}/attach/ws"),
        ("PUT", f"/containers/{OWN}/json"),
        ("POST", f"/containers/{OWN}/json"),
        ("GET", f"/containers/{OWN}/start"),
        ("DELETE", f"/containers/{OWN}/archive?path=/"),
        ("DELETE", f"/containers/{OWN}?link=true"),
        ("POST", f"/containers/{OWN}/start?checkpoint=x&checkpoint-dir=/etc"),
        ("POST", f"/containers/{OWN}/kill?signal=9%26x"),
        ("POST", f"/containers/{OWN}/attach?detachKeys=a"),
        ("GET", f"/containers/{OWN}/logs?stdout=true&stdout=false"),
        ("GET", f"/containers/json?since={OTHER}"),
        ("GET", "/containers/json?filters=%7B%22volume%22%3A%5B%22x%22%5D%7D"),
        ("GET", "/containers/json?filters=%5B%5B"),
        ("POST", f"/containers/{OWN}/../{OTHER}/start"),
        ("GET", f"/containers/{OWN}%2f..%2f{OTHER}/json"),
        ("GET", "/v1.41/v1.41/info"),
        ("GET", "//x/_ping"),
        ("GET", "/_ping%00"),
        ("GET", "/_ping%ff"),
    ],
)
def test_it_refuses_everything_else(door, engine, method, target):
    status, said = ask(door, method, target)

    assert (status, engine.lines()) == (403, [])
    assert said["message"].startswith("not let through: ")


@pytest.mark.parametrize("action", ["start", "stop", "kill", "wait", "resize", "attach"])
def test_no_settings_come_with_a_start(door, engine, action):
    settings = {"Binds": ["/:/host"], "Privileged": True}

    status, said = ask(door, "POST", f"/v1.23/containers/{OWN}/{action}", settings)

    assert (status, engine.lines()) == (403, [])
    assert "a body where there is none" in said["message"]


@pytest.mark.parametrize(
    ("newest", "oldest", "spoken"),
    [("1.41", "1.12", "1.41"), ("1.52", "1.44", "1.44"), ("1.30", "1.12", "1.30")],
)
def test_one_version_of_the_api_is_spoken(door, engine, newest, oldest, spoken):
    engine.version = {**VERSION, "ApiVersion": newest, "MinAPIVersion": oldest}

    ask(door, "POST", f"/v1.18/containers/{OWN}/start")

    assert engine.lines() == [f"POST /v{spoken}/containers/{OWN}/start"]


@pytest.mark.parametrize("version", [{}, {"ApiVersion": "1.23", "MinAPIVersion": "1.12"}])
def test_an_engine_that_takes_settings_at_a_start_is_not_asked(door, engine, version):
    engine.version = version

    assert ask(door, "POST", f"/containers/{OWN}/start")[0] == 502
    assert engine.lines() == []
    engine.version = VERSION


def test_a_new_container_has_nothing_that_reaches_outside(door, engine):
    status, said = create(
        door,
        Image="docker.io/library/postgres:17",
        Cmd=["postgres"],
        Env=["A=1"],
        Labels={"mine": "1", "chimera.owner": "1-1", "chimera.door": "another"},
        Volumes={"/host": {}},
        ExposedPorts={"5432/tcp": {}},
        HostConfig={"Privileged": True, "Binds": ["/:/host"], "NetworkMode": "host"},
        hostConfig={"Privileged": True},
        image="debian:bookworm",
        NetworkingConfig={"EndpointsConfig": {"bridge": {}}},
    )

    made = json.loads(engine.asked[-1][3])
    assert status == 201
    assert set(made) == {"Image", "Cmd", "Env", "Labels", "HostConfig"}
    assert made["Image"] == "postgres:17"
    assert made["Labels"]["mine"] == "1"
    assert f"chimera.door={made['Labels']['chimera.door']}" == door.label
    assert made["HostConfig"]["NetworkMode"] == "container:c0ffee"
    assert not {"Privileged", "Binds", "Mounts", "CapAdd"} & set(made["HostConfig"])
    assert {"Memory", "MemorySwap", "PidsLimit", "NanoCpus"} < set(made["HostConfig"])
    assert door.made[said["Id"]] == ["5432/tcp"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"ExposedPorts": 5},
        {"ExposedPorts": {"5432": {}}},
        {"Cmd": [1]},
        {"Env": "A=1"},
        {"Labels": {"a": {}}},
        {"Healthcheck": {"Test": ["x"], "Runtime": "y"}},
        {"Healthcheck": {"Interval": -1}},
        {"Tty": "yes"},
        {"Image": ["postgres:17"]},
        {"Image": "debian:bookworm"},
    ],
)
def test_settings_of_a_wrong_kind_are_refused_before_anything_is_made(door, engine, wrong):
    assert create(door, **wrong)[0] == 403
    assert engine.lines() == []


def test_a_command_inside_gains_no_privileges(door, engine):
    body = {"Cmd": ["id"], "Privileged": True, "privileged": True, "AttachStdout": True}

    assert ask(door, "POST", f"/containers/{OWN}/exec", body)[0] == 201
    assert json.loads(engine.asked[-1][3]) == {"Cmd": ["id"], "AttachStdout": True}


def test_a_file_goes_into_a_container_in_blocks(door, engine):
    content = b"tar" * 100_000
    query = "path=%2Ftmp&noOverwriteDirNonDir=false&copyUIDGID=false"

    assert ask(door, "PUT", f"/containers/{OWN}/archive?{query}", content)[0] == 204
    assert engine.asked[-1][3] == content
    assert engine.asked[-1][2]["Content-Type"] == "application/x-tar"


def test_of_the_engine_little_is_told(door):
    shown = [
        ask(door, "GET", path)[1]
        for path in ("/info", "/version", f"/containers/{OWN}/json", "/images/postgres:17/json",
                     "/containers/json", "/images/json", "/networks")
    ]  # fmt: skip

    info, version, container, image, listed, images, networks = shown
    kept = ("ServerVersion", "OperatingSystem", "OSType", "MemTotal")
    assert info == {**{key: INFO[key] for key in kept}, "Labels": []}
    assert (version["ApiVersion"], version["MinAPIVersion"]) == ("1.41", "1.24")
    assert container["State"] == {"Running": True}
    assert container["Config"]["Labels"] == {"mine": "1"}
    ports = container["NetworkSettings"]["Ports"]
    assert ports == {"5432/tcp": [{"HostIp": "127.0.0.1", "HostPort": "5432"}]}
    assert image == {"Id": "sha256:1", "RepoTags": ["postgres:17"], "RepoDigests": []}
    assert listed == [{"Id": OWN, "Labels": {}, "Ports": []}]
    assert (images, networks) == ([], [])
    for word in (
        "host-name",
        "user:word",
        "/var/lib",
        "KernelVersion",
        "c0ffee",
        "chimera",
        "/run",
    ):
        assert word not in json.dumps(shown)


def test_the_image_of_an_own_container_may_be_asked_for_by_its_digest(door, engine):
    path = f"/v1.32/images/{DIGEST}/json"

    before = ask(door, "GET", path)[0]
    ask(door, "GET", f"/containers/{OWN}/json")

    assert (before, ask(door, "GET", path)[0]) == (403, 200)
    assert engine.lines()[-1] == f"GET /v1.41/images/{DIGEST}/json"


def test_what_is_swept_at_the_end_of_a_run_is_nothing(door, engine):
    for kind in ("networks", "volumes", "images"):
        assert ask(door, "POST", f"/v1.32/{kind}/prune?filters=%7B%7D")[0] == 200
    assert engine.lines() == []


def test_a_list_keeps_its_filters_and_has_the_doors_label(door, engine):
    chosen = "%7B%22label%22%3A%5B%22a%3Db%22%5D%2C%22status%22%3A%7B%22running%22%3Atrue%7D%7D"

    assert ask(door, "GET", f"/containers/json?filters={chosen}")[0] == 200
    (text,) = parse_qs(urlsplit(engine.asked[-1][1]).query)["filters"]
    assert json.loads(text) == {"label": ["a=b", door.label], "status": ["running"]}


PING = b"GET /_ping HTTP/1.1\r\nHost: x\r\n"
CREATE = b"POST /containers/create HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "content",
    [
        b"\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"PATCH /_ping HTTP/1.1\r\n\r\n",
        b"GET http://x/_ping HTTP/1.1\r\n\r\n",
        b"GET /_ping\x85x HTTP/1.1\r\n\r\n",
        b"GET /_ping HTTP/2\r\n\r\n",
        PING + b"no colon\r\n\r\n",
        PING + b"A: 1\r\n folded: 2\r\n\r\n",
        PING + b"A: 1\n\nB: 2\r\n\r\n",
        PING + b"A: 1\rB: 2\r\n\r\n",
        PING + b"Transfer-Encoding : chunked\r\n\r\n",
        CREATE + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        CREATE + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        CREATE + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        CREATE + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        CREATE + b"Content-Length: -5\r\n\r\nhello",
        CREATE + b"Content-Length: 1_0\r\n\r\n0123456789",
        CREATE + b"Content-Length: %d\r\n\r\n" % (MOST_ARCHIVE + 1),
        CREATE + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
        CREATE + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n",
        CREATE + b"Transfer-Encoding: chunked\r\n\r\n80000000\r\n",
        CREATE + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}xx\r\n",
        CREATE + b"Expect: 200-ok\r\nContent-Length: 2\r\n\r\n{}",
        CREATE + b"Content-Length: 1\r\n\r\n{",
        CREATE + b"Content-Length: 100000\r\n\r\n" + b"[" * 100_000,
    ],
)
def test_what_is_malformed_is_said_to_be_and_nothing_is_printed(door, engine, capfd, content):
    said = raw(door, content)

    assert said.startswith(b"HTTP/1.1 400 ")
    assert b"not understood: " in said
    assert engine.lines() == []
    assert capfd.readouterr() == ("", "")


def test_what_is_cut_off_is_not_asked_for(door, engine, capfd):
    for content in (b"", b"GET /_pi", CREATE + b"Content-Length: 50\r\n\r\n{}"):
        client = Client(door)
        client.connect()
        client.sock.sendall(content)
        client.sock.shutdown(socket.SHUT_WR)
        assert client.sock.recv(100)[:12] in (b"", b"HTTP/1.1 400")
        client.close()

    assert engine.lines() == []
    assert capfd.readouterr() == ("", "")


def test_other_protocols_are_not_spoken(door, engine):
    h2c = (
        PING + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n"
    )

    assert raw(door, h2c).startswith(b"HTTP/1.1 200 ")
    assert raw(door, PING + b"\r\n" + CREATE + b"\r\n").count(b"HTTP/1.1") == 1
    assert engine.lines() == []


def test_a_long_body_is_not_held(door, engine):
    before = resident()
    client = Client(door)
    client.connect()
    client.sock.sendall(CREATE + b"Transfer-Encoding: chunked\r\n\r\n10000000\r\n")
    with contextlib.suppress(OSError):
        for _ in range(200):
            client.sock.sendall(b"x" * 2**20)
    client.close()

    assert resident() - before < 32 * 2**20
    assert ask(door, "POST", "/containers/create", b" " * (MOST_JSON + 1))[0] == 400
    assert engine.lines() == []


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_only_so_many_containers_at_once(door, engine):
    engine.slow.clear()
    status: list[int] = []
    threads = [
        threading.Thread(target=lambda: status.append(create(door)[0]))
        for _ in range(MOST_CONTAINERS + 4)
    ]
    for thread in threads:
        thread.start()
    engine.slow.set()
    for thread in threads:
        thread.join()

    assert sorted(status) == [201] * (MOST_CONTAINERS - 1) + [403] * 5  # the fixture has one
    assert "more than 8 containers at once" in create(door)[1]["message"]
    assert ask(door, "DELETE", f"/containers/{OWN}?force=1")[0] == 204
    assert create(door)[0] == 201


def test_only_so_many_connections_at_once(door):
    held = []
    for _ in range(MOST_CONNECTIONS):
        client = Client(door)
        client.connect()
        client.sock.sendall(b"GET ")
        held.append(client)

    assert raw(door, b"").startswith(b"HTTP/1.1 503 ")
    for client in held:
        client.close()
    deadline = time.monotonic() + 20
    while (said := ask(door, "GET", "/_ping"))[0] == 503 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert said == (200, b"OK")


@pytest.mark.parametrize("chunked", [False, True])
def test_who_waits_for_leave_to_send_a_body_gets_it_from_the_door(door, engine, chunked):
    text = json.dumps({"Image": "postgres:17"}).encode()
    framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(text)
    client = Client(door)
    client.connect()
    client.sock.sendall(CREATE + b"Expect: 100-continue\r\n" + framing + b"\r\n\r\n")
    assert client.sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.sock.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(text), text) if chunked else text)

    assert client.sock.recv(1000).startswith(b"HTTP/1.1 201 ")
    assert len(door.made) == 2
    assert "Expect" not in engine.asked[-1][2]
    client.close()


def test_an_answer_that_only_says_that_one_comes_is_none():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        body = b'HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\n{"Id": 1}'
        theirs.sendall(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 X\r\n\r\n" + body)
        said = read_answer(ours)

        assert (said.status, said.json()) == (201, {"Id": 1})


def test_a_closed_door_serves_nobody_and_leaves_nothing(door, engine):
    early = [Client(door) for _ in range(3)]
    for client in early:
        client.connect()
    early[2].sock.sendall(b"POST /containers/cre")
    create(door)
    create(door)
    engine.containers["d" * 64] = marked(door)  # one that the door was never told of
    time.sleep(0.2)

    door.close()

    asked = len(engine.asked)
    assert engine.containers == {OTHER: {}}
    for client in early:
        with contextlib.suppress(OSError):
            client.sock.sendall(CREATE + b"Content-Length: 23\r\n\r\n" + b'{"Image":"postgres:17"}')
            assert client.sock.recv(100) == b""
        client.close()
    assert len(engine.asked) == asked
    with pytest.raises(OSError, match="No such file"):
        ask(door, "GET", "/_ping")


def test_a_container_that_is_being_made_does_not_outlive_the_door(door, engine):
    engine.slow.clear()

    def make() -> None:
        with contextlib.suppress(OSError):  # the answer may come too late for the door
            create(door)

    making = threading.Thread(target=make)
    making.start()
    while not engine.asked or not engine.asked[-1][1].endswith("/create"):
        time.sleep(0.01)
    closing = threading.Thread(target=door.close)
    closing.start()
    time.sleep(0.2)
    engine.slow.set()
    closing.join(20)
    making.join(20)

    assert engine.made == 1
    assert engine.containers == {OTHER: {}}


@pytest.mark.parametrize(
    ("host", "place"),
    [(None, ENGINE_SOCKET), ("", ENGINE_SOCKET), ("unix:///run/own.sock", "/run/own.sock")],
)
def test_the_door_leads_to_the_engine_of_the_client(monkeypatch, host, place):
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    if host is not None:
        monkeypatch.setenv("DOCKER_HOST", host)

    assert engine_socket() == place


def test_an_engine_on_another_machine_has_no_door(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")

    with pytest.raises(UsageError, match="on this machine alone"):
        EngineDoor(["postgres:17"], tmp_path, "c0ffee")


ASKS = """
import http.client, json, socket, sys

class Engine(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])

def ask(method, path, body=None):
    engine = Engine("localhost")
    engine.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
    answer = engine.getresponse()
    text = answer.read()
    return answer.status, json.loads(text) if text[:1] in b"{[" and text else text

image = sys.argv[2]
serve = "exec python3 -m http.server 8000 --directory /etc"
status, made = ask("POST", "/containers/create",
    {"Image": image, "Cmd": ["sh", "-c", serve], "ExposedPorts": {"8000/tcp": {}}})
print("create", status)
print("start", ask("POST", f"/containers/{made['Id']}/start")[0])
seen = ask("GET", f"/containers/{made['Id']}/json")[1]
print("ports", seen["NetworkSettings"]["Ports"]["8000/tcp"][0]["HostPort"])
print("listed", len(ask("GET", "/containers/json")[1]))
import time, urllib.request
for _ in range(100):
    try:
        print("served", urllib.request.urlopen("http://localhost:8000/hostname").status)
        break
    except OSError:
        time.sleep(0.1)
status, run = ask("POST", f"/containers/{made['Id']}/exec",
    {"Cmd": ["sh", "-c", "echo hello; exit 3"], "AttachStdout": True})
text = ask("POST", f"/exec/{run['Id']}/start", {"Detach": False, "Tty": False})[1]
ended = ask("GET", f"/exec/{run['Id']}/json")[1]
print("exec", status, text[8:].decode().strip(), ended["ExitCode"])
text = ask("GET", f"/containers/{made['Id']}/logs?stdout=true&stderr=true&since=0")[1]
print("logs", b"GET /hostname" in text)
print("other", ask("POST", "/containers/create", {"Image": "other:1"})[0])
smuggler = Engine("localhost")
smuggler.connect()
smuggler.sock.sendall(f"GET /containers/{made['Id']}/logs?stdout=1 HTTP/1.1\\r\\nHost: x\\r\\n"
    "Connection: Upgrade\\r\\nUpgrade: tcp\\r\\n\\r\\nGET /containers/json?all=1 HTTP/1.1\\r\\n"
    "Host: x\\r\\n\\r\\n".encode())
smuggler.sock.settimeout(3)
got = b""
try:
    while block := smuggler.sock.recv(65536):
        got += block
except TimeoutError:
    pass
print("smuggled", got.count(b"HTTP/1.1 "))
print("kill", ask("POST", f"/containers/{made['Id']}/kill")[0])
print("remove", ask("DELETE", f"/containers/{made['Id']}?v=true&force=true")[0])
print("gone", ask("GET", f"/containers/{made['Id']}/json")[0])
ask("POST", "/containers/create", {"Image": image, "Cmd": ["true"]})
"""


def test_a_confined_container_starts_one_beside_it_and_reaches_it(docker_image, tmp_path):
    image = docker_image
    spec = EnvironmentSpec(image=image, mounts={str(tmp_path): DOOR})
    with DockerEnvironment.start(spec) as env, EngineDoor([image], tmp_path, env.container) as door:
        done = env.run_command(["python3", "-c", ASKS, f"{DOOR}/{SOCKET}", image])
        made = list(door.made)
        door.close()
        listed = env._engine.must("ps", "-aq", "--filter", f"label={door.label}")
        shut = env.run_command(["ls", DOOR]).output

    assert done.output.splitlines() == [
        "create 201",
        "start 204",
        "ports 8000",
        "listed 1",
        "served 200",
        "exec 201 hello 3",
        "logs True",
        "other 403",
        "smuggled 1",
        "kill 204",
        "remove 204",
        "gone 404",
    ], done.output
    assert len(made) == 2
    assert (listed, shut) == (b"", "")
