"""The batch interfaces of OpenAI and Anthropic on loopback, as far as their SDKs use them."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterable
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]
#: What is answered to a question by its text: a fault, or else its words turned around.
FAULTS = {"expired": "expired", "wrong": "errored"}


class BatchServer:
    """`open` batches are worked on until `finish()`; `made` are the calls of each that was made."""

    def __init__(self, *, finished: bool = True) -> None:
        self.made: list[list[Body]] = []
        self.marks: list[Body] = []
        self.finished = finished
        self.created = threading.Event()
        self.lose_answer_of_create = False
        self.lose_create = False
        self.odd_lines: list[str] = []
        self.cut_off = 0  # so many files of answers
        self._files: dict[str, str] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                self._answer(outer.post(self.path, raw, self.headers.get("content-type", "")))

            def do_GET(self) -> None:
                self._answer(outer.get(self.path.partition("?")[0]))

            def _answer(self, answer: Body | str | None) -> None:
                if answer is None:
                    self.close_connection = True
                    return
                data = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                cut = outer.cut_off > 0 and '"custom_id"' in str(answer)
                outer.cut_off -= cut
                self.close_connection |= cut
                self.send_header("content-length", str(len(data) + cut))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def post(self, path: str, raw: bytes, kind: str) -> Body | None:
        if path.endswith("/files"):
            form = BytesParser().parsebytes(f"content-type: {kind}\r\n\r\n".encode() + raw)
            parts = form.get_payload()
            contents = [part.get_payload(decode=True) for part in parts]  # type: ignore
            name = f"file-{len(self._files)}"
            self._files[name] = next(c.decode() for c in contents if b"custom_id" in c)
            return {"id": name, "object": "file", "purpose": "batch", "filename": "b", "bytes": 1,
                    "created_at": 1, "status": "processed"}  # fmt: skip
        body = json.loads(raw)
        if "requests" in body:
            calls = [{"key": r["custom_id"], "body": r["params"]} for r in body["requests"]]
        else:
            lines = self._files[body["input_file_id"]].splitlines()
            calls = [{"key": c["custom_id"], "body": c["body"]} for c in map(json.loads, lines)]
        if self.lose_create:
            return None
        self.made.append(calls)
        self.marks.append(body.get("metadata") or {})
        self.created.set()
        if self.lose_answer_of_create:
            return None
        return self.state(len(self.made) - 1, anthropic="requests" in body)

    def get(self, path: str) -> Body | str:
        if match := re.search(r"/files/out-(\d+)/content$", path):
            return self.written(map(self.line, self.made[int(match[1])]))
        if match := re.search(r"/messages/batches/b(\d+)/results$", path):
            return self.written(map(self.result, self.made[int(match[1])]))
        anthropic = "/messages/" in path
        if match := re.search(r"/batches/b(\d+)$", path):
            return self.state(int(match[1]), anthropic=anthropic)
        every = [self.state(i, anthropic=anthropic) for i in range(len(self.made))]
        return {"object": "list", "data": every[::-1], "has_more": False, "first_id": None,
                "last_id": None}  # fmt: skip

    def written(self, lines: Iterable[Body]) -> str:
        texts = (json.dumps(line, ensure_ascii=False) for line in lines)
        return "\n".join([*self.odd_lines, *texts])

    def state(self, number: int, *, anthropic: bool) -> Body:
        count, now = len(self.made[number]), time.time()
        if anthropic:
            counts = dict.fromkeys(("succeeded", "errored", "canceled", "expired"), 0)
            return {
                "id": f"b{number}", "type": "message_batch", "created_at": _date(now),
                "expires_at": _date(now + 86400), "cancel_initiated_at": None, "ended_at": None,
                "archived_at": None,
                "results_url": f"{self.address}/v1/messages/batches/b{number}/results",
                "processing_status": "ended" if self.finished else "in_progress",
                "request_counts": {**counts, "processing": count},
            }  # fmt: skip
        return {
            "id": f"b{number}", "object": "batch", "endpoint": "/v1/chat/completions",
            "input_file_id": "f", "completion_window": "24h", "created_at": int(now),
            "status": "completed" if self.finished else "in_progress",
            "output_file_id": f"out-{number}", "error_file_id": None,
            "metadata": self.marks[number],
        }  # fmt: skip

    def line(self, call: Body) -> Body:
        asked = str(call["body"]["messages"][-1]["content"])
        if asked in FAULTS:
            fault = {"error": {"message": asked, "code": asked}}
            status = 400 if asked == "wrong" else 500
            return {"custom_id": call["key"], "response": {"status_code": status, "body": fault}}
        choice = {"index": 0, "finish_reason": "stop",
                  "message": {"role": "assistant", "content": asked[::-1]}}  # fmt: skip
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        body = {"object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}
        return {"custom_id": call["key"], "response": {"status_code": 200, "body": body}}

    def result(self, call: Body) -> Body:
        asked = str(call["body"]["messages"][-1]["content"][-1]["text"])
        result: Body = {"type": FAULTS.get(asked, "succeeded")}
        if result["type"] == "errored":
            error = {"type": "invalid_request_error", "message": "wrong"}
            result["error"] = {"type": "error", "error": error}
        elif result["type"] == "succeeded":
            result["message"] = {
                "id": "msg", "type": "message", "role": "assistant", "model": "m",
                "content": [{"type": "text", "text": asked[::-1]}], "stop_reason": "end_turn",
                "stop_sequence": None, "usage": {"input_tokens": 100, "output_tokens": 10},
            }  # fmt: skip
        return {"custom_id": call["key"], "result": result}


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
