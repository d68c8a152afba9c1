"""Long lists in files that have no name: what is worked through takes no memory with its length."""

from __future__ import annotations

import pickle
import sqlite3
import threading
import weakref
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Self, TypeVar, overload

from chimera.errors import StoreError

ValueT = TypeVar("ValueT")
OtherT = TypeVar("OtherT")

#: Up to so many are kept in memory.
FEW = 10_000
_PAGE = 200


class Picked(Sequence[ValueT]):
    """Some of a list, by their places in it."""

    def __init__(self, values: Sequence[ValueT], places: Sequence[int]) -> None:
        self.values, self.places = values, places

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[ValueT]:
        return map(self.values.__getitem__, self.places)

    @overload
    def __getitem__(self, place: int) -> ValueT: ...

    @overload
    def __getitem__(self, place: slice) -> Self: ...

    def __getitem__(self, place: int | slice) -> ValueT | Self:
        if isinstance(place, slice):
            return type(self)(self.values, self.places[place])
        return self.values[self.places[place]]


class Coded(Picked[ValueT]):
    """A list of values of which few differ: four bytes for each, and every different one once."""

    @classmethod
    def of(cls, values: Iterable[ValueT]) -> Coded[ValueT]:
        """The same list; its values must be hashable."""
        known: dict[Hashable, int] = {}
        places = array("I", (known.setdefault(value, len(known)) for value in values))
        return cls(list(known), places)  # type: ignore[arg-type]

    def mapped(self, change: Callable[[ValueT], OtherT]) -> Coded[OtherT]:
        """What `change` makes of each."""
        return Coded([change(value) for value in self.values], self.places)


