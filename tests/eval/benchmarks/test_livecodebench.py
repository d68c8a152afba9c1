"""LiveCodeBench: observed verdicts, private tests that bite, windows and prediction files."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from pathlib import Path

import pytest

from chimera.environments.none import NoEnvironment
from chimera.errors import DatasetError, UsageError
from chimera.eval.benchmarks._livecodebench import cases, grading, replies
from chimera.eval.benchmarks.livecodebench import LiveCodeBench
from chimera.eval.values import Submission

FOLDER = Path(__file__).parent / "vectors"
#: Deviations that docs/benchmarks/livecodebench.md states: sleeping is not computing, forged
#: passes do not count, and neither does passing no test at all.
CODE_DEVIATIONS = {
    "TLE": True,
    "TLE swallowed by bare except": True,
    "fn returns eq-always": False,
}
EXECUTION_DEVIATIONS = {"[3] or True": False, "[1, 2] and 1": False}


def vectors(name, kind=None):
    rows = [json.loads(line) for line in (FOLDER / name).read_text().splitlines()]
    return [row for row in rows if kind is None or row["kind"] == kind]


@pytest.mark.parametrize(
    "vector",
    [
        pytest.param(v, id=v["name"], marks=[pytest.mark.full] if "TLE" in v["name"] else [])
        for v in vectors("livecodebench_codegen.jsonl")
        if v["inputs"]
    ],
)
def test_programs_get_the_official_verdict(vector):
    if "numpy" in vector["code"]:
        pytest.importorskip("numpy")
    tests = [
        {"input": given, "output": wanted, "testtype": vector["mode"]}
        for given, wanted in zip(vector["inputs"], vector["outputs"], strict=True)
    ]

    verdict = grading.program(vector["code"], tests, vector["fn_name"])

    assert verdict.passed is CODE_DEVIATIONS.get(vector["name"], vector["passed"]), verdict.why


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nprint(sum(int(line) for line in sys.stdin))",
        "print(sum(map(int, open(0).read().split())))",
        "import sys\nread = sys.stdin.buffer.readline\nprint(int(read()) + int(read()))",
        "total = 0\ndef add(n):\n    global total\n    total += n\nadd(int(input()))\n"
        "add(int(input()))\nprint(total)",
    ],
)
def test_an_honest_program_that_the_stand_in_fails_is_corrected(code):
    verdict = grading.program(code, [{"input": "1\n2", "output": "3", "testtype": "stdin"}], None)

    assert not verdict.passed
    assert verdict.metrics["corrected"] is True


@pytest.mark.parametrize("vector", vectors("livecodebench_other.jsonl", "extract_code"))
def test_code_of_a_reply(vector):
    assert replies.code(vector["text"]) == vector["output"]


@pytest.mark.parametrize("vector", vectors("livecodebench_other.jsonl", "extract_test_output"))
def test_assertion_of_a_reply(vector):
    assert replies.test_output(vector["text"]) == vector["output"]


@pytest.mark.parametrize("vector", vectors("livecodebench_other.jsonl", "extract_execution"))
def test_value_of_a_reply(vector):
    assert replies.execution_answer(vector["text"], thinking=vector["cot"]) == vector["output"]


@pytest.mark.parametrize("vector", vectors("livecodebench_other.jsonl", "test_output"))
def test_predicted_outputs(vector):
    verdict = grading.test_output(vector["prediction"], vector["expected"])

    assert verdict.passed is vector["correct"]


@pytest.mark.parametrize("vector", vectors("livecodebench_other.jsonl", "code_execution"))
def test_executed_code(vector):
    verdict = grading.code_execution(
        vector["code"], vector["input"], vector["output"], vector["prediction"]
    )

    official = vector["results"][0]
    assert verdict.passed is EXECUTION_DEVIATIONS.get(vector["prediction"], official)


# Private tests

CASES = [{"input": "1\n", "output": "2\n", "testtype": "stdin"}]


def packed(value):
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def test_private_tests_are_read_from_every_form():
    text = json.dumps(CASES)

    assert cases.read_cases(text, "private") == CASES
    for protocol in range(1, 6):
        data = base64.b64encode(zlib.compress(pickle.dumps(text, protocol))).decode()
        assert cases.read_cases(data, "private") == CASES


class Bomb:
    def __reduce__(self):
        return (print, ("executed",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (packed(Bomb()), "refused"),
        (packed([json.dumps(CASES)]), "refused"),
        (packed(b"bytes"), "refused"),
        (packed("not json"), "not JSON once unpacked"),
        (packed(json.dumps({"input": "1"})), "expected a list"),
        (packed(json.dumps([{"input": "1", "output": "2", "testtype": "x"}])), "known testtype"),
        (packed(json.dumps([{"input": 1, "output": "2", "testtype": "stdin"}])), "test 0"),
        (packed(json.dumps(CASES))[:-12], "private"),
        ("not base64!", "neither JSON nor base64"),
        (base64.b64encode(zlib.compress(b"\x80\x04X")).decode(), "private"),
    ],
)
def test_anything_else_is_refused_and_nothing_is_run(capfd, text, message):
    with pytest.raises(ValueError, match=message):
        cases.read_cases(text, "private")

    assert capfd.readouterr().out == ""


def test_a_decompression_bomb_is_refused(monkeypatch):
    monkeypatch.setattr(cases, "MAX_BYTES", 10_000)

    with pytest.raises(ValueError, match="unpacks to more than"):
        cases.read_cases(packed("0" * 1_000_000), "private")


# The adapter


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
        ({"private_test_cases": packed(Bomb())}, "row 0: private tests: .*refused"),
        ({"private_test_cases": None}, "has no private tests"),
        ({"public_test_cases": "[]", "private_test_cases": "[]"}, "has no tests"),
        ({"public_test_cases": "x"}, "public tests"),
    ],
)
def test_damaged_rows_are_refused(tmp_path, fields, message):
    (tmp_path / "test.jsonl").write_text(json.dumps(row(1, **fields)))

    with pytest.raises(DatasetError, match=message):
        LiveCodeBench(dataset_path=tmp_path).tasks()


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
