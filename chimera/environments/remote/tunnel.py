"""Descriptors over one duplex stream: the host's end and the other machine's are the same code.

A request is a channel (a socket on each side) and the streams that come along (pipes on each side).
What is written at one end of them is read at the other; the ends close and break as pipes do:

    OPEN    a channel, its order, and for each of its streams which way it goes
    DATA    bytes of a channel or stream
    END     nothing more is written there
    GONE    nobody reads there any more
    CREDIT  so many bytes were taken and may be sent again
    PASS    bytes of a channel with which the descriptor of a file came, as a new stream

No stream can fill the memory or stop the others: each sends at most `WINDOW` bytes that the other
side has not taken yet. What a command wrote before its end arrives before the word of its end.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import socket
import struct
import termios
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

WINDOW = 1 << 20
BLOCK = 1 << 16
HEADER = struct.Struct(">IBI")
OPEN, DATA, END, GONE, CREDIT, PASS = range(6)
#: Serves a request, with the descriptors that come along: its end of the channel.
Serve = Callable[[bytes, list[int]], socket.socket]


class BrokenTunnel(Exception):
    """What came over the stream is not what the other end of a tunnel says."""


@dataclass(slots=True, eq=False)
class Stream:
    """One end of a channel or of a stream, with the descriptor behind it."""

    number: int
    descriptor: int
    reads: bool  # this side reads the descriptor and sends
    writes: bool  # this side writes to the descriptor what comes
    channel: socket.socket | None = None
    credit: int = WINDOW
    waiting: bytearray = field(default_factory=bytearray)
    ending: bool = False  # nothing more comes
    dropping: bool = False  # nobody wants what is read here
    streams: Sequence[Stream] = ()  # those of a channel's request
    due: int = 0  # bytes that must be through before the channel's next ones are
    counted: bool = False  # what was due when the channel's next ones came
    watched: int = 0

    def held(self) -> bool:
        return any(stream.due > 0 for stream in self.streams)

    def wanted(self, full: bool, serving: bool) -> int:
        """What to wait for; a `full` tunnel takes nothing more to send."""
        held = self.held()
        may_send = self.dropping or (self.credit > 0 and not full and not (serving and held))
        reading = self.reads and may_send
        writing = self.writes and bool(self.waiting) and (serving or not held)
        return (selectors.EVENT_READ if reading else 0) | (selectors.EVENT_WRITE if writing else 0)


class Tunnel:
    """Carries requests over `reader` and `writer` until either ends; then everything is closed.

    `serve` takes the requests that the other side opens; the side that opens them gives none.
    """

    def __init__(self, reader: int, writer: int, serve: Serve | None = None) -> None:
        self._reader, self._writer, self._serve = reader, writer, serve
        self._selector = selectors.PollSelector()
        self._streams: dict[int, Stream] = {}
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._lock = threading.Lock()
        self._asked: list[tuple[bytes, socket.socket, list[int]]] = []
        self._numbers = iter(range(1 if serve is None else 2, 1 << 32, 2))
        self._wake_reader, self._wake_writer = os.pipe()
        self._closed = False
        self.lost = False
        for descriptor in (reader, writer, self._wake_reader, self._wake_writer):
            os.set_blocking(descriptor, False)

    # --- from other threads

    def request(self, order: bytes, channel: socket.socket, descriptors: Sequence[int]) -> None:
        """Have the other side serve `order`; channel and descriptors now belong to the tunnel."""
        with self._lock:
            if not self.lost:
                self._asked.append((order, channel, list(descriptors)))
                self._wake()
                return
        channel.close()
        for descriptor in descriptors:
            os.close(descriptor)

    def close(self) -> None:
        """End the tunnel from this side."""
        with self._lock:
            self._closed = True
            if not self.lost:
                self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_writer, b"!")

    # --- the loop

    def run(self) -> None:
        """Carry until the end; whoever calls this is the tunnel's thread."""
        self._selector.register(self._reader, selectors.EVENT_READ)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        try:
            while not self._closed:
                self._turn()
        except (EOFError, OSError, struct.error, BrokenTunnel):
            pass  # the requests under way see their ends close
        finally:
            self._end()

    def _turn(self) -> None:
        writes = selectors.EVENT_WRITE if self._outgoing else 0
        self._watch_transport(writes)
        for stream in tuple(self._streams.values()):
            self._watch(stream)
        for key, events in self._selector.select():
            if key.fd == self._wake_reader:
                self._take_requests()
            elif isinstance(key.data, Stream):
                if key.data.number in self._streams:
                    self._move(key.data, events)
            elif key.fd == self._reader:
                self._receive()
        if self._outgoing:
            self._send()

    def _watch_transport(self, writes: int) -> None:
        registered = self._writer in self._selector.get_map()
        if writes and not registered:
            self._selector.register(self._writer, writes)
        elif not writes and registered:
            self._selector.unregister(self._writer)

    def _watch(self, stream: Stream) -> None:
        wanted = stream.wanted(len(self._outgoing) > WINDOW, self._serve is not None)
        if wanted == stream.watched:
            return
        if stream.watched:
            self._selector.unregister(stream.descriptor)
        if wanted:
            self._selector.register(stream.descriptor, wanted, stream)
        stream.watched = wanted

    def _take_requests(self) -> None:
        os.read(self._wake_reader, BLOCK)
        with self._lock:
            asked, self._asked = self._asked, []
        for order, channel, descriptors in asked:
            streams = [self._stream(each, _only_read(each)) for each in descriptors]
            number = self._channel(channel, streams).number
            job = {
                "order": order.decode(),
                "streams": [[each.number, each.reads] for each in streams],
            }
            self._say(number, OPEN, json.dumps(job).encode())

    def _channel(
        self, channel: socket.socket, streams: Sequence[Stream], number: int | None = None
    ) -> Stream:
        channel.setblocking(False)
        return self._add(
            Stream(
                number or next(self._numbers),
                channel.fileno(),
                True,
                True,
                channel,
                streams=streams,
            )
        )

    def _stream(self, descriptor: int, reads: bool, number: int | None = None) -> Stream:
        os.set_blocking(descriptor, False)
        return self._add(Stream(number or next(self._numbers), descriptor, reads, not reads))

    def _add(self, stream: Stream) -> Stream:
        self._streams[stream.number] = stream
        return stream

    def _say(self, number: int, kind: int, content: bytes = b"") -> None:
        self._outgoing += HEADER.pack(number, kind, len(content)) + content

    def _send(self) -> None:
        with contextlib.suppress(BlockingIOError):
            sent = os.write(self._writer, memoryview(self._outgoing)[:BLOCK])
            del self._outgoing[:sent]

    def _receive(self) -> None:
        try:
            data = os.read(self._reader, BLOCK)
        except BlockingIOError:
            return
        if not data:
            raise EOFError
        self._incoming += data
        while len(self._incoming) >= HEADER.size:
            number, kind, length = HEADER.unpack_from(self._incoming)
            if length > 2 * BLOCK:
                raise BrokenTunnel
            if len(self._incoming) < HEADER.size + length:
                return
            content = bytes(self._incoming[HEADER.size : HEADER.size + length])
            del self._incoming[: HEADER.size + length]
            self._hear(number, kind, content)

    def _hear(self, number: int, kind: int, content: bytes) -> None:
        if kind == OPEN:
            self._accept(number, content)
            return
        stream = self._streams.get(number)
        if stream is None:
            return  # closed here meanwhile
        if kind == DATA:
            if len(stream.waiting) + len(content) > WINDOW:
                raise BrokenTunnel
            stream.waiting += content
            if self._serve is None:
                for each in stream.streams:
                    each.due = len(each.waiting)
        elif kind == END:
            stream.ending = True
        elif kind == CREDIT:
            stream.credit += struct.unpack(">I", content)[0]
        elif kind == GONE and self._serve is not None and stream.channel is None:
            stream.dropping = True  # a program that goes on in the background must not break on it
        elif kind == GONE:
            self._stop_reading(stream)
        elif kind == PASS:
            self._hand_over(stream, content)
        if stream.ending and not stream.waiting:
            self._stop_writing(stream)

    def _accept(self, number: int, content: bytes) -> None:
        """Make the ends of a request that the other side opened, and serve it."""
        if self._serve is None:
            raise BrokenTunnel
        job = json.loads(content)
        streams: list[Stream] = []
        given: list[int] = []
        for each, comes in job["streams"]:
            reader, writer = os.pipe()
            streams.append(self._stream(writer if comes else reader, not comes, each))
            given.append(reader if comes else writer)
        self._channel(self._serve(job["order"].encode(), given), streams, number)

    def _hand_over(self, stream: Stream, content: bytes) -> None:
        """A file's descriptor came with these bytes on the other side: a pipe's end goes here."""
        number = struct.unpack_from(">I", content)[0]
        if number in self._streams:
            raise BrokenTunnel
        reader, writer = os.pipe()
        self._stream(writer, False, number)
        try:
            if stream.channel is not None:
                socket.send_fds(stream.channel, [content[4:]], [reader])
        except OSError:
            self._close(stream)
        finally:
            os.close(reader)

    # --- one stream

    def _move(self, stream: Stream, events: int) -> None:
        if events & selectors.EVENT_WRITE and stream.waiting:
            self._write(stream)
        if events & selectors.EVENT_READ and stream.reads and not self._must_wait(stream):
            self._read(stream)

    def _must_wait(self, channel: Stream) -> bool:
        """Whether what was written before the word that comes on this channel is not yet sent."""
        if self._serve is None or channel.counted:
            channel.counted = False
            return False
        for stream in channel.streams:
            stream.due = _readable_bytes(stream.descriptor) if stream.reads else 0
        channel.counted = channel.held()
        return channel.counted

    def _write(self, stream: Stream) -> None:
        try:
            taken = os.write(stream.descriptor, memoryview(stream.waiting)[:BLOCK])
        except BlockingIOError:
            return
        except OSError:
            self._say(stream.number, GONE)
            stream.waiting.clear()
            stream.due = 0
            self._stop_writing(stream)
            return
        del stream.waiting[:taken]
        stream.due -= taken
        self._say(stream.number, CREDIT, struct.pack(">I", taken))
        if stream.ending and not stream.waiting:
            self._stop_writing(stream)

    def _read(self, stream: Stream) -> None:
        size = BLOCK if stream.dropping else min(BLOCK, stream.credit)
        try:
            data, passed = _received(stream, size)
        except BlockingIOError:
            return
        except OSError:
            data, passed = b"", []
        for descriptor in passed[:1] if self._serve is not None else ():
            number = self._stream(os.dup(descriptor), True).number
            self._say(stream.number, PASS, struct.pack(">I", number) + data)
        for descriptor in passed:
            os.close(descriptor)
        stream.due = max(0, stream.due - len(data)) if data else 0
        if not data:
            self._say(stream.number, END)
            self._stop_reading(stream)
        elif stream.dropping:
            return
        elif not passed or self._serve is None:
            stream.credit -= len(data)
            self._say(stream.number, DATA, data)

    def _stop_reading(self, stream: Stream) -> None:
        stream.reads = False
        self._close_unused(stream)

    def _stop_writing(self, stream: Stream) -> None:
        stream.writes = False
        if stream.channel is not None and stream.reads:
            with contextlib.suppress(OSError):
                stream.channel.shutdown(socket.SHUT_WR)
        self._close_unused(stream)

    def _close_unused(self, stream: Stream) -> None:
        if not stream.reads and not stream.writes:
            self._close(stream)

    def _close(self, stream: Stream) -> None:
        if self._streams.pop(stream.number, None) is None:
            return
        stream.due = 0
        if stream.watched:
            self._selector.unregister(stream.descriptor)
        if stream.channel is not None:
            stream.channel.close()
        else:
            os.close(stream.descriptor)

    def _end(self) -> None:
        with self._lock:
            self.lost = True
            for _, channel, descriptors in self._asked:
                channel.close()
                for descriptor in descriptors:
                    os.close(descriptor)
            os.close(self._wake_writer)
        for stream in tuple(self._streams.values()):
            self._close(stream)
        self._selector.close()
        os.close(self._wake_reader)


def _only_read(descriptor: int) -> bool:
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY


def _readable_bytes(descriptor: int) -> int:
    found = fcntl.ioctl(descriptor, termios.FIONREAD, struct.pack("i", 0))
    return int(struct.unpack("i", found)[0])


def _received(stream: Stream, size: int) -> tuple[bytes, list[int]]:
    if stream.channel is None:
        return os.read(stream.descriptor, size), []
    data, descriptors, _, _ = socket.recv_fds(stream.channel, size, 4)
    return data, descriptors
