"""A server of our own that speaks the part of Kubernetes' interface that Chimera uses.

It is no cluster: its "pods" are boxes on this machine (`boxes.py`). What it refuses follows the
published reference of the API; it was never held against a real one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import select
import shlex
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.environments.remote import boxes
from tests.environments.remote.boxes import Box

V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
IMAGE = "registry.test/python:3.11"
NODE = {"disk": "ssd"}
POD_FIELDS = {
    "restartPolicy", "automountServiceAccountToken", "enableServiceLinks", "activeDeadlineSeconds",
    "terminationGracePeriodSeconds", "containers", "volumes", "dnsPolicy", "dnsConfig", "hostUsers",
    "runtimeClassName", "nodeSelector",
}  # fmt: skip
CONTAINER_FIELDS = {"name", "image", "command", "resources", "securityContext", "volumeMounts"}


class Refused(Exception):
    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason

    def status(self) -> dict[str, Any]:
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": str(self), "reason": self.reason, "code": self.code}  # fmt: skip


@dataclass(eq=False)
class Pod:
    body: dict[str, Any]
    root: Path
    status: dict[str, Any]
    box: Box | None = None
    timer: threading.Timer | None = None

    @property
    def container(self) -> dict[str, Any]:
        return dict(self.body["spec"]["containers"][0])

    def kill(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.box is not None:
            self.box.kill()

    def fail(self, reason: str, message: str) -> None:
        """What the node's kubelet does: it ends the containers and tells why."""
        self.kill()
        state = {"terminated": {"exitCode": 137, "reason": "Error"}}
        self.status = {"phase": "Failed", "reason": reason, "message": message,
                       "containerStatuses": [self.container_status(state)]}  # fmt: skip

    def container_status(self, state: dict[str, Any]) -> dict[str, Any]:
        name = self.container["image"]
        digest = hashlib.sha256(name.encode()).hexdigest()
        return {"name": "environment", "image": name, "imageID": f"{name}@sha256:{digest}",
                "ready": "running" in state, "restartCount": 0, "state": state}  # fmt: skip


