"""The run store: one SQLite file a run, one transaction a trial.

Texts are plain columns that any SQLite client reads; trajectories and evidence are zstd-compressed
JSON; files and pictures are rows of `artifacts`. Keys are redacted from everything written. What a
file holds is believed no more than any other input: see `database`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar

import msgspec
from msgspec import Meta

from chimera.errors import StoreError, UsageError
from chimera.eval.runs import control_store
from chimera.eval.runs.database import PAGE_ROWS, Database, Mode, encode
from chimera.eval.values import (
    Control,
    ControlStatus,
    Submission,
    TrialControls,
    TrialError,
    TrialRecord,
    Verdict,
)
from chimera.providers.meter import Budget, CallRecord
from chimera.providers.secrets import may_hold_secrets, redact, without_keys
from chimera.text import (
    MOST_NEAR,
    did_you_mean,
    one_line,
    storable,
    storable_value,
    with_texts,
)
from chimera.types import JSON, Step, Usage

RowT = TypeVar("RowT")

_FIRST = """
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
#: Tokens of calls that are counted apart, where there are any.
_SECOND = """
CREATE TABLE tokens_apart (
    trial INTEGER NOT NULL REFERENCES trials ON DELETE CASCADE, call INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL, reasoning_tokens INTEGER NOT NULL,
    PRIMARY KEY (trial, call)
);
"""
#: The controls that verdicts rest on.
_THIRD = """
CREATE TABLE grounds (
    trial INTEGER PRIMARY KEY REFERENCES trials ON DELETE CASCADE,
    positive TEXT NOT NULL, negative TEXT NOT NULL, identity TEXT NOT NULL
);
""" + control_store.SCHEMA.lstrip()


#: Of one task.
MOST_SAMPLES = 2**31 - 1
#: Controls that wait for a trial at the most.
MOST_WAITING = 100

#: What columns hold: checked when they are read, and before they are written.
Samples = Annotated[int, Meta(ge=1, le=MOST_SAMPLES)]
Count = Annotated[int, Meta(ge=0, le=2**62)]
Flag = Annotated[int, Meta(ge=0, le=1)]
Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]
Money = Annotated[float, Meta(ge=0, le=1e15)]
Seconds = Annotated[float, Meta(ge=0, le=1e11)]
StoredStatus = Literal["passed", "failed", "error", "submitted"]


class _Apart(NamedTuple):
    cache_write_tokens: Count
    reasoning_tokens: Count


class _Trial(NamedTuple):
    task_id: str
    sample: Count
    digest: str
    status: StoredStatus
    score: Finite | None
    why: str
    boundary: str | None
    message: str | None
    retryable: Flag | None
    cost: Money | None
    input_tokens: Count
    output_tokens: Count
    cached_tokens: Count
    steps: Count
    duration: Seconds
    attempts: Count
    started: Seconds
    stop_reason: str


class _Grounds(NamedTuple):
    positive: ControlStatus | None
    negative: ControlStatus | None
    identity: str | None


class _Submission(NamedTuple):
    text: str
    form: str
    raw: str | None
    data: str | None


class _Verdict(NamedTuple):
    passed: Flag
    score: Finite | None
    why: str
    metrics: str
    evidence: bytes | None


class _Call(NamedTuple):
    model: str
    input_tokens: Count
    output_tokens: Count
    cached_tokens: Count
    cost: Money | None
    started: Seconds
    seconds: Seconds
    attempts: Count
    cached: Flag
    error: str | None


