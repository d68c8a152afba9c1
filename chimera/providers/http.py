"""How every client here talks HTTP: it follows no redirect, which would show the key to another
host, reads no body to an end that it may not have, unpacks none beyond that, and bears thousands of
calls at once."""

from __future__ import annotations

import socket
import sys
import time
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

MOST_BODY_BYTES = 64 * 1024**2
MOST_REFUSAL_BYTES = 64 * 1024
UNPACKED_AT_ONCE = 1024**2

_most: ContextVar[int] = ContextVar("chimera_body_bytes", default=MOST_BODY_BYTES)


def new_client(kind: type[Any], *, proxies: bool = True) -> Any:
    """A client of this class, an SDK's or the HTTP library's own; `proxies`: whether those of the
    environment are used."""
    from urllib.request import getproxies

    own = {} if proxies and getproxies() else {"transport": _lanes(_library(kind))}
    return kind(trust_env=proxies, **client_settings(), **own)


def client_settings() -> dict[str, Any]:
    """What every client is made with."""
    hooks = {"request": [_ask_for_gzip], "response": [_bound]}
    return {"follow_redirects": False, "event_hooks": hooks}


@contextmanager
def bodies_of(most: int) -> Iterator[None]:
    """Let bodies have so many bytes, where more than one answer is asked for."""
    token = _most.set(most)
    try:
        yield
    finally:
        _most.reset(token)


def _library(kind: type[Any]) -> Any:
    """The HTTP library that a class is of: the SDKs do not all use the same."""
    base = next(each for each in reversed(kind.__mro__) if each.__name__ == "Client")
    return sys.modules[base.__module__.partition(".")[0]]


def _ask_for_gzip(request: Any) -> None:
    """The one packing that is unpacked here."""
    request.headers["accept-encoding"] = "gzip"


def _bound(response: Any) -> None:
    """Let the body have no more than is read of it, unpacked, and end with the call's time."""
    library = sys.modules[type(response).__module__.partition(".")[0]]
    timeout = response.request.extensions.get("timeout", {}).get("read")
    end = None if timeout is None else time.monotonic() + timeout
    packing = response.headers.pop("content-encoding", "identity").strip().lower()
    whole = response.status_code == 200
    most = _most.get() if whole else MOST_REFUSAL_BYTES
    response.stream = _bounded(library)(response.stream, packing, most, end, whole)


@cache
def _bounded(library: Any) -> type[Any]:
    """A body's bytes, unpacked, up to a bound, as the HTTP library that is in use takes them.

    What goes beyond it is a fault, unless a part of the body will do.
    """

    class Bounded(library.SyncByteStream):  # type: ignore[misc]
        def __init__(
            self, inner: Any, packing: str, most: int, end: float | None, whole: bool
        ) -> None:
            self._inner, self._packing = inner, packing
            self._most, self._end, self._whole = most, end, whole

        def __iter__(self) -> Iterator[bytes]:
            size = 0
            for part in self._unpacked():
                size += len(part)
                if size > self._most and not self._whole:
                    yield part[: self._most - size]
                    return
                self._check(size)
                yield part

        def _check(self, size: int) -> None:
            if size > self._most:
                raise library.DecodingError(f"the body has more than {self._most} bytes")
            if self._end is not None and time.monotonic() > self._end:
                raise library.ReadTimeout("the body had not arrived whole")

        def _unpacked(self) -> Iterator[bytes]:
            if self._packing in ("", "identity"):
                yield from self._inner
                return
            if self._packing not in ("gzip", "x-gzip"):
                raise library.DecodingError(f"the body is packed as {self._packing[:40]!r}")
            try:
                yield from self._inflated()
            except zlib.error as error:
                raise library.DecodingError(f"the body is no gzip: {error}") from None

        def _inflated(self) -> Iterator[bytes]:
            """What is packed is bounded as well: it can come to nothing. It may have several ends,
            each but the last with a beginning after it."""
            size, inflater = 0, None
            for part in self._inner:
                size += len(part)
                self._check(size)
                while part:
                    inflater = inflater or zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
                    if unpacked := inflater.decompress(part, UNPACKED_AT_ONCE):
                        yield unpacked
                    part = inflater.unconsumed_tail
                    if inflater.eof:
                        part, inflater = inflater.unused_data, None
                        self._check(size)
            if inflater is not None and self._whole:
                raise library.DecodingError("the body was cut off")

        def close(self) -> None:
            self._inner.close()

    return Bounded


def _lanes(library: Any) -> Any:
    """A transport of as many pools as there are calls at once, each with one connection.

    A pool looks at all its connections whenever a call begins or ends: with a thousand in one, that
    takes longer than anything else.
    """
    context = library.create_ssl_context()
    limits = library.Limits(max_connections=1, max_keepalive_connections=1)
    alive = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]

    def new() -> Any:
        return library.HTTPTransport(verify=context, limits=limits, socket_options=alive)

    free = deque([new()])  # the first one loads what all need

    class Lane(library.SyncByteStream):  # type: ignore[misc]
        def __init__(self, body: Any, lane: Any) -> None:
            self._body, self._lane = body, lane

        def __iter__(self) -> Iterator[bytes]:
            return iter(self._body)

        def close(self) -> None:
            self._body.close()
            lane, self._lane = self._lane, None
            if lane is not None:
                free.append(lane)

    class Lanes(library.BaseTransport):  # type: ignore[misc]
        def handle_request(self, request: Any) -> Any:
            try:
                lane = free.pop()
            except IndexError:
                lane = new()
            try:
                response = lane.handle_request(request)
            except BaseException:
                free.append(lane)
                raise
            response.stream = Lane(response.stream, lane)
            return response

        def close(self) -> None:
            while free:
                free.pop().close()

    return Lanes()
