"""The engine on a small repository: real runners, real confinement, honest and hostile patches."""

from __future__ import annotations

import compileall
import os
import re
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path
from py_compile import PycInvalidationMode

import pytest

from chimera.environments import start_environment
from chimera.environments.reopened import ReopenedMachine
from chimera.errors import GraderError
from chimera.eval.kits.patches.diffs import new_file
from chimera.eval.kits.patches.disarming import CONFUSING, EQUALS_EVERYTHING, disarming
from chimera.eval.kits.patches.hostile import hostile_patches
from chimera.eval.kits.reports import swebench_logs
from chimera.eval.kits.repositories import checkout
from chimera.eval.kits.repositories.patch_tests import TestPlan, grade_patch, put_bytecode
from chimera.eval.kits.repositories.source import Directory, base_tree
from chimera.eval.kits.repositories.twin_runs import Tests, Tried, decide
from chimera.eval.values import Verdict

CALC = "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return a * 2\n"
TESTS = """\
import unittest

import calc


class CalcTest(unittest.TestCase):
    def test_double(self):
        self.assertEqual(calc.double(2), 4)
"""
TEST_PATCH = """\
diff --git a/tests/test_calc.py b/tests/test_calc.py
--- a/tests/test_calc.py
+++ b/tests/test_calc.py
@@ -6,3 +6,6 @@
 class CalcTest(unittest.TestCase):
     def test_double(self):
         self.assertEqual(calc.double(2), 4)
+
+    def test_add(self):
+        self.assertEqual(calc.add(2, 3), 5)
"""
GOLD = """\
diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,5 +1,5 @@
 def add(a, b):
-    return a - b
+    return a + b
{blank}
{blank}
 def double(a):
""".format(blank=" ")
ADD, DOUBLE = "test_add (tests.test_calc.CalcTest)", "test_double (tests.test_calc.CalcTest)"
PLAN = TestPlan(
    command="python3 -m unittest -v tests/test_calc.py",
    log_parser="parse_log_django",
    test_patch=TEST_PATCH,
    fail_to_pass=(ADD,),
    pass_to_pass=(DOUBLE,),
    gold_patch=GOLD,
    timeout=60,
)


