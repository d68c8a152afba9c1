"""HTTP between a hostile client, the door and the engine: everything bounded, nothing guessed."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_HEAD, BLOCK = 64 * 1024, 64 * 1024
MOST_JSON = 256 * 1024  # of a request
MOST_ANSWER = 16 * 1024**2
MOST_ARCHIVE = 1024**3  # handed on in blocks, never held
PATIENCE = 60.0  # seconds in which the next bytes of a request have to come
_LINE = re.compile(r"(GET|HEAD|POST|PUT|DELETE) (/[!-~]*) HTTP/1\.[01]")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+): *([ -~\x80-\xff]*)")
_STATUS = re.compile(r"HTTP/1\.[01] (\d{3})(?: .*)?")
#: The headers of a request that mean something here; none of them is handed on.
_READ = ("content-length", "transfer-encoding", "connection", "upgrade", "expect")
#: Those of an answer that say how it is to be read.
_ANSWERED = ("content-type", "content-length", "transfer-encoding", "x-docker-container-path-stat")


class Malformed(Exception):
    """What is not the HTTP that is spoken here."""


class NoAnswer(Exception):
    """The engine did not say what it should."""


class Reader:
    """Bytes of a socket, by lines and by count, and what was read too far."""

    def __init__(self, source: socket.socket) -> None:
        self._source = source
        self.rest = b""

    def block(self, most: int = BLOCK) -> bytes:
        """Some bytes; none at the end."""
        if not self.rest:
            self.rest = self._source.recv(BLOCK)
        found, self.rest = self.rest[:most], self.rest[most:]
        return found

    def head(self) -> list[str] | None:
        """The lines before an empty one; None where nothing came at all."""
        while b"\r\n\r\n" not in self.rest:
            more = self._source.recv(BLOCK)
            if not more and not self.rest:
                return None
            self.rest += more
            if not more or len(self.rest) > MOST_HEAD:
                raise Malformed("the head does not end")
        head, _, self.rest = self.rest.partition(b"\r\n\r\n")
        return head.decode("latin-1").split("\r\n")

    def line(self) -> bytes:
        """A line of a chunk's frame."""
        while b"\r\n" not in self.rest:
            more = self._source.recv(BLOCK)
            if not more or len(self.rest) > 1024:
                raise Malformed("a chunk's length does not end")
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\r\n")
        return line

    def exactly(self, count: int) -> Iterator[bytes]:
        while count:
            block = self.block(min(count, BLOCK))
            if not block:
                raise Malformed("the body ends too early")
            count -= len(block)
            yield block

    def chunks(self, most: int) -> Iterator[bytes]:
        while True:
            size = re.fullmatch(rb"([0-9a-fA-F]{1,8})(?:;[ -~]*)?", self.line())
            if size is None:
                raise Malformed("a chunk has no length")
            count = int(size[1], 16)
            most -= count
            if most < 0:
                raise Malformed("the body is too long")
            yield from self.exactly(count)
            if self.line():
                raise Malformed("a chunk is longer than it says, or has a trailer")
            if not count:
                return


@dataclass(slots=True)
class Request:
    """What a client asked for, as far as anybody here looks at it."""

    method: str
    target: str
    body: Iterable[bytes] = ()
    upgrade: bool = False  # whether it would go on in bytes of its own

    def json(self) -> Any:
        """The body as JSON; None where there is none."""
        text = whole(self.body, MOST_JSON)
        if not text.strip():
            return None
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise Malformed("the body is no JSON") from None


def whole(blocks: Iterable[bytes], most: int) -> bytes:
    held = bytearray()
    for block in blocks:
        held += block
        if len(held) > most:
            raise Malformed("the body is too long")
    return bytes(held)


def read_request(client: socket.socket, reader: Reader) -> Request | None:
    lines = reader.head()
    if lines is None:
        return None
    first = _LINE.fullmatch(lines[0])
    if first is None:
        raise Malformed("the first line is no request")
    headers = _headers(lines[1:])
    twice = {name for name in _READ if len(headers.get(name, ())) > 1}
    if twice:
        raise Malformed(f"{min(twice)} is there twice")
    said = {name: values[0].lower() for name, values in headers.items()}
    if said.get("expect", "100-continue") != "100-continue":
        raise Malformed("it expects what is not known here")
    if "expect" in said:
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    asked_for = {word.strip() for word in said.get("connection", "").split(",")}
    upgrade = "upgrade" in asked_for and said.get("upgrade") == "tcp"
    return Request(first[1], first[2], _body(reader, said), upgrade)


