"""LiveCodeBench: private tests that bite, windows, prediction files, and the real files."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections import Counter
from itertools import islice

import pytest

from chimera.environments.none import NoEnvironment
from chimera.errors import DatasetError, UsageError
from chimera.eval.benchmarks.livecodebench import LiveCodeBench, _references
from chimera.eval.harness import Harness
from chimera.eval.submitters import NopAgent
from chimera.eval.values import Submission

CASES = [{"input": "1\n", "output": "2\n", "testtype": "stdin"}]


def packed(value):
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def row(number, **fields):
    base = {
        "question_title": f"q{number}",
        "question_content": "Add one.",
        "platform": "atcoder",
        "question_id": f"abc{number}_a",
        "contest_id": f"abc{number}",
        "contest_date": f"2024-0{number}-15T00:00:00",
        "starter_code": "",
        "difficulty": "easy",
        "public_test_cases": json.dumps(CASES),
        "private_test_cases": packed(
            json.dumps([{"input": "5", "output": "6", "testtype": "stdin"}])
        ),
        "metadata": "{}",
    }
    return {**base, **fields}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row(n)) + "\n" for n in (1, 2)))
    (tmp_path / "test2.jsonl").write_text(
        json.dumps(row(3, difficulty="hard", platform="codeforces")) + "\n"
    )
    return tmp_path


def ids(**options):
    return [task["id"] for task in LiveCodeBench(**options).tasks()]


def test_windows_and_filters_select(folder):
    all_of_them = ["abc1_a", "abc2_a", "abc3_a"]

    assert ids(dataset_path=folder) == all_of_them
    assert ids(dataset_path=folder, release_version="release_v1") == all_of_them[:2]
    assert ids(dataset_path=folder, release_version="v2") == all_of_them[2:]
    assert ids(dataset_path=folder, start_date="2024-02-15") == all_of_them[1:]
    assert ids(dataset_path=folder, end_date="2024-02-15") == all_of_them[:2]
    assert ids(dataset_path=folder, difficulty="hard") == all_of_them[2:]
    assert ids(dataset_path=folder, platform="codeforces") == all_of_them[2:]
    window = LiveCodeBench.rotated_window("2024-01-16", months=1, dataset_path=folder)
    assert [task["id"] for task in window.tasks()] == ["abc2_a"]


def test_public_and_private_tests_both_count(folder):
    benchmark = LiveCodeBench(dataset_path=folder)
    task = benchmark.tasks()[0]
    right = "```python\nprint(int(input()) + 1)\n```"
    public_only = "```python\nprint(2)\n```"

    assert benchmark.grade(task, benchmark.extract(task, right), NoEnvironment()).passed
    assert not benchmark.grade(task, benchmark.extract(task, public_only), NoEnvironment()).passed
    assert not benchmark.grade(task, benchmark.extract(task, ""), NoEnvironment()).passed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scenario": "poetry"}, "scenario must be codegeneration, .* got .poetry."),
        ({"release_version": "v9"}, "no release 'v9'"),
        ({"start_date": "yesterday"}, "not a date"),
        ({"tests": "some"}, "tests must be all or public"),
    ],
)
def test_unknown_settings_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        LiveCodeBench(**options)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"private_test_cases": packed([print])}, "row 0: private tests: .*refused"),
        ({"public_test_cases": "x"}, "public tests"),
    ],
)
def test_damaged_rows_are_refused(tmp_path, fields, message):
    (tmp_path / "test.jsonl").write_text(json.dumps(row(1, **fields)))

    with pytest.raises(DatasetError, match=message):
        LiveCodeBench(dataset_path=tmp_path).tasks()


def test_a_file_without_private_tests_is_refused(tmp_path):
    public = {key: value for key, value in row(1).items() if key != "private_test_cases"}
    (tmp_path / "test.jsonl").write_text(json.dumps(public))

    with pytest.raises(DatasetError, match="has no private tests"):
        LiveCodeBench(dataset_path=tmp_path).tasks()


@pytest.mark.parametrize("private", ["[]", None])
def test_a_problem_without_tests_has_no_verdict_and_the_others_have_theirs(folder, private):
    empty = row(4, public_test_cases="[]", private_test_cases=private)
    with (folder / "test.jsonl").open("a") as file:
        file.write(json.dumps(empty) + "\n")

    result = Harness(LiveCodeBench(dataset_path=folder), agent=NopAgent()).run()

    assert {each.task_id: each.status for each in result.results} == {
        "abc1_a": "failed",
        "abc2_a": "failed",
        "abc3_a": "failed",
        "abc4_a": "error",
    }
    assert "abc4_a has no tests" in next(e.why for e in result.results if e.status == "error")


@pytest.mark.parametrize(
    ("program", "passed"),
    [
        ("import sys\nprint(sum(int(line) + 1 for line in sys.stdin if line.strip()))", "2025-01"),
        ("import sys\nprint(int(sys.stdin.buffer.read()) + 1)", "2025-05"),
    ],
)
def test_both_rules_of_the_repository_can_be_had(folder, program, passed):
    verdicts = {}
    for rule in ("2025-01", "2025-05"):
        benchmark = LiveCodeBench(dataset_path=folder, rule=rule)
        verdict = benchmark.grade(benchmark.tasks()[0], Submission(program), NoEnvironment())
        verdicts[rule] = verdict.passed

    assert verdicts == {rule: rule == passed for rule in verdicts}


def test_prediction_files_of_the_repository_are_read(folder):
    file = folder / "predictions.json"
    file.write_text(
        json.dumps(
            [
                {"question_id": "abc1_a", "code_list": ["print(int(input()) + 1)", "print(2)"]},
                {"question_id": "abc2_a", "output_list": ["```\nprint(0)\n```"]},
            ]
        )
    )
    benchmark = LiveCodeBench(dataset_path=folder)

    found = list(benchmark.read_predictions(file))

    assert [prediction.task_id for prediction in found] == ["abc1_a", "abc1_a", "abc2_a"]
    assert found[2].submission.text == "print(0)"
    tasks = {task["id"]: task for task in benchmark.tasks()}
    verdicts = [
        benchmark.grade(tasks[p.task_id], p.submission, NoEnvironment()).passed for p in found
    ]
    assert verdicts == [True, False, False]


def test_self_repair_asks_about_failed_programs_only(folder):
    fault = {"error_code": -2, "inputs": "1" * 900, "output": "0", "expected": "2"}
    entries = [
        {
            **{key: value for key, value in row(number).items() if "test_cases" not in key},
            "code_list": ["print(0)"],
            "graded_list": [number == 1],
            "metadata": [json.dumps(fault)],
        }
        for number in (1, 2)
    ]
    (folder / "model_eval_all.json").write_text(json.dumps(entries))
    benchmark = LiveCodeBench(scenario="selfrepair", dataset_path=folder)

    (task,) = benchmark.tasks()

    assert task["id"] == "abc2_a"
    assert "print(0)" in task["prompt"]
    assert "1" * 301 not in task["prompt"]
    answer = Submission("print(int(input()) + 1)")
    assert benchmark.grade(task, answer, NoEnvironment()).passed


@pytest.mark.parametrize(
    ("scenario", "count"),
    [
        ("codegeneration", 168),
        ("codeexecution", 479),
        ("testoutputprediction", 442),
        ("selfrepair", 12),
    ],
)
def test_real_files(dataset, scenario, count):
    benchmark = LiveCodeBench(scenario=scenario, dataset_path=dataset("livecodebench"))
    tasks = benchmark.tasks()
    golden = [task for task in tasks if benchmark.gold(task) is not None][:40]

    assert len(tasks) == count
    for task in golden:
        assert benchmark.grade(task, benchmark.gold(task), NoEnvironment()).passed
        assert not benchmark.grade(task, Submission(""), NoEnvironment()).passed


def test_our_own_programs_solve_their_problems_and_mutants_of_them_do_not(dataset):
    benchmark = LiveCodeBench(dataset("livecodebench"))
    tasks = {task["id"]: task for task in benchmark.tasks()}
    programs = [tasks[identifier] for identifier in _references()]
    forms = Counter("functional" if task["function"] else "stdin" for task in programs)

    failed = [
        task["id"]
        for task in programs
        if not benchmark.grade(task, benchmark.gold(task), NoEnvironment()).passed
    ]
    survived = [
        task["id"]
        for task in programs
        if all(
            benchmark.grade(task, mutant, NoEnvironment()).passed
            for mutant in islice(benchmark.mutants(task), 4)
        )
    ]

    assert forms == {"functional": 20, "stdin": 22}
    assert (failed, survived) == ([], [])


@pytest.mark.parametrize("scenario", LiveCodeBench.scenarios)
def test_every_scenario_has_attacks_that_fit_it(scenario):
    asks_for_program = scenario in ("codegeneration", "selfrepair")

    kind = LiveCodeBench(scenario=scenario).attack_kind

    assert kind == ("python scripts" if asks_for_program else "text")


@pytest.mark.parametrize("scenario", ["codeexecution", "testoutputprediction"])
def test_hostile_values_do_not_pass(dataset, scenario):
    benchmark = LiveCodeBench(dataset("livecodebench"), scenario=scenario, limit=1)
    (task,) = benchmark.tasks()
    attacks = dict(benchmark.attacks(task))

    passed = [n for n, a in attacks.items() if benchmark.grade(task, a, NoEnvironment()).passed]

    assert attacks
    assert passed == []