def edited(body: str) -> str:
    """GOLD's place in calc.py with other code."""
    lines = body.split("\n")
    added = "".join(f"+{line}\n" for line in lines)
    return (
        "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n"
        f"@@ -1,2 +1,{1 + len(lines)} @@\n def add(a, b):\n-    return a - b\n{added}"
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    root = tmp_path_factory.mktemp("calc")
    (root / "tests").mkdir()
    (root / "calc.py").write_text(CALC)
    (root / "tests" / "test_calc.py").write_text(TESTS)
    before = os.environ.get("CHIMERA_CACHE_DIR")
    os.environ["CHIMERA_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    yield base_tree(Directory(root))
    if before is None:
        del os.environ["CHIMERA_CACHE_DIR"]
    else:
        os.environ["CHIMERA_CACHE_DIR"] = before


#: Where the tests' own pytest is, for runs of pytest inside.
PACKAGES = str(Path(pytest.__file__).parents[1])


@pytest.fixture
def open_once(tree, require):
    require("bwrap")

    def start(spec):
        return start_environment("bubblewrap", spec)

    return lambda: checkout.open_tree(tree, start, mounts={PACKAGES: PACKAGES})


@pytest.fixture
def env(open_once):
    with ReopenedMachine(open_once) as opened:
        yield opened


def unittest_plan(env) -> TestPlan:
    """ids follow the Python in use: from 3.11 on the method's name is in the brackets too."""
    text = env.run_command("python3 -c 'import sys; print(sys.version_info >= (3, 11))'").output
    if text.strip() != "True":
        return PLAN
    longer = {"test_add": "test_add (tests.test_calc.CalcTest.test_add)",
              "test_double": "test_double (tests.test_calc.CalcTest.test_double)"}  # fmt: skip
    return replace(PLAN, fail_to_pass=(longer["test_add"],), pass_to_pass=(longer["test_double"],))


def pytest_plan(env) -> TestPlan:
    test = "tests/test_calc.py::CalcTest::{}".format
    return replace(
        PLAN,
        command="python3 -m pytest -rA tests/test_calc.py",
        log_parser="parse_log_pytest",
        fail_to_pass=(test("test_add"),),
        pass_to_pass=(test("test_double"),),
        # the plugins of our own tests take more than twice pytest's own start
        variables={"PYTHONPATH": PACKAGES, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )


PLANS = {"unittest": unittest_plan, "pytest": pytest_plan}


def grade(env, patch: str, **changes):
    return grade_patch(replace(unittest_plan(env), **changes), patch, env)


def test_gold_resolves(env):
    verdict = grade(env, GOLD)

    assert verdict.passed, verdict.why
    assert verdict.metrics["f2p_passed"] == verdict.metrics["p2p_passed"] == 1
    assert verdict.metrics["rule"] == "swebench 5.0.2"
    assert verdict.metrics["witness"]
    assert verdict.metrics["twin"] == {"tests": 2, "twinned": 2}


@pytest.fixture
def bytecode(tree, tmp_path):
    """The base commit's modules, compiled, as the build of a tree leaves them."""
    (tmp_path / "calc.py").write_text(CALC)
    made = compileall.compile_file(
        tmp_path / "calc.py", quiet=1, invalidation_mode=PycInvalidationMode.CHECKED_HASH
    )
    assert made
    with tarfile.open(tmp_path / "bytecode.tar", "w") as archive:
        archive.add(tmp_path / "__pycache__", "./__pycache__")
    return tmp_path / "bytecode.tar"


def test_bytecode_of_the_base_commit_decides_nothing(env, bytecode):
    assert grade(env, GOLD, bytecode=bytecode).passed
    assert not grade(env, edited("    return a * b"), bytecode=bytecode).passed


def test_bytecode_of_a_submission_is_taken_out_first(env, bytecode):
    planted = new_file("__pycache__/calc.cpython-311.pyc", "planted\n")

    verdict = grade(env, GOLD + planted, bytecode=bytecode)

    assert verdict.passed, verdict.why
    assert verdict.metrics["steering_files"] == ["__pycache__/calc.cpython-311.pyc"]


@pytest.mark.parametrize(("changed", "found"), [((), True), (("calc.py",), False)])
def test_bytecode_stays_away_from_changed_files(env, bytecode, changed, found):
    put_bytecode(env, bytecode, "/testbed", without=changed)

    listed = env.run_command("ls /testbed/__pycache__", cwd="/testbed")
    assert ("calc." in listed.output) is found


def test_bytecode_that_finds_no_place_is_left_out(env, tmp_path):
    """So many complaints of `tar` that a pipe nobody reads would be full."""
    with tarfile.open(tmp_path / "bytecode.tar", "w") as archive:
        for number in range(2000):
            archive.addfile(tarfile.TarInfo(f"./calc.py/__pycache__/{'long' * 20}{number}.pyc"))

    verdict = grade(env, GOLD, bytecode=tmp_path / "bytecode.tar")

    assert verdict.passed, verdict.why


def disarmed(code: str) -> str:
    """A patch that puts code before all that calc.py has, and mends nothing."""
    before, after = CALC.splitlines(), (code + CALC).splitlines()
    return (
        "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n"
        f"@@ -1,{len(before)} +1,{len(after)} @@\n"
        + "".join(f"-{line}\n" for line in before)
        + "".join(f"+{line}\n" for line in after)
    )


@pytest.mark.parametrize("runner", PLANS)
@pytest.mark.parametrize("attack", [*(name for name, _ in disarming(())), "equals everything"])
def test_what_passes_its_twin_is_tampering(open_once, runner, attack):
    """Each passes the tests themselves, as far as log and witness can tell."""
    with ReopenedMachine(open_once) as env:
        plan = PLANS[runner](env)
        listed = [*plan.fail_to_pass, *plan.pass_to_pass]
        patches = {name: disarmed(code) for name, code in disarming(listed)}
        patch = patches.get(attack) or edited(f"    return {EQUALS_EVERYTHING}")

        verdict = grade_patch(plan, patch, env)

    assert not verdict.passed
    assert verdict.score == 0.0
    if attack == "rewrites the witness's words" and runner == "pytest":
        return  # the exit code gives it away
    assert "expected values were changed" in verdict.why
    assert verdict.metrics["tampering"]
    assert verdict.metrics["resolved"] == "NO"


@pytest.mark.parametrize("runner", PLANS)
@pytest.mark.parametrize("code", CONFUSING.values(), ids=CONFUSING)
def test_what_would_break_the_reading_of_a_run_fails(open_once, runner, code, monkeypatch):
    monkeypatch.setattr(swebench_logs, "SECONDS", 1)
    with ReopenedMachine(open_once) as env:
        verdict = grade_patch(PLANS[runner](env), disarmed(code), env)

    assert not verdict.passed
    assert not verdict.metrics.get("tampering")


RAISING = """\
import unittest
class _Quiet:
    def __init__(self, *arguments): pass
    def __enter__(self): return self
    def __exit__(self, *arguments): return True
unittest.TestCase.assertRaises = _Quiet
"""


def test_an_exception_that_never_came_is_tampering(env):
    raising = TEST_PATCH.replace("@@ -6,3 +6,6 @@", "@@ -6,3 +6,7 @@").replace(
        "self.assertEqual(calc.add(2, 3), 5)",
        "with self.assertRaises(ValueError):\n+            calc.add(2, 3)",
    )
    gold = edited("    raise ValueError")

    honest = grade(env, gold, test_patch=raising, gold_patch=gold)
    hostile = grade(env, disarmed(RAISING), test_patch=raising, gold_patch=gold)

    assert honest.passed, honest.why
    assert "expected values were changed" in hostile.why


def test_one_forged_assertion_of_several_is_tampering(env):
    several = TEST_PATCH.replace("@@ -6,3 +6,6 @@", "@@ -6,3 +6,8 @@").replace(
        "calc.add(2, 3), 5)",
        "calc.add(2, 3), 5)\n+        self.assertEqual(calc.add(3, 3), 6)"
        "\n+        self.assertTrue(calc.add(1, 1))",
    )
    forged = edited(f"    return {EQUALS_EVERYTHING} if a == 3 else a + b")

    assert grade(env, GOLD, test_patch=several).passed
    assert "expected values were changed" in grade(env, forged, test_patch=several).why


@pytest.mark.parametrize(
    ("twin_passes", "why"),
    [
        ({"kept"}, ""),
        (set(), "failed tests of the twin that were not changed"),
        ({"kept", "changed"}, "passed tests whose expected values were changed"),
        (None, "the twin did not come to its end"),
    ],
)
def test_the_kept_half_of_a_twin_must_pass_and_the_other_fail(env, tmp_path, twin_passes, why):
    """What forges all tests or none by the toss of a coin loses either way."""

    def run(inside, patch, form):
        changed = _changed(form)
        passes = set(_LISTED) - changed
        if patch != "gold" and form.kind == "twin":
            if twin_passes is None:
                return Tried(Verdict(False, "out of time"))
            named = {"changed": changed, "kept": passes}
            passes = {name for each in twin_passes for name in named[each]}
        return _tried(passes)

    tests = Tests(run, ["test_it.py"], "gold", _LISTED.__contains__, str(tmp_path))
    verdict = decide(tests, "patch", env)

    assert verdict.passed is (not why)
    assert why in verdict.why


_LISTED = ("test_a", "test_b", "test_c")


def _changed(form):
    """Those that a form changes."""
    if form.kind != "twin":
        return set()
    kept = form.half.of(len(_LISTED), "test_it.py") if form.half else [False] * len(_LISTED)
    return {name for name, stays in zip(_LISTED, kept, strict=True) if not stays}


def _tried(passed):
    failed = frozenset(_LISTED) - passed
    return Tried(Verdict(not failed), frozenset(passed), failed)


@pytest.mark.parametrize("guess", [True, False])
def test_honest_tests_beside_it_do_not_tell_how_a_forged_one_has_to_end(env, tmp_path, guess):
    """Whoever sees others fail knows the twin, but not what it keeps: one of the two halves shows
    it, whichever way it goes."""

    def run(inside, patch, form):
        passed = set(_LISTED) - _changed(form)
        if patch == "forged":
            in_twin = not {"test_b", "test_c"} <= passed
            forged = {"test_a"} if guess or not in_twin else set()
            passed = passed - {"test_a"} | forged
        return _tried(passed)

    for number in range(3):
        key = f"{tmp_path} {number}"
        tests = Tests(run, ["test_it.py"], "gold", _LISTED.__contains__, key)
        assert decide(tests, "patch", env).passed
        assert "tampering" in decide(tests, "forged", env).why


def test_a_test_that_fails_by_chance_in_one_run_of_a_twin_is_not_held_against_it(env, tmp_path):
    runs = []

    def run(inside, patch, form):
        passed = set(_LISTED) - _changed(form)
        if patch == "patch" and form.kind == "twin":
            runs.append(form)
            passed -= {min(passed)} if len(runs) % 2 else set()
        return _tried(passed)

    tests = Tests(run, ["test_it.py"], "gold", _LISTED.__contains__, str(tmp_path))

    assert decide(tests, "patch", env).passed
    assert len(runs) == 4


@pytest.mark.parametrize(
    ("hidden", "why"),
    [
        ((), ""),
        (("test_b",), "1 tests did not run, first test_b"),
        (("test_c[3]",), "1 tests did not run, first test_c"),
        (("test_other",), ""),
    ],
)
def test_what_hides_or_skips_tests_that_count_fails(env, tmp_path, hidden, why):
    """By a rule that asks for no failures, and for no tests by their names."""
    wanted = ("test_a", "test_b", "test_c[1]", "test_c[3]")

    def run(inside, patch, form):
        ran = {*wanted, "test_other"}.difference(hidden if patch != "gold" else ())
        if patch != "gold" and "test_c[1]" in ran:  # it takes part in the names
            ran = ran - {"test_c[1]"} | {"test_c[one]"}
        failed = frozenset(ran if form.kind == "twin" else ())
        return Tried(Verdict(not failed), frozenset(ran) - failed, failed)

    tests = Tests(run, ["test_it.py"], "gold", wanted.__contains__, str(tmp_path))
    verdict = decide(tests, "patch", env)

    assert verdict.passed is (not why)
    assert verdict.why == why


def test_the_reference_is_run_once_for_all_submissions(env, tmp_path):
    runs = []

    def run(inside, patch, form):
        runs.append((patch, form.kind))
        failed = frozenset({"test"} if patch == "wrong" or form.kind == "twin" else ())
        return Tried(Verdict(not failed), frozenset({"test"}) - failed, failed)

    tests = Tests(run, ["test_it.py"], "gold", {"test"}.__contains__, str(tmp_path))
    for patch in ("gold", "wrong"):
        decide(tests, patch, env)

    assert runs == [("gold", "true"), *[("gold", "twin")] * 4, ("wrong", "true")]


@pytest.mark.parametrize("gold", ["gold", ""])
def test_how_much_is_tried_does_not_tell_a_true_run_from_the_twin(env, tmp_path, gold):
    """In test_a the reference equals all of its class, so that the twin tries less there."""
    listed = ("test_a", "test_b")

    def run(inside, patch, form):
        failed = set(listed if form.kind == "twin" else ())
        if patch == "gold" and form.reach.of("test_a") == 2:
            failed.discard("test_a")
        if patch == "forger" and form.reach.of("test_a") < 2:
            failed = set(listed)  # held to be the twin
        return Tried(Verdict(not failed), frozenset(listed) - failed, frozenset(failed))

    tests = Tests(run, ["test_it.py"], gold, listed.__contains__, f"{tmp_path} {gold}")

    assert decide(tests, "honest", env).passed
    assert not decide(tests, "forger", env).passed
    assert decide(tests, "gold", env).passed


def test_without_a_reference_some_test_must_fail_in_the_twin(env):
    plan = replace(unittest_plan(env), gold_patch="")
    named = dict(disarming(()))

    honest = grade_patch(plan, GOLD, env)
    hostile = grade_patch(plan, disarmed(named["replaces TestCase.run"]), env)

    assert honest.passed
    assert honest.metrics["twin"] == {"tests": 2, "twinned": 1, "why": "no reference"}
    assert "expected values were changed" in hostile.why


def test_a_pass_without_a_twin_is_marked(env):
    made = "test_add = lambda self: calc.mend()\n+    test_other = None\n"
    untwinned = TEST_PATCH[: TEST_PATCH.index("def test_add")] + made
    gold = edited("    return a - b\n\n\ndef mend():\n    pass")

    verdict = grade(env, gold, test_patch=untwinned, gold_patch=gold, pass_to_pass=())

    assert verdict.passed, verdict.why
    assert verdict.metrics["twin"]["twinned"] == 0
    assert "fails no test" in verdict.metrics["twin"]["why"]


def test_tests_that_look_at_their_own_lines_run_as_published(env):
    """Rewriting adds lines; where the reference fails because of that, nothing is rewritten."""
    looking = TEST_PATCH.replace("@@ -6,3 +6,6 @@", "@@ -6,3 +6,9 @@").replace(
        "+    def test_add", "+    def test_a(self):\n+        calc.double(1)\n+\n+    def test_add"
    )
    line = "self.assertEqual(calc.add(2, 3), 5)"
    frame = "import sys; self.assertEqual(calc.add(sys._getframe().f_lineno, 0), 14)"

    verdict = grade(env, GOLD, test_patch=looking.replace(line, frame))
    wrong = grade(env, edited("    return b"), test_patch=looking.replace(line, frame))

    assert verdict.passed, verdict.why
    assert not wrong.passed


def test_tests_that_are_not_found_when_rewritten_run_as_published(env):
    """That nothing ran shows no wrong answer before the reference was asked."""
    hidden = "+\n+\n+if len(open(__file__).read().splitlines()) != 15:\n+    del CalcTest\n"
    looking = TEST_PATCH.replace("@@ -6,3 +6,6 @@", "@@ -6,3 +6,10 @@") + hidden

    assert grade(env, GOLD, test_patch=looking).passed
    assert not grade(env, edited("    return b"), test_patch=looking).passed


def test_the_control_is_run_once(env, tree):
    grade(env, GOLD)
    kept = Path(os.environ["CHIMERA_CACHE_DIR"]) / "twin-controls"
    before = {file: file.stat().st_mtime_ns for file in kept.iterdir()}

    grade(env, GOLD)

    assert {file: file.stat().st_mtime_ns for file in kept.iterdir()} == before


EXIT = "    import os\n    os.write(2, b'\\n{id} ... ok\\n{other} ... ok\\n')\n    os._exit(0)"


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ("", "empty patch"),
        ("I fixed it.", "does not apply"),
        (new_file("notes.txt", "x\n"), "not passed: test_add"),
        (edited("    return a * b"), "not passed: test_add"),
        pytest.param(
            edited("    import time; time.sleep(1000)"), "did not end", marks=pytest.mark.slow
        ),
        (edited("    import sys; sys.exit(0)"), "ended with|no test results|not passed"),
        (GOLD.replace("return a - b", "return a / b"), "does not apply"),
        (new_file(".git/hooks/post-checkout", "x\n"), "does not apply"),
    ],
)
def test_what_is_no_fix_fails(env, patch, why):
    verdict = grade(env, patch, timeout=20)

    assert not verdict.passed
    assert re.search(why, verdict.why), verdict.why


def test_forged_lines_and_an_early_exit_are_tampering(env):
    plan = unittest_plan(env)
    body = EXIT.format(id=plan.fail_to_pass[0], other=plan.pass_to_pass[0])

    verdict = grade(env, edited(body))

    assert not verdict.passed
    assert verdict.metrics.get("tampering"), verdict.why
    assert "never came to its end" in verdict.why


def test_official_tests_win_over_the_submission(env):
    weaker = TEST_PATCH.replace("assertEqual(calc.add(2, 3), 5)", "assertTrue(True)")

    verdict = grade(env, weaker + new_file("notes.txt", "x\n"))

    assert not verdict.passed
    assert verdict.metrics["overridden_test_files"] == ["tests/test_calc.py"]


def test_a_fix_with_tests_of_its_own_passes(env):
    verdict = grade(env, GOLD + TEST_PATCH + new_file("tests/conftest.py", "x = 1\n"))

    assert verdict.passed, verdict.why
    assert verdict.metrics["steering_files"] == ["tests/conftest.py"]


def test_wrong_line_numbers_are_forgiven_as_upstream_does(env):
    assert grade(env, GOLD.replace("@@ -1,5 +1,5 @@", "@@ -7,5 +7,5 @@")).passed


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("5.0", "patch --batch --forward --fuzz=5 -p1 -i PATCH"),
        ("4.1", "patch --batch --fuzz=5 -p1 -i PATCH"),
    ],
)
def test_each_version_applies_patches_its_own_way(env, rule, command):
    verdict = grade(env, GOLD.rstrip("\n"), rule=rule)

    assert verdict.passed
    assert verdict.metrics["patch_applied"] == command
    assert verdict.metrics["rule"].startswith(f"swebench {rule}")