#: Trials that are one thing by their status and another by verdict and error; orphaned verdicts.
_CONTRADICTIONS = """
SELECT 1 FROM trials LEFT JOIN verdicts ON trial = id
WHERE (trial IS NOT NULL AND error_boundary IS NOT NULL) OR status IS NOT CASE
    WHEN passed = 1 THEN 'passed'
    WHEN passed = 0 THEN 'failed'
    WHEN error_boundary IS NOT NULL THEN 'error'
    ELSE 'submitted'
END
UNION ALL SELECT 1 FROM verdicts WHERE trial NOT IN (SELECT id FROM trials)
LIMIT 1
"""
_KEY = "task_id, sample, digest"
_OUTCOME = "status, score, why, error_boundary, error_message, error_retryable"
_COSTS = (
    "cost, input_tokens, output_tokens, cached_tokens, steps, duration, attempts, started, "
    "stop_reason"
)
_INSERT = (
    f"INSERT INTO trials ({_KEY}, {_OUTCOME}, {_COSTS}) "
    "VALUES (?,?,?, ?,?,?, ?,?,?, ?,?,?, ?,?,?, ?,?,?)"
)
_GROUNDS = "positive, negative, identity"
#: A run that goes on has its tasks already, and writes nothing where they are the same.
_TASK = """
INSERT INTO tasks VALUES (?, ?, ?)
ON CONFLICT (task_id) DO UPDATE SET prompt = excluded.prompt, metadata = excluded.metadata
WHERE prompt IS NOT excluded.prompt OR metadata IS NOT excluded.metadata
"""
#: The keys of a manifest that are read, with what they must be; others are as they are.
_MANIFEST: Mapping[str, Any] = {
    "environment": str | None,
    "identity": dict[str, Any],
    "planned": Count,
    "predictions": str | None,
    "samples": Samples,
    "seal": str | None,
    "settings": dict[str, Any],
    "started": Seconds,
    "unanswered": Count,
}
#: How it shows that a record cannot be stored.
_UNSTORABLE = (
    AttributeError, OverflowError, RecursionError, TypeError, ValueError,
    sqlite3.DataError, sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError,
)  # fmt: skip


