"""Programs, values and replies get the verdicts that the repository gave them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chimera.eval.benchmarks._livecodebench import grading, replies

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
        for v in vectors("codegen.jsonl")
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


@pytest.mark.parametrize("vector", vectors("other.jsonl", "extract_code"))
def test_code_of_a_reply(vector):
    assert replies.code(vector["text"]) == vector["output"]


@pytest.mark.parametrize("vector", vectors("other.jsonl", "extract_test_output"))
def test_assertion_of_a_reply(vector):
    assert replies.test_output(vector["text"]) == vector["output"]


@pytest.mark.parametrize("vector", vectors("other.jsonl", "extract_execution"))
def test_value_of_a_reply(vector):
    assert replies.execution_answer(vector["text"], thinking=vector["cot"]) == vector["output"]


@pytest.mark.parametrize("vector", vectors("other.jsonl", "test_output"))
def test_predicted_outputs(vector):
    verdict = grading.test_output(vector["prediction"], vector["expected"])

    assert verdict.passed is vector["correct"]


@pytest.mark.parametrize("vector", vectors("other.jsonl", "code_execution"))
def test_executed_code(vector):
    verdict = grading.code_execution(
        vector["code"], vector["input"], vector["output"], vector["prediction"]
    )

    official = vector["results"][0]
    assert verdict.passed is EXECUTION_DEVIATIONS.get(vector["prediction"], official)