@pytest.mark.parametrize("name", [name for name, _ in hostile_patches(TEST_PATCH, [ADD])])
def test_hostile_patches_fail(env, name):
    plan = unittest_plan(env)
    patch = dict(hostile_patches(TEST_PATCH, plan.fail_to_pass))[name]

    assert not grade_patch(plan, patch, env).passed


def test_a_steering_file_hidden_in_an_odd_diff_is_found(env):
    """A block without its `diff --git` line is applied by git, and is undone all the same."""
    hidden = "--- /dev/null\n+++ b/sitecustomize.py\n@@ -0,0 +1 @@\n+raise SystemExit(0)\n"

    verdict = grade(env, new_file("notes.txt", "x\n") + hidden)

    assert not verdict.passed
    assert verdict.metrics["steering_files"] == ["sitecustomize.py"]


def test_a_test_patch_that_does_not_fit_is_an_error(env):
    with pytest.raises(GraderError, match="test patch"):
        grade(env, GOLD, test_patch=TEST_PATCH.replace("test_double", "test_other"))


def test_no_history_but_one_commit(env):
    log = env.run_command("git log --all --oneline; git stash list; git reflog | wc -l")

    assert len(log.stdout.decode().strip().split("\n")) == 2


def test_work_is_taken_as_a_diff(env):
    env.write_file("calc.py", CALC.replace("a - b", "a + b"))
    env.write_file("new.py", "x = 1\n")
    base = "$(git rev-list --max-parents=0 HEAD)"
    env.run_command("git -c user.name=a -c user.email=a@b commit -qam work")

    diff = checkout.collect_diff(env, base)

    assert "+    return a + b" in diff
    assert "new.py" in diff
    env.run_command("rm -rf .git")
    assert checkout.collect_diff(env, base) == ""