class RunStore:
    """Reads and writes one run. Safe to use from many threads.

    A file is opened for reading alone, unless `write` is said; `create` makes it if it must. One
    that says two things of a trial is refused: when it is opened, or, if it is `lasting` (open for
    as long as somebody looks at it), when that trial is read.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        create: bool = False,
        write: bool = False,
        lasting: bool = False,
    ) -> None:
        self.path = path
        mode: Mode = "create" if create else "write" if write else "read"
        self._database = Database(path, (_FIRST, _SECOND, _THIRD), mode=mode, lasting=lasting)
        self._execute = self._database.connection.execute
        self._checkpoints: dict[tuple[str, int], tuple[int, TrialRecord]] = {}
        self._controls: list[control_store.ControlRow] = []  # written with the next trial
        self._open = True
        if not lasting:
            try:
                self.check()
            except UsageError:
                self.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write what waits; trials that an interrupted run left going on may hand in more, for
        nobody."""
        with self._database.lock:
            try:
                self.flush()
            finally:
                self._open = False
                self._database.close()

    def check(self) -> None:
        """Refuse a file that says two things of a trial."""
        self.check_trials()
        if any(self.rows(tuple[int], _CONTRADICTIONS)):
            raise self.contradiction()

    def check_trials(self) -> None:
        """Refuse a file whose index does not have each trial once: what is found by it, counted
        or listed would be different trials."""
        found = next(self.rows(tuple[str], "PRAGMA integrity_check(trials)"), ("",))
        if found != ("ok",):
            raise UsageError(f"{self.path} is damaged: {one_line(found[0])}")

    def contradiction(self) -> UsageError:
        """What is said of a file that says two things of a trial."""
        what = "the status of a trial is not that of its verdict"
        return UsageError(f"{self.path} is damaged: {what}")

    # The manifest

    def set_manifest(self, values: Mapping[str, JSON]) -> None:
        rows = [(storable(key), _settled(value, f"its {key}")) for key, value in values.items()]
        with self._database.transaction():
            self._database.connection.executemany(
                "INSERT OR REPLACE INTO manifest VALUES (?, ?)", rows
            )

    def manifest(self) -> dict[str, JSON]:
        query = "SELECT key, value FROM manifest ORDER BY key"
        return {
            key: self._database.decode(value, _MANIFEST.get(key, Any))
            for key, value in self.rows(tuple[str, str], query)
        }

    def add_tasks(self, tasks: Iterable[Mapping[str, Any]]) -> None:
        """What people see of the tasks: never the gold answers or hidden tests."""
        with self._database.transaction():
            self._database.connection.executemany(
                _TASK,
                (
                    (
                        task["id"],
                        redact(storable(task["prompt"])),
                        _settled(task.get("metadata", {}), f"the metadata of task {task['id']!r}"),
                    )
                    for task in tasks
                ),
            )

    def tasks(self) -> Iterator[dict[str, Any]]:
        """What was kept of the tasks."""
        query = "SELECT task_id, prompt, metadata FROM tasks ORDER BY rowid"
        for task_id, prompt, metadata in self.rows(tuple[str, str, str], query):
            yield {"id": task_id, "prompt": prompt, "metadata": self.decode(metadata)}

    def task_prompt(self, task_id: str) -> str:
        query = "SELECT prompt FROM tasks WHERE task_id = ?"
        return next((prompt for (prompt,) in self.rows(tuple[str], query, (task_id,))), "")

    # Trials

    def write(self, record: TrialRecord) -> TrialRecord:
        """Store a trial in one transaction; an earlier record of it is replaced.

        Returned is what is stored: the record, the same without lone surrogates, without what its
        agent did on the way, or, where it cannot be stored either, an error that says why.
        """
        fault: Exception | None = None
        for form in FORMS:
            try:
                stored = form(record, fault)
                self._write(stored)
            except _UNSTORABLE as error:
                fault = error
            else:
                return stored
        raise StoreError(f"{self.path}: a trial cannot be stored: {fault}")

    def write_all(self, records: Sequence[TrialRecord]) -> Iterator[TrialRecord]:
        """Store trials as `write` does, and give each once it is stored.

        All are in one transaction where that is possible. Otherwise each has its own, so that one
        which cannot be stored takes no other with it.
        """
        if len(records) > 1:
            try:
                self._write(*records)
            except (*_UNSTORABLE, StoreError):
                pass
            else:
                yield from records
                return
        for record in records:
            yield self.write(record)

    def _write(self, *records: TrialRecord) -> None:
        with self._database.lock:
            with self._with_controls():
                trials = [self._write_trial(record) for record in records]
            for trial, record in zip(trials, records, strict=True):
                if record.verdict is None and record.error is None:
                    self._checkpoints[record.task_id, record.sample] = (trial, record)

    @contextmanager
    def _with_controls(self) -> Iterator[None]:
        """A transaction that writes the controls that wait, too."""
        with self._database.lock:  # nobody stores a trial between a control's leaving and its end
            controls = self._controls[:]
            with self._database.transaction():
                self._database.connection.executemany(control_store.INSERT, controls)
                yield
            del self._controls[: len(controls)]

    def _write_trial(self, record: TrialRecord) -> int:
        checkpoint = self._checkpoints.pop((record.task_id, record.sample), None)
        if checkpoint is not None and _continues(record, checkpoint[1]):
            trial, done = checkpoint[0], len(checkpoint[1].calls)
            self._update(trial, record)
        else:
            trial, done = self._insert(record), 0
            if record.submission is not None:
                self._write_submission(trial, record.submission)
            if record.trajectory:
                steps = self._database.pack(_json(record.trajectory).encode())
                self._execute("INSERT INTO trajectories VALUES (?, ?)", (trial, steps))
        if record.verdict is not None:
            self._write_verdict(trial, record.verdict)
        for number, call in enumerate(record.calls[done:], done):
            self._write_call(trial, number, call)
        return trial

    def _insert(self, record: TrialRecord) -> int:
        row = _trial_row(record)
        try:
            trial = self._execute(_INSERT, row).lastrowid
        except sqlite3.IntegrityError:  # there is an earlier one, or it cannot be stored
            self._execute("DELETE FROM trials WHERE task_id = ? AND sample = ?", row[:2])
            trial = self._execute(_INSERT, row).lastrowid
        assert trial is not None
        self._write_grounds(trial, record.control)
        return trial

    def _update(self, trial: int, record: TrialRecord) -> None:
        columns = f"{_OUTCOME}, {_COSTS}"
        self._execute(
            f"UPDATE trials SET ({columns}) = (?,?,?, ?,?,?, ?,?,?, ?,?,?, ?,?,?) WHERE id = ?",
            (*_trial_row(record)[3:], trial),
        )
        self._execute("DELETE FROM grounds WHERE trial = ?", (trial,))
        self._write_grounds(trial, record.control)

    def _write_grounds(self, trial: int, found: TrialControls | None) -> None:
        if found is not None:
            row = _checked((found.positive, found.negative, found.identity), _Grounds)
            self._execute("INSERT INTO grounds VALUES (?,?,?,?)", (trial, *row))

    def _write_submission(self, trial: int, submission: Submission) -> None:
        """What is graded again is what was graded: nothing is taken out for its shape alone."""
        raw, data = submission.raw, submission.data
        row = (
            *(without_keys(submission.text), submission.form),
            without_keys(raw) if raw is not None else None,
            _json(data, without_keys) if data is not None else None,
        )
        self._execute(
            "INSERT INTO submissions VALUES (?,?,?,?,?)", (trial, *_checked(row, _Submission))
        )
        self._write_artifacts(trial, "submission", submission.files)

    def _write_verdict(self, trial: int, verdict: Verdict) -> None:
        files = {k: v for k, v in verdict.evidence.items() if isinstance(v, bytes)}
        rest = {k: v for k, v in verdict.evidence.items() if k not in files}
        row = (
            *(int(verdict.passed), verdict.score, redact(verdict.why), _json(verdict.metrics)),
            self._database.pack(_json(rest).encode()) if rest else None,
        )
        self._execute(
            "INSERT INTO verdicts VALUES (?,?,?,?,?,?)", (trial, *_checked(row, _Verdict))
        )
        self._write_artifacts(trial, "evidence", files)

    def _write_artifacts(self, trial: int, kind: str, files: Mapping[str, bytes]) -> None:
        for name, content in files.items():
            self._execute(
                "INSERT INTO artifacts VALUES (?,?,?,?)",
                (trial, kind, name, self._database.pack(content)),
            )

    def _write_call(self, trial: int, number: int, call: CallRecord) -> None:
        row = (
            *(call.model, call.usage.input_tokens, call.usage.output_tokens),
            *(call.usage.cached_tokens, call.cost, call.started, call.seconds),
            *(call.attempts, int(call.cached), redact(call.error) if call.error else None),
        )
        self._execute(
            "INSERT INTO calls VALUES (?,?,?,?,?,?,?,?,?,?,?)", (trial, *_checked(row, _Call))
        )
        apart = (call.usage.cache_write_tokens, call.usage.reasoning_tokens)
        if any(apart):
            self._execute(
                "INSERT INTO tokens_apart VALUES (?,?,?,?)",
                (trial, number, *_checked(apart, _Apart)),
            )

    def replace_outcome(self, record: TrialRecord, newer: TrialRecord) -> None:
        """Put what a newer record decides, or why it decides nothing, in a stored one's place."""
        graded = storable_value(
            replace(record, verdict=newer.verdict, error=newer.error, control=newer.control)
        )
        with self._with_controls():
            trial = self._trial_id(record.task_id, record.sample)
            self._execute("DELETE FROM verdicts WHERE trial = ?", (trial,))
            self._execute("DELETE FROM artifacts WHERE trial = ? AND kind = 'evidence'", (trial,))
            if graded.verdict is not None:
                self._write_verdict(trial, graded.verdict)
            self._update(trial, graded)

    # Controls

    def add_control(self, control: Control) -> None:
        """Keep with the run what a known answer came to where its trials were graded."""
        self.add_control_soon(control)
        self.flush()

    def add_control_soon(self, control: Control) -> None:
        """Keep it in the transaction of the next trial, so that it costs none of its own, and no
        trial that rests on it is stored without it."""
        row = control_store.row_of(control)
        clean = [storable(value) if isinstance(value, str) else value for value in row]
        kept = _checked(clean, control_store.ControlRow)
        self._controls.append(kept._replace(why=redact(kept.why), log=redact(kept.log)))
        if len(self._controls) >= MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        """Write what waits for the next trial."""
        if self._controls and self._open:
            self._write()

    def controls(self, identity: str | None = None) -> list[Control]:
        """Those of one identity, or all."""
        where, arguments = ("WHERE identity = ?", (identity,)) if identity else ("", ())
        return list(self._each_control(f"{where} ORDER BY made", arguments))

    def each_control(self) -> Iterator[Control]:
        """All of them, a page at a time."""
        return self._each_control("ORDER BY rowid")

    def _each_control(self, where: str, arguments: Sequence[str] = ()) -> Iterator[Control]:
        if self._database.version < 3:
            return
        query = f"SELECT {control_store.COLUMNS} FROM controls {where}"
        for row in self.rows(control_store.ControlRow, query, arguments):
            yield row.control()

    def control_counts(self) -> list[tuple[str, str, int]]:
        """How many controls there are of each answer and status."""
        if self._database.version < 3:
            return []
        query = "SELECT answer, status, count(*) FROM controls GROUP BY 1, 2 ORDER BY 1 DESC, 2"
        return list(self.rows(tuple[str, str, Count], query))

    def some_controls(self, *, wrong: bool, start: int, most: int) -> list[Control]:
        """A page of the controls, or of those that did not come out as they must."""
        if self._database.version < 3:
            return []
        where = "WHERE status IS NOT iif(answer = 'reference', 'passed', 'failed')" if wrong else ""
        query = (
            f"SELECT {control_store.COLUMNS} FROM controls {where} ORDER BY rowid LIMIT ? OFFSET ?"
        )
        rows = self.rows(control_store.ControlRow, query, (most, start))
        return [row.control() for row in rows]

    def resting_on(self, identities: Sequence[str]) -> Iterator[tuple[str, StoredStatus, int]]:
        """How many trials of each status rest on controls of these identities."""
        if self._database.version < 3:
            return iter(())
        marks = ", ".join("?" * len(identities))
        query = (
            "SELECT identity, status, count(*) FROM grounds JOIN trials ON id = trial "
            f"WHERE identity IN ({marks}) GROUP BY 1, 2"
        )
        return self.rows(tuple[str, StoredStatus, Count], query, identities)

    @property
    def trials_with_grounds(self) -> str:
        """What to select trials `t` from together with the controls they rest on."""
        if self._database.version < 3:
            return (
                f"(SELECT *, {', '.join(f'NULL AS {n}' for n in _Grounds._fields)} FROM trials) t"
            )
        return "trials t LEFT JOIN grounds g ON g.trial = t.id"

    def is_new(self) -> bool:
        return not any(self.rows(tuple[int], "SELECT 1 FROM trials LIMIT 1"))

    def state(self, task_id: str, sample: int) -> tuple[str, bool] | None:
        """A stored trial's digest, and whether it has a verdict."""
        query = "SELECT digest, status FROM trials WHERE task_id = ? AND sample = ?"
        for digest, status in self.rows(tuple[str, StoredStatus], query, (task_id, sample)):
            return digest, status in ("passed", "failed")
        return None

    def passed(self, task_id: str, sample: int) -> bool:
        query = "SELECT 1 FROM trials WHERE task_id = ? AND sample = ? AND status = 'passed'"
        return any(self.rows(tuple[int], query, (task_id, sample)))

    def artifacts(self, task_id: str, sample: int, kind: str) -> dict[str, bytes]:
        return self._artifacts(self._trial_id(task_id, sample), kind)

    def _artifacts(self, trial: int, kind: str) -> dict[str, bytes]:
        query = "SELECT name, content FROM artifacts WHERE trial = ? AND kind = ? ORDER BY name"
        found = self.rows(tuple[str, bytes], query, (trial, kind))
        return {name: self._database.unpack(content) for name, content in found}

    def evidence(self, task_id: str, sample: int) -> dict[str, JSON]:
        """What decided a trial, but for the files in it."""
        query = "SELECT evidence FROM verdicts WHERE trial = ? AND evidence IS NOT NULL"
        for (packed,) in self.rows(tuple[bytes], query, (self._trial_id(task_id, sample),)):
            return self.decode(self._database.unpack(packed))
        return {}

    def trajectory(self, task_id: str, sample: int) -> tuple[Step, ...]:
        return self._trajectory(self._trial_id(task_id, sample))

    def steps(self, task_id: str, sample: int) -> Sequence[Step]:
        """The trajectory, each step read when it is asked for."""
        query = "SELECT steps FROM trajectories WHERE trial = ?"
        for (packed,) in self.rows(tuple[bytes], query, (self._trial_id(task_id, sample),)):
            return self._database.each(packed, Step)
        return ()

    def calls(self, task_id: str, sample: int) -> tuple[CallRecord, ...]:
        trial = self._trial_id(task_id, sample)
        return self._calls(trial, self._apart(trial))

    def artifact_sizes(self, task_id: str, sample: int, kind: str) -> dict[str, int]:
        """The names of a trial's files, and their bytes as they are stored."""
        query = "SELECT name, length(content) FROM artifacts WHERE trial = ? AND kind = ?"
        return dict(self.rows(tuple[str, Count], query, (self._trial_id(task_id, sample), kind)))

    def artifact(self, task_id: str, sample: int, kind: str, name: str) -> bytes:
        query = "SELECT content FROM artifacts WHERE trial = ? AND kind = ? AND name = ?"
        key = (self._trial_id(task_id, sample), kind, name)
        for (packed,) in self.rows(tuple[bytes], query, key):
            return self._database.unpack(packed)
        raise UsageError(f"{self.path} has no file {name!r} of task {task_id!r}, sample {sample}")

    def trial_count(self) -> int:
        ((count,),) = self.rows(tuple[Count], "SELECT count(*) FROM trials")
        return count

    def trial_keys(self) -> list[tuple[str, int]]:
        return list(self.each_key())

    def each_key(self) -> Iterator[tuple[str, int]]:
        """Task and sample of the trials, a page at a time: they may be written meanwhile."""
        query = f"SELECT id, task_id, sample FROM trials WHERE id > ? ORDER BY id LIMIT {PAGE_ROWS}"
        last = 0
        while page := list(self.rows(tuple[int, str, Count], query, (last,))):
            yield from ((task_id, sample) for _, task_id, sample in page)
            if page[-1][0] <= last:
                raise UsageError(f"{self.path} is damaged: its trials are in no order")
            last = page[-1][0]

    def record(self, task_id: str, sample: int) -> TrialRecord:
        """A stored trial, whole."""
        return self._one(task_id, sample, whole=True)

    def record_head(self, task_id: str, sample: int) -> TrialRecord:
        """A stored trial without calls, evidence, files and trajectory."""
        return self._one(task_id, sample, whole=False)

    def _one(self, task_id: str, sample: int, *, whole: bool) -> TrialRecord:
        where = "WHERE t.task_id = ? AND t.sample = ?"
        for _, record in self._records(where, (task_id, sample), whole=whole):
            return record
        raise self._no_trial(task_id, sample)

    def _no_trial(self, task_id: str, sample: int) -> UsageError:
        query = f"SELECT DISTINCT task_id FROM trials LIMIT {MOST_NEAR}"
        ids = [each for (each,) in self.rows(tuple[str], query)]
        like = f"; an id looks like '{one_line(ids[0])}'" if ids else ""
        known = list(self.rows(tuple[int], "SELECT 1 FROM trials WHERE task_id = ?", (task_id,)))
        where = "" if known else did_you_mean(task_id, ids) or like
        name = one_line(task_id)
        return UsageError(f"{self.path} has no trial of task '{name}', sample {sample}{where}")

    def records(self, *, whole: bool = False) -> Iterator[TrialRecord]:
        """Stored trials, a page at a time; `whole` adds calls, evidence and the trajectory."""
        last = 0
        while True:
            before = last
            where = "WHERE t.id > ? ORDER BY t.id LIMIT 200"
            for trial, record in self._records(where, (before,), whole=whole):
                if trial <= last:
                    raise UsageError(f"{self.path} is damaged: its trials are in no order")
                last = trial
                yield record
            if last == before:
                return

    def _records(
        self, where: str, arguments: Sequence[Any], *, whole: bool
    ) -> Iterator[tuple[int, TrialRecord]]:
        """The trials of a condition, with their numbers."""
        query = (
            f"SELECT t.id, {_KEY}, t.status, t.score, t.why, error_boundary, error_message, "
            f"error_retryable, {_COSTS}, {_GROUNDS}, v.passed, v.score, v.why, v.metrics, "
            f"v.evidence, s.text, s.form, s.raw, s.data FROM {self.trials_with_grounds} "
            "LEFT JOIN verdicts v ON v.trial = t.id "
            f"LEFT JOIN submissions s ON s.trial = t.id {where}"
        )
        for row in self.rows(tuple[Any, ...], query, arguments):
            yield self._record(row, whole=whole)

    def _record(self, row: tuple[Any, ...], *, whole: bool) -> tuple[int, TrialRecord]:
        with self._database.reading():
            (trial,) = _checked(row[:1], tuple[Count])
            stored, control = _checked(row[1:19], _Trial), _checked(row[19:22], _Grounds)
        apart = self._apart(trial)
        error = None
        if stored.boundary is not None:
            error = TrialError(stored.boundary, stored.message or "", bool(stored.retryable))
        record = TrialRecord(
            task_id=stored.task_id,
            sample=stored.sample,
            digest=stored.digest,
            submission=self._submission(trial, row[27:], whole=whole),
            verdict=self._verdict(trial, row[22:27], whole=whole),
            error=error,
            usage=Usage(
                *(stored.input_tokens, stored.output_tokens, stored.cached_tokens),
                *(sum(counts) for counts in zip((0, 0), *apart.values(), strict=True)),
            ),
            cost=stored.cost,
            steps=stored.steps,
            duration=stored.duration,
            attempts=stored.attempts,
            started=stored.started,
            stop_reason=stored.stop_reason,
            calls=self._calls(trial, apart) if whole else (),
            trajectory=self._trajectory(trial) if whole else (),
            control=_controls_of(control),
        )
        if _status(record) != stored.status or (record.verdict and record.error):
            raise self.contradiction()
        return trial, record

    def _verdict(self, trial: int, row: tuple[Any, ...], *, whole: bool) -> Verdict | None:
        if row[0] is None:
            return None
        with self._database.reading():
            stored = _checked(row, _Verdict)
        evidence: dict[str, JSON] = {}
        if whole:
            if stored.evidence:
                evidence |= self.decode(self._database.unpack(stored.evidence))
            evidence |= self._artifacts(trial, "evidence")
        metrics = self.decode(stored.metrics)
        return Verdict(bool(stored.passed), stored.why, stored.score, metrics, evidence)

    def _submission(self, trial: int, row: tuple[Any, ...], *, whole: bool) -> Submission | None:
        if row[0] is None:
            return None
        with self._database.reading():
            stored = _checked(row, _Submission)
        return Submission(
            text=stored.text,
            form=stored.form,
            raw=stored.raw,
            data=None if stored.data is None else self._database.decode(stored.data, Any),
            files=self._artifacts(trial, "submission") if whole else {},
        )

    def _apart(self, trial: int) -> dict[int, _Apart]:
        """Tokens that are counted apart, by the number of the call."""
        if self._database.version < 2:
            return {}
        query = (
            "SELECT call, cache_write_tokens, reasoning_tokens FROM tokens_apart WHERE trial = ?"
        )
        rows = self.rows(tuple[Count, Count, Count], query, (trial,))
        return {number: _Apart(written, thought) for number, written, thought in rows}

    def tokens_apart(self) -> tuple[int, int]:
        """Tokens written into caches and tokens of reasoning, of the whole run."""
        if self._database.version < 2:
            return 0, 0
        query = "SELECT TOTAL(cache_write_tokens), TOTAL(reasoning_tokens) FROM tokens_apart"
        written, thought = next(self.rows(tuple[Finite, Finite], query))
        return int(written), int(thought)

    def _calls(self, trial: int, apart: Mapping[int, _Apart]) -> tuple[CallRecord, ...]:
        query = (
            "SELECT model, input_tokens, output_tokens, cached_tokens, cost, started, seconds, "
            "attempts, cached, error FROM calls WHERE trial = ? ORDER BY rowid"
        )
        rows = enumerate(self.rows(_Call, query, (trial,)))
        return tuple(_call(row, apart.get(number, _Apart(0, 0))) for number, row in rows)

    def _trajectory(self, trial: int) -> tuple[Step, ...]:
        query = "SELECT steps FROM trajectories WHERE trial = ?"
        for (packed,) in self.rows(tuple[bytes], query, (trial,)):
            return self._database.decode(self._database.unpack(packed), tuple[Step, ...])
        return ()

    def spend(self, amount: float) -> None:
        """Book money before it is spent, and the difference after; a killed run then knows it."""
        with self._database.transaction():
            self._execute("INSERT INTO spending VALUES (?)", (amount,))

    def spent(self) -> float:
        """Money booked for this run; a call under way when it was killed counts in full."""
        booked = highest = 0.0
        for (amount,) in self.rows(tuple[Finite], "SELECT amount FROM spending ORDER BY rowid"):
            booked += amount
            highest = max(highest, booked)
            if booked < -1e-6 * (1 + highest):  # sums are rounded
                raise UsageError(f"{self.path} is damaged: more was given back than was booked")
        query = "SELECT cost FROM trials WHERE cost IS NOT NULL"
        return max(booked, sum(cost for (cost,) in self.rows(tuple[Money], query)))

    def rows(self, kind: type[RowT], query: str, arguments: Sequence[Any] = ()) -> Iterator[RowT]:
        """What a query finds, each row a tuple of `kind`; for summaries and viewers too."""
        return self._database.rows(kind, query, arguments)

    def decode(self, text: str | bytes) -> dict[str, JSON]:
        """A JSON column of a row."""
        return self._database.decode(text, dict[str, Any])

    def _trial_id(self, task_id: str, sample: int) -> int:
        query = "SELECT id FROM trials WHERE task_id = ? AND sample = ?"
        for (trial,) in self.rows(tuple[int], query, (task_id, sample)):
            return trial
        raise self._no_trial(task_id, sample)


