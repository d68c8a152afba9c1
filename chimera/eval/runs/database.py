"""A SQLite file as data that a stranger may have made: checked when opened, bounded when read.

Nothing in the file is executed: its schema must be ours to the letter, so that there is no view,
trigger, generated column, virtual table or index of its own. Reading may cost what a file of its
size can honestly need, in steps of SQLite's machine, in bytes handed out and in bytes unpacked: a
tree whose pages point at each other, a text that a thousand rows share or a frame that unpacks to
gigabytes end as a `UsageError` that names the file. Every value is checked for its type.
"""

from __future__ import annotations

import functools
import math
import re
import sqlite3
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import msgspec

from chimera.errors import StoreError, UsageError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Mode = Literal["read", "write", "create"]
RowT = TypeVar("RowT")
KindT = TypeVar("KindT")

#: The most that one value may unpack to; nothing larger is written either.
MAX_UNPACKED = 256 * 1024**2
UNPACKED_PART = 1024**2
#: The most bytes of a JSON text, how many values it may hold (each takes far more in memory), and
#: how deeply they may lie in each other: what walks through them calls itself.
MAX_JSON = 64 * 1024**2
MAX_JSON_VALUES = 4_000_000
MAX_JSON_DEPTH = 100
PAGE_ROWS = 200
#: What a row counts for beside its texts.
ROW_BYTES = 100
TICK_STEPS = 10_000
#: Faults of the place where a file lies, not of the file.
_UNWRITABLE = ("SQLITE_CANTOPEN", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY")

_TEXTS = frozenset({str, bytes})  # what SQLite hands out is of no other class
_JSON_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class _Allowance:
    """What reading has taken, and whether a file of its size can honestly need so much."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._size = self._measured()
        self.steps = self.handed_out = self.unpacked = 0

    def tick(self) -> bool:
        """SQLite asks now and then; True ends the statement."""
        self.steps += TICK_STEPS
        return self.exceeded()

    def exceeded(self) -> bool:
        """The file is measured again first: a run under way grows while it is read."""
        if self._beyond():
            self._size = self._measured()
        return self._beyond()

    def _beyond(self) -> bool:
        return (
            self.steps > 500_000 + 20 * self._size
            or self.handed_out > 1_000_000 + 30 * self._size
            or self.unpacked > MAX_UNPACKED + 1000 * self._size
        )

    def _measured(self) -> float:
        return math.inf if self._path is None else _size(self._path)


class Database:
    """One file, or `:memory:`, with a known schema. Safe to use from many threads.

    What is read and then closed has one allowance for everything; what is written, or is `lasting`
    (read for as long as somebody looks at it), has one for each statement.
    """

    def __init__(
        self, path: Path | str, schemas: Sequence[str], *, mode: Mode, lasting: bool = False
    ) -> None:
        """`schemas` holds the first version's statements and what each later one adds to them.

        An older file is read as it is; one that is written is brought up to date first.
        """
        self.path = path
        self.version = len(schemas)
        self.lock = threading.RLock()
        self._writes, self._lasts = mode != "read", lasting or mode != "read"
        in_memory = str(path) == ":memory:"
        if not in_memory:
            _check_place(Path(path), mode)
        self._taken = _Allowance(None if in_memory else Path(path))
        self._compressor = zstd.ZstdCompressor()
        with self.reading():
            self.connection = _connect(path, mode)
        weakref.finalize(self, self.connection.close)  # results are kept, and seldom closed
        self.connection.set_progress_handler(self._taken.tick, TICK_STEPS)
        try:
            with self.reading():
                self._prepare(schemas, create=in_memory or mode == "create")
        except UsageError:
            self.connection.close()
            raise

    def _prepare(self, schemas: Sequence[str], *, create: bool) -> None:
        self.connection.execute("PRAGMA trusted_schema = OFF")
        self.connection.execute("PRAGMA cell_size_check = ON")
        query = f"{_SCHEMA_QUERY} LIMIT {len(_schema_rows(''.join(schemas))) + 1}"
        found = sorted(self.connection.execute(query).fetchall(), key=repr)
        known = self.connection.execute("PRAGMA user_version").fetchone()[0]
        if create and not found and known == 0:
            self.connection.execute("PRAGMA journal_mode = MEMORY")  # leaves no journal if killed
            self._journal()
            self._add(schemas)
        elif not 1 <= known <= len(schemas):
            raise UsageError(f"{self.path} is not a run of this version of Chimera")
        elif found != _schema_rows("".join(schemas[:known])):
            raise UsageError(f"{self.path} is not a run: its tables are not those of a run")
        elif self._writes:
            self._journal()
            self._add(schemas[known:])
        else:
            self.version = known

    def _add(self, schemas: Sequence[str]) -> None:
        if not schemas:
            return
        with self.transaction():
            for statement in "".join(schemas).split(";"):
                self.connection.execute(statement)
            self.connection.execute(f"PRAGMA user_version = {self.version}")

    def _journal(self) -> None:
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = NORMAL")
        self.connection.execute("PRAGMA foreign_keys = ON")

    def close(self) -> None:
        with self.lock:
            self.connection.close()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Say what is wrong with the file, and which it is, where its content is at fault."""
        try:
            yield
        except sqlite3.Error as error:
            if self._writes and error.sqlite_errorname.startswith(_UNWRITABLE):
                raise StoreError(f"{self.path} cannot be written: {error}") from None
            why = "it asks for endless work" if str(error) == "interrupted" else str(error)
            raise UsageError(f"{self.path} is not a run that can be read: {why}") from None
        except (msgspec.MsgspecError, zstd.ZstdError, RecursionError, UnicodeError) as error:
            raise UsageError(f"{self.path} is damaged: {error}") from None

    def rows(self, kind: type[RowT], query: str, arguments: Sequence[Any] = ()) -> Iterator[RowT]:
        """The rows of a query, each checked to be a tuple of `kind`, a page at a time."""
        with self.lock, self.reading():
            self._new_statement()
            cursor = self.connection.execute(query, arguments)
            page = self._page(cursor, kind)
        while page:
            yield from page
            if len(page) < PAGE_ROWS:
                return
            with self.lock, self.reading():
                page = self._page(cursor, kind)

    def _page(self, cursor: sqlite3.Cursor, kind: type[RowT]) -> list[RowT]:
        page, taken = [], self._taken
        for row in islice(cursor, PAGE_ROWS):
            taken.handed_out += ROW_BYTES + sum([len(v) for v in row if type(v) in _TEXTS])
            if taken.exceeded():
                raise UsageError(f"{self.path} is damaged: it gives more than it can hold")
            page.append(row)
        return msgspec.convert(page, list[kind], builtin_types=(bytes,))  # type: ignore[valid-type]

    def _new_statement(self) -> None:
        """A run that is being written or looked at has no end; each of its statements has one."""
        if self._lasts:
            self._taken.steps = self._taken.handed_out = self._taken.unpacked = 0

    def pack(self, content: bytes) -> bytes:
        """Compressed for `unpack`, which would refuse what is larger."""
        if len(content) > MAX_UNPACKED:
            raise ValueError(f"a value of {len(content):,} bytes is too large to be stored")
        with self.lock:
            return self._compressor.compress(content, zstd.ZstdCompressor.FLUSH_FRAME)

    def unpack(self, content: bytes) -> bytes:
        """What was compressed, as long as it is not a bomb."""
        return bytes(self._unpacked(content))

    def _unpacked(self, content: bytes) -> bytearray:
        """Part after part: the whole at once would be in memory twice."""
        decompressor, unpacked = zstd.ZstdDecompressor(), bytearray()
        with self.reading():
            unpacked += decompressor.decompress(content, UNPACKED_PART)
            while not (
                decompressor.eof or decompressor.needs_input or len(unpacked) > MAX_UNPACKED
            ):
                unpacked += decompressor.decompress(b"", UNPACKED_PART)
        self._taken.unpacked += len(unpacked)
        if not decompressor.eof or self._taken.exceeded():
            raise UsageError(f"{self.path} is damaged: a compressed value is cut or a bomb")
        return unpacked

    def each(self, content: bytes, kind: type[KindT]) -> Each[KindT]:
        """The values of a compressed list, each decoded when it is asked for."""
        unpacked = self._unpacked(content)
        if _too_large(unpacked):
            raise UsageError(f"{self.path} is damaged: a value in it is too large or too deep")
        with self.reading():
            return Each(self, msgspec.json.decode(unpacked, type=list[msgspec.Raw]), kind)

    def decode(self, content: str | bytes, kind: type[KindT]) -> KindT:
        """A JSON text as what it must be."""
        raw = content.encode() if isinstance(content, str) else content
        if _too_large(raw):
            raise UsageError(f"{self.path} is damaged: a value in it is too large or too deep")
        with self.reading():
            return msgspec.json.decode(raw, type=kind)

    def transaction(self) -> _Transaction:
        self._new_statement()
        return _Transaction(self.connection, self.lock, self.path)


class Each(Sequence[KindT]):
    """Values that are decoded one by one: a long list takes little more memory than its text."""

    def __init__(self, database: Database, texts: list[msgspec.Raw], kind: type[KindT]) -> None:
        self._database, self._texts, self._kind = database, texts, kind

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, place: int) -> KindT: ...

    @overload
    def __getitem__(self, place: slice) -> list[KindT]: ...

    def __getitem__(self, place: int | slice) -> KindT | list[KindT]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        with self._database.reading():
            return msgspec.json.decode(self._texts[place], type=self._kind)


