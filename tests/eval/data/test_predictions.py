"""Stored answers: the forms that official files have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chimera.errors import DatasetError
from chimera.eval.data.predictions import read_predictions
from chimera.eval.harness import Benchmark


class Two(Benchmark[Any]):
    def name(self) -> str:
        return "two"

    def tasks(self) -> list[dict[str, str]]:
        return [{"id": "a__a-1", "prompt": "p"}, {"id": "b__b-2", "prompt": "q"}]

    def evaluate(self, task: Any, agent_output: str, env: Any) -> bool:
        return False


def read(path: Path, content: Any) -> list[tuple[str, str, str]]:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return [
        (found.task_id, found.submission.form, found.submission.text)
        for found in read_predictions(Two(), path)
    ]


ROWS = [{"instance_id": "a__a-1", "model_patch": "x"}, {"instance_id": "b__b-2", "output": "y"}]
FOUND = [("a__a-1", "model_patch", "x"), ("b__b-2", "answer", "y")]


def test_rows_of_a_list_and_of_lines(tmp_path: Path) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)

    assert read(tmp_path / "p.json", ROWS) == FOUND
    assert read(tmp_path / "p.jsonl", lines) == FOUND


def test_one_object_by_ids(tmp_path: Path) -> None:
    named = {"a__a-1": {"model_patch": "x"}, "b__b-2": ROWS[1]}

    assert read(tmp_path / "preds.json", named) == FOUND


def test_an_empty_patch_is_an_answer(tmp_path: Path) -> None:
    assert read(tmp_path / "p.json", [{"id": "a__a-1", "model_patch": None}]) == [
        ("a__a-1", "model_patch", "")
    ]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": "c", "output": "x"}, "no task 'c'"),
        ({"output": "x"}, "no task id"),
        ({"id": "a__a-1"}, "no answer"),
        ({"id": "a__a-1", "solution": 5}, "not a string but int"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(
    tmp_path: Path, row: dict[str, Any], said: str
) -> None:
    with pytest.raises(DatasetError, match=f"prediction 2: .*{said}"):
        read(tmp_path / "p.json", [ROWS[0], row])