def _body(reader: Reader, said: Mapping[str, str]) -> Iterable[bytes]:
    encoding, length = said.get("transfer-encoding"), said.get("content-length", "0")
    if encoding is not None:
        if encoding != "chunked" or "content-length" in said:
            raise Malformed("the body's length is not clear")
        return reader.chunks(MOST_ARCHIVE)
    if not re.fullmatch(r"[0-9]{1,12}", length):
        raise Malformed("the body's length is no number")
    if int(length) > MOST_ARCHIVE:
        raise Malformed("the body is too long")
    return reader.exactly(int(length))


def _headers(lines: Iterable[str]) -> dict[str, list[str]]:
    headers: dict[str, list[str]] = {}
    for line in lines:
        found = _HEADER.fullmatch(line)
        if found is None:
            raise Malformed("a line of the head is no header")
        headers.setdefault(found[1].lower(), []).append(found[2].strip())
    return headers


# --- the engine's side


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as the engine gets it, built here: no byte of its head is the client's own."""

    method: str
    target: str
    json: Any = None
    archive: Iterable[bytes] | None = None
    upgrade: bool = False

    def send(self, engine: socket.socket) -> None:
        text = b"" if self.json is None else json.dumps(self.json).encode()
        headers = ["Host: engine"]
        headers += (
            ["Connection: Upgrade", "Upgrade: tcp"] if self.upgrade else ["Connection: close"]
        )
        if self.archive is not None:
            headers += ["Content-Type: application/x-tar", "Transfer-Encoding: chunked"]
        elif self.json is not None:
            headers += ["Content-Type: application/json", f"Content-Length: {len(text)}"]
        elif self.method == "POST":
            headers.append("Content-Length: 0")
        lines = [f"{self.method} {self.target} HTTP/1.1", *headers, "", ""]
        engine.sendall("\r\n".join(lines).encode() + text)
        if self.archive is not None:
            for block in self.archive:
                engine.sendall(b"%x\r\n%b\r\n" % (len(block), block))
            engine.sendall(b"0\r\n\r\n")


@dataclass(slots=True)
class Answer:
    """The head of what the engine said, and a reader of the rest."""

    status: int
    reader: Reader
    headers: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> Any:
        try:
            return json.loads(whole(self._blocks(), MOST_ANSWER) or b"null")
        except (Malformed, ValueError, RecursionError) as error:
            raise NoAnswer(f"what it says is no JSON: {error}") from None

    def _blocks(self) -> Iterable[bytes]:
        if self.status in (204, 304):
            return ()
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            return self.reader.chunks(MOST_ANSWER)
        if length := self.headers.get("content-length"):
            return self.reader.exactly(int(length))
        return iter(self.reader.block, b"")

    def head(self) -> bytes:
        """What a client that gets the rest as it comes has to know before it."""
        lines = [f"{name}: {self.headers[name]}" for name in _ANSWERED if name in self.headers]
        if self.status == 101:
            lines += ["connection: Upgrade", "upgrade: tcp"]
        else:
            lines.append("connection: close")
        return "\r\n".join([f"HTTP/1.1 {self.status} X", *lines, "", ""]).encode("latin-1")


def read_answer(engine: socket.socket) -> Answer:
    reader = Reader(engine)
    number = 0
    while number != 101 and number < 200:  # others below only say that the answer is to come
        try:
            first, *lines = reader.head() or [""]
            headers = {name: values[0] for name, values in _headers(lines).items()}
        except Malformed as error:
            raise NoAnswer(str(error)) from None
        status = _STATUS.fullmatch(first)
        if status is None:
            raise NoAnswer("it hung up")
        number = int(status[1])
    return Answer(number, reader, headers)


def answer(status: int, body: Any, version: str = "", *, text: bool = False) -> bytes:
    """An answer of the door's own."""
    content = str(body).encode() if text else json.dumps(body).encode()
    kind = "text/plain" if text else "application/json"
    lines = [f"HTTP/1.1 {status} X", "Ostype: linux", "Connection: close"]
    if version:
        lines.append(f"Api-Version: {version}")
    if status in (204, 304):
        content = b""
    else:
        lines += [f"Content-Type: {kind}", f"Content-Length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content
