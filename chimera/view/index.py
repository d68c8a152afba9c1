"""What the pages ask of a run, counted once: a SQLite file in the cache, brought up to date.

A run file has no index that answers "the next fifty tasks that failed, dearest first", and may hold
a million trials. Here a trial is a short row, a task has its sums, and the numbers of the whole run
are kept as they were last computed. The file lies in the user's own cache and not beside the run,
where a stranger could have put one that says something else than the run does.
"""

from __future__ import annotations

import fcntl
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import chimera
from chimera.cache import cache_dir, digest
from chimera.errors import UsageError
from chimera.eval.runs.store import Count, Flag, Money, RunStore, Seconds, StoredStatus
from chimera.eval.values import ControlStatus
from chimera.text import first_line
from chimera.types import JSON
from chimera.view import outcomes

VERSION = 4
BATCH = 5000
#: Reasons that are told apart; those beyond share one name.
MOST_REASONS = 2000
#: Groups of tasks: values of one key that are told apart, and their characters.
MOST_VALUES = 200
MOST_VALUE_CHARACTERS = 80
MOST_METRICS = 60
STATUSES: tuple[StoredStatus, ...] = ("passed", "failed", "error", "submitted")
_CODES = {status: code for code, status in enumerate(STATUSES)}

_SCHEMA = f"""
PRAGMA user_version = {VERSION};
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE task (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind INTEGER NOT NULL DEFAULT 0,
    trials INTEGER NOT NULL DEFAULT 0, passed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0, errors INTEGER NOT NULL DEFAULT 0,
    unpriced INTEGER NOT NULL DEFAULT 0, cost REAL NOT NULL DEFAULT 0,
    seconds REAL NOT NULL DEFAULT 0,
    steps INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE trial (
    id INTEGER PRIMARY KEY, task INTEGER NOT NULL, sample INTEGER NOT NULL,
    status INTEGER NOT NULL, reason INTEGER NOT NULL, corrected INTEGER, cost REAL,
    input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,
    steps INTEGER NOT NULL, seconds REAL NOT NULL, started REAL NOT NULL,
    rewarded INTEGER NOT NULL, ground INTEGER NOT NULL, proofs INTEGER NOT NULL,
    mark INTEGER NOT NULL
);
CREATE INDEX trial_of_task ON trial (task, sample);
CREATE TABLE reason (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE kind (id INTEGER PRIMARY KEY, groups TEXT NOT NULL);
{outcomes.SCHEMA}
"""
_BATCH = """
CREATE TEMP TABLE batch (
    id INTEGER PRIMARY KEY, name TEXT, sample INTEGER, status INTEGER, reason INTEGER,
    corrected INTEGER, cost REAL, input_tokens INTEGER, output_tokens INTEGER,
    cached_tokens INTEGER, steps INTEGER, seconds REAL, started REAL, rewarded INTEGER,
    ground INTEGER, proofs INTEGER, mark INTEGER
)
"""
_SUMS = (
    "trials", "passed", "failed", "errors", "unpriced", "cost", "seconds", "steps", "tokens",
)  # fmt: skip
#: The sums of a task over its trials; `sum` of numbers that a stranger chose could overflow.
_SUMMED = (
    "count(*), sum(status = 0), sum(status = 1), sum(status > 1), sum(cost IS NULL), total(cost), "
    "total(seconds), total(steps), total(input_tokens + output_tokens)"
)
#: A number that changes when a trial is graded anew, or another is put in its place: an index whose
#: marks do not add up to those of the run is made anew.
_MARK = """(t.id % 99991 * (t.id % 99991) % 99991 + 1) * ((
    unicode(t.status) + 131 * length(t.why) + CAST(1000 * (t.started + t.duration) AS INTEGER)
    + 17 * ifnull(unicode(positive), 0) + 1009 * ifnull(unicode(negative), 0)
    + 10007 * ifnull(length(v.metrics), 0) + ifnull(unicode(substr(v.metrics, -2)), 0)
) % 99989)"""
_FROM = "FROM {} LEFT JOIN verdicts v ON v.trial = t.id"
_READ = f"""
SELECT t.id, t.task_id, t.sample, t.status, substr(t.why, 1, 400), t.error_boundary, t.cost,
    t.input_tokens, t.output_tokens, t.cached_tokens, t.steps, t.duration, t.started, v.passed,
    CASE WHEN length(v.metrics) BETWEEN 3 AND 4000 THEN v.metrics END, positive, negative, {_MARK}
{_FROM}
"""


