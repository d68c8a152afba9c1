"""Calls by the batch interfaces of OpenAI and Anthropic: within a day, for half the price.

A call waits with others until no more come, goes out with them as one batch, and is answered when
the batch has ended. Which batch a call is in, and every answer, is kept in a file, so that a run
that is killed and resumed waits for what it has paid for. Before a batch is made its mark is
written down; one whose making was cut off is looked for by that mark.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from chimera.errors import UsageError
from chimera.providers.anthropic import AnthropicProvider
from chimera.providers.base import CallFailed, Provider, Request
from chimera.providers.http import bodies_of
from chimera.providers.meter import current_meter
from chimera.providers.openai import OpenAIProvider
from chimera.providers.prices import BatchPrice, Price
from chimera.providers.sdk import decoded_lines, malformed, readable, status_failure, was_sent
from chimera.providers.wire import messages
from chimera.types import JSON, Response

#: A batch is sent when no call has come for this long, or when it has as many as services take.
QUIET_SECONDS = 3.0
MOST_CALLS = 50_000
MOST_BYTES = 150 * 1024**2
POLL_SECONDS = 15.0
#: Of a file of answers. It is read line by line, and what is kept of it are answers.
MOST_RESULT_BYTES = 4 * 1024**3
#: Services answer within a day; a little more, for what comes late.
LONGEST_SECONDS = 26 * 3600.0
#: Faults of the network in a row, when asking how a batch is, after which its calls fail.
MOST_FAULTS = 20

Answers = dict[str, dict[str, JSON] | CallFailed]


class BatchService(Protocol):
    """What a service's batch interface can do. Bodies are by the calls' keys."""

    def create(self, bodies: Mapping[str, dict[str, JSON]], mark: str) -> str:
        """Send a batch; its id."""

    def find(self, mark: str, since: float, count: int, known: Container[str]) -> str | None:
        """The id of a batch that was made and not written down, as those `known` were."""

    def answers(self, batch: str) -> Answers | None:
        """What each call came to; None while the batch is worked on."""


@dataclass(frozen=True, kw_only=True)
class BatchProvider(Provider):
    """A model whose calls go out in batches; `file` is where they are kept."""

    inner: OpenAIProvider | AnthropicProvider
    file: Path

    @property
    def endpoint(self) -> str:
        return f"{self.inner.endpoint} in batches"

    def identity(self) -> dict[str, JSON]:
        """That of the model: how a call travels changes no answer."""
        return self.inner.identity()

    def price(self) -> Price | None:
        usual = self.inner.price()
        return None if usual is None else BatchPrice(usual)

    def reserved_before(self, request: Request) -> bool:
        """Whether it is in a batch that was sent, perhaps before the run was killed."""
        key, _ = self._keyed(request)
        return batcher_at(self.file, self.inner).was_sent(key)

    def _keyed(self, request: Request) -> tuple[str, dict[str, Any]]:
        """The body of a request, and the key by which it is known."""
        body = self.inner._arguments(request)
        meter = current_meter()
        content = json.dumps([self.identity(), body, meter.sample if meter else 0], sort_keys=True)
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest(), body

    def _call(self, request: Request) -> Response:
        key, body = self._keyed(request)
        batcher = batcher_at(self.file, self.inner)
        answer = batcher.answer(key, body, request.timeout)
        wire = messages if isinstance(self.inner, AnthropicProvider) else self.inner.wire(request)
        try:
            with readable(self.name):
                response: Response = wire.read_reply(self.name, answer, request)
        except CallFailed:
            batcher.forget(key)  # asked again, it is to be a call of its own
            raise
        return response


def in_batches(provider: Provider, file: Path) -> BatchProvider:
    """The same model by its service's batch interface."""
    if type(provider) is not OpenAIProvider and type(provider) is not AnthropicProvider:
        raise UsageError(
            f"--batch is for models of OpenAI and Anthropic, and '{provider.name}' is none"
        )
    assert isinstance(provider, (OpenAIProvider, AnthropicProvider))
    return BatchProvider(
        name=provider.name,
        model=provider.model,
        attempts=provider.attempts,
        timeout=LONGEST_SECONDS,
        cache=provider.cache,
        settings=provider.settings,
        max_connections=MOST_CALLS,
        inner=provider,
        file=file,
    )