@dataclass(eq=False)
class Cluster:
    folder: Path
    token: str = "let-me-in"
    protocols: tuple[str, ...] = (V5, V4)
    quota: int = 1000
    refused: set[tuple[str, str]] = field(default_factory=set)  # verb and resource
    halve: bool = False  # the next output breaks off in the middle of a frame
    pods: dict[str, Pod] = field(default_factory=dict)
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)  # the requests, as an audit log has them
    connections: set[Any] = field(default_factory=set)
    lock: threading.RLock = field(default_factory=threading.RLock)

    # --- what the API server does

    def create_pod(self, body: dict[str, Any]) -> dict[str, Any]:
        validate(body)
        with self.lock:
            if len(self.pods) >= self.quota:
                used = f"used: pods={self.quota}, limited: pods={self.quota}"
                said = f'pods "x" is forbidden: exceeded quota: few, requested: pods=1, {used}'
                raise Refused(403, "Forbidden", said)
            name = body["metadata"]["name"]
            pod = Pod(body, self.folder / name, {"phase": "Pending"})
            self.pods[name] = pod
        threading.Thread(target=self.run, args=(pod,), daemon=True).start()
        return self.told(pod)

    def told(self, pod: Pod) -> dict[str, Any]:
        meta = {**pod.body["metadata"], "namespace": "tests", "uid": pod.body["metadata"]["name"]}
        return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": pod.body["spec"],
                "status": pod.status}  # fmt: skip

    def pod(self, name: str) -> Pod:
        if name not in self.pods:
            raise Refused(404, "NotFound", f'pods "{name}" not found')
        return self.pods[name]

    def delete_pod(self, name: str) -> dict[str, Any]:
        with self.lock:
            pod = self.pod(name)
            del self.pods[name]
        pod.kill()
        return self.told(pod)

    def create_policy(self, body: dict[str, Any]) -> dict[str, Any]:
        name = body["metadata"]["name"]
        if name in self.policies:
            raise Refused(409, "AlreadyExists", f'networkpolicies "{name}" already exists')
        self.policies[name] = body
        return body

    def cut_off(self, pod: Pod) -> bool:
        labels = pod.body["metadata"]["labels"].items()
        return any(
            each["spec"]["podSelector"]["matchLabels"].items() <= labels
            and "Egress" in each["spec"]["policyTypes"]
            and not each["spec"].get("egress")
            for each in self.policies.values()
        )

    # --- what scheduler and kubelet do

    def run(self, pod: Pod) -> None:
        spec = pod.body["spec"]
        if not (spec.get("nodeSelector") or {}).items() <= NODE.items():
            pod.status = {"phase": "Pending", "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/1 nodes are available: 1 node(s) didn't match Pod's node "
                           "affinity/selector."}]}  # fmt: skip
            return
        if not pod.container["image"].startswith("registry.test/"):
            for reason in ("ErrImagePull", "ImagePullBackOff"):
                said = {"reason": reason, "message": f"{pod.container['image']}: not found"}
                status = pod.container_status({"waiting": said})
                pod.status = {"phase": "Pending", "containerStatuses": [status]}
                time.sleep(1)
            return
        self.start(pod)
        pod.timer = threading.Timer(
            spec["activeDeadlineSeconds"], pod.fail,
            ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline"),
        )  # fmt: skip
        pod.timer.daemon = True
        pod.timer.start()
        status = pod.container_status({"running": {}})
        pod.status = {"phase": "Running", "containerStatuses": [status]}
        assert pod.box is not None
        pod.box.process.wait()  # it would end with the thread that started it

    def start(self, pod: Pod) -> None:
        pod.box = Box(pod.root, pod.container["command"], network=not self.cut_off(pod))

    def entering(self, pod: Pod, command: list[str]) -> list[str]:
        """The command line that runs `command` in a pod."""
        security = pod.container["securityContext"]
        becoming: list[str] = []
        if security.get("capabilities", {}).get("drop") == ["ALL"]:
            becoming += ["--bounding-set=-all", "--inh-caps=-all"]
        if security.get("allowPrivilegeEscalation") is False:
            becoming += ["--no-new-privs"]
        if "runAsUser" in security:
            user = str(security["runAsUser"])
            becoming += ["--reuid", user, "--regid", user, "--clear-groups"]
        assert pod.box is not None
        return pod.box.entering(command, becoming)

    # --- for tests

    def kubeconfig(self, token: str | None = None, port: int | None = None) -> Path:
        path = self.folder / f"config-{token or 'own'}-{port or 'own'}"
        user = {"token": token or self.token}
        cluster = {"server": f"https://127.0.0.1:{port or self.port}",
                   "certificate-authority": str(self.folder / "cert.pem")}  # fmt: skip
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "tests",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "me", "user": user}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "me"}}],
        }))  # fmt: skip
        return path

    def address(self, **settings: str) -> str:
        python = f"{sys.base_prefix}/bin/python3"
        all_of_them = {"image": IMAGE, "python": python, "config": str(self.kubeconfig())}
        chosen = {**all_of_them, **settings}.items()
        return "k8s://tests?" + "&".join(f"{key}={text}" for key, text in chosen if text)

    def die(self) -> None:
        assert self.server is not None
        self.server.shutdown()
        self.server.server_close()
        self.drop_connections()

    def drop_connections(self) -> None:
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    port: int = 0
    server: ThreadingHTTPServer | None = None