class _Read(NamedTuple):
    id: Count
    task_id: str
    sample: Count
    status: StoredStatus
    why: str
    boundary: str | None
    cost: Money | None
    input_tokens: Count
    output_tokens: Count
    cached_tokens: Count
    steps: Count
    seconds: Seconds
    started: Seconds
    passed: Flag | None
    metrics: str | None
    positive: ControlStatus | None
    negative: ControlStatus | None
    mark: Count

    @property
    def ground(self) -> str:
        """What stands behind the verdict: one of `GROUNDS`."""
        return ground_of(self.status, self.positive, self.negative)


#: What stands behind a trial's verdict, or why it has none: see docs/controls.md.
GROUNDS = ("", "held", "uninformative", "uncontrolled", "unneeded", "withheld", "contrary")
#: What else the metrics of a verdict say of how it was reached, a bit for each.
PROOFS = ("tampering", "twinned", "untwinned", "handles", "inexact", "process")


def ground_of(
    status: StoredStatus, positive: ControlStatus | None, negative: ControlStatus | None
) -> str:
    """By what the reference and doing nothing came to where the trial was graded."""
    if status not in ("passed", "failed"):
        return "withheld" if positive is not None else ""
    needed, must = (negative, "failed") if status == "passed" else (positive, "passed")
    if needed in (None, "none", "off"):
        return "uncontrolled"
    if needed == "unneeded":
        return "unneeded"
    if needed == must:
        return "held"
    return "uninformative" if needed == "passed" else "contrary"


def _proofs(metrics: Mapping[str, JSON], *, passed: bool) -> int:
    twin = metrics.get("twin") if passed else None
    counted = isinstance(twin, dict)
    twinned = isinstance(twin, dict) and isinstance(twin.get("twinned"), int) and twin["twinned"]
    said = (
        metrics.get("tampering") is True,
        bool(twinned),
        counted and not twinned,
        bool(metrics.get("handles")),
        bool(metrics.get("inexact")),
        metrics.get("isolation") == "process",
    )
    return sum(1 << place for place, is_so in enumerate(said) if is_so)


class Totals(msgspec.Struct):
    """One metric of the verdicts, over all trials: of numbers the sum, of words how often each."""

    count: int = 0
    total: float = 0.0
    truths: bool = True  # whether all values were yes or no
    words: dict[str, int] = msgspec.field(default_factory=dict)


@dataclass(slots=True)
class _Progress:
    """What has been read so far; kept with the rows it belongs to."""

    last: int = 0
    tasks: int = 0
    name: str = ""
    metrics: dict[str, Totals] = field(default_factory=dict)


