"""Programs, values and replies get the verdicts that the repository gave them."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from chimera.errors import EnvironmentFault
from chimera.eval.benchmarks._livecodebench import compare, grading, replies
from chimera.eval.kits.python import grading as python_grading

SUM = "+".join("1" * 3000)
FOLDER = Path(__file__).parent / "vectors"
#: Deviations that docs/benchmarks/livecodebench.md states: sleeping is not computing, forged
#: passes do not count, and neither does passing no test at all.
CODE_DEVIATIONS = {
    "TLE": True,
    "TLE swallowed by bare except": True,
    "fn returns eq-always": False,
}
EXECUTION_DEVIATIONS = dict.fromkeys(
    ["[3] or True", "[1, 2] and 1", "f(n=1)", "f(1)", "sorted([2,1])"], False
)


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


@pytest.mark.parametrize(
    "program",
    [
        "from scipy.special import comb\nprint(int(comb(int(input()), 2)))",
        "import sympy\nprint(sympy.binomial(int(input()), 2))",
        "import pandas\nprint(int(pandas.Series(range(int(input()))).sum()))",
    ],
)
def test_programs_may_import_what_the_official_environment_has(program):
    pytest.importorskip(program.split()[1].partition(".")[0])
    tests = [{"input": "5", "output": "10", "testtype": "stdin"}]

    assert grading.program(program, tests, None).passed


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("import torch\nprint(10)", "imports torch, which the official environment has"),
        ("def f():\n    from networkx import Graph\nf()\nprint(10)", "pip install networkx"),
    ],
)
def test_a_package_that_only_this_machine_lacks_is_an_error(monkeypatch, program, says):
    def without_networkx(name):
        return None if name == "networkx" else find_spec(name)

    for module in (grading, python_grading):
        monkeypatch.setattr(module, "find_spec", without_networkx)
    tests = [{"input": "5", "output": "10", "testtype": "stdin"}]

    with pytest.raises(EnvironmentFault, match=says):
        grading.program(program, tests, None)


@pytest.mark.parametrize(
    "unused",
    ["def f():\n    import torch\n", "if False:\n    import torch\n",
     "try:\n    import numba\nexcept ImportError:\n    pass\n"],
)  # fmt: skip
def test_an_import_that_ends_nothing_explains_no_failure(unused):
    tests = [{"input": "5", "output": "10", "testtype": "stdin"}]

    assert grading.program(f"{unused}print(10)", tests, None).passed
    assert not grading.program(f"{unused}print(11)", tests, None).passed


@pytest.mark.parametrize(
    "end",
    ["print(\"'torch'\")", "print(\"ModuleNotFoundError: No module named 'torch'\")",
     "raise ValueError(\"No module named 'torch'\")"],
)  # fmt: skip
def test_naming_a_missing_package_makes_no_error_of_a_failure(end):
    tests = [{"input": "5", "output": "10", "testtype": "stdin"}]

    assert not grading.program(f"def f():\n    import torch\n{end}", tests, None).passed


def test_what_the_official_environment_lacks_too_is_the_answers_fault():
    tests = [{"input": "5", "output": "10", "testtype": "stdin"}]

    verdict = grading.program("import sortedcontainers\nprint(10)", tests, None)

    assert not verdict.passed
    assert "sortedcontainers" in verdict.why


@pytest.mark.parametrize(
    ("result", "expected", "passed"),
    [
        ("sympy.factorial(n)", 120, True),
        ("[sympy.binomial(2, k) for k in range(3)]", [1, 2, 1], True),
        ("sympy.Integer(n) > 2", True, True),
        ("sympy.Float(0.5)", 0.5, True),
        ("mpmath.floor(mpmath.sqrt(n))", 2, True),
        ("UserList([n, 1])", [5, 1], True),
        ("sympy.Integer(n)", 6, False),
        ("sympy.Symbol('n')", 5, False),
        ("mpmath.mpf(n) / 3", 1.6, False),
    ],
)
def test_results_of_the_packages_offered_equal_the_numbers_that_they_are(result, expected, passed):
    program = (
        "import mpmath, sympy\nfrom collections import UserList\n"
        f"class Solution:\n    def f(self, n):\n        return {result}\n"
    )
    tests = [{"input": "5", "output": json.dumps(expected), "testtype": "functional"}]

    assert grading.program(program, tests, "f").passed is passed


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
    verdict = grading.code_execution(vector["input"], vector["output"], vector["prediction"])

    official = vector["results"][0]
    assert verdict.passed is EXECUTION_DEVIATIONS.get(vector["prediction"], official)


@pytest.mark.parametrize(
    ("answer", "passed"),
    [
        ("set()", True),
        ("set() | set()", True),
        ("{*()}", True),
        ("f(2)", False),
        ("set(())", False),
        ("(lambda: set())()", False),
        ("[f for f in ()] and set()", False),
        ("set() if f else 1", False),
        ("globals()['f'](2)", False),
        ("-" * 3000 + "1", False),
        ("9" * 5000, False),
        ("\ud800", False),
        ("'" + "\ud800" + "'", False),
    ],
)
def test_a_value_is_no_computation(answer, passed):
    assert grading.code_execution("f(1)", "set()", answer).passed is passed


@pytest.mark.parametrize(
    ("answer", "expected", "passed"),
    [
        ("1, 2", "(1, 2)", False),
        ("(1, 2)", "(1, 2)", True),
        ("*[1], 2", "(1, 2)", False),
        ("not False", "True", False),
        ("3 == 3", "True", False),
        ("-1", "-1", True),
        ("0 or 3", "3", True),
    ],
)
def test_a_value_holds_behind_the_official_assertion(answer, expected, passed):
    assert grading.code_execution("f(1)", expected, answer).passed is passed


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ("1.0 2", True),
        ("1 2\n", True),
        ("1\x1f2e0", True),
        ("sNaN 2", False),
        ("1 NaN", False),
        ("1 -sNaN123", False),
        ("1", False),
        ("1 2 3", False),
        ("1e999999999999999999 2", False),
        ("1e9999999999999999999999 2", False),
        ("\ud800 2", False),
        ("1 " * 10**6, False),
        ("\n" * 10**6 + "1 2" + "\n" * 10**6, True),
        ("1" * 10**6 + " 2", False),
    ],
)
def test_whatever_is_written_is_the_same_or_not(written, same):
    assert compare.same_output(written, "1 2") is same


@pytest.mark.parametrize(
    "code",
    ["x = " + "+".join("1" * 3000), f"x = 0x{'f' * 8000}", "if " + "+".join("1" * 3000) + ": 0"],
)
def test_a_program_that_cannot_be_written_anew_gets_a_verdict(code):
    tests = [{"input": "1", "output": "2", "testtype": "stdin"}]

    assert not grading.program(f"{code}\nprint(0)", tests, None).passed