def _as_it_is(record: TrialRecord, _: Exception | None) -> TrialRecord:
    return record


def _cleaned(record: TrialRecord, _: Exception | None) -> TrialRecord:
    return storable_value(record)


def _without_trajectory(record: TrialRecord, _: Exception | None) -> TrialRecord:
    """What an agent did on its way decides nothing, and cannot cost a verdict."""
    return storable_value(replace(record, trajectory=()))


def _failed_without_content(record: TrialRecord, fault: Exception | None) -> TrialRecord:
    """An answer cannot make an error of its failure by a form that cannot be stored."""
    if record.verdict is None or record.verdict.passed:
        return _without_verdict(record, fault)
    return storable_value(replace(record, submission=None, trajectory=()))


def _without_verdict(record: TrialRecord, fault: Exception | None) -> TrialRecord:
    """The answer stays: it is paid for, and can be graded again."""
    why = storable(f"the trial cannot be stored: {type(fault).__name__}: {fault}")
    rest = replace(record, verdict=None, control=None)
    return storable_value(replace(rest, error=TrialError("store", why[:1000])))


def _without_content(record: TrialRecord, fault: Exception | None) -> TrialRecord:
    return _without_verdict(replace(record, submission=None, trajectory=()), fault)


def _without_costs(record: TrialRecord, fault: Exception | None) -> TrialRecord:
    return _without_content(TrialRecord(record.task_id, record.sample, record.digest), fault)


