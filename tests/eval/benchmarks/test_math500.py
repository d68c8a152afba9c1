"""MATH-500 and its options, on rows of our own and on the real file."""

from __future__ import annotations

import json

import pytest

from chimera.environments.none import NoEnvironment
from chimera.errors import DatasetError, UsageError
from chimera.eval.benchmarks.math500 import MATH500Benchmark
from chimera.eval.values import Submission

pytest.importorskip("math_verify")
ROWS = [
    {
        "problem": "What is one half of one?",
        "solution": "It is $\\boxed{\\frac{1}{2}}$.",
        "answer": "\\frac{1}{2}",
        "subject": "Algebra",
        "level": 1,
        "unique_id": "test/algebra/1.json",
    },
    {
        "problem": "Who is first?",
        "solution": "\\boxed{\\text{Evelyn}}",
        "type": "Geometry",
        "level": "Level 5",
        "idx": 7,
    },
]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


@pytest.mark.parametrize(
    ("reply", "passed", "corrected"),
    [
        ("so $\\boxed{0.5}$", True, True),
        ("ANSWER: 1/2", True, True),
        ("\\boxed{\\frac{2}{4}}", False, True),  # PRM800K wants fractions reduced
        ("\\boxed{2}", False, False),
        ("\\boxed{0.5} no, \\boxed{3}", False, False),
        ("", False, False),
        ("one half", False, False),
    ],
)
def test_the_last_answer_decides(file, reply, passed, corrected):
    benchmark = MATH500Benchmark(file)
    task = benchmark.tasks()[0]

    verdict = benchmark.grade(task, benchmark.extract(task, reply), NoEnvironment())

    assert (verdict.passed, verdict.metrics["corrected"]) == (passed, corrected)


def test_metrics_name_subject_level_and_what_each_grader_said(file):
    benchmark = MATH500Benchmark(file)
    task = benchmark.tasks()[0]

    metrics = benchmark.grade(task, Submission("2/4"), NoEnvironment()).metrics

    assert (metrics["subject"], metrics["level"]) == ("Algebra", 1)
    assert (metrics["prm800k"], metrics["math_verify"], metrics["hendrycks"]) == (
        False,
        True,
        False,
    )


def test_a_stored_solution_is_read_like_a_reply_or_taken_as_the_answer(file):
    benchmark = MATH500Benchmark(file)
    task = benchmark.tasks()[0]
    for text in ("We get $\\boxed{1/2}$.", "0.5"):
        verdict = benchmark.grade(task, Submission(text, form="solution"), NoEnvironment())
        assert verdict.passed


def test_subject_and_level_select(file):
    assert len(MATH500Benchmark(file, subject="algebra").tasks()) == 1
    assert MATH500Benchmark(file, level=5).tasks()[0]["answer"] == "\\text{Evelyn}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"problem": "p", "level": 1, "subject": "a", "unique_id": "1"}', "no field 'solution'"),
        ('{"problem": 1', "test.jsonl:1"),
        ((json.dumps(ROWS[0]) + "\n") * 2, "appears twice"),
        (json.dumps({**ROWS[0], "answer": " "}), "no answer"),
    ],
)
def test_a_damaged_file_is_refused_with_its_place(tmp_path, content, message):
    path = tmp_path / "test.jsonl"
    path.write_text(content)

    with pytest.raises(DatasetError, match=message):
        MATH500Benchmark(path).tasks()


def test_an_unknown_grader_is_refused():
    with pytest.raises(UsageError, match="grader must be prm800k, math-verify or hendrycks, got"):
        MATH500Benchmark(grader="vibes")


def test_gold_of_the_real_file_passes(dataset):
    benchmark = MATH500Benchmark(dataset("math-500"))
    tasks = benchmark.tasks()

    failed = [
        task["id"]
        for task in tasks[::20]
        if not benchmark.grade(task, benchmark.gold(task), NoEnvironment()).passed
    ]

    assert len(tasks) == 500
    assert failed == []
