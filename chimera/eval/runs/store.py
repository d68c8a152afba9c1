"""The run store: one SQLite file a run, one transaction a trial.

Texts are plain columns that any SQLite client reads; trajectories and evidence are zstd-compressed
JSON; files and pictures are rows of `artifacts`. Keys are redacted from everything written.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from chimera.errors import UsageError
from chimera.eval.values import Submission, TrialError, TrialRecord, Verdict
from chimera.providers.meter import Budget, CallRecord
from chimera.providers.secrets import redact
from chimera.types import JSON, Step, Usage

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FORMAT = 1

_SCHEMA = """
CREATE TABLE manifest (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE tasks (task_id TEXT PRIMARY KEY, prompt TEXT NOT NULL, metadata TEXT NOT NULL);
CREATE TABLE trials (
    id INTEGER PRIMARY KEY,
    task_id TEXT NOT NULL, sample INTEGER NOT NULL, digest TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('passed', 'failed', 'error', 'submitted')),
    score REAL, why TEXT NOT NULL,
    error_boundary TEXT, error_message TEXT, error_retryable INTEGER,
    cost REAL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL, steps INTEGER NOT NULL, duration REAL NOT NULL,
    attempts INTEGER NOT NULL, started REAL NOT NULL, stop_reason TEXT NOT NULL,
    UNIQUE (task_id, sample)
);
CREATE TABLE submissions (
    trial INTEGER PRIMARY KEY REFERENCES trials ON DELETE CASCADE,
    text TEXT NOT NULL, form TEXT NOT NULL, raw TEXT, data TEXT
);
CREATE TABLE verdicts (
    trial INTEGER PRIMARY KEY REFERENCES trials ON DELETE CASCADE,
    passed INTEGER NOT NULL, score REAL, why TEXT NOT NULL, metrics TEXT NOT NULL, evidence BLOB
);
CREATE TABLE artifacts (
    trial INTEGER NOT NULL REFERENCES trials ON DELETE CASCADE,
    kind TEXT NOT NULL, name TEXT NOT NULL, content BLOB NOT NULL, PRIMARY KEY (trial, kind, name)
);
CREATE TABLE calls (
    trial INTEGER NOT NULL REFERENCES trials ON DELETE CASCADE,
    model TEXT NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL, cost REAL, started REAL NOT NULL, seconds REAL NOT NULL,
    attempts INTEGER NOT NULL, cached INTEGER NOT NULL, error TEXT
);
CREATE INDEX calls_of_trial ON calls (trial);
CREATE TABLE spending (amount REAL NOT NULL);
CREATE TABLE trajectories (
    trial INTEGER PRIMARY KEY REFERENCES trials ON DELETE CASCADE, steps BLOB NOT NULL
);
"""


class RunStore:
    """Reads and writes one run. Safe to use from many threads."""

    def __init__(self, path: Path | str, *, create: bool = False) -> None:
        self.path = path
        self._lock = threading.RLock()
        in_memory = str(path) == ":memory:"
        if not create and not in_memory and not Path(path).is_file():
            raise UsageError(f"no run at {path}; `chimera runs list` shows those there are")
        self._connection = sqlite3.connect(
            path, check_same_thread=False, isolation_level=None, timeout=60
        )
        weakref.finalize(self, self._connection.close)  # results are kept, and seldom closed
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute("PRAGMA foreign_keys = ON")
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
            if version == 0 and (create or in_memory):
                with self._transaction():
                    for statement in _SCHEMA.split(";"):
                        self._connection.execute(statement)
                    self._connection.execute(f"PRAGMA user_version = {FORMAT}")
            elif version != FORMAT:
                raise UsageError(f"{path} is not a run of this version of Chimera")
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise UsageError(f"{path} is not a run: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    # The manifest

    def set_manifest(self, values: Mapping[str, JSON]) -> None:
        with self._transaction():
            self._connection.executemany(
                "INSERT OR REPLACE INTO manifest VALUES (?, ?)",
                [(key, _json(value)) for key, value in values.items()],
            )

    def manifest(self) -> dict[str, JSON]:
        return {
            key: msgspec.json.decode(value)
            for key, value in self._rows("SELECT key, value FROM manifest ORDER BY key")
        }

    def add_tasks(self, tasks: Iterable[Mapping[str, Any]]) -> None:
        """What people see of the tasks: never the gold answers or hidden tests."""
        with self._transaction():
            self._connection.executemany(
                "INSERT OR REPLACE INTO tasks VALUES (?, ?, ?)",
                (
                    (task["id"], redact(task["prompt"]), _json(task.get("metadata", {})))
                    for task in tasks
                ),
            )

    def task_prompt(self, task_id: str) -> str:
        found = list(self._rows("SELECT prompt FROM tasks WHERE task_id = ?", (task_id,)))
        return str(found[0][0]) if found else ""

    # Trials

    def write(self, record: TrialRecord) -> None:
        """Store a trial in one transaction; an earlier record of it is replaced."""
        checkpoint = record.verdict is None and record.error is None
        status = "submitted" if checkpoint else record.status
        verdict, error, usage = record.verdict, record.error, record.usage
        score = verdict.value if verdict else None
        with self._transaction():
            self._connection.execute(
                "DELETE FROM trials WHERE task_id = ? AND sample = ?",
                (record.task_id, record.sample),
            )
            trial = self._connection.execute(
                "INSERT INTO trials VALUES (NULL, ?,?,?, ?,?,?, ?,?,?, ?,?,?, ?,?,?, ?,?,?)",
                (
                    *(record.task_id, record.sample, record.digest),
                    *(status, score, redact(record.why)),
                    error.boundary if error else None,
                    redact(error.message) if error else None,
                    error.retryable if error else None,
                    *(record.cost, usage.input_tokens, usage.output_tokens),
                    *(usage.cached_tokens, record.steps, record.duration),
                    *(record.attempts, record.started, record.stop_reason),
                ),
            ).lastrowid
            assert trial is not None
            if record.submission is not None:
                self._write_submission(trial, record.submission)
            if verdict is not None:
                self._write_verdict(trial, verdict)
            for call in record.calls:
                self._connection.execute(
                    "INSERT INTO calls VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                    (
                        *(trial, call.model, call.usage.input_tokens, call.usage.output_tokens),
                        *(call.usage.cached_tokens, call.cost, call.started, call.seconds),
                        *(call.attempts, call.cached),
                        redact(call.error) if call.error else None,
                    ),
                )
            if record.trajectory:
                steps = redact(msgspec.json.encode(record.trajectory).decode())
                self._connection.execute(
                    "INSERT INTO trajectories VALUES (?, ?)", (trial, _pack(steps))
                )

    def _write_submission(self, trial: int, submission: Submission) -> None:
        self._connection.execute(
            "INSERT INTO submissions VALUES (?,?,?,?,?)",
            (
                trial,
                redact(submission.text),
                submission.form,
                redact(submission.raw) if submission.raw is not None else None,
                _json(submission.data) if submission.data is not None else None,
            ),
        )
        self._write_artifacts(trial, "submission", submission.files)

    def _write_verdict(self, trial: int, verdict: Verdict) -> None:
        files = {k: v for k, v in verdict.evidence.items() if isinstance(v, bytes)}
        rest = {k: v for k, v in verdict.evidence.items() if k not in files}
        self._connection.execute(
            "INSERT INTO verdicts VALUES (?,?,?,?,?,?)",
            (
                *(trial, verdict.passed, verdict.score, redact(verdict.why)),
                _json(verdict.metrics),
                _pack(_json(rest)) if rest else None,
            ),
        )
        self._write_artifacts(trial, "evidence", files)

    def _write_artifacts(self, trial: int, kind: str, files: Mapping[str, bytes]) -> None:
        for name, content in files.items():
            self._connection.execute(
                "INSERT INTO artifacts VALUES (?,?,?,?)",
                (trial, kind, name, zstd.compress(content)),
            )

    def replace_verdict(self, record: TrialRecord, verdict: Verdict) -> None:
        """Put a newer verdict in the place of a stored trial's."""
        with self._transaction():
            trial = self._trial_id(record.task_id, record.sample)
            self._connection.execute("DELETE FROM verdicts WHERE trial = ?", (trial,))
            self._connection.execute(
                "DELETE FROM artifacts WHERE trial = ? AND kind = 'evidence'", (trial,)
            )
            self._write_verdict(trial, verdict)
            self._connection.execute(
                "UPDATE trials SET status = ?, score = ?, why = ?, error_boundary = NULL, "
                "error_message = NULL, error_retryable = NULL WHERE id = ?",
                (
                    "passed" if verdict.passed else "failed",
                    verdict.value,
                    redact(verdict.why),
                    trial,
                ),
            )

    def is_new(self) -> bool:
        return not any(self._rows("SELECT 1 FROM trials LIMIT 1"))

    def state(self, task_id: str, sample: int) -> tuple[str, bool] | None:
        """A stored trial's digest, and whether it has a verdict."""
        query = (
            "SELECT digest, status IN ('passed', 'failed') FROM trials "
            "WHERE task_id = ? AND sample = ?"
        )
        for digest, graded in self._rows(query, (task_id, sample)):
            return digest, bool(graded)
        return None

    def submission(self, task_id: str, sample: int) -> Submission | None:
        trial = self._trial_id(task_id, sample)
        found = list(
            self._rows("SELECT text, form, raw, data FROM submissions WHERE trial = ?", (trial,))
        )
        if not found:
            return None
        text, form, raw, data = found[0]
        return Submission(
            text=text,
            form=form,
            raw=raw,
            data=msgspec.json.decode(data) if data is not None else None,
            files=self.artifacts(task_id, sample, "submission"),
        )

    def artifacts(self, task_id: str, sample: int, kind: str) -> dict[str, bytes]:
        query = "SELECT name, content FROM artifacts WHERE trial = ? AND kind = ? ORDER BY name"
        trial = self._trial_id(task_id, sample)
        return {name: zstd.decompress(blob) for name, blob in self._rows(query, (trial, kind))}

    def trial_keys(self) -> list[tuple[str, int]]:
        return list(self._rows("SELECT task_id, sample FROM trials ORDER BY id"))

    def record(self, task_id: str, sample: int) -> TrialRecord:
        """A stored trial, whole."""
        for record in self.records(task_id=task_id, sample=sample, whole=True):
            return record
        raise UsageError(f"{self.path} has no trial of task {task_id!r}, sample {sample}")

    def records(
        self, *, task_id: str | None = None, sample: int | None = None, whole: bool = False
    ) -> Iterator[TrialRecord]:
        """Stored trials, a page at a time; `whole` adds calls, evidence and the trajectory."""
        last = 0
        while True:
            page = list(
                self._rows(
                    "SELECT t.*, v.passed, v.score, v.why, v.metrics, v.evidence, "
                    "s.text, s.form, s.raw, s.data FROM trials t "
                    "LEFT JOIN verdicts v ON v.trial = t.id "
                    "LEFT JOIN submissions s ON s.trial = t.id "
                    "WHERE t.id > ? AND (?2 IS NULL OR t.task_id = ?2) "
                    "AND (?3 IS NULL OR t.sample = ?3) ORDER BY t.id LIMIT 200",
                    (last, task_id, sample),
                )
            )
            if not page:
                return
            last = page[-1][0]
            for row in page:
                yield self._record(row, whole)

    def _record(self, row: tuple[Any, ...], whole: bool) -> TrialRecord:
        trial, task_id, sample, digest, _, _, _, boundary, message, retryable = row[:10]
        cost, tokens_in, tokens_out, cached, steps, duration, attempts, started, stop = row[10:19]
        passed, score, why, metrics, evidence, text, form, raw, data = row[19:]
        verdict = submission = error = None
        if passed is not None:
            details: dict[str, JSON] = {}
            if whole:
                if evidence:
                    details |= msgspec.json.decode(zstd.decompress(evidence))
                details |= self.artifacts(task_id, sample, "evidence")
            verdict = Verdict(bool(passed), why, score, msgspec.json.decode(metrics), details)
        if text is not None:
            submission = Submission(
                text=text,
                form=form,
                raw=raw,
                data=msgspec.json.decode(data) if data is not None else None,
                files=self.artifacts(task_id, sample, "submission") if whole else {},
            )
        if boundary is not None:
            error = TrialError(boundary, message, bool(retryable))
        return TrialRecord(
            task_id=task_id,
            sample=sample,
            digest=digest,
            submission=submission,
            verdict=verdict,
            error=error,
            usage=Usage(tokens_in, tokens_out, cached),
            cost=cost,
            steps=steps,
            duration=duration,
            attempts=attempts,
            started=started,
            stop_reason=stop,
            calls=self._calls(trial) if whole else (),
            trajectory=self._trajectory(trial) if whole else (),
        )

    def _calls(self, trial: int) -> tuple[CallRecord, ...]:
        query = "SELECT * FROM calls WHERE trial = ? ORDER BY rowid"
        return tuple(
            CallRecord(
                model=row[1],
                usage=Usage(row[2], row[3], row[4]),
                cost=row[5],
                started=row[6],
                seconds=row[7],
                attempts=row[8],
                cached=bool(row[9]),
                error=row[10],
            )
            for row in self._rows(query, (trial,))
        )

    def _trajectory(self, trial: int) -> tuple[Step, ...]:
        for (blob,) in self._rows("SELECT steps FROM trajectories WHERE trial = ?", (trial,)):
            return msgspec.json.decode(zstd.decompress(blob), type=tuple[Step, ...])
        return ()

    def spend(self, amount: float) -> None:
        """Book money before it is spent, and the difference after; a killed run then knows it."""
        with self._transaction():
            self._connection.execute("INSERT INTO spending VALUES (?)", (amount,))

    def spent(self) -> float:
        """Money booked for this run; a call under way when it was killed counts in full."""
        booked = next(self._rows("SELECT COALESCE(SUM(amount), 0) FROM spending"))[0]
        stored = next(self._rows("SELECT COALESCE(SUM(cost), 0) FROM trials"))[0]
        return max(float(booked), float(stored))

    def rows(self, query: str, arguments: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Read-only access for summaries and viewers."""
        return self._rows(query, arguments)

    def _rows(self, query: str, arguments: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        with self._lock:
            rows = self._connection.execute(query, arguments).fetchall()
        return iter(rows)

    def _trial_id(self, task_id: str, sample: int) -> int:
        query = "SELECT id FROM trials WHERE task_id = ? AND sample = ?"
        for (trial,) in self._rows(query, (task_id, sample)):
            return int(trial)
        raise UsageError(f"{self.path} has no trial of task {task_id!r}, sample {sample}")

    def _transaction(self) -> _Transaction:
        return _Transaction(self._connection, self._lock)


class _Transaction:
    """Holds the lock and a write transaction; rolls back when the body raises."""

    def __init__(self, connection: sqlite3.Connection, lock: threading.RLock) -> None:
        self._connection, self._lock = connection, lock

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self._connection.execute("ROLLBACK" if kind else "COMMIT")
        finally:
            self._lock.release()


def _json(value: JSON) -> str:
    return redact(msgspec.json.encode(value).decode())


def _pack(text: str) -> bytes:
    return zstd.compress(text.encode())


class StoredBudget(Budget):
    """A budget whose reservations are booked in the run store first."""

    def __init__(self, total: float, store: RunStore) -> None:
        super().__init__(total, spent=store.spent())
        self._store = store

    def reserve(self, worst_case: float, timeout: float | None = None) -> None:
        super().reserve(worst_case, timeout)
        self._store.spend(worst_case)

    def settle(self, worst_case: float, actual: float) -> None:
        super().settle(worst_case, actual)
        self._store.spend(actual - worst_case)