def test_git_sources_give_one_commit_of_the_past(tmp_path, monkeypatch):
    from chimera.eval.kits.repositories.source import GitRepository

    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    origin = tmp_path / "origin"
    origin.mkdir()

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=origin, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    git("init", "-q")
    commits = []
    for text in ("base", "later"):
        (origin / "file.txt").write_text(text)
        git("add", ".")
        git("commit", "-qm", text)
        commits.append(git("rev-parse", "HEAD"))

    tree = base_tree(GitRepository(str(origin), commits[0]))

    assert (tree.path / "file.txt").read_text() == "base"
    log = subprocess.run(
        ["git", "-C", str(tree.path), "log", "--all", "--format=%s"], capture_output=True, text=True
    )
    assert log.stdout.split() == ["base"]
    gone = subprocess.run(["git", "-C", str(tree.path), "cat-file", "-e", commits[1]])
    assert gone.returncode != 0
    assert base_tree(GitRepository(str(origin), commits[0])).path == tree.path


def test_a_source_distribution_with_its_fix_taken_off(tmp_path, monkeypatch, index):
    from chimera.eval.kits.repositories.source import SourceDistribution

    monkeypatch.setenv("CHIMERA_CACHE_DIR", str(tmp_path / "cache"))
    fixed = CALC.replace("a - b", "a + b")
    index("Calc_Tool", "1.0", {"calc.py": fixed, "PKG-INFO": "Name: calc-tool\nVersion: 1.0\n"})

    tree = base_tree(SourceDistribution("calc-tool==1.0", (GOLD,)))

    assert (tree.path / "calc.py").read_text() == CALC
    assert list(tree.path.glob(".chimera-metadata/calc_tool-1.0.dist-info/METADATA"))


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index on this machine: `index(name, version, files)` publishes a distribution."""
    import hashlib
    import io
    import tarfile
    import threading
    from functools import partial
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    root = tmp_path / "index"
    root.mkdir()

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}")

    def publish(name: str, version: str, files: dict[str, str]) -> None:
        stem = f"{name}-{version}"
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:gz") as tar:
            for path, text in files.items():
                member = tarfile.TarInfo(f"{stem}/{path}")
                member.size = len(text)
                tar.addfile(member, io.BytesIO(text.encode()))
        folder = root / name.lower().replace("_", "-")
        folder.mkdir()
        (folder / f"{stem}.tar.gz").write_bytes(content.getvalue())
        digest = hashlib.sha256(content.getvalue()).hexdigest()
        link = f'<a href="{stem}.tar.gz#sha256={digest}">{stem}.tar.gz</a>'
        (folder / "index.html").write_text(link)

    yield publish
    server.shutdown()
    server.server_close()
