"""Replies compared without the official package, as it compares them."""

from __future__ import annotations

import json

import pytest

from chimera.errors import EnvironmentFault, GraderError
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


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("three hundred forty six", 346),
        ("two hundred and five", 205),
        ("one thousand two hundred thirty four", 1234),
        ("twelve point five", 12.5),
        ("two million five thousand", 2_006_005),  # as word2number has it
        ("two hundred reviews", 200),
        ("million five", None),
        ("one thousand two thousand", None),
    ],
)
def test_numbers_in_many_words(words, number):
    for wanted in (346, 205, 1234, 12.5, 2_006_005, 200):
        graded = grade_reply(check("number", wanted), reply([words]))
        assert graded.passed is (wanted == number)


@pytest.mark.parametrize(
    ("kind", "wanted", "given"),
    [
        ("string", "Orsted", "Ørsted"),
        ("string", "Quest Band", "Quest Band \N{WHITE HEAVY CHECK MARK}"),
        ("string", "^.*Band$", "\N{WHITE HEAVY CHECK MARK} Band"),
        ("number", 205, "205 \N{WHITE HEAVY CHECK MARK}"),
        ("boolean", True, "yes \N{WHITE HEAVY CHECK MARK}"),
    ],
)
def test_what_only_the_package_reads_has_no_verdict(kind, wanted, given):
    """And it is no fault of the answer's, which the controls would make its failure."""
    with pytest.raises(EnvironmentFault, match="package webarena-verified"):
        grade_reply(check(kind, wanted), reply([given]))


@pytest.mark.parametrize(
    ("kind", "wanted", "given"),
    [
        ("string", "Tokyo", "東京"),
        ("string", "Quest Band", "Qu日"),
        ("string", "Quest Band", "Quest B日t"),
        ("string", "^.*Band$", "日"),
        ("number", 3, "日"),
        ("number", 3, "4 日"),
        ("boolean", True, "no 日"),
    ],
)
def test_who_knows_no_answer_cannot_choose_that_there_is_no_verdict(kind, wanted, given):
    assert not grade_reply(check(kind, wanted), reply([given])).passed


def test_other_items_that_differ_decide():
    both = check("string", "Orsted")
    both["expected"]["retrieved_data"] = ["Orsted", ["Sea", "Lake"]]

    assert not grade_reply(both, reply(["Ørsted", "Wood"])).passed
    with pytest.raises(EnvironmentFault):
        grade_reply(both, reply(["Lake", "Ørsted"]))


def test_kinds_of_values_that_only_the_package_reads_have_no_verdict():
    with pytest.raises(GraderError, match="package webarena-verified"):
        grade_reply(check("duration", "1 h"), reply(["1 h"]))


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
