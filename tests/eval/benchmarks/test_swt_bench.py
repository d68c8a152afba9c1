"""SWT-Bench: its transitions and coverage as observed upstream, and a real instance."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chimera.environments.none import NoEnvironment
from chimera.errors import GraderError, UsageError
from chimera.eval.benchmarks._swt_bench.generated_tests import Pair, Run, change_coverage, judge
from chimera.eval.benchmarks.swt_bench import SWTBench, summary
from chimera.eval.trial import StartBackend
from chimera.eval.values import Submission, Verdict

P, F, E = "PASSED", "FAILED", "ERROR"
BASE = Pair(Run({"o": P}), Run({"o": P}))


@pytest.mark.parametrize(
    ("pre", "post", "resolved"),
    [
        ({"o": P, "n": F}, {"o": P, "n": P}, True),
        ({"o": P, "n": E}, {"o": P, "n": P}, True),
        ({"o": P}, {"o": P, "n": P}, True),
        ({"o": P, "n": "SKIPPED"}, {"o": P, "n": P}, True),
        ({"o": P, "n": F, "m": F}, {"o": P, "n": P, "m": F}, False),
        ({"o": P, "n": F, "m": F}, {"o": P, "n": P, "m": E}, True),
        ({"o": P, "n": F}, {"o": F, "n": P}, False),
        ({"o": P, "n": F}, {"n": P}, False),
        ({"n": F}, {"n": P}, True),
        ({}, {"o": P, "n": P}, True),
        ({"o": P, "n": P}, {"o": P, "n": P}, False),
        ({"o": P}, {"o": P}, False),
    ],
)
def test_observed_verdicts(pre, post, resolved):
    assert judge(Pair(Run(pre), Run(post)), BASE).resolved is resolved


def test_what_the_existing_tests_do_must_stay():
    base = Pair(Run({"o": P, "b": F}), Run({"o": P, "b": P}))

    assert not judge(Pair(Run({"o": P, "n": F}), Run({"o": P, "n": P})), base).resolved


GOLD = """\
diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1,3 +1,4 @@
 one
-two
+zwei
+drei
 three
"""


def pair(before: int, after: int) -> Pair:
    return Pair(Run(reached={"a.py": {2: before}}), Run(reached={"a.py": {2: after, 3: after}}))


@pytest.mark.parametrize(
    ("tests", "base", "coverage", "delta"),
    [
        (pair(1, 1), pair(0, 0), 1.0, 1.0),
        (pair(5, 5), pair(2, 2), 1.0, 1.0),
        (pair(2, 2), pair(2, 2), 1.0, 0.0),
        (pair(1, 0), pair(9, 0), 1 / 3, 1 / 3),
        (pair(0, 0), pair(0, 0), 0.0, 0.0),
    ],
)
def test_observed_change_coverage(tests, base, coverage, delta):
    measured = change_coverage(GOLD, tests, base, gold=tests)

    assert (measured.coverage, measured.delta) == (coverage, delta)


def test_a_patch_without_executable_lines_has_no_coverage():
    empty = Pair(Run(), Run())
    assert change_coverage(GOLD, empty, empty, empty).coverage is None


def test_rates_divide_by_the_whole_set():
    won = Verdict(
        True, metrics={"f_to_p": True, "coverage_delta_pred": 1.0, "coverage_delta_gold": 1.0}
    )
    lost = Verdict(False, metrics={"coverage_delta_pred": 0.0, "coverage_delta_gold": 0.5})

    rates = summary([won, lost], total=4)

    assert rates["S"] == rates["F->P"] == 0.25
    assert rates["delta_C"] == 0.5


def test_options_and_prompts(dataset):
    place = dataset("swt-bench")
    assert len(SWTBench(place).tasks()) == 276
    verified = SWTBench(place, split="verified", mode="reproduction").tasks()
    assert len(verified) == 433
    assert "reproduction.py" in verified[0]["prompt"]
    for wrong in ({"mode": "other"}, {"split": "full"}):
        with pytest.raises(UsageError):
            SWTBench(place, **wrong)


def test_it_grades_only_where_it_can_start_anew(dataset):
    benchmark = SWTBench(dataset("swt-bench"), limit=1)
    with pytest.raises(GraderError):
        benchmark.grade(benchmark.tasks()[0], Submission("x"), NoEnvironment())


@pytest.mark.full
def test_a_real_instance(dataset, require, monkeypatch):
    require("bwrap", "git")
    dataset("swe-bench")
    if "CHIMERA_CACHE_DIR" not in os.environ:
        monkeypatch.setenv("CHIMERA_CACHE_DIR", str(Path.home() / ".cache" / "chimera" / "tests"))
    benchmark = SWTBench(dataset("swt-bench"), split="verified", test_timeout=900)
    (task,) = [t for t in benchmark.tasks() if t["id"] == "pallets__flask-5014"]

    def graded(submission):
        with benchmark.open_grading_environment(task, StartBackend("bubblewrap")) as env:
            return benchmark.grade(task, submission, env)

    gold = graded(benchmark.gold(task))

    assert gold.passed, gold.why
    assert gold.metrics["coverage_pred"] == gold.metrics["coverage_delta_pred"] == 1.0
    assert gold.metrics["coverage_base"] == 0.5
    for name, submission in benchmark.attacks(task):
        assert not graded(submission).passed, name