@dataclass(slots=True)
class _Waiting:
    """A call that waits; `outcome` is set when `done` is."""

    body: dict[str, JSON]
    done: threading.Event = field(default_factory=threading.Event)
    outcome: dict[str, JSON] | CallFailed | None = None

    def settle(self, outcome: dict[str, JSON] | CallFailed) -> None:
        self.outcome = outcome
        self.done.set()


class Batcher:
    """The calls of one file: those that wait to be sent, and those whose batch is worked on."""

    def __init__(self, file: Path, service: BatchService, name: str) -> None:
        self._name, self._service = name, service
        self._kept = _Kept(file)
        self._lock = threading.Lock()
        self._unsent: dict[str, _Waiting] = {}
        self._leaving: dict[str, _Waiting] = {}
        self._sent: dict[str, dict[str, _Waiting]] = {}
        self._last_call = time.monotonic()
        self._thread: threading.Thread | None = None

    def answer(self, key: str, body: dict[str, JSON], timeout: float) -> dict[str, JSON]:
        """The answer to a call, however long its batch takes."""
        with self._lock:
            _, known = self._kept.call(key)
            if known is not None:
                return known
            if key not in self._unsent:
                self._last_call = time.monotonic()
            groups = (self._leaving, *self._sent.values())
            sent = (calls[key] for calls in groups if key in calls)
            waiting = next(sent, None) or self._unsent.setdefault(key, _Waiting(body))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True, name="batches")
                self._thread.start()
        if not waiting.done.wait(timeout):
            raise CallFailed(
                f"{self._name}: the batch had not ended after {timeout:.0f} s",
                retryable=False,
                maybe_charged=True,
            )
        assert waiting.outcome is not None
        if isinstance(waiting.outcome, CallFailed):
            raise waiting.outcome
        return waiting.outcome

    def was_sent(self, key: str) -> bool:
        with self._lock:
            batch, _ = self._kept.call(key)
            return batch is not None

    def forget(self, key: str) -> None:
        """Have a call made anew when it comes again."""
        with self._lock:
            self._kept.forget(key)

    def _work(self) -> None:
        """Send what waits, and ask after what was sent; a fault of ours ends those who wait."""
        try:
            self._send_and_ask()
        except Exception as error:  # noqa: BLE001 - nobody else can tell those who wait
            fault = CallFailed(f"{self._name}: batches: {error}", retryable=False)
            fault = error if isinstance(error, CallFailed) else fault
            with self._lock:
                self._thread = None
                groups = [self._unsent, self._leaving, *self._sent.values()]
                self._unsent, self._leaving, self._sent = {}, {}, {}
            for calls in groups:
                self._settle(calls, dict.fromkeys(calls, fault))

    def _recover(self) -> None:
        """Find out about batches whose making was cut off: made after all, or never."""
        for mark, since, count in self._kept.intended():
            self._kept.sent(mark, self._service.find(mark, since, count, self._kept.batches()))

    def _send_and_ask(self) -> None:
        polled = float("-inf")
        while True:
            time.sleep(min(0.2, QUIET_SECONDS))
            for calls in self._ready():
                self._send(calls)
            with self._lock:
                self._leaving = {}
            if time.monotonic() - polled >= POLL_SECONDS:
                polled = time.monotonic()
                for batch in list(self._sent):
                    self._ask(batch)
            with self._lock:
                if not self._unsent and not self._sent:
                    self._thread = None
                    return

    def _ready(self) -> list[dict[str, _Waiting]]:
        """Calls to be sent now, in groups that a service takes."""
        with self._lock:
            quiet = time.monotonic() - self._last_call >= QUIET_SECONDS
            if not self._unsent or (not quiet and len(self._unsent) < MOST_CALLS):
                return []
            calls, self._unsent = self._unsent, {}
            self._leaving = calls
        groups: list[dict[str, _Waiting]] = [{}]
        size = 0
        for key, waiting in calls.items():
            size += len(json.dumps(waiting.body))
            if groups[-1] and (len(groups[-1]) >= MOST_CALLS or size > MOST_BYTES):
                groups.append({})
                size = 0
            groups[-1][key] = waiting
        return groups

    def _send(self, calls: dict[str, _Waiting]) -> None:
        """Send calls in a new batch, but for those that are in one already."""
        self._recover()
        with self._lock:
            for key in list(calls):
                batch, _ = self._kept.call(key)
                if batch is not None:
                    self._sent.setdefault(batch, {})[key] = calls.pop(key)
        if not calls:
            return
        mark = secrets.token_hex(16)
        self._kept.intend(mark, list(calls))
        try:
            batch = self._service.create({key: call.body for key, call in calls.items()}, mark)
        except CallFailed as error:
            if not error.maybe_charged:
                self._kept.sent(mark, None)
            error.maybe_charged = False  # it is paid for when it is found again
            self._settle(calls, dict.fromkeys(calls, error))
            return
        with self._lock:
            self._kept.sent(mark, batch)
            self._sent.setdefault(batch, {}).update(calls)

    def _ask(self, batch: str) -> None:
        try:
            answers = self._service.answers(batch)
        except CallFailed as error:
            faults = self._kept.faults(batch)
            if error.retryable and faults < MOST_FAULTS:
                return
            answers = dict.fromkeys(self._sent[batch], error)
        if answers is None:
            return
        with self._lock:
            calls = self._sent.pop(batch)
            lost = malformed(self._name, f"the batch {batch} has no answer to this call")
            whole: Answers = {key: answers.get(key, lost) for key in calls}
            self._kept.answered(batch, {**answers, **whole})
        self._settle(calls, whole)

    @staticmethod
    def _settle(calls: Mapping[str, _Waiting], outcomes: Mapping[str, Any]) -> None:
        for key, waiting in calls.items():
            waiting.settle(outcomes[key])


