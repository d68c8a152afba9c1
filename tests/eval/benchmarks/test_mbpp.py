"""MBPP: assembly of the program, both files, prompts and extraction."""

from __future__ import annotations

import json

import pytest

from chimera.environments.none import NoEnvironment
from chimera.errors import DatasetError, UsageError
from chimera.eval.benchmarks.mbpp import MBPP
from chimera.eval.values import Submission


def sanitized(number, **fields):
    row = {
        "source_file": "ours",
        "task_id": number,
        "prompt": "Add one.",
        "code": "def add(n):\n  return n + 1",
        "test_imports": [],
        "test_list": ["assert add(1) == 2", "assert add(2) == 3", "assert add(-1) == 0"],
    }
    return {**row, **fields}


def full(number, **fields):
    row = {
        "task_id": number,
        "text": "Add one.",
        "code": "def add(n):\r\n  return n + 1",
        "test_setup_code": "",
        "test_list": ["assert add(1) == 2"],
        "challenge_test_list": [],
    }
    return {**row, **fields}


def mbpp(tmp_path, rows, **options):
    rows = [*(r for r in (sanitized(2), sanitized(3), sanitized(4))), *rows]
    file = tmp_path / "sanitized-mbpp.json"
    file.write_text(json.dumps(rows))
    return MBPP(file, **options)


def graded(benchmark, task_id, code, form="answer"):
    task = next(task for task in benchmark.tasks() if task["id"] == task_id)
    return benchmark.grade(task, Submission(code, form=form), NoEnvironment())


@pytest.mark.parametrize(
    ("code", "passed"),
    [
        ("def add(n):\n    return n + 1", True),
        ("def add(n):\r\n    return n + 1\r\n", True),
        ("from __future__ import annotations\ndef add(n):\n    return n + 1", True),
        ("def add(n):\n    return n + 1\nif __name__ == '__main__':\n    raise SystemExit", True),
        ("def add(n):\n    print(n)\n    return n + 1", True),
        ("def add(n):\n    return n + 1\nassert add(1) == 3", False),
        ("def add(n):\n    return n + 2", False),
        ("import sys\nsys.exit(0)", False),
        ("import os\nos._exit(0)", False),
        ("x = input()\ndef add(n):\n    return n + 1", False),
        ("class A:\n    def __eq__(self, o): return True\ndef add(n): return A()", False),
        ("", False),
    ],
)
def test_a_program_passes_when_all_asserts_hold(tmp_path, code, passed):
    assert graded(mbpp(tmp_path, [sanitized(11)]), "11", code).passed is passed


def test_test_imports_are_there_for_tests_and_program(tmp_path):
    row = sanitized(
        98,
        code="def area(r):\n  return math.pi * r",
        test_imports=["import math"],
        test_list=["assert math.isclose(area(1), math.pi)"],
    )
    benchmark = mbpp(tmp_path, [row])

    assert graded(benchmark, "98", row["code"]).passed


def test_a_function_named_like_a_builtin_is_the_answers(tmp_path):
    row = sanitized(126, code="def sum(a, b):\n  return a + b", test_list=["assert sum(1, 2) == 3"])

    assert graded(mbpp(tmp_path, [row]), "126", row["code"]).passed


def test_setup_code_runs_between_program_and_asserts(tmp_path):
    tree = full(
        367,
        code="class Node:\n  def __init__(self, v):\n    self.v = v\n    self.left = None\n"
        "def depth(n):\n  return 0 if n is None else 1 + depth(n.left)",
        test_setup_code="root = Node(1)\r\nroot.left = Node(2)",
        test_list=["assert depth(root) == 2"],
        challenge_test_list=["assert depth(root.left) == 1"],
    )
    rows = [full(2), full(3), full(4), tree]
    file = tmp_path / "mbpp.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    benchmark = MBPP(file, split="full")

    verdict = graded(benchmark, "367", tree["code"])

    assert verdict.passed
    assert verdict.metrics["challenge"] is True


