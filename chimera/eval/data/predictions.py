"""Stored answers for grading without an agent: official prediction files as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from chimera.errors import DatasetError
from chimera.eval.benchmark import Benchmark
from chimera.eval.data.rows import Row, rows
from chimera.eval.filed import ById
from chimera.eval.values import Prediction, Submission

ID_FIELDS = ("task_id", "instance_id", "question_id", "unique_id", "id")
#: Taken as they are, as the official graders do; the first field that is there counts.
ANSWER_FIELDS = ("model_patch", "solution", "completion")
#: A model's whole reply, from which the answer is extracted.
REPLY_FIELD = "output"


def read_predictions(benchmark: Benchmark[Any], path: Path) -> Iterable[Prediction]:
    """The answers of a file in the benchmark's own official format, or in the common one."""
    found = benchmark.read_predictions(path)
    return common_predictions(benchmark, path) if found is None else found


def common_predictions(benchmark: Benchmark[Any], path: Path) -> Iterator[Prediction]:
    """One prediction a row. Several rows with one id are samples 0, 1, 2, …"""
    tasks = ById(benchmark.tasks())
    for number, row in enumerate(_prediction_rows(path), 1):
        where = f"{path}: prediction {number}"
        task_id = prediction_id(row, where)
        if task_id not in tasks:
            raise DatasetError(f"{where}: {benchmark.name()} has no task {task_id!r}")
        yield Prediction(task_id, _submission(benchmark, tasks[task_id], row, where))


def _prediction_rows(path: Path) -> Iterator[Row]:
    """Rows, or the entries of one object by their ids, as SWE-agent's preds.json has them."""
    for row in rows(path):
        if row and all(isinstance(value, dict) for value in row.values()):
            yield from ({"id": key, **value} for key, value in row.items())
        else:
            yield row


def prediction_id(row: Row, where: str) -> str:
    for field in ID_FIELDS:
        if row.get(field) is not None:
            return str(row[field])
    raise DatasetError(f"{where}: no task id; it needs one of {', '.join(ID_FIELDS)}")


def _submission(benchmark: Benchmark[Any], task: Any, row: Row, where: str) -> Submission:
    for field in ANSWER_FIELDS:
        if field in row:
            return Submission(text=_text(row[field], where), form=field)
    if REPLY_FIELD in row:
        return benchmark.extract(task, _text(row[REPLY_FIELD], where))
    fields = ", ".join((REPLY_FIELD, *reversed(ANSWER_FIELDS)))
    raise DatasetError(f"{where}: no answer; it needs one of {fields}")


def _text(value: Any, where: str) -> str:
    if value is None:
        return ""  # an empty patch is an answer, and a wrong one
    if not isinstance(value, str):
        raise DatasetError(f"{where}: the answer is not a string but {type(value).__name__}")
    return value