class Index:
    """The counted facts of one run. One thread brings it up to date; many read it."""

    def __init__(self, run: Path, place: Path | None = None) -> None:
        self.run = run
        self.path = place or _place(run)
        self._writing, self._lock = threading.Lock(), threading.Lock()
        self._reader: sqlite3.Connection | None = None

    def close(self) -> None:
        with self._lock:
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    # Reading

    def rows(self, query: str, arguments: Sequence[Any] = ()) -> list[Any]:
        with self._lock:
            if self._reader is None:
                self._reader = _open(self.path)
            return self._reader.execute(query, arguments).fetchall()

    def fact(self, key: str) -> JSON:
        """Something that was kept under a name; None where it was not."""
        found = self.rows("SELECT value FROM facts WHERE key = ?", (key,))
        return msgspec.json.decode(found[0][0]) if found else None

    def kinds(self) -> dict[int, dict[str, str]]:
        rows = self.rows("SELECT id, groups FROM kind")
        return {kind: msgspec.json.decode(groups) for kind, groups in rows}

    # Bringing up to date

    def update(
        self,
        store: RunStore,
        state: JSON,
        summarise: Callable[[Index], JSON],
        told: Callable[[int], None] = lambda done: None,
    ) -> None:
        """Read what the run has that is not here yet; all of it where it was changed.

        `told` hears how many trials were read; `summarise` gives what is kept as the summary.
        """
        with self._writing:
            connection = _open(self.path)
            try:
                with _alone(self.path):
                    self._update(connection, store, state, summarise, told)
            finally:
                connection.close()

    def _update(
        self,
        connection: sqlite3.Connection,
        store: RunStore,
        state: JSON,
        summarise: Callable[[Index], JSON],
        told: Callable[[int], None],
    ) -> None:
        connection.execute(_BATCH)
        self._read(connection, store, told)
        if not _same(connection, store):
            _empty(connection)
            self._read(connection, store, told)
        _keep(connection, {"controls": store.control_counts()})
        outcomes.keep(connection)
        _keep(connection, {"summary": summarise(self), "state": state})

    def _read(
        self, connection: sqlite3.Connection, store: RunStore, told: Callable[[int], None]
    ) -> None:
        progress = _progress(connection)
        if not progress.name:  # of what is kept beside the index, and made anew with it
            progress.name = secrets.token_hex(8)
            _keep(connection, {"name": progress.name})
        _add_tasks(connection, store, progress)
        adding = _Adding(connection, store, progress)
        adding.judged_since()
        query = f"{_READ.format(store.trials_with_grounds)} WHERE t.id > ? ORDER BY t.id"
        rows = iter(store.rows(_Read, query, (progress.last,)))
        while batch := list(islice(rows, BATCH)):
            progress.last = batch[-1].id
            adding.add(batch)
            _keep(connection, {"progress": _as_json(progress)})
            told(progress.last)


def _place(run: Path) -> Path:
    found = run.stat()
    name = digest(str(run.absolute()), found.st_dev, found.st_ino, chimera.__version__)
    folder = cache_dir() / "view"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder / f"{name}.sqlite"


