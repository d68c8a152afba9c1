"""A command in a pod whose three streams are those of this process.

    python -m chimera.environments.remote.pod_exec JOB

It ends with the command's exit code, which the status channel tells and nothing else. Without a
status it ends with `LOST`, as `ssh` does, and says on standard error what became of the pod.

The SDK's own reading of a stream is not used: it keeps what arrives in memory without a bound. Only
its connection is, with one loop for both ways, because a TLS connection is not for two threads.
"""

from __future__ import annotations

import json
import os
import select
import ssl
import sys
import time
from contextlib import suppress
from typing import Any

from chimera.environments.remote.cluster import Cluster, ended
from chimera.errors import ChimeraError, EnvironmentFault

STDIN, STDOUT, STDERR, STATUS, CLOSE = 0, 1, 2, 3, 255
CONTINUED, BINARY, END, PING, PONG = 0, 2, 8, 9, 10  # kinds of frames, as RFC 6455 has them
HALF_CLOSING = "v5.channel.k8s.io"
LOST, KILLED = 255, 128  # by a signal, from here on
BLOCK, ROOM = 1 << 16, 1 << 20
BEAT_SECONDS, SILENT_SECONDS, LAST_SECONDS = 15, 60, 5
#: The command comes over its own input: addresses with their arguments are kept in audit logs.
TAKE = (
    "import json, os, sys\n"
    "left, text = int(sys.argv[1]), b''\n"
    "while left > len(text): text += os.read(0, left - len(text)) or sys.exit('no command came')\n"
    "command = json.loads(text)\n"
    "os.execvp(command[0], command)"
)
LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Lost(Exception):
    """The connection is of no use any more."""


class Unread(Exception):
    """Chimera closed the environment, or ended."""


class Channel:
    """This process's streams and a command's, until its status came."""

    def __init__(self, socket: Any, first: bytes) -> None:
        chosen = (socket.getheaders() or {}).get("sec-websocket-protocol")
        self._half_closing = chosen == HALF_CLOSING
        self._socket, self._stream = socket, socket.sock
        self._stream.settimeout(0)
        self._outgoing, self._status = bytearray(), bytearray()
        self._reading, self._more = True, False
        self._channel = STATUS
        self._heard = self._beaten = time.monotonic()
        self._say(bytes([STDIN]) + first)

    def carry(self) -> bytes:
        """The status, once the command ended."""
        from websocket import WebSocketException

        try:
            while self._turn():
                pass
        except (Lost, OSError, WebSocketException) as error:
            if not self._status:
                raise Lost(str(error) or type(error).__name__) from error
        return bytes(self._status)

    def _turn(self) -> bool:
        """Carry what is there; False when all is said."""
        self._beat()
        events = self._events()
        if STDOUT in events:
            raise Unread
        if STDIN in events:
            data = os.read(STDIN, BLOCK)
            self._reading = bool(data)
            if data:
                self._say(bytes([STDIN]) + data)
            elif self._half_closing:
                self._say(bytes([CLOSE, STDIN]))
        self._more = self._hear()
        with suppress(*LATER):
            if self._outgoing:
                del self._outgoing[: self._stream.send(memoryview(self._outgoing)[:BLOCK])]
        return bool(events or self._more or not self._status)

    def _events(self) -> dict[int, int]:
        waiting = select.poll()
        waiting.register(self._stream, select.POLLIN | (select.POLLOUT if self._outgoing else 0))
        waiting.register(STDOUT, 0)
        if self._reading and len(self._outgoing) < ROOM:
            waiting.register(STDIN, select.POLLIN)
        patience = LAST_SECONDS if self._status else BEAT_SECONDS
        return dict(waiting.poll(0 if self._more else patience * 1000))

    def _beat(self) -> None:
        """Ask whether the other side is still there, and give it up when it is not."""
        now = time.monotonic()
        if now - self._heard > SILENT_SECONDS:
            raise Lost(f"nothing was heard for {SILENT_SECONDS} s")
        if now - self._beaten > BEAT_SECONDS:
            self._beaten = now
            self._say(b"", PING)

    def _say(self, data: bytes, kind: int = BINARY) -> None:
        from websocket import ABNF

        self._outgoing += ABNF.create_frame(data, kind).format()

    def _hear(self) -> bool:
        """Take a frame, if a whole one came; TLS may have more of them than waiting shows."""
        try:
            frame = self._socket.recv_frame()
        except LATER:
            return False  # what came of it is kept
        self._heard = time.monotonic()
        if frame.opcode == END:
            raise Lost("the connection was closed")
        if frame.opcode == PING:
            self._say(frame.data, PONG)
        elif frame.opcode != PONG:
            self._receive(bytes(frame.data), frame.opcode == CONTINUED)
        return True

    def _receive(self, data: bytes, continued: bool) -> None:
        if data and not continued:
            self._channel, data = data[0], data[1:]
        if self._channel == STATUS:
            self._status += data
        elif self._channel in (STDOUT, STDERR):
            try:
                while data:
                    data = data[os.write(self._channel, data) :]
            except BrokenPipeError:
                raise Unread from None


def exit_code(status: bytes) -> int:
    """What a status says; one that tells of no exit is a fault of the cluster."""
    said = json.loads(status)
    if said.get("status") == "Success":
        return 0
    for cause in (said.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise Lost(said.get("message") or "the cluster tells of no exit")


def main() -> int:
    import websocket

    job = json.loads(sys.argv[1])
    websocket.setdefaulttimeout(SILENT_SECONDS)
    words = json.dumps(job["command"]).encode()
    take = [job["settings"]["python"], "-I", "-c", TAKE, str(len(words))]
    try:
        cluster = Cluster.of(job["namespace"], job["settings"])
        socket = cluster.connect(job["pod"], take)
        code = exit_code(Channel(socket, words).carry())
        if code > KILLED:
            print(fate(cluster, job["pod"]), file=sys.stderr)
        return code
    except Unread:
        with suppress(ChimeraError):
            cluster.remove(job["pod"])  # whoever would do it may be gone
    except (Lost, ValueError) as error:
        said = f"the connection to the pod {job['pod']} ended: {error}"
        print(said, fate(cluster, job["pod"]), sep="\n", file=sys.stderr)
    except ChimeraError as error:
        print(error, file=sys.stderr)
    return LOST


def fate(cluster: Cluster, pod: str) -> str:
    """What became of a pod, which is told a moment after its connections end."""
    for _ in range(LAST_SECONDS):
        try:
            if why := ended(cluster.pod(pod)):
                return f"the pod {pod} ended: {why}"
        except EnvironmentFault as error:
            return str(error)
        time.sleep(1)
    return f"the pod {pod} still runs"


if __name__ == "__main__":
    sys.exit(main())
