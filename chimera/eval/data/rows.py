"""Rows from the files of data sets: bounded, and refused with their place when damaged."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from chimera.errors import DatasetError

Row = Mapping[str, Any]

SUFFIXES = (".jsonl", ".json", ".csv", ".parquet", ".jsonl.gz", ".json.gz", ".csv.gz")
#: Nothing we know is larger unpacked; a file that is, is taken for a decompression bomb.
MAX_BYTES = 8 * 1024**3
#: One row of the largest real data set has 300 MB of private tests.
MAX_LINE_BYTES = 1024**3


def rows(path: Path) -> Iterator[Row]:
    """Rows of a file, or of every data file of a directory in the order of their names."""
    if path.is_dir():
        for file in _files(path):
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


def row_place(path: Path, index: int) -> str:
    """Where a row of `rows(path)` stands: of a directory the file, and which row of that."""
    if path.is_dir():
        for file in _files(path):
            inside = sum(1 for _ in rows(file))
            if index < inside:
                return f"{file}: row {index}"
            index -= inside
    return f"{path}: row {index}"


def _files(folder: Path) -> list[Path]:
    files = sorted(p for p in folder.iterdir() if p.name.lower().endswith(SUFFIXES))
    if not files:
        raise DatasetError(f"{folder}: no data files ({', '.join(SUFFIXES)}) in this directory")
    return files


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
    text = stream.read(MAX_LINE_BYTES + 1)
    if len(text) > MAX_LINE_BYTES:
        raise DatasetError(f"{path}: a JSON text of more than {MAX_LINE_BYTES >> 20} MiB; refused")
    content = _parse(text, str(path))
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
        need = "reading Parquet needs pyarrow: pip install 'chimera-eval[parquet]'"
        raise DatasetError(f"{path}: {need}")
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