class _Transaction:
    """Holds the lock and a write transaction; rolls back when the body raises."""

    def __init__(
        self, connection: sqlite3.Connection, lock: threading.RLock, path: Path | str
    ) -> None:
        self._connection, self._lock, self._path = connection, lock, path

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            if self._connection.in_transaction:  # an interrupt came between BEGIN and its block
                self._connection.execute("ROLLBACK")
            self._connection.execute("BEGIN IMMEDIATE")
        except BaseException as error:
            self._lock.release()
            self._name(error)
            raise

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        try:
            if self._connection.in_transaction:  # a full disk ends it by itself
                self._connection.execute("ROLLBACK" if kind else "COMMIT")
        except sqlite3.OperationalError as failure:
            self._name(failure)
        finally:
            self._lock.release()
        self._name(error)

    def _name(self, error: BaseException | None) -> None:
        """Turn a fault of the disk or of another writer into one with a name."""
        if isinstance(error, sqlite3.OperationalError):
            raise StoreError(f"{self._path} cannot be written: {error}") from error


def encode(value: Any) -> bytes:
    """The JSON text of a value, for `Database.decode`, which would refuse what is larger."""
    content = msgspec.json.encode(value)
    if _too_large(content):
        raise ValueError(f"a value of {len(content):,} bytes is too large or deep to be stored")
    return content