#: What is stored of a record: the first of these that can be.
FORMS = (
    _as_it_is, _cleaned, _without_trajectory, _failed_without_content, _without_verdict,
    _without_content, _without_costs,
)  # fmt: skip


def _continues(record: TrialRecord, checkpoint: TrialRecord) -> bool:
    """Whether the record is the checkpoint with more known of it: nothing is written twice."""
    return (
        record.submission is checkpoint.submission
        and record.digest == checkpoint.digest
        and record.trajectory == checkpoint.trajectory
        and record.calls[: len(checkpoint.calls)] == checkpoint.calls
    )


def _trial_row(record: TrialRecord) -> _Trial:
    verdict, error, usage = record.verdict, record.error, record.usage
    fault: tuple[str | None, str | None, int | None] = (None, None, None)
    if error is not None:
        fault = (error.boundary, redact(error.message), int(error.retryable))
    row = (
        *(record.task_id, record.sample, record.digest),
        *(_status(record), verdict.value if verdict else None, redact(record.why), *fault),
        *(record.cost, usage.input_tokens, usage.output_tokens, usage.cached_tokens),
        *(record.steps, record.duration, record.attempts, record.started, record.stop_reason),
    )
    return _checked(row, _Trial)


def _status(record: TrialRecord) -> str:
    waits = record.verdict is None and record.error is None
    return "submitted" if waits else record.status