def validate(body: dict[str, Any]) -> None:
    """The rules of the reference for what Chimera says of a pod."""
    spec, (container,) = body["spec"], body["spec"]["containers"]
    wrong = [*(set(spec) - POD_FIELDS), *(set(container) - CONTAINER_FIELDS)]
    labels = body["metadata"]["labels"]
    wrong += [
        text for text in labels.values()
        if not re.fullmatch(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?", text)
    ]  # fmt: skip
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", body["metadata"]["name"]):
        wrong.append("metadata.name")
    if spec.get("dnsPolicy") == "None" and not spec.get("dnsConfig", {}).get("nameservers"):
        wrong.append("dnsConfig.nameservers: must provide at least one DNS nameserver")
    if container["securityContext"].get("procMount") == "Unmasked" and spec.get("hostUsers", True):
        wrong.append("procMount: `hostUsers` must be false to use `Unmasked`")
    for amount in container["resources"]["limits"].values():
        if not re.fullmatch(r"\d+(\.\d+)?(m|Ki|Mi|Gi|k|M|G)?", amount):
            wrong.append(amount)
    if wrong:
        raise Refused(422, "Invalid", f"Pod is invalid: {wrong}")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster: Cluster

    def log_message(self, format: str, *arguments: Any) -> None:
        self.cluster.seen.append(format % arguments)

    def setup(self) -> None:
        super().setup()
        self.cluster.connections.add(self.connection)

    def finish(self) -> None:
        self.cluster.connections.discard(self.connection)
        with suppress(OSError):
            super().finish()

    def do_GET(self) -> None:
        self.answer("get")

    def do_POST(self) -> None:
        self.answer("create")

    def do_DELETE(self) -> None:
        self.answer("delete")

    def answer(self, verb: str) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size) or b"{}")
        try:
            code, said = 200 if verb != "create" else 201, self.serve(verb, body)
        except Refused as refused:
            code, said = refused.code, refused.status()
        if said is None:
            self.close_connection = True
            return
        content = json.dumps(said).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def serve(self, verb: str, body: dict[str, Any]) -> dict[str, Any] | None:
        cluster, parts = self.cluster, urlsplit(self.path).path.strip("/").split("/")
        if self.headers.get("Authorization") != f"Bearer {cluster.token}":
            raise Refused(401, "Unauthorized", "Unauthorized")
        if parts[-1] == "selfsubjectaccessreviews":
            asked = body["spec"]["resourceAttributes"]
            what = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
            allowed = (asked["verb"], what) not in cluster.refused
            return {**body, "status": {"allowed": allowed}}
        kind, name, below = [*parts[parts.index("namespaces") + 2 :], "", ""][:3]
        what = f"{kind}/{below}" if below else kind
        if (verb, what) in cluster.refused:
            said = f'User "me" cannot {verb} resource "{what}" in the namespace "tests"'
            raise Refused(403, "Forbidden", f"{what} is forbidden: {said}")
        if parts[parts.index("namespaces") + 1] != "tests":
            raise Refused(404, "NotFound", "namespaces not found")
        if kind == "networkpolicies":
            if verb == "create":
                return cluster.create_policy(body)
            if name not in cluster.policies:
                raise Refused(404, "NotFound", f'networkpolicies "{name}" not found')
            return cluster.policies[name]
        if verb == "create":
            return cluster.create_pod(body)
        if verb == "delete":
            return cluster.delete_pod(name)
        if below != "exec":
            return cluster.told(cluster.pod(name))
        return self.execute(cluster.pod(name))

    def execute(self, pod: Pod) -> None:
        offered = self.headers.get("Sec-WebSocket-Protocol", "").replace(" ", "").split(",")
        chosen = [each for each in self.cluster.protocols if each in offered]
        if not chosen:
            raise Refused(400, "BadRequest", "unable to upgrade: no known protocol")
        if pod.status["phase"] != "Running":
            raise Refused(500, "InternalError", "cannot exec in a stopped container")
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.send_header("Sec-WebSocket-Accept", accept)
        self.send_header("Sec-WebSocket-Protocol", chosen[0])
        self.end_headers()
        command = parse_qs(urlsplit(self.path).query)["command"]
        with suppress(OSError):
            Exec(self.cluster, self.connection, chosen[0] == V5).carry(pod, command)


