"""A stand-in for Daytona: its API, and the terminals of its toolbox, over WebSockets."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import pty
import select
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.environments.remote.clusters import masked_frame
from tests.environments.remote.rented import KEY, Handler, Refused, Rented, Service, serving

SNAPSHOT = "python-3.12"
IMAGES = "registry.test/"


class Daytona(Service):
    address = ""

    def create(self, asked: dict[str, Any]) -> dict[str, Any]:
        image = (asked.get("buildInfo") or {}).get("dockerfileContent", "")
        if asked.get("snapshot") != SNAPSHOT and not image.startswith(f"FROM {IMAGES}"):
            said = f"Snapshot {asked.get('snapshot')} not found. Did you add it?"
            raise Refused(400, said)
        assert asked["autoDeleteInterval"] == 0
        assert asked["ttlMinutes"] > 0
        return self.told(self.rent(asked, network=not asked["networkBlockAll"]))

    def told(self, rented: Rented) -> dict[str, Any]:
        asked = rented.asked
        return {"id": rented.name, "organizationId": "o", "name": rented.name, "target": "t",
                "user": asked.get("user") or "daytona", "env": {}, "labels": asked["labels"],
                "snapshot": asked.get("snapshot"), "public": False, "networkBlockAll": True,
                "cpu": 1, "gpu": 0, "memory": 1, "disk": 1, "state": "started", "kvm": False,
                "toolboxProxyUrl": f"{self.address}/toolbox"}  # fmt: skip


class DaytonaHandler(Handler):
    service: Daytona

    def do_GET(self) -> None:
        if self.path.startswith("/toolbox/") and "/process/pty/create-connect" in self.path:
            with suppress(OSError):
                self.terminal(self.path.split("/")[2])
            self.close_connection = True
        else:
            self.answer("GET")

    def do_POST(self) -> None:
        self.answer("POST")

    def do_DELETE(self) -> None:
        self.answer("DELETE")

    def answer(self, verb: str) -> None:
        content = self.body()
        try:
            self.say(200, self.api(verb, json.loads(content or b"{}")))
        except Refused as refused:
            said = {"statusCode": refused.code, "message": str(refused)}
            self.say(refused.code, said)

    def api(self, verb: str, asked: dict[str, Any]) -> Any:
        service = self.service
        given = self.headers.get("Authorization")
        if given != f"Bearer {KEY}":
            raise Refused(401, f"Invalid credentials {given}")
        if not self.path.startswith("/api/sandbox"):
            raise Refused(404, "no such path")  # events come over polling
        if verb == "POST":
            return service.create(asked)
        name = self.path.split("/")[3].partition("?")[0]
        if name not in service.sandboxes:
            raise Refused(404, f"Sandbox with ID or name {name} not found")
        said = service.told(service.sandboxes[name])
        if verb == "DELETE":
            service.end(name)
            return {**said, "state": "destroyed"}
        return said

    # --- a terminal

    def terminal(self, name: str) -> None:
        rented = self.service.sandboxes.get(name)
        if rented is None:
            self.say(404, {"message": "sandbox not found"})
            return
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.send_header("Sec-WebSocket-Accept", accept)
        self.send_header("Sec-WebSocket-Protocol", "X-Daytona-Pty-Exit-Control")
        self.end_headers()
        master, slave = pty.openpty()
        shell = ["env", "TERM=xterm", "bash", "--norc", "-i"]
        process = rented.start(
            shell, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        time.sleep(0.3)  # a network's; the package takes a tenth of a second for an end
        self.frame(b'{"type": "control", "status": "connected"}', 1)
        try:
            self.carry(master)
        finally:
            os.close(master)
            code = process.wait()
        if not rented.ended:
            said = {"type": "control", "status": "exited", "exitCode": code}
            self.frame(json.dumps(said).encode(), 1)
            self.frame(struct.pack(">H", 1000) + json.dumps({"exitCode": code}).encode(), 8)

    def carry(self, master: int) -> None:
        os.set_blocking(master, False)
        incoming, waiting = bytearray(), bytearray()
        while True:
            poll = select.poll()
            poll.register(self.connection, select.POLLIN)
            poll.register(master, select.POLLIN | (select.POLLOUT if waiting else 0))
            ready = dict(poll.poll())
            if self.connection.fileno() in ready:
                data = self.connection.recv(1 << 16)
                if not data:
                    return
                incoming += data
                while (found := masked_frame(incoming)) is not None:
                    kind, content, size = found
                    del incoming[:size]
                    if kind == 9:
                        self.frame(content, 10)
                    elif kind == 8:
                        return
                    else:
                        waiting += content
            if ready.get(master, 0) & select.POLLIN:
                try:
                    self.frame(self.service.spoiled(os.read(master, 1 << 12)), 2)
                except OSError:
                    return
            elif ready.get(master, 0) & (select.POLLHUP | select.POLLERR):
                return
            if waiting:
                with suppress(BlockingIOError):
                    del waiting[: os.write(master, waiting[:4096])]

    def frame(self, content: bytes, kind: int) -> None:
        size = len(content)
        head = struct.pack(">BB", 0x80 | kind, size) if size < 126 else (
            struct.pack(">BBH", 0x80 | kind, 126, size)
        )  # fmt: skip
        if self.service.halve and kind == 2:
            self.service.halve = False
            self.connection.sendall((head + content)[: len(head) + size // 2])
            raise ConnectionResetError
        self.connection.sendall(head + content)


@contextmanager
def daytona(folder: Path) -> Iterator[tuple[Daytona, dict[str, str]]]:
    """The service, and the variables by which its package finds it."""
    service = Daytona(folder)
    with serving(service, DaytonaHandler) as address:
        service.address = address
        yield service, {"DAYTONA_API_KEY": KEY, "DAYTONA_API_URL": f"{address}/api"}
