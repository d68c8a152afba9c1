"""A model's service with a script: four wire formats, one key, and tokens that are known."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from chimera.gateway.wires import target_of
from chimera.types import Response, ToolCall, Usage

KEY = "sk-real-0123456789abcdef0123456789"
PRICE = "1000/2000"  # US dollars for a million tokens


def truth(said: int) -> Usage:
    """The tokens of the answer after `said` earlier ones."""
    return Usage(100 + 10 * said, 7 + said, 40)


def cost(usage: Usage) -> float:
    return (usage.input_tokens * 1000 + usage.output_tokens * 2000) / 1e6


@dataclass
class Upstream:
    """Answers by counting the model's turns in the conversation; `failures` are statuses to give
    before the next answer, `seen` is what came in. `pause`: seconds before an answer; `cut`: a
    stream ends before its last events."""

    replies: Sequence[str | tuple[str, dict[str, Any]]]
    failures: list[int] = field(default_factory=list)
    pause: float = 0.0
    cut: bool = False
    seen: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    served: list[Usage] = field(default_factory=list)

    def __post_init__(self) -> None:
        handler = type("Handler", (_Handler,), {"upstream": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def answer(self, said: int) -> Response:
        reply = self.replies[min(said, len(self.replies) - 1)]
        calls: tuple[ToolCall, ...] = ()
        text = reply if isinstance(reply, str) else "I call a tool."
        if not isinstance(reply, str):
            calls = (ToolCall(f"id_{said}", reply[0], reply[1], json.dumps(reply[1])),)
        self.served.append(truth(said))
        reason = "tool_calls" if calls else "stop"
        return Response(text, calls, truth(said), stop_reason=reason, model="scripted")


class _Handler(BaseHTTPRequestHandler):
    upstream: Upstream
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.upstream.seen.append((self.path, headers, body))
        target = target_of(urlsplit(self.path).path)
        given = (headers.get("x-api-key"), headers.get("x-goog-api-key"))
        if KEY not in given and headers.get("authorization") != f"Bearer {KEY}":
            self._send(401, b'{"error": {"message": "wrong key"}}')
        elif self.upstream.failures:
            self._send(self.upstream.failures.pop(0), b'{"error": {"message": "not now"}}')
        else:
            assert target is not None
            wire = target.wire
            asked = wire.asked(body)
            time.sleep(self.upstream.pause)
            said = sum(message.role == "assistant" for message in asked.messages)
            reply = wire.reply(self.upstream.answer(said), asked, "scripted")
            if target.stream or wire.streamed(body):
                events = wire.stream(reply).split(b"\n\n")
                kept = events[: len(events) // 2 - 1] if self.upstream.cut else events
                self._send(200, b"\n\n".join(kept), "text/event-stream")
            else:
                self._send(200, json.dumps(reply).encode())

    def _send(self, status: int, content: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