class _Kept:
    """The file: the marks of batches, the batch of each call, and the answers."""

    def __init__(self, file: Path) -> None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                file, check_same_thread=False, timeout=30, isolation_level=None
            )
            weakref.finalize(self, self._connection.close)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.executescript(
                "CREATE TABLE IF NOT EXISTS marks (mark TEXT PRIMARY KEY, since REAL NOT NULL);"
                "CREATE TABLE IF NOT EXISTS calls "
                "(key TEXT PRIMARY KEY, batch TEXT NOT NULL, answer TEXT);"
                "CREATE INDEX IF NOT EXISTS calls_of_batch ON calls (batch)"
            )
        except (OSError, sqlite3.Error) as error:
            raise UsageError(f"the file of batches {file} cannot be used: {error}") from None
        self._faults: dict[str, int] = {}

    def call(self, key: str) -> tuple[str | None, dict[str, JSON] | None]:
        """The batch that a call is in, and its answer, as far as there are any."""
        query = "SELECT batch, answer FROM calls WHERE key = ?"
        row = self._connection.execute(query, (key,)).fetchone()
        if row is None:
            return None, None
        return row[0], None if row[1] is None else json.loads(row[1])

    def batches(self) -> frozenset[str]:
        """Those that calls are known to be in."""
        rows = self._connection.execute("SELECT DISTINCT batch FROM calls")
        return frozenset(batch for (batch,) in rows)

    def forget(self, key: str) -> None:
        self._connection.execute("DELETE FROM calls WHERE key = ?", (key,))

    def intended(self) -> list[tuple[str, float, int]]:
        """Batches whose id is not known: mark, when they were about to be made, how many calls."""
        query = "SELECT mark, since, (SELECT COUNT(*) FROM calls WHERE batch = mark) FROM marks"
        return self._connection.execute(query).fetchall()

    def intend(self, mark: str, keys: Sequence[str]) -> None:
        """Write down that a batch of these calls is about to be made."""
        with self._together() as connection:
            connection.execute("INSERT INTO marks VALUES (?, ?)", (mark, time.time()))
            rows = [(key, mark) for key in keys]
            connection.executemany("INSERT OR REPLACE INTO calls VALUES (?, ?, NULL)", rows)

    def sent(self, mark: str, batch: str | None) -> None:
        """Write down the id of the batch that was made; None when it was not."""
        with self._together() as connection:
            if batch is None:
                connection.execute("DELETE FROM calls WHERE batch = ?", (mark,))
            else:
                connection.execute("UPDATE calls SET batch = ? WHERE batch = ?", (batch, mark))
            connection.execute("DELETE FROM marks WHERE mark = ?", (mark,))

    @contextmanager
    def _together(self) -> Iterator[sqlite3.Connection]:
        """All of it is written, or nothing."""
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            yield self._connection

    def faults(self, batch: str) -> int:
        """How often asking after a batch has failed, this time included."""
        self._faults[batch] = self._faults.get(batch, 0) + 1
        return self._faults[batch]

    def answered(self, batch: str, answers: Answers) -> None:
        """Keep the answers; a call that failed is forgotten, and can be made again."""
        kept = [(json.dumps(a), k, batch) for k, a in answers.items() if isinstance(a, dict)]
        with self._together() as connection:
            connection.executemany("UPDATE calls SET answer = ? WHERE key = ? AND batch = ?", kept)
            query = "DELETE FROM calls WHERE batch = ? AND answer IS NULL"
            connection.execute(query, (batch,))


