"""Validation, mutation and fetching: does the proof notice a grader that cannot be trusted?"""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from chimera.cli.datasets import command as datasets_command
from chimera.cli.validate import command as validate_command
from chimera.errors import GraderError
from chimera.eval.benchmark import Benchmark
from chimera.eval.kits import mutate
from chimera.eval.proof.validate import validate
from chimera.eval.trial import StartBackend
from chimera.eval.values import Submission, Verdict

SOURCE = '''
def f(a, b=2):
    """A docstring with a number: 1."""
    if a < b and a != 3:
        return a + b
    return "x"
'''


class Sums(Benchmark):
    """Two tasks with a strict grader; subclasses break it."""

    grading = "none"

    def name(self):
        return "sums"

    def tasks(self):
        return [
            {"id": "a", "prompt": "1+1", "answer": 2},
            {"id": "b", "prompt": "2+2", "answer": 4},
        ]

    def grade(self, task, submission, env):
        return Verdict(submission.text == str(task["answer"]), submission.text)

    def gold(self, task):
        return Submission(str(task["answer"]))

    def mutants(self, task):
        return [Submission(str(task["answer"] + n)) for n in (1, 2)]


class Lenient(Sums):
    def grade(self, task, submission, env):
        return Verdict(True)


class Strict(Sums):
    def grade(self, task, submission, env):
        return Verdict(False)


class Broken(Sums):
    def grade(self, task, submission, env):
        raise RuntimeError("no")


def report_of(benchmark, **options):
    return validate(benchmark, StartBackend("none"), workers=2, **options)


def test_a_good_grader_is_proved():
    report = report_of(Sums())

    assert report.holds(mutants_failing=1.0)
    assert report.counts()["answers"] == {
        "gold": {"graded": 2, "as_due": 2, "errors": 0, "passed": 2},
        "empty": {"graded": 2, "as_due": 2, "errors": 0, "passed": 0},
        "mutant": {"graded": 4, "as_due": 4, "errors": 0, "passed": 0},
    }


@pytest.mark.parametrize(
    "benchmark", [Lenient(), Strict(), Broken()], ids=lambda b: type(b).__name__
)
def test_a_grader_that_cannot_be_trusted_is_found(benchmark):
    assert not report_of(benchmark).holds(mutants_failing=0.95)


def test_surviving_mutants_are_listed():
    counts = report_of(Lenient()).counts()

    assert len(counts["survivors"]) == 4
    assert [entry["task"] for entry in counts["empty_passed"]] == ["a", "b"]


def test_mutants_differ_in_one_place_and_take_turns():
    mutants = list(mutate.python(SOURCE))

    assert len(mutants) == len(set(mutants)) >= 8
    assert all("docstring with a number: 1." in mutant for mutant in mutants)
    kinds = list(mutate.python(SOURCE, limit=4))
    assert any("return None" in mutant for mutant in kinds)
    assert any("a - b" in mutant for mutant in mutants)
    assert list(mutate.python("not python (")) == []


@pytest.mark.parametrize("gold", ["2", "\\frac{1}{2}", "x=5", "\\text{Evelyn}", "(3, 4]", "0"])
def test_wrong_answers_are_not_the_gold(gold):
    wrong = list(mutate.answers(gold))

    assert wrong
    assert gold not in wrong


def test_the_command_proves_and_records(dataset, tmp_path):
    record = tmp_path / "counts.json"
    arguments = ["aimo", "--dataset", str(dataset("aimo")), "--limit", "5"]

    result = CliRunner().invoke(
        validate_command, [*arguments, "--record", str(record)], standalone_mode=False
    )

    assert result.exception is None
    assert result.return_value == 0
    assert "proof holds" in result.output
    assert json.loads(record.read_text())["answers"]["gold"]["as_due"] == 5


def test_list_and_path(dataset, monkeypatch):
    monkeypatch.setenv("CHIMERA_DATASETS_DIR", str(dataset("mbpp").parent))
    monkeypatch.delenv("CHIMERA_MBPP_PATH", raising=False)

    listed = CliRunner().invoke(datasets_command, ["list", "--json"], standalone_mode=False)
    path = CliRunner().invoke(datasets_command, ["path", "mbpp"], standalone_mode=False)

    found = {row["benchmark"]: row for row in json.loads(listed.output)}
    assert found["mbpp"]["path"].endswith("mbpp")
    assert found["mbpp"]["pull"] is True
    assert path.output.strip().endswith("sanitized-mbpp.json")


class Varying(Sums):
    """One of its two tests passes every second time."""

    runs = 0

    def grade(self, task, submission, env):
        type(self).runs += 1
        tests = {"steady": "PASSED", "shaky": "PASSED" if self.runs % 2 else "FAILED"}
        verdict = super().grade(task, submission, env)
        return Verdict(verdict.passed, verdict.why, evidence={"tests": tests})


def test_tests_that_vary_are_found_by_repeating():
    report = validate(Varying(), StartBackend("none"), mutants=0, workers=1, repeat=4)

    assert {(line["task"], line["test"], line["of"]) for line in report.counts()["unstable"]} == {
        ("a", "shaky", 4),
        ("b", "shaky", 4),
    }
    assert report.holds(mutants_failing=1.0)


class Flipping(Sums):
    runs = 0

    def grade(self, task, submission, env):
        type(self).runs += 1
        return Verdict(self.runs % 2 == 1)


def test_a_verdict_that_flips_is_not_as_due():
    report = validate(Flipping(), StartBackend("none"), mutants=0, workers=1, repeat=2)

    assert not report.holds(mutants_failing=1.0)
    assert report.counts()["answers"]["gold"]["as_due"] == 0


class Idle(Sums):
    """Its second task asks for nothing."""

    def grade(self, task, submission, env):
        return Verdict(submission.text == str(task["answer"]) or task["id"] == "b")

    def nothing_is_right(self, task):
        return task["id"] == "b"


def test_empty_answers_that_pass_are_counted_also_where_nothing_is_right():
    counts = validate(Idle(), StartBackend("none"), mutants=0).counts()

    assert counts["answers"]["empty"] == {"graded": 2, "as_due": 2, "errors": 0, "passed": 1}
    assert [line["task"] for line in counts["empty_passed"]] == ["b"]


class Ungolded(Sums):
    def gold(self, task):
        return None

    def mutants(self, task):
        return []


class Broken(Sums):
    def grade(self, task, submission, env):
        raise GraderError("the checks could not be run")


def test_without_a_reference_answer_nothing_is_proved():
    report = validate(Ungolded(), StartBackend("none"))

    assert report.ungolded == 2
    assert not report.holds(mutants_failing=0.95)


def test_an_error_is_no_proof():
    report = validate(Broken(), StartBackend("none"))

    assert not report.holds(mutants_failing=0.0)
    assert not any(check.as_due for check in report.checks)
