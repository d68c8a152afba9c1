"""A run watched from outside: Prometheus metrics and a JSON status on a port of this machine."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec

from chimera.errors import UsageError
from chimera.eval.harness import Observer
from chimera.eval.values import TrialRecord
from chimera.types import JSON, Usage


@dataclass
class Monitor:
    """Counts what a run's observer is told, and tells it on."""

    observer: Observer
    labels: dict[str, str]
    total: int = 0
    done: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)
    statuses: Counter[str] = field(default_factory=Counter)
    running: dict[tuple[str, int], float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def planned(self, total: int, done: int) -> None:
        self.total, self.done = total, done
        self.observer.planned(total, done)

    def started(self, task_id: str, sample: int) -> None:
        with self._lock:
            self.running[task_id, sample] = time.time()
        self.observer.started(task_id, sample)

    def doing(self, task_id: str, sample: int, what: str, seconds: float) -> None:
        self.observer.doing(task_id, sample, what, seconds)

    def finished(self, record: TrialRecord) -> None:
        with self._lock:
            self.running.pop((record.task_id, record.sample), None)
            self.done += 1
            self.statuses[record.status] += 1
            self.cost += record.cost or 0.0
            self.seconds += record.duration
            self.usage += record.usage
        self.observer.finished(record)

    def noticed(self, what: str) -> None:
        self.observer.noticed(what)

    def status(self) -> dict[str, JSON]:
        """What `/status` says; the running trials from the oldest on, at most a hundred."""
        with self._lock:
            oldest = sorted(self.running.items(), key=lambda item: item[1])[:100]
            now = time.time()
            return {
                **self.labels,
                "planned": self.total,
                "done": self.done,
                "running": len(self.running),
                **{status: self.statuses[status] for status in ("passed", "failed", "error")},
                "cost": self.cost,
                "usage": msgspec.to_builtins(self.usage),
                "oldest": [
                    {"task_id": task, "sample": sample, "seconds": round(now - began, 3)}
                    for (task, sample), began in oldest
                ],
            }

    def metrics(self) -> str:
        """The same in Prometheus' text format."""
        with self._lock:
            samples: list[tuple[str, str, dict[str, str], float]] = [
                ("trials_planned", "gauge", {}, self.total),
                ("trials_running", "gauge", {}, len(self.running)),
                ("trials_done", "gauge", {}, self.done),
                *(
                    ("trials_total", "counter", {"status": status}, self.statuses[status])
                    for status in ("passed", "failed", "error")
                ),
                ("trial_seconds_total", "counter", {}, self.seconds),
                ("cost_dollars_total", "counter", {}, self.cost),
                ("tokens_total", "counter", {"kind": "input"}, self.usage.input_tokens),
                ("tokens_total", "counter", {"kind": "output"}, self.usage.output_tokens),
                ("tokens_total", "counter", {"kind": "cached"}, self.usage.cached_tokens),
            ]
        lines: list[str] = []
        for name, kind, labels, value in samples:
            if (head := f"# TYPE chimera_{name} {kind}") not in lines:
                lines.append(head)
            said = ",".join(f'{k}="{_escaped(v)}"' for k, v in {**self.labels, **labels}.items())
            lines.append(f"chimera_{name}{{{said}}} {value:.12g}")
        return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


@contextmanager
def serving(monitor: Monitor, port: int) -> Iterator[int]:
    """`/metrics` and `/status` on the loopback address, for as long as the context lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._send("text/plain; version=0.0.4; charset=utf-8", monitor.metrics().encode())
            elif self.path == "/status":
                self._send("application/json", msgspec.json.encode(monitor.status()))
            else:
                self.send_error(404, "there are /metrics and /status")

        def _send(self, kind: str, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None: ...

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise UsageError(f"--metrics {port}: {error.strerror}") from None
    thread = threading.Thread(target=server.serve_forever, daemon=True, name="chimera-metrics")
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