def test_the_three_shot_prompt_shows_three_solved_tasks_and_three_tests(tmp_path):
    tests = [f"assert add({n}) == {n + 1}" for n in range(5)]
    benchmark = mbpp(tmp_path, [sanitized(11, test_list=tests)])

    prompt = benchmark.tasks()[-1]["prompt"]

    assert prompt.count("[BEGIN]") == 4
    assert prompt.count("[DONE]") == 3
    assert prompt.endswith("[BEGIN]\n")
    assert tests[2] in prompt
    assert tests[3] not in prompt


def test_zero_shot_and_one_assert_prompts(tmp_path):
    zero = mbpp(tmp_path, [sanitized(11)], prompt="zero-shot").tasks()[-1]["prompt"]
    one = mbpp(tmp_path, [sanitized(11)], prompt="one-assert").tasks()[-1]["prompt"]

    assert "[BEGIN]" not in zero
    assert zero.count("assert") == 3
    assert one.count("assert") == 1


@pytest.mark.parametrize(
    "reply",
    [
        "def add(n):\n    return n + 1\n[DONE]\nYou are an expert",
        "[BEGIN]\ndef add(n):\n    return n + 1\n[DONE]",
        "Sure:\n```python\ndef add(n):\n    return n + 1\n```\nand\n```python\nprint(add(3))\n```",
        "<think>hm</think>def add(n):\n    return n + 1",
    ],
)
def test_replies(tmp_path, reply):
    benchmark = mbpp(tmp_path, [sanitized(11)])
    task = benchmark.tasks()[-1]

    assert benchmark.grade(task, benchmark.extract(task, reply), NoEnvironment()).passed


@pytest.mark.parametrize(
    ("split", "part", "count"),
    [
        ("full", "all", 974),
        ("full", "test", 500),
        ("full", "validation", 90),
        ("full", "train", 374),
        ("full", "prompt", 10),
        ("sanitized", "all", 427),
        ("sanitized", "test", 257),
        ("sanitized", "train", 120),
    ],
)
def test_splits_of_the_real_files(dataset, split, part, count):
    assert len(MBPP(dataset("mbpp"), split=split, part=part).tasks()) == count


@pytest.mark.parametrize(("split", "tasks"), [("full", (126, 367, 596, 927)), ("sanitized", (98,))])
def test_gold_of_the_real_files_that_need_care(dataset, split, tasks):
    benchmark = MBPP(dataset("mbpp"), split=split)
    for task in benchmark.tasks():
        if int(task["id"]) in tasks:
            verdict = benchmark.grade(task, benchmark.gold(task), NoEnvironment())
            assert verdict.passed, (task["id"], verdict.why)


@pytest.mark.full
@pytest.mark.parametrize("split", ["full", "sanitized"])
def test_gold_passes(dataset, split):
    benchmark = MBPP(dataset("mbpp"), split=split)
    for task in benchmark.tasks():
        verdict = benchmark.grade(task, benchmark.gold(task), NoEnvironment())
        assert verdict.passed, (task["id"], verdict.why)


@pytest.mark.parametrize("options", [{"split": "tiny"}, {"part": "x"}, {"prompt": "x"}])
def test_unknown_settings_are_refused(options):
    with pytest.raises(UsageError, match="must be"):
        MBPP(**options)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([sanitized(11), sanitized(11)], "appears twice"),
        ([sanitized(11, test_list=[])], "has no tests"),
        ([full(11)], "split=full"),
        ([{"task_id": 11}], "split=full"),
    ],
)
def test_damaged_rows_are_refused(tmp_path, rows, message):
    with pytest.raises(DatasetError, match=message):
        mbpp(tmp_path, rows).tasks()


def test_an_absent_file_gives_a_hint(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_DATASETS_DIR", str(tmp_path))
    monkeypatch.delenv("CHIMERA_MBPP_PATH", raising=False)

    with pytest.raises(DatasetError, match="chimera datasets pull mbpp"):
        MBPP().tasks()
