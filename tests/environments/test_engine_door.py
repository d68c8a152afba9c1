"""What the door to a container engine lets through, and what not."""

from __future__ import annotations

import json

import pytest

from chimera.environments.base import EnvironmentSpec
from chimera.environments.docker import DockerEnvironment
from chimera.environments.engine_door import (
    DOOR,
    ENGINE_SOCKET,
    SOCKET,
    EngineDoor,
    Refused,
    Request,
    engine_socket,
)
from chimera.errors import UsageError

OWN, OTHER = "a" * 64, "b" * 64


@pytest.fixture
def door(tmp_path):
    door = EngineDoor(["postgres:17"], tmp_path / "door", container="c0ffee")
    door.made[OWN] = {"5432/tcp": {}}
    door.executions.add(OWN)
    return door


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/_ping"),
        ("GET", "/v1.41/info"),
        ("GET", "/containers/json?all=true"),
        ("GET", "/images/postgres:17/json"),
        ("GET", f"/v1.41/containers/{OWN}/logs?follow=true"),
        ("POST", f"/containers/{OWN}/start"),
        ("DELETE", f"/containers/{OWN}?v=true&force=true"),
        ("PUT", f"/containers/{OWN}/archive?path=/tmp"),
        ("POST", f"/exec/{OWN}/start"),
    ],
)
def test_it_lets_through_what_tests_need(door, method, target):
    assert door.admitted(Request(method, target, {})).method == method


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/images/debian:bookworm/json"),
        ("POST", "/images/create?fromImage=postgres&tag=17"),
        ("POST", "/build"),
        ("POST", "/volumes/create"),
        ("POST", "/networks/create"),
        ("POST", "/swarm/init"),
        ("GET", f"/containers/{OTHER}/json"),
        ("POST", f"/containers/{OTHER}/exec"),
        ("GET", f"/containers/{OTHER}/archive?path=/etc"),
        ("DELETE", f"/containers/{OTHER}"),
        ("POST", f"/exec/{OTHER}/start"),
        ("POST", f"/containers/{OWN}/update"),
        ("POST", f"/containers/{OWN}/../{OTHER}/start"),
        ("GET", f"/containers/{OWN}%2f..%2f{OTHER}/json"),
    ],
)
def test_it_refuses_everything_else(door, method, target):
    with pytest.raises(Refused):
        door.admitted(Request(method, target, {}, b"{}"))


def test_a_new_container_has_nothing_that_reaches_outside(door):
    asked = {
        "Image": "docker.io/library/postgres:17",
        "Cmd": ["postgres"],
        "Env": ["A=1"],
        "Volumes": {"/host": {}},
        "ExposedPorts": {"5432/tcp": {}},
        "HostConfig": {"Privileged": True, "Binds": ["/:/host"], "NetworkMode": "host"},
        "NetworkingConfig": {"EndpointsConfig": {"bridge": {}}},
    }

    request = door.admitted(Request("POST", "/containers/create", {}, json.dumps(asked).encode()))

    made = json.loads(request.body)
    assert set(made) == {"Image", "Cmd", "Env", "Labels", "HostConfig"}
    assert made["Image"] == "postgres:17"
    assert made["HostConfig"]["NetworkMode"] == "container:c0ffee"
    assert not {"Privileged", "Binds", "Mounts", "CapAdd"} & set(made["HostConfig"])


def test_a_command_inside_gains_no_privileges(door):
    body = json.dumps({"Cmd": ["id"], "Privileged": True}).encode()

    request = door.admitted(Request("POST", f"/containers/{OWN}/exec", {}, body))

    assert json.loads(request.body) == {"Cmd": ["id"]}


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
        EngineDoor(["postgres:17"], tmp_path)


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
"""


def test_a_confined_container_starts_one_beside_it_and_reaches_it(docker_image, tmp_path):
    image = docker_image
    door = EngineDoor([image], tmp_path / "door")
    door.directory.mkdir()
    door.open()
    spec = EnvironmentSpec(image=image, mounts=door.mounts())
    try:
        with DockerEnvironment.start(spec) as env:
            door.container = env.container
            done = env.run_command(["python3", "-c", ASKS, f"{DOOR}/{SOCKET}", image])
            made = list(door.made)
    finally:
        door.close()

    assert done.output.splitlines() == [
        "create 201",
        "start 204",
        "ports 8000",
        "listed 1",
        "served 200",
        "other 403",
        "smuggled 1",
    ], done.output
    assert len(made) == 1
