"""Replies compared without the official package, as it compares them."""

from __future__ import annotations

import json

import pytest

from chimera.errors import GraderError
from chimera.eval.benchmarks._webarena_verified.plain import grade_reply


def check(kind: str, wanted: object) -> dict[str, object]:
    schema = {"type": "array", "items": {"type": kind}}
    expected = {"task_type": "RETRIEVE", "status": "SUCCESS", "retrieved_data": [wanted]}
    return {"expected": expected, "results_schema": schema}


def reply(data: object, status: str = "SUCCESS") -> str:
    return json.dumps({"task_type": "retrieve", "status": status, "retrieved_data": data})


@pytest.mark.parametrize(
    ("kind", "wanted", "given", "same"),
    [
        ("string", "Quest Band", "\u201cQuest Band\u201d", True),
        ("string", "Quest Band", "Quest\u00ae Band", True),
        ("string", "Quest-Band", "quest\u2013band", True),
        ("string", "Café", "Cafe.", True),
        ("string", "123-4567", "123 4567", False),
        ("string", "Quest Band", "^.*$", False),
        ("string", "^@?jo$", "@jo", True),
        ("string", "^@?jo$", "^@?jo$", False),
        ("number", 17, "seventeen", True),
        ("number", 6, "six reviews", True),
        ("number", 23, "twenty-three", True),
        ("number", 6, "6 reviews", False),
        ("number", 1, True, True),
        ("number", 1, [1, 2], False),
        ("boolean", True, "Yes", True),
        ("boolean", True, [True, False], False),
    ],
)
def test_values(kind, wanted, given, same):
    assert grade_reply(check(kind, wanted), reply([given])).passed is same


def test_what_only_the_package_reads_has_no_verdict():
    for kind, given in (("string", "東京"), ("number", "two hundred and five")):
        with pytest.raises(GraderError, match="package"):
            grade_reply(check(kind, 205 if kind == "number" else "Tokyo"), reply([given]))


def test_the_first_code_block_or_the_whole_reply_counts():
    right, wrong = reply(["a"]), reply(["b"])
    for text, passed in (
        (f"```json\n{right}\n```\nor\n```json\n{wrong}\n```", True),
        (f"```json\n{wrong}\n```\nor\n```json\n{right}\n```", False),
        (f"Here it is:\n{right}", False),
        (f"Here it is:\n```\n{right}\n```", True),
        (reply(["a"], status="'Success'"), True),
    ):
        assert grade_reply(check("string", "a"), text).passed is passed


def test_an_item_is_taken_once():
    both = check("number", 1)
    both["expected"]["retrieved_data"] = [1, 1]

    assert grade_reply(both, reply([True, 1])).passed
    assert not grade_reply(both, reply([1, 2])).passed
