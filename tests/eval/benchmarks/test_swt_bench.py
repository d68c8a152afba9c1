"""SWT-Bench: its transitions and coverage as observed upstream, and a real instance."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from chimera.environments.none import NoEnvironment
from chimera.environments.reopened import ReopenedMachine
from chimera.errors import GraderError, UsageError
from chimera.eval.benchmarks._swt_bench.generated_tests import Pair, Run, change_coverage, judge
from chimera.eval.benchmarks._swt_bench.golden import focused_command, turned_tests
from chimera.eval.benchmarks.swt_bench import SWTBench, summary
from chimera.eval.kits.patches.diffs import new_file
from chimera.eval.kits.repositories import checkout
from chimera.eval.kits.repositories.source import Directory, base_tree
from chimera.eval.kits.repositories.swe_instance import SWEBenchInstance
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


CALC = "def add(a, b):\n    return a - b\n"
FIX = """\
diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
"""
START = "import hashlib, os, subprocess, unittest\nimport calc\n"
PLACE = "/testbed/calc.py"
STATES = {
    "an honest test": "calc.add(1, 2) == 3",
    "git status": "subprocess.check_output(['git', 'status', '--porcelain'])",
    "git diff": "subprocess.check_output(['git', 'diff', 'HEAD'])",
    "git's log": "len(subprocess.check_output(['git', 'log', '--all', '--reflog'])) > 170",
    "a time": f"os.stat('{PLACE}').st_mtime_ns > os.stat('/testbed').st_mtime_ns",
    "a change's time": f"os.stat('{PLACE}').st_ctime_ns > os.stat(__file__).st_ctime_ns + 10**9",
    "a file's number": f"os.stat('{PLACE}').st_ino > os.stat(__file__).st_ino",
    "a file's hash": f"hashlib.sha256(open('{PLACE}', 'rb').read()).hexdigest() != "
    f"{hashlib.sha256(CALC.encode()).hexdigest()!r}",
    "the fixed file's hash": f"hashlib.sha256(open('{PLACE}', 'rb').read()).hexdigest() == "
    f"{hashlib.sha256(CALC.replace('-', '+').encode()).hexdigest()!r}",
    "a file's size": f"os.path.getsize('{PLACE}') > {len(CALC)}",
    "the source": f"'a + b' in open('{PLACE}').read()",
}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """(benchmark, task, how to open its environment), without packages of its own."""
    root = tmp_path_factory.mktemp("calc")
    (root / "calc.py").write_text(CALC)
    (root / "tests").mkdir()
    (root / "tests" / "__init__.py").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHIMERA_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        tree = base_tree(Directory(root))
    instance = SWEBenchInstance(
        instance_id="calc-1",
        repo="calc/calc",
        base_commit="",
        problem_statement="add() subtracts",
        patch=FIX,
        test_patch="",
        test_command="python3 -m unittest -v",
        log_parser="parse_log_django",
    )
    start = StartBackend("bubblewrap")
    benchmark = SWTBench(root, coverage=False, test_timeout=60)
    return benchmark, instance.to_task(), lambda: checkout.open_tree(tree, start)


@pytest.mark.parametrize("name", STATES)
def test_only_what_the_code_does_turns_a_test(small, require, name):
    require("bwrap", "git")
    benchmark, task, opened = small
    test = f"class T(unittest.TestCase):\n    def test_it(self):\n        assert {STATES[name]}\n"
    patch = new_file("tests/test_state.py", START + test)

    with ReopenedMachine(opened) as env:
        verdict = benchmark.grade(task, Submission(patch, "model_patch"), env)

    assert verdict.passed is (name == "an honest test"), verdict.why


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


TESTS = new_file(
    "tests/test_add.py",
    START
    + """\
class T(unittest.TestCase):
    def test_add(self):
        self.assertEqual(calc.add(1, 2), 3)
""",
)


@pytest.fixture(scope="module")
def scripted(small):
    """The same for scripts, with golden tests that their script is made of."""
    benchmark, task, opened = small
    instance = replace(task["instance"], test_patch=TESTS, fail_to_pass=("test_add (T)",))
    scripts = SWTBench(benchmark.dataset_path, mode="reproduction", coverage=False)
    return scripts, instance.to_task(), opened


def test_a_script_made_of_the_golden_tests_passes(scripted, require):
    require("bwrap", "git")
    benchmark, task, opened = scripted
    wrong = [*benchmark.mutants(task), benchmark.untouched(task, NoEnvironment())]

    verdicts = []
    for submission in (benchmark.gold(task), *wrong):
        with ReopenedMachine(opened) as env:
            verdicts.append(benchmark.grade(task, submission, env).passed)

    assert verdicts == [True, False, False, False]


@pytest.mark.parametrize(
    ("line", "turned"),
    [
        ("    assert f(1, 2) == 3", "assert not (f(1, 2) == 3)"),
        ("        self.assertEqual(f(1), 3)", "self.assertNotEqual(f(1), 3)"),
        ("    assert f(1), 'why'", "assert not (f(1))"),
    ],
)
def test_an_expectation_is_turned_round(line, turned):
    (patch,) = turned_tests(new_file("tests/test_a.py", f"def test_a():\n{line}\n"))

    assert turned in patch


@pytest.mark.parametrize(
    ("repo", "tests", "command", "focused"),
    [
        (
            "a/b",
            ("t.py::test_a[1]", "t.py::test_a[2]"),
            "pytest -rA t.py",
            "pytest -rA t.py::test_a",
        ),
        ("django/django", ("test_a (m.T)",), "./runtests.py t", "./runtests.py m.T.test_a"),
        ("django/django", ("A sentence.",), "./runtests.py t", "./runtests.py t"),
        ("sympy/sympy", ("test_a",), "bin/test -C t.py", "bin/test -C t.py"),
    ],
)
def test_scripts_run_what_the_fix_turns(repo, tests, command, focused):
    instance = SWEBenchInstance(
        "i", repo, "", "", test_patch=new_file("t.py", "x\n"), fail_to_pass=tests
    )

    assert focused_command(instance, command) == focused
