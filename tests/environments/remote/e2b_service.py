"""A stand-in for E2B: its API, and the Connect calls of `envd`, which runs commands there."""

from __future__ import annotations

import base64
import json
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.environments.remote.rented import KEY, Handler, Refused, Rented, Service, serving

TEMPLATE = "base"
GONE = {"message": "The sandbox was not found", "code": 502}


class E2B(Service):
    longest = 86_400

    def create(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked["templateID"] != TEMPLATE:
            raise Refused(404, f"template '{asked['templateID']}' not found")
        if asked["timeout"] > self.longest:
            raise Refused(400, "Timeout cannot be greater than 1 hours")
        return self.told(self.rent(asked, network=asked["allow_internet_access"]))

    def told(self, rented: Rented) -> dict[str, Any]:
        return {"templateID": "tpl", "sandboxID": rented.name, "clientID": "c",
                "envdVersion": "0.6.4", "envdAccessToken": f"token-{rented.name}"}  # fmt: skip

    def detail(self, rented: Rented) -> dict[str, Any]:
        return {**self.told(rented), "startedAt": "2026-01-01T00:00:00Z", "cpuCount": 2,
                "endAt": "2026-01-02T00:00:00Z", "memoryMB": 512, "diskSizeMB": 512,
                "state": "running"}  # fmt: skip


class E2BHandler(Handler):
    service: E2B

    def do_GET(self) -> None:
        self.answer("GET")

    def do_POST(self) -> None:
        self.answer("POST")

    def do_DELETE(self) -> None:
        self.answer("DELETE")

    def answer(self, verb: str) -> None:
        content = self.body()
        try:
            if self.path.startswith("/process.Process/") or self.path == "/health":
                self.envd(content)
            else:
                self.say(*self.api(verb, json.loads(content or b"{}")))
        except Refused as refused:
            self.say(refused.code, {"code": refused.code, "message": str(refused)})

    def api(self, verb: str, asked: dict[str, Any]) -> tuple[int, Any]:
        service = self.service
        if self.headers.get("X-API-KEY") != KEY:
            raise Refused(401, f"Invalid API key {self.headers.get('X-API-KEY')}")
        if (verb, self.path) == ("POST", "/v2/sandboxes"):
            return 201, service.create(asked)
        name, _, below = self.path.partition("/sandboxes/")[2].partition("/")
        if verb == "DELETE":
            service.end(name)
            return 204, None
        if name not in service.sandboxes:
            raise Refused(404, f"sandbox {name} not found")
        rented = service.sandboxes[name]
        return 200, service.told(rented) if below == "connect" else service.detail(rented)

    # --- envd

    def envd(self, content: bytes) -> None:
        rented = self.service.sandboxes.get(self.headers["E2b-Sandbox-Id"])
        if rented is None:
            self.say(502, GONE)
            return
        if self.headers.get("X-Access-Token") != f"token-{rented.name}":
            self.say(401, {"code": "unauthenticated", "message": "no token"})
        elif self.path == "/health":
            self.say(204, None)
        elif self.path == "/process.Process/Start":
            with suppress(OSError):
                self.start(rented, json.loads(content[5:]))
        else:
            asked = json.loads(content)
            process = rented.processes[asked["process"]["pid"]]
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.write(base64.b64decode(asked["input"]["stdin"]))
            self.say(200, {})

    def start(self, rented: Rented, asked: dict[str, Any]) -> None:
        assert asked["stdin"]
        config = asked["process"]
        pipe = subprocess.PIPE
        user = base64.b64decode(self.headers.get("Authorization", "")[len("Basic ") :]).decode()
        rented.asked["user"] = user.rstrip(":")
        process = rented.start(
            [config["cmd"], *config["args"]], stdin=pipe, stdout=pipe, stderr=pipe
        )
        self.send_response(200)
        self.send_header("Content-Type", "application/connect+json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.event({"start": {"pid": process.pid}})
        lock = threading.Lock()
        readers = [
            threading.Thread(target=self.carry, args=(process, name, lock), daemon=True)
            for name in ("stdout", "stderr")
        ]
        for each in readers:
            each.start()
        for each in readers:
            each.join()
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
        if rented.ended:
            self.close_connection = True
            return
        self.event({"end": {"exitCode": process.returncode, "exited": True}})
        self.frame({}, 2)
        self.wfile.write(b"0\r\n\r\n")

    def carry(self, process: subprocess.Popen[bytes], name: str, lock: threading.Lock) -> None:
        stream = getattr(process, name)
        with suppress(OSError, ValueError), stream:
            while data := stream.read(1 << 15):
                with lock:
                    said = base64.b64encode(self.service.spoiled(data)).decode()
                    self.event({"data": {name: said}})

    def event(self, event: dict[str, Any]) -> None:
        self.frame({"event": event})

    def frame(self, said: dict[str, Any], flags: int = 0) -> None:
        content = json.dumps(said).encode()
        frame = struct.pack(">BI", flags, len(content)) + content
        chunk = f"{len(frame):x}\r\n".encode() + frame + b"\r\n"
        if self.service.halve and "data" in said.get("event", {}):
            self.service.halve = False
            self.wfile.write(chunk[: len(chunk) // 2])
            self.close_connection = True
            self.connection.shutdown(2)
        self.wfile.write(chunk)


@contextmanager
def e2b(folder: Path) -> Iterator[tuple[E2B, dict[str, str]]]:
    """The service, and the variables by which its package finds it."""
    service = E2B(folder)
    with serving(service, E2BHandler) as address:
        yield service, {
            "E2B_API_KEY": KEY, "E2B_API_URL": address, "E2B_SANDBOX_URL": address,
        }  # fmt: skip
