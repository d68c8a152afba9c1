"""Where data sets live, rows from their files, and the base class of adapters that read them."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import os
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from chimera.errors import DatasetError
from chimera.eval.benchmark import Benchmark, TaskT

Row = Mapping[str, Any]

SUFFIXES = (".jsonl", ".json", ".csv", ".parquet", ".jsonl.gz", ".json.gz", ".csv.gz")
#: Nothing we know is larger unpacked; a file that is, is taken for a decompression bomb.
MAX_BYTES = 8 * 1024**3
#: One row of the largest real data set has 300 MB of private tests.
MAX_LINE_BYTES = 1024**3


def datasets_dir() -> Path:
    configured = os.environ.get("CHIMERA_DATASETS_DIR")
    return Path(configured) if configured else Path.home() / ".chimera" / "datasets"


def cache_dir() -> Path:
    """Where things that can be made again are kept: model calls, expected outputs, builds."""
    configured = os.environ.get("CHIMERA_CACHE_DIR")
    if configured:
        return Path(configured)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "chimera"


def path_variable(slug: str) -> str:
    """The environment variable that names this data set's place: CHIMERA_HUMAN_EVAL_PATH."""
    return f"CHIMERA_{slug.upper().replace('-', '_')}_PATH"


def rows(path: Path) -> Iterator[Row]:
    """Rows of a file, or of every data file of a directory in the order of their names."""
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.name.lower().endswith(SUFFIXES))
        if not files:
            raise DatasetError(f"{path}: no data files ({', '.join(SUFFIXES)}) in this directory")
        for file in files:
            yield from rows(file)
        return
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".parquet"):
        yield from _parquet_rows(path)
        return
    with _open(path) as stream:
        if name.endswith(".csv"):
            yield from _csv_rows(path, stream)
        elif name.endswith(".json"):
            yield from _json_rows(path, stream)
        elif name.endswith(".jsonl"):
            yield from _jsonl_rows(path, stream)
        else:
            raise DatasetError(f"{path}: not a known data file ({', '.join(SUFFIXES)})")


def digest(path: Path) -> str:
    """SHA-256 of a file, or of a directory's relative names and contents."""
    total = hashlib.sha256()
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    for file in files:
        if path.is_dir():
            total.update(str(file.relative_to(path)).encode() + b"\0")
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                total.update(block)
    return total.hexdigest()


class _Bounded(io.RawIOBase):
    """A reader that refuses to unpack more than `MAX_BYTES`."""

    def __init__(self, stream: gzip.GzipFile, path: Path) -> None:
        self._stream, self._path, self._seen = stream, path, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            block = self._stream.read(len(buffer))
        except (OSError, EOFError, zlib.error) as error:
            raise DatasetError(f"{self._path}: damaged after {self._seen} bytes: {error}") from None
        self._seen += len(block)
        if self._seen > MAX_BYTES:
            raise DatasetError(f"{self._path}: unpacks to more than {MAX_BYTES >> 30} GiB; refused")
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _open(path: Path) -> io.BufferedReader:
    try:
        if path.name.lower().endswith(".gz"):
            return io.BufferedReader(_Bounded(gzip.open(path, "rb"), path), 1 << 20)
        return path.open("rb")
    except OSError as error:
        raise DatasetError(f"{path}: {error.strerror or error}") from None


def _jsonl_rows(path: Path, stream: io.BufferedReader) -> Iterator[Row]:
    number = 0
    while line := stream.readline(MAX_LINE_BYTES):
        number += 1
        if len(line) >= MAX_LINE_BYTES:
            raise DatasetError(f"{path}:{number}: a line of more than {MAX_LINE_BYTES >> 20} MiB")
        if line.strip():
            yield _row(_parse(line, f"{path}:{number}"), f"{path}:{number}")


def _json_rows(path: Path, stream: io.BufferedReader) -> Iterator[Row]:
    content = _parse(stream.read(), str(path))
    if isinstance(content, dict) and isinstance(content.get("tasks"), list):
        content = content["tasks"]
    if not isinstance(content, list):
        content = [content]
    for index, row in enumerate(content):
        yield _row(row, f"{path}: entry {index}")


