"""The only way out of the browser: a proxy that knows the configured sites and nothing else.

Chromium sends every connection through it (redirects, subresources, popups, websockets) and
resolves no name itself, so a page cannot reach another host whatever it does.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import urlsplit

Address = tuple[str, int]

_HEAD_BYTES = 64 * 1024
_CHUNK_BYTES = 64 * 1024
_CONNECT_SECONDS = 20.0
_DEFAULT_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}


def address(url: str) -> Address | None:
    """Host and port of an http, https, ws or wss URL; None for anything else."""
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return None
    if not parts.hostname or port is None or parts.scheme not in _DEFAULT_PORTS:
        return None
    return parts.hostname.lower().rstrip("."), port


class SiteProxy:
    """Relays to the allowed addresses; closes every other connection and counts it."""

    def __init__(self, sites: Iterable[str]) -> None:
        self.allowed = frozenset(found for url in sites if (found := address(url)))
        self.blocked: Counter[str] = Counter()
        self.port = 0
        self._server: asyncio.Server | None = None
        self._relays: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_HEAD_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for relay in list(self._relays):
            relay.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)

    def allows(self, url: str) -> bool:
        return address(url) in self.allowed

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._relays.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # the browser or the site hung up; there is nobody left to tell
        finally:
            writer.close()
            if task is not None:
                self._relays.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        request, _, headers = head.partition(b"\r\n")
        method, target, version = request.decode("latin-1").split(" ", 2)
        tunnel = method == "CONNECT"
        where = address(f"https://{target}" if tunnel else target)
        if where is None or where not in self.allowed:
            self.blocked[target[:200]] += 1
            return
        try:
            connecting = asyncio.open_connection(*where, limit=_HEAD_BYTES)
            far_reader, far_writer = await asyncio.wait_for(connecting, _CONNECT_SECONDS)
        except (OSError, TimeoutError):
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\n\r\n")
            await writer.drain()
            return
        try:
            if tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                first = f"{method} {_origin_form(target)} {version}\r\n".encode("latin-1")
                far_writer.write(first + _one_request(headers))
            await _relay_both(reader, writer, far_reader, far_writer)
        finally:
            far_writer.close()


def _origin_form(target: str) -> str:
    parts = urlsplit(target)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _one_request(headers: bytes) -> bytes:
    """The headers with the connection closed after the answer: one host a connection."""
    kept = [
        line
        for line in headers.split(b"\r\n")
        if line and line.partition(b":")[0].lower() not in (b"connection", b"proxy-connection")
    ]
    return b"\r\n".join([*kept, b"Connection: close", b"", b""])


async def _relay_both(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    upwards = asyncio.create_task(_relay(reader, far_writer))
    try:
        await _relay(far_reader, writer)
    finally:
        upwards.cancel()
        with suppress(asyncio.CancelledError, OSError):
            await upwards


async def _relay(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while chunk := await source.read(_CHUNK_BYTES):
        sink.write(chunk)
        await sink.drain()