def prune(days: float = 30.0) -> None:
    """Remove what was made for runs that nobody has looked at for so long."""
    for file in (cache_dir() / "view").glob("*"):
        if time.time() - file.stat().st_mtime > days * 86_400:
            file.unlink(missing_ok=True)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold off other processes that would write the same index."""
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _open(path: Path) -> sqlite3.Connection:
    """The index, made anew where it is not there, of another version or broken."""
    connection = _opened(path)
    if connection is not None:
        return connection
    with _alone(path):
        for _ in range(2):
            connection = _opened(path, make=True)
            if connection is not None:
                return connection
            for suffix in ("", "-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
    raise UsageError(f"{path} cannot be made; remove it, or set CHIMERA_CACHE_DIR")


def _opened(path: Path, *, make: bool = False) -> sqlite3.Connection | None:
    """The index at a path; None where there is none that can be used."""
    connection = sqlite3.connect(path, timeout=60, check_same_thread=False)
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0 and make:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)
            version = VERSION
        connection.execute("PRAGMA synchronous = OFF")  # it can be made again
    except sqlite3.DatabaseError:
        version = -1
    if version == VERSION:
        return connection
    connection.close()
    return None


def _empty(connection: sqlite3.Connection) -> None:
    with connection:
        for table in ("facts", "task", "trial", "reason", "kind"):
            connection.execute(f"DELETE FROM {table}")


def _keep(connection: sqlite3.Connection, facts: Mapping[str, JSON]) -> None:
    rows = [(key, msgspec.json.encode(value).decode()) for key, value in facts.items()]
    connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", rows)
    connection.commit()  # and with it the rows that the facts speak of


def _progress(connection: sqlite3.Connection) -> _Progress:
    for (text,) in connection.execute("SELECT value FROM facts WHERE key = 'progress'"):
        return msgspec.json.decode(text, type=_Progress)
    return _Progress()


def _as_json(progress: _Progress) -> JSON:
    return msgspec.to_builtins(progress)


def _same(connection: sqlite3.Connection, store: RunStore) -> bool:
    """Whether run and index speak of the same trials with the same outcomes."""
    here = connection.execute("SELECT count(*), ifnull(sum(mark), 0) FROM trial").fetchone()
    query = f"SELECT count(*), ifnull(sum({_MARK}), 0) {_FROM.format(store.trials_with_grounds)}"
    return tuple(here) == next(iter(store.rows(tuple[Count, Count], query)))


def _add_tasks(connection: sqlite3.Connection, store: RunStore, progress: _Progress) -> None:
    """The tasks that the run names, in their order, with the groups that they are of."""
    (count,) = next(iter(store.rows(tuple[Count], "SELECT count(*) FROM tasks")))
    if count == progress.tasks:
        return
    kinds = _Kinds(connection)
    rows = store.rows(
        tuple[str, str], "SELECT task_id, substr(metadata, 1, 4000) FROM tasks ORDER BY rowid"
    )
    named = ((name, kinds.of(metadata)) for name, metadata in rows)
    connection.executemany(
        "INSERT INTO task (name, kind) VALUES (?, ?) "
        "ON CONFLICT (name) DO UPDATE SET kind = excluded.kind",
        named,
    )
    kinds.keep()
    progress.tasks = count
    _keep(connection, {"progress": _as_json(progress)})


class _Kinds:
    """Which groups a task is of (subject, language, …), by the words in its metadata.

    Tasks with the same words are of one kind; a key of which every task has another value, an
    address say, groups nothing and is left out.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._kinds: dict[str, int] = {}
        self._texts: dict[str, int] = {}
        self._values: dict[str, set[str]] = {}
        for number, text in connection.execute("SELECT id, groups FROM kind"):
            self._kinds[text] = number
            for key, value in msgspec.json.decode(text).items():
                self._values.setdefault(key, set()).add(value)

    def of(self, metadata: str) -> int:
        known = self._texts.get(metadata)
        if known is None:
            known = self._kind(_groups(metadata))
            if len(self._texts) < 10_000:
                self._texts[metadata] = known
        return known

    def _kind(self, groups: Mapping[str, str]) -> int:
        kept = {}
        for key, value in sorted(groups.items()):
            values = self._values.setdefault(key, set())
            if value in values or len(values) < MOST_VALUES:
                values.add(value)
                kept[key] = value
        text = msgspec.json.encode(kept).decode()
        return self._kinds.setdefault(text, len(self._kinds) + 1)

    def keep(self) -> None:
        crowded = {key for key, values in self._values.items() if len(values) >= MOST_VALUES}
        for text, number in self._kinds.items():
            groups = msgspec.json.decode(text)
            kept = {key: value for key, value in groups.items() if key not in crowded}
            row = (number, msgspec.json.encode(kept).decode())
            self._connection.execute("INSERT OR REPLACE INTO kind VALUES (?, ?)", row)


def _groups(metadata: str) -> dict[str, str]:
    try:
        found = msgspec.json.decode(metadata)
    except (msgspec.DecodeError, RecursionError):  # cut, or a stranger's
        return {}
    if not isinstance(found, dict):
        return {}
    plain = ((key, value) for key, value in islice(found.items(), 12) if _is_plain(value))
    return {key[:40]: _word(value) for key, value in plain}


def _is_plain(value: JSON) -> bool:
    return isinstance(value, (bool, int)) or (
        isinstance(value, str) and 0 < len(value) <= MOST_VALUE_CHARACTERS
    )


def _word(value: JSON) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