def _csv_rows(path: Path, stream: io.BufferedReader) -> Iterator[Row]:
    csv.field_size_limit(1 << 30)
    text = io.TextIOWrapper(stream, "utf-8", newline="")
    try:
        for row in csv.DictReader(text):
            if None in row or None in row.values():
                raise DatasetError(f"{path}: row {row} does not have the header's columns")
            yield row
    except (csv.Error, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: {error}") from None
    finally:
        text.detach()  # the caller closes what it opened


def _parquet_rows(path: Path) -> Iterator[Row]:
    if find_spec("pyarrow") is None:
        raise DatasetError(f"{path}: reading Parquet needs pyarrow: pip install 'chimera[parquet]'")
    import pyarrow
    import pyarrow.parquet

    try:
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=256):
            yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise DatasetError(f"{path}: {error}") from None


def _parse(content: bytes, where: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{where}: not valid JSON: {error}") from None


def _row(value: Any, where: str) -> Row:
    if not isinstance(value, dict):
        raise DatasetError(f"{where}: expected an object, found {type(value).__name__}")
    return value


class DatasetBenchmark(Benchmark[TaskT]):
    """A benchmark whose tasks are rows of a data set on disk.

    A subclass sets `slug` and `setup` and implements `task(row)` and `grade`. What a row lacks is
    reported with its place; an id that appears twice is refused.
    """

    slug: ClassVar[str]
    #: One or two sentences that tell a person how to get the data.
    setup: ClassVar[str] = ""
    #: Files looked for, in this order, when the data set's place is a directory.
    files: ClassVar[Sequence[str]] = ()
    #: (package, path inside it) of a copy that an installed Python package carries.
    packaged: ClassVar[tuple[str, str] | None] = None

    def __init__(self, dataset_path: str | Path | None = None, limit: int | None = None) -> None:
        if limit is not None and limit < 0:
            raise DatasetError(f"{self.slug}: limit must not be negative, got {limit}")
        self.dataset_path = Path(dataset_path) if dataset_path is not None else None
        self.limit = limit
        self._tasks: list[TaskT] | None = None

    def name(self) -> str:
        return self.slug

    @abstractmethod
    def task(self, row: Row) -> TaskT | None:
        """The task a row describes, or None when the options leave it out."""

    def tasks(self) -> Sequence[TaskT]:
        if self._tasks is None:
            self._tasks = list(self._load())
        return self._tasks

    def source(self) -> Path:
        """The file or directory the rows are read from."""
        place = self.place()
        if place.is_dir() and self.files:
            for name in self.files:
                if (place / name).exists():
                    return place / name
            raise self._missing(place)
        return place

    def place(self) -> Path:
        """Where the data set is: option, variable, data set directory, installed package."""
        configured = self.dataset_path or os.environ.get(path_variable(self.slug))
        if configured:
            place = Path(configured).expanduser()
            if not place.exists():
                raise self._missing(place)
            return place
        place = datasets_dir() / self.slug
        if place.exists():
            return place
        if self.packaged is not None and (found := package_file(*self.packaged)):
            return found
        raise self._missing(place)

    def rows(self) -> Iterator[Row]:
        return rows(self.source())

    def dataset_digest(self) -> str:
        return digest(self.source())

    def _load(self) -> Iterator[TaskT]:
        seen: set[str] = set()
        count = 0
        if self.limit == 0:
            return
        for index, row in enumerate(self.rows()):
            try:
                task = self.task(row)
            except KeyError as error:
                raise DatasetError(f"{self.source()}: row {index} has no field {error}") from None
            except (TypeError, ValueError) as error:
                raise DatasetError(f"{self.source()}: row {index}: {error}") from None
            if task is None:
                continue
            if task["id"] in seen:
                raise DatasetError(f"{self.source()}: row {index}: id {task['id']!r} appears twice")
            seen.add(task["id"])
            yield task
            count += 1
            if self.limit is not None and count >= self.limit:
                return
        if not seen:
            raise DatasetError(f"{self.source()}: no task fits the options {self.options()}")

    def _missing(self, place: Path) -> DatasetError:
        hint = f"  {self.setup}\n" if self.setup else ""
        return DatasetError(
            f"no dataset for '{self.slug}' at {place}\n{hint}"
            f"  Or point elsewhere with --dataset, or {path_variable(self.slug)}."
        )


def package_file(package: str, path: str) -> Path | None:
    """A data file of an installed package, found without importing it."""
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (file := Path(folder) / path).exists():
            return file
        if (file := Path(folder).parent / path).exists():
            return file
    return None