class Exec:
    """One command: frames on one side, three pipes on the other."""

    def __init__(self, cluster: Cluster, connection: ssl.SSLSocket, half_closing: bool) -> None:
        self.cluster, self.connection, self.half_closing = cluster, connection, half_closing
        self.incoming, self.waiting, self.ending = bytearray(), bytearray(), False

    def carry(self, pod: Pod, command: list[str]) -> None:
        missing = command[0].startswith("/") and not Path(command[0]).exists()
        if missing:
            said = f'exec: "{command[0]}": stat {command[0]}: no such file or directory'
            self.end({"status": "Failure", "message": said, "reason": "InternalError",
                      "details": {"causes": [{"message": said}]}, "code": 500})  # fmt: skip
            return
        process = subprocess.Popen(
            self.cluster.entering(pod, command),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        os.set_blocking(process.stdin.fileno(), False)
        try:
            self.pump(process)
        finally:  # a kubelet closes the streams, and leaves the process alone
            for stream in (process.stdin, process.stdout, process.stderr):
                stream.close()
            process.wait()
        self.end(ended(process.returncode))

    def pump(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        channels = {process.stdout.fileno(): 1, process.stderr.fileno(): 2}
        while channels:
            poll = select.poll()
            poll.register(self.connection, select.POLLIN)
            for descriptor in channels:
                poll.register(descriptor, select.POLLIN)
            if self.waiting:
                poll.register(process.stdin, select.POLLOUT)
            ready = dict(poll.poll(0 if self.connection.pending() else None))
            if self.connection.fileno() in ready or self.connection.pending():
                self.hear()
            for descriptor in list(channels):
                if descriptor in ready:
                    data = os.read(descriptor, 1 << 15)
                    if data:
                        self.say(bytes([channels[descriptor]]) + data)
                    else:
                        del channels[descriptor]
            self.feed(process)

    def feed(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin
        if self.waiting:
            try:
                del self.waiting[: os.write(process.stdin.fileno(), self.waiting)]
            except BlockingIOError:
                return
            except BrokenPipeError:
                self.waiting.clear()
        if self.ending and not self.waiting and not process.stdin.closed:
            process.stdin.close()

    def hear(self) -> None:
        data = self.connection.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        self.incoming += data
        while (found := masked_frame(self.incoming)) is not None:
            kind, content, size = found
            del self.incoming[:size]
            if kind == 8:
                raise ConnectionResetError
            if kind == 9:
                self.say(content, 10)
            elif kind == 2 and content[:1] == b"\0":
                self.waiting += content[1:]
            elif kind == 2 and content == b"\xff\0" and self.half_closing:
                self.ending = True

    def say(self, content: bytes, kind: int = 2) -> None:
        size = len(content)
        if size < 126:
            head = struct.pack(">BB", 0x80 | kind, size)
        elif size < 1 << 16:
            head = struct.pack(">BBH", 0x80 | kind, 126, size)
        else:
            head = struct.pack(">BBQ", 0x80 | kind, 127, size)
        if self.cluster.halve and kind == 2:
            self.cluster.halve = False
            self.connection.sendall((head + content)[: len(head) + size // 2])
            raise ConnectionResetError
        self.connection.sendall(head + content)

    def end(self, status: dict[str, Any]) -> None:
        self.say(b"\3" + json.dumps({"metadata": {}, **status}).encode())
        self.say(struct.pack(">H", 1000), 8)


def ended(code: int) -> dict[str, Any]:
    if code == 0:
        return {"status": "Success"}
    number = code if code > 0 else 128 - code
    said = f"command terminated with non-zero exit code: exit status {number}"
    causes = [{"reason": "ExitCode", "message": str(number)}]
    return {"status": "Failure", "message": said, "reason": "NonZeroExitCode",
            "details": {"causes": causes}}  # fmt: skip


def masked_frame(data: bytearray) -> tuple[int, bytes, int] | None:
    """A client's frame at the start: its kind, content and length; None while it is not whole."""
    if len(data) < 2:
        return None
    size, start = data[1] & 127, 2
    if size > 125:
        width = 2 if size == 126 else 8
        if len(data) < 2 + width:
            return None
        size, start = int.from_bytes(data[2 : 2 + width], "big"), 2 + width
    if len(data) < start + 4 + size:
        return None
    mask, masked = bytes(data[start : start + 4]), data[start + 4 : start + 4 + size]
    key = int.from_bytes((mask * (size // 4 + 1))[:size], "big")
    content = (int.from_bytes(masked, "big") ^ key).to_bytes(size, "big")
    return data[0] & 15, content, start + 4 + size


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections that end are what some tests are about."""


@contextmanager
def cluster(folder: Path, **settings: Any) -> Iterator[Cluster]:
    """A cluster on the loopback, for as long as a block runs."""
    subprocess.run(
        shlex.split(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
            "-keyout key.pem -out cert.pem -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
        ),
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    made = Cluster(folder, **settings)
    handler = type("Handler", (Handler,), {"cluster": made})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    with Server(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        made.port, made.server = server.server_address[1], server
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        try:
            yield made
        finally:
            server.shutdown()
            made.drop_connections()
            for pod in made.pods.values():
                pod.kill()


def lacking() -> str | None:
    """What this machine lacks for it."""
    return boxes.lacking() or (
        None if shutil.which("openssl") is not None else "openssl is not installed"
    )
