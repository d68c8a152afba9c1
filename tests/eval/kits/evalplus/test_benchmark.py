"""HumanEval+ and MBPP+: EvalPlus's verdicts, its data; rows of our own."""

from __future__ import annotations

import gzip
import json
import pickle
import sys
from pathlib import Path

import pytest

from chimera.environments.none import NoEnvironment
from chimera.errors import DatasetError, UsageError
from chimera.eval.benchmarks.humaneval_plus import HumanEvalPlus
from chimera.eval.benchmarks.mbpp import MBPPPlus
from chimera.eval.kits.evalplus.benchmark import check
from chimera.eval.values import Submission

FOLDER = Path(__file__).parent / "vectors"
#: Deviations that docs/benchmarks/humaneval-plus.md states: a forged pass does not count, and
#: sleeping is not computing.
DEVIATIONS = {"eq-always object": False, "sleep beyond limit in test (min 1.0)": True}
#: They end at a limit and take its time.
SLOW = ("loop", "sleep", "swallow", "alloc", "huge output")


def vectors(name):
    return [json.loads(line) for line in (FOLDER / name).read_text().splitlines()]


def decoded(value):
    if isinstance(value, dict):
        if set(value) == {"$tuple"}:
            return tuple(map(decoded, value["$tuple"]))
        if set(value) == {"$float"}:
            return float(value["$float"])
        return {key: decoded(each) for key, each in value.items()}
    return list(map(decoded, value)) if isinstance(value, list) else value


@pytest.mark.parametrize(
    "vector",
    [
        pytest.param(
            vector,
            id=vector["name"],
            marks=[pytest.mark.full] if any(w in vector["name"] for w in SLOW) else [],
        )
        for vector in vectors("check.jsonl")
    ],
)
def test_verdicts_agree_with_evalplus(vector):
    if "numpy" in vector["code"]:
        pytest.importorskip("numpy")
    inputs = decoded(vector["inputs"])
    if vector["name"].startswith("same list"):
        inputs = [inputs[0], inputs[0]]

    outcome = check(
        vector["code"],
        dataset=vector["dataset"],
        entry_point=vector["entry_point"],
        inputs=inputs,
        expected=decoded(vector["expected"]),
        tolerance=vector["atol"],
        seconds=[vector["options"].get("min_time_limit", 4.0)] * len(inputs),
    )

    assert outcome.passed is DEVIATIONS.get(vector["name"], vector["status_head"] == "pass")


ROW = {
    "task_id": "HumanEval/900",
    "prompt": 'def half(x: float) -> float:\n    """Halve it."""\n',
    "entry_point": "half",
    "canonical_solution": "    return x / 2\n",
    "base_input": [[4], [3.0]],
    "plus_input": [[0.1], [-7]],
    "atol": 0,
}


def write(folder, rows, name="HumanEvalPlus.jsonl"):
    file = folder / name
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    return HumanEvalPlus(write(tmp_path, [ROW]))


@pytest.mark.parametrize(
    ("text", "form", "base", "plus"),
    [
        ("    return x / 2\n", "completion", True, True),
        ("    return x * 0.5\n", "completion", True, True),
        ("def half(x):\n    return x / 2 if x > 0 else 0\n", "solution", True, False),
        ("def half(x):\n    return x\n", "solution", False, False),
        ("", "completion", False, False),
        ("", "solution", False, False),
    ],
)
def test_base_and_plus_are_told_apart(small, text, form, base, plus):
    (task,) = small.tasks()

    verdict = small.grade(task, Submission(text, form=form), NoEnvironment())

    assert (verdict.metrics["base"], verdict.metrics["plus"]) == (base, plus)
    assert verdict.passed is plus


def test_a_reply_that_the_official_sanitizer_spoils_is_corrected(small):
    (task,) = small.tasks()
    reply = "```python\nimport functools\n@functools.cache\ndef half(x):\n    return x / 2\n```"

    verdict = small.grade(task, small.extract(task, reply), NoEnvironment())

    assert not verdict.passed
    assert verdict.metrics["corrected"] is True


def test_no_verdict_is_lent_to_another_reply(small):
    assert not small.decided_by_answer


def test_expected_outputs_are_kept_and_damage_is_repaired(small, tmp_path):
    (task,) = small.tasks()
    assert small.expected(task, "base").outputs == [2.0, 1.5]
    (file,) = (tmp_path / "cache" / "evalplus").glob("*.json")
    file.write_bytes(b"{")

    assert pickle.loads(pickle.dumps(small)).expected(task, "base").outputs == [2.0, 1.5]


def test_a_large_result_is_compared_by_its_digest(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path))
    row = {
        **ROW,
        "entry_point": "many",
        "prompt": "def many(n):\n",
        "canonical_solution": "    return [(i, str(i)) for i in range(n)]\n",
        "base_input": [[3]],
        "plus_input": [[200_000]],
    }
    benchmark = HumanEvalPlus(write(tmp_path, [row]))
    (task,) = benchmark.tasks()
    wrong = "    return [(i, str(i)) for i in range(n)][:199_999] + [(0, '')] * (n > 3)\n"

    right = benchmark.grade(task, benchmark.gold(task), NoEnvironment())
    verdict = benchmark.grade(task, Submission(wrong, form="completion"), NoEnvironment())

    assert right.passed
    assert (verdict.metrics["base"], verdict.passed) == (True, False)