def _too_large(content: bytes | bytearray) -> bool:
    return len(content) > MAX_JSON or _values(content) > MAX_JSON_VALUES or _too_deep(content)


def _too_deep(content: bytes | bytearray) -> bool:
    """Whether brackets are left when the innermost ones were taken away that many times."""
    if content.count(b"[") + content.count(b"{") <= MAX_JSON_DEPTH:
        return False
    brackets = _JSON_STRINGS.sub(b"", content).translate(_BRACKETS, _NOT_BRACKETS)
    for _ in range(MAX_JSON_DEPTH):
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def _values(content: bytes | bytearray) -> int:
    """How many values a JSON text has at the most; exact only where that matters."""
    if len(content) <= MAX_JSON_VALUES:
        return 0
    count = sum(content.count(sign) for sign in (b",", b"[", b"{"))
    if count > MAX_JSON_VALUES:
        rest = _JSON_STRINGS.sub(b"", content)
        count = sum(rest.count(sign) for sign in (b",", b"[", b"{"))
    return count


_SCHEMA_QUERY = "SELECT type, name, tbl_name, sql FROM sqlite_master"


@functools.cache
def _schema_rows(schema: str) -> list[tuple[Any, ...]]:
    """What `sqlite_master` holds after `schema`, in the order of `repr`."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(schema)
        return sorted(connection.execute(_SCHEMA_QUERY).fetchall(), key=repr)
    finally:
        connection.close()


def _check_place(path: Path, mode: Mode) -> None:
    if not path.is_file() and (mode != "create" or path.exists()):
        raise UsageError(f"no run at {path}; `chimera runs list` shows those there are")
    if path.with_name(path.name + "-journal").exists():
        # SQLite would follow it, and it can name other files, to be removed.
        raise UsageError(f"{path} has a rollback journal beside it, which no run has")


def _size(path: Path) -> int:
    """Bytes of the file with what is not yet merged into it."""
    return sum(file.stat().st_size for file in (path, _log(path)) if file.is_file())


def _log(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _connect(path: Path | str, mode: Mode) -> sqlite3.Connection:
    target, most = str(path), 10**9
    if target != ":memory:":
        access = {"read": "ro", "write": "rw", "create": "rwc"}[mode]
        target = f"{Path(path).absolute().as_uri()}?mode={access}"
        if mode == "read" and not _log(Path(path)).exists():
            target += "&immutable=1"  # nobody writes it; and no files are left beside it
            most = min(most, _size(Path(path)) + 1_000_000)  # none is longer than its file
    connection = sqlite3.connect(
        target, uri=True, check_same_thread=False, isolation_level=None, timeout=60
    )
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most)
    if sys.version_info >= (3, 12):
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_TRIGGER, False)
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_VIEW, False)
    return connection