class _Adding:
    """Puts trials of a run into its index."""

    def __init__(
        self, connection: sqlite3.Connection, store: RunStore, progress: _Progress
    ) -> None:
        self._connection, self._store, self._progress = connection, store, progress
        found = connection.execute("SELECT text, id FROM reason")
        self._reasons: dict[str, int] = dict(found.fetchall()) or {"": 0}

    def judged_since(self) -> None:
        """Read those again that waited for their verdicts."""
        execute = self._connection.execute
        waiting = [number for (number,) in execute("SELECT id FROM trial WHERE status = 3")]
        if not waiting:
            return
        less = ", ".join(f"{name} = task.{name} - s.{name}" for name in _SUMS)
        execute(
            f"WITH s (task, {', '.join(_SUMS)}) AS "
            f"(SELECT task, {_SUMMED} FROM trial WHERE status = 3 GROUP BY task) "
            f"UPDATE task SET {less} FROM s WHERE s.task = task.id"
        )
        execute("DELETE FROM trial WHERE status = 3")
        for start in range(0, len(waiting), BATCH):
            chosen = ", ".join(map(str, waiting[start : start + BATCH]))
            query = f"{_READ.format(self._store.trials_with_grounds)} WHERE t.id IN ({chosen})"
            self.add(list(self._store.rows(_Read, query)))

    def add(self, batch: Sequence[_Read]) -> None:
        execute = self._connection.execute
        execute("DELETE FROM batch")
        self._connection.executemany(
            f"INSERT INTO batch VALUES ({', '.join('?' * 17)})", map(self._row, batch)
        )
        more = ", ".join(f"{name} = {name} + excluded.{name}" for name in _SUMS)
        execute(
            f"INSERT INTO task (name, {', '.join(_SUMS)}) "
            f"SELECT name, {_SUMMED} FROM batch WHERE true GROUP BY name "
            f"ON CONFLICT (name) DO UPDATE SET {more}"
        )
        execute(
            "INSERT INTO trial SELECT b.id, task.id, sample, status, reason, corrected, b.cost, "
            "input_tokens, output_tokens, cached_tokens, b.steps, b.seconds, started, rewarded, "
            "ground, proofs, mark "
            "FROM batch b JOIN task USING (name)"
        )
        self._connection.executemany(
            "INSERT OR IGNORE INTO reason (text, id) VALUES (?, ?)", self._reasons.items()
        )

    def _row(self, trial: _Read) -> tuple[Any, ...]:
        if trial.status != _told_status(trial):
            raise self._store.contradiction()
        corrected, proofs = self._count(trial) if trial.metrics else (None, 0)
        return (
            *(trial.id, trial.task_id, trial.sample, _CODES[trial.status], self._reason(trial)),
            *(corrected, trial.cost, trial.input_tokens, trial.output_tokens),
            *(trial.cached_tokens, trial.steps, trial.seconds, trial.started),
            *(int(trial.negative == "passed"), GROUNDS.index(trial.ground), proofs, trial.mark),
        )

    def _reason(self, trial: _Read) -> int:
        if trial.status == "passed":
            return 0
        text = first_line(trial.why, 160) or trial.status
        if text not in self._reasons and len(self._reasons) > MOST_REASONS:
            text = "other reasons"
        return self._reasons.setdefault(text, len(self._reasons))

    def _count(self, trial: _Read) -> tuple[int | None, int]:
        """Add a verdict's metrics to the sums; what the corrected rule and the proofs say."""
        metrics = self._store.decode(trial.metrics or "{}")
        for key, value in metrics.items():
            totals = self._progress.metrics.get(key)
            if totals is None:
                if len(self._progress.metrics) >= MOST_METRICS or len(key) > 60:
                    continue
                totals = self._progress.metrics[key] = Totals()
            _count_value(totals, value)
        corrected = metrics.get("corrected")
        ruled = int(corrected) if isinstance(corrected, bool) else None
        return ruled, _proofs(metrics, passed=trial.status == "passed")


def _count_value(totals: Totals, value: JSON) -> None:
    if isinstance(value, (bool, int, float)):
        totals.count += 1
        totals.total += value if abs(value) < 1e15 else 0.0
        totals.truths = totals.truths and isinstance(value, bool)
    elif isinstance(value, str) and len(value) <= MOST_VALUE_CHARACTERS:
        totals.count += 1
        totals.truths = False
        if value in totals.words or len(totals.words) < 50:
            totals.words[value] = totals.words.get(value, 0) + 1


def _told_status(trial: _Read) -> str | None:
    """The status by verdict and error; None where the two contradict each other."""
    if trial.passed is None:
        return "submitted" if trial.boundary is None else "error"
    if trial.boundary is not None:
        return None
    return "passed" if trial.passed else "failed"