def _controls_of(row: _Grounds) -> TrialControls | None:
    if row.positive is None or row.negative is None:
        return None
    return TrialControls(row.positive, row.negative, row.identity or "")


def _call(row: _Call, apart: _Apart) -> CallRecord:
    return CallRecord(
        model=row.model,
        usage=Usage(row.input_tokens, row.output_tokens, row.cached_tokens, *apart),
        cost=row.cost,
        started=row.started,
        seconds=row.seconds,
        attempts=row.attempts,
        cached=bool(row.cached),
        error=row.error,
    )


def _checked(row: Sequence[Any], kind: type[RowT]) -> RowT:
    return msgspec.convert(row, kind, builtin_types=(bytes,))


def _json(value: JSON, clean: Callable[[str], str] = redact) -> str:
    """The JSON text of a value, its texts redacted before they are quoted and escaped."""
    encoded = encode(value).decode()
    if not may_hold_secrets(encoded):
        return encoded
    return encode(with_texts(msgspec.json.decode(encoded), clean)).decode()


def _settled(value: JSON, what: str) -> str:
    """The JSON text of what a run is made of; a `UsageError` of what has none."""
    try:
        return _json(storable_value(value))
    except _UNSTORABLE as error:
        raise UsageError(f"the run cannot be stored: {what:.200}: {error}") from None


class StoredBudget(Budget):
    """A budget whose reservations are booked in the run store first; so is what was spent."""

    def __init__(self, total: float | None, store: RunStore) -> None:
        super().__init__(total, spent=store.spent())
        self._store = store

    def reserve(self, worst_case: float, timeout: float | None = None) -> None:
        super().reserve(worst_case, timeout)
        self._book(worst_case)

    def settle(self, worst_case: float, actual: float) -> None:
        super().settle(worst_case, actual)
        self._book(actual - worst_case)

    def _book(self, amount: float) -> None:
        if amount:
            self._store.spend(amount)
