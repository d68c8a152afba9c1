"""Trials as rows of a table: CSV that no spreadsheet takes for formulas, and Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

import msgspec

from chimera.errors import UsageError
from chimera.eval.runs.result import benchmark_of
from chimera.eval.runs.store import RunStore
from chimera.eval.values import TrialRecord
from chimera.types import JSON

#: The columns of a table, with what they hold.
COLUMNS: Mapping[str, type] = {
    "run": str, "benchmark": str, "model": str, "agent": str,
    "task_id": str, "sample": int, "status": str, "passed": bool, "score": float, "why": str,
    "uninformative": bool, "uncontrolled": bool,
    "cost": float, "input_tokens": int, "output_tokens": int, "cached_tokens": int,
    "steps": int, "duration": float, "attempts": int, "started": float, "stop_reason": str,
    "metrics": str, "output": str,
}  # fmt: skip
#: What makes a spreadsheet take a text for a formula, or ends a cell before its time.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_GROUP = 1000


def trial_rows(store: RunStore) -> Iterator[dict[str, JSON]]:
    """A run's trials with all columns; what is not known is None."""
    manifest = store.manifest()
    run = {
        "run": Path(store.path).stem,
        "benchmark": benchmark_of(manifest),
        "model": _text(manifest.get("model")),
        "agent": _text(manifest.get("agent")),
    }
    for record in store.records():
        yield {**run, **_row(record)}


def _row(record: TrialRecord) -> dict[str, JSON]:
    verdict = record.verdict
    return {
        "task_id": record.task_id,
        "sample": record.sample,
        "status": record.status,
        "passed": record.passed,
        "score": None if verdict is None else verdict.value,
        "why": record.why,
        "uninformative": record.uninformative,
        "uncontrolled": record.uncontrolled,
        "cost": record.cost,
        "input_tokens": record.usage.input_tokens,
        "output_tokens": record.usage.output_tokens,
        "cached_tokens": record.usage.cached_tokens,
        "steps": record.steps,
        "duration": record.duration,
        "attempts": record.attempts,
        "started": record.started,
        "stop_reason": record.stop_reason,
        "metrics": msgspec.json.encode(verdict.metrics).decode() if verdict else "{}",
        "output": record.output,
    }


def _text(value: JSON) -> str | None:
    return None if value is None else str(value)


def csv_lines(store: RunStore) -> Iterator[str]:
    """The rows as CSV; a text that could be a formula begins with an apostrophe."""
    yield ",".join(COLUMNS)
    for row in trial_rows(store):
        yield csv_line(row[name] for name in COLUMNS)


def csv_line(cells: Iterable[JSON]) -> str:
    """A line of CSV without its end."""
    line = io.StringIO()
    csv.writer(line).writerow(map(_cell, cells))
    return line.getvalue().removesuffix("\r\n")


def _cell(value: JSON) -> JSON:
    if isinstance(value, str):
        value = value.replace("\0", "\ufffd")  # what no reader of CSV takes
        return f"'{value}" if value.lstrip(" ").startswith(_FORMULA) else value
    return value


def write_parquet(store: RunStore, file: Path) -> None:
    """The rows as one Parquet file."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UsageError(
            "Parquet needs pyarrow, which is not installed: pip install 'chimera-eval[parquet]'"
        ) from None
    kinds = {
        str: pyarrow.string(),
        int: pyarrow.int64(),
        float: pyarrow.float64(),
        bool: pyarrow.bool_(),
    }
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
    rows = trial_rows(store)
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while group := list(islice(rows, _GROUP)):
            writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))