@pytest.mark.parametrize(
    ("reference", "answer", "passed"),
    [
        ("[i / 2 if i % 2 else i for i in range(2 * n)][::2]", "list(range(0, 2 * n, 2))", True),
        ("[i / 1 if i % 2 else i for i in range(n)]", "list(range(n))", True),
        ("[i / 1 if i % 2 else i for i in range(n)]", "list(range(n - 1)) + [n]", False),
        ("[i / 1 for i in range(n)]", "list(range(n))", True),
        ("[i / 1 for i in range(n)]", "list(range(n - 1)) + [n]", False),
        ("list(range(n))", "[float(i) for i in range(n)]", True),
        ("list(range(n))", "list(np.arange(n))", True),
        ("[(i, 1) for i in range(n)]", "[(np.int64(i), True) for i in range(n)]", True),
        ("[(i, 1) for i in range(n)]", "[[i, 1] for i in range(n)]", False),
        ("list(range(n))", "tuple(range(n))", False),
        ("[i / 2 for i in range(n)]", "[Fraction(i, 2) for i in range(n)]", True),
        ("[i / 2 for i in range(n)]", "[0.0] + [Fraction(i, 2) for i in range(1, n)]", True),
        ("[i / 2 for i in range(n)]", "[Decimal(i) / 2 for i in range(n)]", True),
        ("[i / 2 for i in range(n)]", "[Fraction(i, 3) for i in range(n)]", False),
        ("[{i, -8} for i in range(n)]", "[{-8, i} for i in range(n)]", True),
        ("[{0: i, 1: 2} for i in range(n)]", "[{1: 2, 0: i} for i in range(n)]", True),
        ("[{i, -8} for i in range(n)]", "[{-8, i + 1} for i in range(n)]", False),
    ],
)
def test_large_results_are_equal_where_python_says_so(
    tmp_path, monkeypatch, reference, answer, passed
):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path))
    row = {
        **ROW,
        "entry_point": "many",
        "prompt": "import numpy as np\n"
        "from fractions import Fraction\nfrom decimal import Decimal\ndef many(n):\n",
        "canonical_solution": f"    return {reference}\n",
        "base_input": [[120_000]],
        "plus_input": [],
    }
    benchmark = HumanEvalPlus(write(tmp_path, [row]))
    (task,) = benchmark.tasks()
    submission = Submission(f"    return {answer}\n", form="completion")

    assert benchmark.grade(task, submission, NoEnvironment()).passed is passed


def test_the_packages_own_release_never_passes_find_zero(dataset, tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path))
    place = dataset("humaneval-plus/HumanEvalPlus.jsonl.gz")
    right = sys.version_info < (3, 12)  # later, `sum` makes the reference miss its own tolerance
    for release, passed in (("head", right), ("0.3.1", False)):
        benchmark = HumanEvalPlus(place, release=release)
        task = benchmark.tasks()[32]

        verdict = benchmark.grade(task, benchmark.gold(task), NoEnvironment())

        assert verdict.passed is passed
        assert verdict.metrics["corrected"] is right


def test_evalplus_folders_and_results_are_predictions(small, tmp_path):
    folder = tmp_path / "samples"
    (folder / "HumanEval_900").mkdir(parents=True)
    for number, text in ((10, "b"), (2, "a")):
        (folder / "HumanEval_900" / f"{number}.py").write_text(text)
    results = tmp_path / "x_eval_results.json"
    results.write_text(
        json.dumps(
            {"hash": "", "eval": {"HumanEval/900": [{"solution": "c", "plus_status": "pass"}]}}
        )
    )

    found = [*small.read_predictions(folder), *small.read_predictions(results)]

    assert [prediction.submission.text for prediction in found] == ["a", "b", "c"]
    assert {prediction.task_id for prediction in found} == {"HumanEval/900"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROW, ROW], "appears twice"),
        ([{**ROW, "base_input": []}], "has no tests"),
        ([{key: value for key, value in ROW.items() if key != "atol"}], "no field 'atol'"),
    ],
)
def test_a_damaged_row_is_refused(tmp_path, rows, message):
    with pytest.raises(DatasetError, match=message):
        HumanEvalPlus(write(tmp_path, rows)).tasks()


def test_a_truncated_file_is_refused(tmp_path):
    file = tmp_path / "HumanEvalPlus.jsonl.gz"
    file.write_bytes(gzip.compress((json.dumps(ROW) + "\n").encode() * 1000)[:-20])

    with pytest.raises(DatasetError, match="damaged"):
        HumanEvalPlus(file).tasks()


@pytest.mark.parametrize("options", [{"version": "mega"}, {"release": "9"}])
def test_unknown_settings_are_refused(options):
    with pytest.raises(UsageError, match="must be"):
        HumanEvalPlus(**options)


def test_inputs_that_json_cannot_hold_are_rebuilt(dataset):
    tasks = {
        task["id"]: task["inputs"]["base"][0]
        for task in MBPPPlus(dataset("mbpp-plus/MbppPlus.jsonl.gz")).tasks()
    }

    assert len(tasks) == 378
    assert tasks["Mbpp/2"] == [(3, 4, 5, 6), (5, 7, 4, 10)]
    assert tasks["Mbpp/252"] == [1 + 0j]
    assert tasks["Mbpp/580"] == [(4, 5, (7, 6, (2, 4)), 6, 8)]


@pytest.mark.full
@pytest.mark.parametrize(
    ("benchmark", "count"), [("humaneval-plus", 164), ("mbpp-plus", 378)], ids=str
)
def test_gold_passes(dataset, benchmark, count):
    cls = HumanEvalPlus if benchmark == "humaneval-plus" else MBPPPlus
    made = cls(dataset(benchmark))
    failed = [
        task["id"]
        for task in made.tasks()
        if not made.grade(task, made.gold(task), NoEnvironment()).passed
    ]

    assert len(made.tasks()) == count
    assert failed == []
