"""Controls by the identity of what they were made in: one table, in the cache and in run files."""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from chimera.cache import cache_dir
from chimera.errors import UsageError
from chimera.eval.values import Control

RowT = TypeVar("RowT")

SCHEMA = """
CREATE TABLE controls (
    identity TEXT NOT NULL, answer TEXT NOT NULL CHECK (answer IN ('reference', 'nothing')),
    benchmark TEXT NOT NULL, task_id TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('passed', 'failed', 'error')),
    why TEXT NOT NULL, log TEXT NOT NULL, of_answer INTEGER NOT NULL,
    made REAL NOT NULL, seconds REAL NOT NULL, details TEXT NOT NULL,
    PRIMARY KEY (identity, answer)
);
"""
COLUMNS = (
    "identity, answer, benchmark, task_id, status, why, log, of_answer, made, seconds, details"
)
INSERT = f"INSERT OR REPLACE INTO controls ({COLUMNS}) VALUES (?,?,?,?,?, ?,?,?,?,?,?)"
UNSTABLE = """
CREATE TABLE unstable (
    identity TEXT NOT NULL, test TEXT NOT NULL, runs INTEGER NOT NULL, passes INTEGER NOT NULL,
    PRIMARY KEY (identity, test)
);
"""


class ControlRow(NamedTuple):
    identity: str
    answer: Literal["reference", "nothing"]
    benchmark: str
    task_id: str
    status: Literal["passed", "failed", "error"]
    why: str
    log: str
    of_answer: Annotated[int, Meta(ge=0, le=1)]
    made: Annotated[float, Meta(ge=0, le=1e11)]
    seconds: Annotated[float, Meta(ge=0, le=1e11)]
    details: str

    def control(self) -> Control:
        return Control(**{**self._asdict(), "of_answer": bool(self.of_answer)})


def row_of(control: Control) -> ControlRow:
    return ControlRow(
        *(control.identity, control.answer, control.benchmark, control.task_id, control.status),
        *(control.why, control.log, int(control.of_answer), control.made, control.seconds),
        control.details,
    )


class ControlStore:
    """Controls in one SQLite file; safe for many threads and processes.

    A `UsageError` says that the file is damaged, or not one of ours.
    """

    def __init__(self, path: Path | None) -> None:
        """None is a file without a name, which goes with the object."""
        self.path = path
        self._lock = threading.Lock()
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                path or "", check_same_thread=False, timeout=30, isolation_level=None
            )
            weakref.finalize(self, self._connection.close)
            self._execute(f"PRAGMA journal_mode={'OFF' if path is None else 'WAL'}")
            self._execute("PRAGMA synchronous=NORMAL")
            for schema in (SCHEMA, UNSTABLE):
                self._execute(schema.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from None

    @staticmethod
    def here() -> ControlStore:
        """The store of this machine's cache."""
        return ControlStore._at(cache_dir() / "controls.sqlite")

    @staticmethod
    @lru_cache(maxsize=8)
    def _at(path: Path) -> ControlStore:
        return ControlStore(path)

    def get(self, identity: str, answer: str) -> Control | None:
        return next(iter(self._select("identity = ? AND answer = ?", (identity, answer))), None)

    def put(self, control: Control) -> None:
        self._execute(INSERT, row_of(control))

    def found(self, benchmark: str | None = None, task: str | None = None) -> list[Control]:
        """Controls of benchmarks and tasks that fit the globs, oldest first."""
        return self._select(
            "benchmark GLOB ? AND task_id GLOB ? ORDER BY made", (benchmark or "*", task or "*")
        )

    def starting(self, identity: str) -> list[Control]:
        """Those whose identity begins so."""
        return self._select("substr(identity, 1, ?) = ?", (len(identity), identity))

    def clear(self, benchmark: str | None = None, task: str | None = None) -> int:
        """Forget the controls that `found` finds, and what is known of their tests."""
        chosen = self.found(benchmark, task)
        for control in chosen:
            self._execute("DELETE FROM controls WHERE identity = ?", (control.identity,))
            self._execute("DELETE FROM unstable WHERE identity = ?", (control.identity,))
        return len(chosen)

    def unstable(self, identity: str) -> dict[str, tuple[int, int]]:
        """Tests that passed in some of several runs: in how many of how many."""
        query = "SELECT test, passes, runs FROM unstable WHERE identity = ? ORDER BY test"
        rows = self._checked(tuple[str, int, int], self._execute(query, (identity,)))
        return {test: (passes, runs) for test, passes, runs in rows}

    def put_unstable(self, identity: str, tests: Mapping[str, tuple[int, int]]) -> None:
        """Take the place of all that was known of the tests of an identity."""
        self._execute("DELETE FROM unstable WHERE identity = ?", (identity,))
        for test, (passes, runs) in tests.items():
            self._execute(
                "INSERT OR REPLACE INTO unstable VALUES (?,?,?,?)", (identity, test, runs, passes)
            )

    def _select(self, where: str, arguments: Sequence[Any]) -> list[Control]:
        rows = self._execute(f"SELECT {COLUMNS} FROM controls WHERE {where}", arguments)
        return [row.control() for row in self._checked(ControlRow, rows)]

    def _checked(self, kind: type[RowT], rows: list[tuple[Any, ...]]) -> list[RowT]:
        try:
            return msgspec.convert(rows, list[kind])  # type: ignore[valid-type]
        except msgspec.ValidationError as error:
            raise self._unusable(error) from None

    def _execute(self, query: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._connection.execute(query, arguments).fetchall()
        except (sqlite3.Error, UnicodeError) as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> UsageError:
        return UsageError(f"the file of controls {self.path} cannot be used: {error}")