_batchers: dict[tuple[int, Path, str], Batcher] = {}
_lock = threading.Lock()


def batcher_at(file: Path, provider: OpenAIProvider | AnthropicProvider) -> Batcher:
    """The one batcher of a file and a model in this process."""
    with _lock:
        key = (os.getpid(), file, provider.name)
        if key not in _batchers:
            _batchers[key] = Batcher(file, service_of(provider), provider.name)
        return _batchers[key]


def service_of(provider: OpenAIProvider | AnthropicProvider) -> BatchService:
    if isinstance(provider, AnthropicProvider):
        return AnthropicBatches(provider)
    return OpenAIBatches(provider)


@dataclass(frozen=True, slots=True)
class OpenAIBatches:
    """A file of requests goes in; one of answers and one of failures come out."""

    provider: OpenAIProvider

    def create(self, bodies: Mapping[str, dict[str, JSON]], mark: str) -> str:
        address = "/v1/chat/completions"
        if any("input" in body for body in bodies.values()):
            address = "/v1/responses"
        lines = [
            json.dumps({"custom_id": key, "method": "POST", "url": address, "body": body})
            for key, body in bodies.items()
        ]
        content = "\n".join(lines).encode("utf-8", "replace") + b"\n"

        def send(client: Any) -> str:
            file = client.files.create(file=("batch.jsonl", content), purpose="batch")
            made = client.batches.create(
                input_file_id=file.id,
                endpoint=address,
                completion_window="24h",
                metadata={"chimera": mark},
            )
            return str(made.id)

        return str(self._do(send))

    def find(self, mark: str, since: float, count: int, known: Container[str]) -> str | None:
        def search(client: Any) -> str | None:
            for made in client.batches.list(limit=100):
                if made.created_at < since - 3600:
                    return None
                if (made.metadata or {}).get("chimera") == mark and made.status != "failed":
                    return str(made.id)
            return None

        found: str | None = self._do(search)
        return found

    def answers(self, batch: str) -> Answers | None:
        def fetch(client: Any) -> Answers | None:
            state = client.batches.retrieve(batch)
            if state.status == "failed":
                why = f"{self.provider.name}: the batch was refused: {state.errors}"
                raise CallFailed(why, retryable=False)
            if state.status not in ("completed", "expired", "cancelled"):
                return None
            found: Answers = {}
            files = client.files.with_streaming_response
            for file in (state.output_file_id, state.error_file_id):
                if file:
                    with bodies_of(MOST_RESULT_BYTES), files.content(file) as answer:
                        for line in decoded_lines(answer.iter_bytes()):
                            found[str(line.get("custom_id"))] = self._outcome(line)
            return found

        answers: Answers | None = self._do(fetch)
        return answers

    def _outcome(self, line: dict[str, JSON]) -> dict[str, JSON] | CallFailed:
        response = _mapping(line.get("response"))
        status, body = response.get("status_code"), response.get("body")
        if status == 200 and isinstance(body, dict):
            return body
        known = status if isinstance(status, int) and 400 <= status < 600 else 500
        return status_failure(self.provider.name, known, {}, line.get("error") or body)

    def _do(self, work: Callable[[Any], Any]) -> Any:
        import openai

        return _done(openai, self.provider.name, lambda: work(self.provider._client()))