class _File:
    """A SQLite file without a name, which goes with the object. Safe to use from many threads."""

    def __init__(self, schema: str) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        weakref.finalize(self, self._connection.close)
        self.execute("PRAGMA journal_mode = OFF")
        self.execute(schema)

    def execute(self, query: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._connection.execute(query, arguments).fetchall()
            except sqlite3.OperationalError as error:
                raise _no_room(error) from None

    def insert(self, query: str, rows: Sequence[Sequence[Any]]) -> None:
        with self._lock:
            try:
                self._connection.execute("BEGIN")
                self._connection.executemany(query, rows)
                self._connection.execute("COMMIT")
            except sqlite3.OperationalError as error:
                raise _no_room(error) from None


def _no_room(error: Exception) -> StoreError:
    return StoreError(f"a temporary file cannot be written: {error}; TMPDIR names another place")


class Names:
    """A set of texts, each with its place in a list."""

    def __init__(self) -> None:
        self._latest: dict[str, int] = {}
        self._file: _File | None = None

    def add(self, name: str, place: int) -> bool:
        """Whether it is new; one that is known keeps its place."""
        if self.place(name) is not None:
            return False
        self._latest[name] = place
        if len(self._latest) > FEW:
            if self._file is None:
                self._file = _File(
                    "CREATE TABLE names (name TEXT PRIMARY KEY, place INTEGER) WITHOUT ROWID"
                )
            self._file.insert("INSERT INTO names VALUES (?, ?)", sorted(self._latest.items()))
            self._latest = {}
        return True

    def place(self, name: str) -> int | None:
        found = self._latest.get(name)
        if found is not None or self._file is None:
            return found
        rows = self._file.execute("SELECT place FROM names WHERE name = ?", (name,))
        return rows[0][0] if rows else None


class Counts:
    """How often each of many texts came."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[int, int]] = {}  # where it came first, and how often
        self._file: _File | None = None
        self._added = 0

    def add(self, text: str) -> None:
        first, count = self._latest.get(text, (self._added, 0))
        self._latest[text] = first, count + 1
        self._added += 1
        if len(self._latest) > FEW:
            self._put_away()

    def _put_away(self) -> None:
        if self._file is None:
            self._file = _File(
                "CREATE TABLE counts (text TEXT PRIMARY KEY, first INTEGER, count INTEGER)"
            )
        self._file.insert(
            "INSERT INTO counts VALUES (?, ?, ?) "
            "ON CONFLICT (text) DO UPDATE SET count = count + excluded.count",
            [(text, *found) for text, found in self._latest.items()],
        )
        self._latest = {}

    def most_common(self, most: int) -> list[tuple[str, int]]:
        """The most frequent; of equally frequent ones those that came first."""
        if self._file is None:
            found = sorted(self._latest.items(), key=lambda each: (-each[1][1], each[1][0]))
            return [(text, count) for text, (_, count) in found[:most]]
        self._put_away()
        query = "SELECT text, count FROM counts ORDER BY count DESC, first LIMIT ?"
        return [(text, count) for text, count in self._file.execute(query, (most,))]


class Filed(Sequence[ValueT]):
    """A list that is appended to and read: values beyond the first few lie in a file.

    They come back as pickle makes them anew, so that a change to one is not seen by the next
    reader.
    """

    def __init__(self, values: Iterable[ValueT] = ()) -> None:
        self._first: list[ValueT] = []
        self._waiting: list[ValueT] = []
        self._file: _File | None = None
        self._filed = 0
        for value in values:
            self.append(value)

    def append(self, value: ValueT) -> None:
        if len(self._first) < FEW:
            self._first.append(value)
            return
        self._waiting.append(value)
        if len(self._waiting) >= _PAGE:
            self._put_away()

    def _put_away(self) -> None:
        if self._file is None:
            self._file = _File("CREATE TABLE list (place INTEGER PRIMARY KEY, value BLOB)")
        start = len(self._first) + self._filed
        rows = [(start + i, pickle.dumps(value)) for i, value in enumerate(self._waiting)]
        self._file.insert("INSERT INTO list VALUES (?, ?)", rows)
        self._filed += len(rows)
        self._waiting = []

    def __len__(self) -> int:
        return len(self._first) + self._filed + len(self._waiting)

    def __iter__(self) -> Iterator[ValueT]:
        yield from self._first
        query = "SELECT value FROM list WHERE place >= ? ORDER BY place LIMIT ?"
        start = len(self._first)
        last = start + self._filed
        for place in range(start, last, _PAGE):
            assert self._file is not None
            for (value,) in self._file.execute(query, (place, min(_PAGE, last - place))):
                yield pickle.loads(value)  # ours: no other process has the file
        yield from self._waiting

    @overload
    def __getitem__(self, place: int) -> ValueT: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[ValueT]: ...

    def __getitem__(self, place: int | slice) -> ValueT | Sequence[ValueT]:
        if isinstance(place, slice):
            return Picked(self, range(*place.indices(len(self))))
        place = range(len(self))[place]
        if place < len(self._first):
            return self._first[place]
        if place >= len(self._first) + self._filed:
            return self._waiting[place - len(self._first) - self._filed]
        assert self._file is not None
        ((value,),) = self._file.execute("SELECT value FROM list WHERE place = ?", (place,))
        return pickle.loads(value)  # type: ignore[no-any-return]


def gathered(values: Iterable[ValueT]) -> Sequence[ValueT]:
    """A list of them, in a file if they are many and can be kept in one."""
    remaining = iter(values)
    first = list(islice(remaining, FEW + 1))
    if len(first) <= FEW:
        return first
    filed = Filed(first)
    for value in remaining:
        try:
            filed.append(value)
        except (pickle.PicklingError, AttributeError, TypeError):  # of somebody's own class
            return [*filed, *remaining]
    return filed


def those(values: Sequence[ValueT], wanted: Callable[[ValueT], bool]) -> Sequence[ValueT]:
    """The values that are wanted; of many only their places are kept."""
    if isinstance(values, list):
        return [value for value in values if wanted(value)]
    return Picked(values, array("I", (n for n, value in enumerate(values) if wanted(value))))


class ById(Mapping[str, Any]):
    """Tasks by their ids, without a table of them all in memory."""

    def __init__(self, tasks: Iterable[Any]) -> None:
        """Of two tasks with one id the first counts."""
        self._tasks = tasks if isinstance(tasks, Sequence) else Filed(tasks)
        self._names = Names()
        self._places = array(
            "Q", (n for n, task in enumerate(self._tasks) if self._names.add(task["id"], n))
        )

    def __getitem__(self, name: str) -> Any:
        place = self._names.place(name)
        if place is None:
            raise KeyError(name)
        return self._tasks[place]

    def __iter__(self) -> Iterator[str]:
        return (task["id"] for task in Picked(self._tasks, self._places))

    def __len__(self) -> int:
        return len(self._places)
