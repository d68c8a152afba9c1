"""Model calls kept in a file, where asked for: the same call of the same sample is made once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from chimera.errors import UsageError
from chimera.types import JSON, Message, Native, Response, ToolCall, Usage


def call_key(
    identity: Mapping[str, JSON],
    messages: Sequence[Message],
    parameters: Mapping[str, JSON],
    sample: int,
) -> str:
    """A digest of everything that decides an answer, the number of the sample included."""
    content = {
        "identity": identity,
        "messages": [_said(message) for message in messages],
        "parameters": parameters,
        "sample": sample,
    }
    text = json.dumps(content, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _said(message: Message) -> dict[str, JSON]:
    """All of a message that is there: what it lacks is no part of a key."""
    always = ("role", "content", "tool_calls", "call_id")
    return {key: value for key, value in asdict(message).items() if value or key in always}


def _plain(value: object) -> JSON:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} in a model call cannot be part of a call's key")


class CallStore:
    """Answers by key in one SQLite file; safe for many threads and processes.

    One that cannot be read is as good as none, and one that cannot be kept is an answer all the
    same: it is paid for.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                path, check_same_thread=False, timeout=30, isolation_level=None
            )
            weakref.finalize(self, self._connection.close)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL)"
            )
        except (OSError, sqlite3.Error) as error:
            raise UsageError(f"the file of stored calls {path} cannot be used: {error}") from None

    @staticmethod
    @lru_cache(maxsize=8)
    def at(path: Path) -> CallStore:
        """The one store of a file in this process."""
        return CallStore(path)

    def load(self, key: str) -> Response | None:
        row = self._row("SELECT answer FROM answers WHERE key = ?", key)
        try:
            return None if row is None else _response(json.loads(row[0]))
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
            self._row("DELETE FROM answers WHERE key = ?", key)
            return None

    def save(self, key: str, response: Response) -> None:
        try:
            answer = json.dumps(asdict(response), default=_plain)
        except (RecursionError, TypeError, ValueError):
            return
        self._row("INSERT OR IGNORE INTO answers VALUES (?, ?)", key, answer)

    def _row(self, statement: str, *values: str) -> tuple[str, ...] | None:
        with self._lock, contextlib.suppress(sqlite3.Error):
            row: tuple[str, ...] | None = self._connection.execute(statement, values).fetchone()
            return row
        return None


def _response(answer: dict[str, JSON]) -> Response:
    answer["usage"] = Usage(**answer["usage"])
    answer["tool_calls"] = tuple(ToolCall(**call) for call in answer["tool_calls"])
    answer["native"] = Native(**answer["native"]) if answer.get("native") else None
    return Response(**answer)