@dataclass(frozen=True, slots=True)
class AnthropicBatches:
    """Requests go in together; their results come out as lines."""

    provider: AnthropicProvider

    def create(self, bodies: Mapping[str, dict[str, JSON]], mark: str) -> str:
        requests = [{"custom_id": key, "params": body} for key, body in bodies.items()]
        made = self._do(lambda batches: batches.create(requests=requests))
        return str(made.id)

    def find(self, mark: str, since: float, count: int, known: Container[str]) -> str | None:
        """A batch of as many calls, made since: the service keeps no marks of ours."""

        def search(batches: Any) -> str | None:
            for made in batches.list(limit=100):
                if made.created_at.timestamp() < since - 60:
                    return None
                counts = made.request_counts
                total = counts.processing + counts.succeeded + counts.errored
                same = total + counts.canceled + counts.expired == count
                if same and str(made.id) not in known:
                    return str(made.id)
            return None

        found: str | None = self._do(search)
        return found

    def answers(self, batch: str) -> Answers | None:
        def fetch(batches: Any) -> Answers | None:
            if batches.retrieve(batch).processing_status != "ended":
                return None
            found: Answers = {}
            results = batches.with_streaming_response.results
            with bodies_of(MOST_RESULT_BYTES), results(batch) as answer:
                for line in decoded_lines(answer.iter_bytes()):
                    outcome = self._outcome(_mapping(line.get("result")))
                    found[str(line.get("custom_id"))] = outcome
            return found

        answers: Answers | None = self._do(fetch)
        return answers

    def _outcome(self, result: Mapping[str, JSON]) -> dict[str, JSON] | CallFailed:
        kind, message = result.get("type"), result.get("message")
        if kind == "succeeded" and isinstance(message, dict):
            return message
        said = _mapping(result.get("error"))
        detail = _mapping(said.get("error", said))
        wrong = detail.get("type") == "invalid_request_error"
        why = f"{self.provider.name}: the call {kind} in its batch: {detail or ''}"
        return CallFailed(why, retryable=not wrong, refused=wrong)

    def _do(self, work: Callable[[Any], Any]) -> Any:
        import anthropic

        client = self.provider._client
        return _done(anthropic, self.provider.name, lambda: work(client().messages.batches))


def _mapping(value: JSON) -> dict[str, JSON]:
    return value if isinstance(value, dict) else {}


def _done(sdk: Any, name: str, work: Callable[[], Any]) -> Any:
    """The SDK's answer, or `CallFailed`."""
    try:
        return work()
    except CallFailed:
        raise
    except sdk.APIStatusError as error:
        detail = error.body or error.message
        raise status_failure(name, error.status_code, error.response.headers, detail) from None
    except sdk.APIConnectionError as error:
        raise CallFailed(
            f"{name}: no connection: {error.__cause__ or error}",
            retryable=True,
            maybe_charged=was_sent(error),
        ) from None
    except Exception as error:  # noqa: BLE001 - the HTTP library below has errors of its own
        why = f"{name}: the answer was cut off: {type(error).__name__}: {error}"
        raise CallFailed(why, retryable=True, maybe_charged=True) from None
