"""A server on loopback that speaks what data sets are fetched by: a hub, archives, an index.

Files are served with ranges and validators as real servers do; the hub answers as the Hugging Face
hub does (its own client can be pointed at it), the index as package indexes do (pip can).
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

REVISION = "0" * 39 + "1"


@dataclass
class Served:
    """What is served, how it fails, and what was asked."""

    files: dict[str, bytes] = field(default_factory=dict)
    #: (repository, path) → content; a large file is stored elsewhere and redirected to.
    hub: dict[tuple[str, str], bytes] = field(default_factory=dict)
    large: set[tuple[str, str]] = field(default_factory=set)
    packages: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    #: path → bytes after which the connection is cut, for as many requests as there are numbers.
    cuts: dict[str, list[int]] = field(default_factory=dict)
    faults: dict[str, list[int]] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    #: Whether the hub names other digests than those of what it sends.
    lies: bool = False
    address: str = ""
    store_address: str = ""  # another host, where the hub keeps large files

    def headers_of(self, path: str) -> list[dict[str, str]]:
        return [
            headers for method, asked, headers in self.asked if asked == path and method == "GET"
        ]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: Served

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, *_: Any) -> None: ...

    def _answer(self, *, body: bool) -> None:
        path = urlsplit(self.path).path
        served = self.served
        served.asked.append((self.command, path, dict(self.headers)))
        if served.faults.get(path):
            self._status(served.faults[path].pop(0))
        elif path.startswith("/datasets/"):
            self._hub(path, body=body)
        elif path.startswith("/simple/"):
            self._index(path)
        elif path in served.files:
            self._file(path, served.files[path], body=body)
        else:
            self._status(404)

    def _hub(self, path: str, *, body: bool) -> None:
        repository, _, rest = path.removeprefix("/datasets/").partition("/resolve/")
        revision, _, name = rest.partition("/")
        content = self.served.hub.get((repository, name))
        if content is None or revision not in (REVISION, "main"):
            self._status(404, {"X-Error-Code": "EntryNotFound"})
            return
        headers = {"X-Repo-Commit": REVISION}
        if (repository, name) not in self.served.large:
            self._file(path, content, body=body, headers=headers)
            return
        stored = f"/stored/{hashlib.sha256(content).hexdigest()}"
        self.served.files[stored] = content
        claimed = hashlib.sha256(content[: -1 if self.served.lies else None]).hexdigest()
        headers["X-Linked-ETag"] = f'"{claimed}"'
        headers["X-Linked-Size"] = str(len(content))
        headers["Location"] = f"{self.served.store_address}{stored}"
        self._status(302, headers)

    def _index(self, path: str) -> None:
        name = path.removeprefix("/simple/").strip("/")
        if name not in self.served.packages:
            self._status(404)
            return
        file, content = self.served.packages[name]
        self.served.files[f"/packages/{file}"] = content
        digest = hashlib.sha256(content).hexdigest()
        page = f'<a href="{self.served.address}/packages/{file}#sha256={digest}">{file}</a>'
        self._status(200, {"Content-Type": "text/html"}, page.encode())

    def _file(
        self, path: str, content: bytes, *, body: bool, headers: dict[str, str] | None = None
    ) -> None:
        blob = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
        if self.served.lies:
            blob = blob[::-1]
        headers = {"ETag": f'"{blob}"', "Accept-Ranges": "bytes", **(headers or {})}
        wanted, status, start = self.headers.get("Range"), 200, 0
        if wanted and self.headers.get("If-Range", headers["ETag"]) == headers["ETag"]:
            status, start = 206, int(wanted.removeprefix("bytes=").split("-")[0] or 0)
            if start >= len(content):
                self._status(416)
                return
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        rest = content[start:]
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(rest))}.items():
            self.send_header(key, value)
        self.end_headers()
        cuts = self.served.cuts.get(path)
        if body:
            self.wfile.write(rest[: cuts.pop(0)] if cuts else rest)
        self.close_connection = self.close_connection or bool(cuts is not None)

    def _status(
        self, status: int, headers: dict[str, str] | None = None, page: bytes = b""
    ) -> None:
        self.send_response(status)
        for key, value in {**(headers or {}), "Content-Length": str(len(page))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(page)


@contextmanager
def serving() -> Iterator[Served]:
    """The server and its store, which are two hosts."""
    served = Served()
    handler = type("Bound", (Handler,), {"served": served})
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for _ in range(2)]
    ports = [server.server_address[1] for server in servers]
    served.address = f"http://127.0.0.1:{ports[0]}"
    served.store_address = f"http://localhost:{ports[1]}"
    threads = [threading.Thread(target=server.serve_forever, daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield served
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join()
