"""AIMO, AIME and AMC: strict whole numbers, range and modulus by edition."""

from __future__ import annotations

import pytest

from chimera.environments.none import NoEnvironment
from chimera.errors import DatasetError, UsageError
from chimera.eval.benchmarks.aimo import AIMOBenchmark


def benchmark(tmp_path, edition, answer, **options):
    file = tmp_path / f"{edition}.csv"
    file.write_text(f'id,problem,answer\na1,"What, now?",{answer}\n')
    return AIMOBenchmark(file, edition=edition, **options)


def passes(benchmark, reply):
    (task,) = benchmark.tasks()
    return benchmark.grade(task, benchmark.extract(task, reply), NoEnvironment()).passed


@pytest.mark.parametrize(
    ("edition", "gold", "reply", "passed"),
    [
        ("aimo2", "34", "ANSWER: 34", True),
        ("aimo2", "34", "ANSWER: 034", True),
        ("aimo2", "34", "**ANSWER: $2034$**", True),
        ("aimo2", "34", "ANSWER: \\(34\\)", True),
        ("aimo2", "34", "ANSWER: \\[34\\].", True),
        ("aimo2", "34", "ANSWER: `34`", True),
        ("aimo2", "34", "ANSWER: **34**.", True),
        ("aimo2", "34", "ANSWER: <34>", True),
        ("aimo2", "34", "ANSWER: <34", False),
        ("aimo2", "34", "ANSWER: 34>", False),
        ("aimo2", "34", "ANSWER: -34", False),
        ("aimo2", "966", "ANSWER: -34", False),
        ("aimo2", "5", "\\boxed{\\frac{10}{2}}", False),
        ("aimo2", "5", "x = 5 or 7", False),
        ("aimo2", "5", "ANSWER: 5 or 7", False),
        ("aimo2", "120", "\\boxed{5!}", False),
        ("aimo2", "0", "ANSWER: 1e3", False),
        ("aimo2", "5", "no solution", False),
        ("aimo2", "5", "thus there are 5 cases left", False),
        ("aimo2", "5", "ANSWER: 3\nWait.\nANSWER: 5", True),
        ("aimo2", "5", "\\boxed{3} \\boxed{5}", True),
        ("aimo2", "5", "ANSWER: \\boxed{5}", True),
        ("aimo3", "12345", "\\boxed{12{,}345}", True),
        ("aimo3", "345", "ANSWER: 12345", False),
        ("aimo3", "5", "ANSWER: 100005", False),
        ("aime", "072", "\\boxed{72}", True),
        ("aime", "204", "ANSWER: 1204", False),
        ("amc", "27.0", "ANSWER: 27", True),
        ("amc", "-1.0", "ANSWER: -1", True),
        ("aime", "204", "", False),
    ],
)
def test_answers_by_edition(tmp_path, edition, gold, reply, passed):
    assert passes(benchmark(tmp_path, edition, gold), reply) is passed


def test_a_reduced_answer_says_so_and_can_be_refused(tmp_path):
    lenient = benchmark(tmp_path, "aimo1", "34")
    (task,) = lenient.tasks()

    verdict = lenient.grade(task, lenient.extract(task, "ANSWER: 1034"), NoEnvironment())

    assert verdict.passed
    assert verdict.metrics["modded"] is True
    assert not passes(benchmark(tmp_path, "aimo1", "34", modulus=False), "ANSWER: 1034")


def test_a_trailing_integer_counts_only_when_switched_on(tmp_path):
    assert not passes(benchmark(tmp_path, "aime", "7"), "Hence\nthe result is 7.")
    assert passes(benchmark(tmp_path, "aime", "7", trailing_integer=True), "the result is 7.")


@pytest.mark.parametrize(
    ("edition", "answer", "message"),
    [
        ("aimo1", "1000", "not a whole number of edition aimo1"),
        ("aimo3", "100000", "not a whole number of edition aimo3"),
        ("aime", "2.5", "not a whole number"),
        ("aime", "-3", "not a whole number"),
    ],
)
def test_a_label_outside_the_edition_is_refused(tmp_path, edition, answer, message):
    with pytest.raises(DatasetError, match=message):
        benchmark(tmp_path, edition, answer).tasks()


def test_a_name_that_tells_no_edition_is_refused(tmp_path):
    file = tmp_path / "problems.csv"
    file.write_text("id,problem,answer\n1,x,2\n")

    with pytest.raises(DatasetError, match="does not tell the edition"):
        AIMOBenchmark(file).tasks()
    with pytest.raises(UsageError, match="edition must be auto, aimo1"):
        AIMOBenchmark(file, edition="aimo9")


def test_gold_passes_and_nothing_fails_on_every_real_file(dataset):
    real = AIMOBenchmark(dataset("aimo"))
    tasks = real.tasks()
    editions = {task["metadata"]["set"]: task["edition"] for task in tasks}

    assert len(tasks) == 240
    assert editions["aimo3_reference"] == "aimo3"
    assert editions["aimo1_train"] == "aimo1"
    for task in tasks:
        assert real.grade(task, real.gold(task), NoEnvironment()).passed
        assert not real.grade(task, real.extract(task, ""), NoEnvironment()).passed
