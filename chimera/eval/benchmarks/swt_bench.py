"""SWT-Bench: write tests that show an issue, failing before its fix and passing after it."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from chimera.cache import digest
from chimera.environments.base import Environment, Machine
from chimera.environments.reopened import ReopenedMachine
from chimera.environments.wrapped import unwrapped
from chimera.errors import GraderError, UsageError
from chimera.eval.benchmark import StartEnvironment
from chimera.eval.benchmarks._swt_bench.generated_tests import (
    Judgement,
    Pair,
    Run,
    change_coverage,
    judge,
)
from chimera.eval.benchmarks._swt_bench.golden import golden_script, turned_tests, undirected
from chimera.eval.benchmarks._swt_bench.line_coverage import CoverageTool, coverage_tool
from chimera.eval.data.datasets import datasets_dir
from chimera.eval.kits.patches import diffs
from chimera.eval.kits.patches.blobs import Comparison, differs
from chimera.eval.kits.patches.diffs import new_file
from chimera.eval.kits.repositories import checkout
from chimera.eval.kits.repositories.benchmark import Reference
from chimera.eval.kits.repositories.instance_benchmark import InstanceBenchmark, InstanceOptions
from chimera.eval.kits.repositories.patch_tests import TestPlan, put_bytecode, run_plan
from chimera.eval.kits.repositories.swe_instance import (
    ACTIVATE,
    Annexes,
    SWEBenchInstance,
    SWEBenchTask,
    directives,
)
from chimera.eval.kits.repositories.virtualenvs import TESTBED, minor
from chimera.eval.options import option
from chimera.eval.values import Submission, Verdict
from chimera.types import JSON

PROMPT = """\
The directory /testbed holds a checkout of the repository {repo}. Write tests for the issue below: \
they must fail on the code as it is because of the issue, and pass once it is resolved. Do not \
resolve it. {how}

<issue>
{problem_statement}
</issue>
"""
HOW = {
    "unit_test": "Add the tests to the repository's own test suite.",
    "reproduction": "Write one script, /testbed/{script}, that ends with exit status 0 if and only "
    "if the issue is resolved.",
}

Mode = Literal["unit_test", "reproduction"]
Split = Literal["lite", "verified"]


@dataclass(frozen=True, slots=True)
class SWTBenchOptions(InstanceOptions):
    split: Split = option("lite", "the instances of SWE-bench Lite, or those of Verified")
    mode: Mode = option("unit_test", "tests for the repository's suite, or one script")
    _: KW_ONLY
    coverage: bool = option(True, "measure change coverage; without it runs take half the time")
    reproduction_script: str = option("reproduction.py", "where `reproduction` looks for it")


class SWTBench(InstanceBenchmark):
    slug = "swt-bench"
    aliases = ("swtbench",)
    description = "Write tests that fail because of an issue and pass once it is resolved"
    setup = "Put SWE-bench Lite or Verified less SWT-Bench's exclusions into it, as JSONL."
    files = ("swt_bench_{split}.jsonl.gz", "swt_bench_{split}.jsonl", "swt_bench_{split}.parquet",
             "swt_bench_{split}.json")  # fmt: skip
    needs = ("docker or bubblewrap", "packages of each instance")
    environments = ("bubblewrap", "docker")

    option_type = SWTBenchOptions
    settings: SWTBenchOptions

    @cached_property
    def _pairs(self) -> dict[str, Pair | None]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k != "_pairs"}

    def prompt(self) -> str:
        how = HOW[self.settings.mode].format(script=self.settings.reproduction_script)
        return PROMPT.replace("{how}", how)

    def annexes(self, source: Path) -> Annexes:
        beside = Annexes.beside(source)
        return beside if beside.settings else Annexes.beside(datasets_dir() / "swe-bench")

    # --- environments

    def open_grading_environment(self, task: SWEBenchTask, start: StartEnvironment) -> Environment:
        mounts = self._tools(task)
        return ReopenedMachine(lambda: self.open_instance(task["instance"], start, mounts=mounts))

    def check_task(self, task: SWEBenchTask, start: StartEnvironment) -> None:
        if self.settings.mode != "reproduction":
            super().check_task(task, start)
        self._tools(task)

    def graded_in(self, task: SWEBenchTask, start: StartEnvironment) -> JSON:
        return self.instance_identity(task["instance"], start, mounts=self._tools(task))

    def _tools(self, task: SWEBenchTask) -> dict[str, str]:
        return self._tool(task).mounts() if self.settings.coverage else {}

    def _tool(self, task: SWEBenchTask) -> CoverageTool:
        instance = task["instance"]
        if not instance.python:
            raise UsageError(f"{task['id']}: its Python is not known: --option coverage=false")
        return coverage_tool(minor(instance.python))

    # --- submissions

    def reference(self, task: SWEBenchTask) -> Reference:
        instance = task["instance"]
        return Reference(instance.test_patch, instance.test_patch, instance.fail_to_pass)

    def gold(self, task: SWEBenchTask) -> Submission | None:
        """The golden test patch, or a script that runs what it brings."""
        instance = task["instance"]
        if self.settings.mode == "reproduction":
            return self._script(golden_script(instance, self._plan(instance).command))
        return Submission(text=instance.test_patch, form="model_patch")

    def untouched(self, task: SWEBenchTask, env: Environment) -> Submission:
        """A test of nothing: it fails neither without the fix nor with it."""
        if self.settings.mode == "reproduction":
            return self._script("print('nothing')\n")
        test = "def test_nothing():\n    pass\n"
        return Submission(new_file("tests/test_chimera_untouched.py", test), "model_patch")

    def mutants(self, task: SWEBenchTask) -> Iterable[Submission]:
        """Golden tests that expect what is not so, and the fix in place of tests."""
        instance = task["instance"]
        if self.settings.mode == "reproduction":
            yield self._script("raise SystemExit(1)\n")
            command = self._plan(instance).command
            turned = (replace(instance, test_patch=p) for p in turned_tests(instance.test_patch))
            yield from (self._script(golden_script(each, command)) for each in turned)
            return
        for patch in turned_tests(instance.test_patch):
            yield Submission(text=patch, form="model_patch")
        if not any(f.old is None and f.new for f in diffs.parse(instance.test_patch)):
            yield Submission(text=instance.patch, form="model_patch")

    def _script(self, content: str) -> Submission:
        return Submission(new_file(self.settings.reproduction_script, content), "model_patch")

    def attacks(self, task: SWEBenchTask) -> Iterable[tuple[str, Submission]]:
        for name, content in hostile_tests(task["instance"].patch):
            yield name, Submission(new_file("tests/test_planted.py", content), "model_patch")
        yield "the fix itself", Submission(task["instance"].patch, "model_patch")

    # --- grading

    def grade(self, task: SWEBenchTask, submission: Submission, env: Environment) -> Verdict:
        if not isinstance(env, ReopenedMachine):
            raise GraderError("SWT-Bench grades in environments that it opens itself")
        instance, patch = task["instance"], submission.text
        if not patch.strip():
            return Verdict(
                False, "the submission is an empty patch", metrics={"patch_exists": False}
            )
        local = instance.python and not self._official(task, env)
        tree = self.setup_of(instance).tree().rebuilt() if local else None
        compared = Comparison()
        if tree is not None:
            compared = tree.compared(patch, (instance.patch, instance.test_patch))
            tree.refuse_misplaced(patch, compared)
        submitted = self._pair(task, env, patch, patch)
        if submitted is None and compared.doubtful:
            raise differs(compared.doubtful[0])
        if submitted is None:
            return Verdict(False, "the patch does not apply", metrics={"patch_applied": False})
        base = self._known_pair(task, env, patch, "")
        assert base is not None
        judgement = judge(submitted, base)
        metrics: dict[str, JSON] = {
            "patch_exists": True,
            "mode": self.settings.mode,
            "added_f2p": len(judgement.added_f2p),
            "f_to_p": bool(judgement.added_f2p),
            "f_to_x": judgement.fail_to_any,
            "p_to_p": judgement.added_p2p,
            "w": judgement.well_formed,
            **compared.metrics(),
        }
        if self.settings.coverage and self.settings.mode == "unit_test":
            golden = instance.test_patch
            gold = submitted if patch == golden else self._known_pair(task, env, golden, golden)
            if gold is None:
                raise GraderError("the golden test patch does not apply to the base commit")
            fix = _as_applied(env, instance.patch)
            for name, pair in (("pred", submitted), ("gold", gold), ("base", base)):
                measured = change_coverage(fix, pair, base, gold)
                metrics[f"coverage_{name}"] = measured.coverage
                if name != "base":
                    metrics[f"coverage_delta_{name}"] = measured.delta
        if not (submitted.pre.statuses or submitted.post.statuses):
            metrics["ran"] = False
        why = _why(judgement)
        if judgement.resolved:
            why = self._looks_at_code(task, env, patch, judgement.added_f2p)
        evidence = {
            "before": dict(submitted.pre.statuses),
            "after": dict(submitted.post.statuses),
        }
        return Verdict(not why, why, metrics=metrics, evidence=evidence)

    def _known_pair(
        self, task: SWEBenchTask, env: ReopenedMachine, directed_by: str, tests: str
    ) -> Pair | None:
        """A pair without anything of the submission's, run once for all of the same files."""
        files = directives(directed_by, task["instance"].repo)
        key = digest(task["id"], files, tests, unwrapped(env).name)
        if key not in self._pairs:
            self._pairs[key] = self._pair(task, env, directed_by, tests)
        return self._pairs[key]

    def _pair(
        self, task: SWEBenchTask, env: ReopenedMachine, directed_by: str, tests: str
    ) -> Pair | None:
        """The test files of `directed_by`, with the patch `tests` in, without and with the fix."""
        runs = []
        for fixed in (False, True):
            with env.fresh() as inside:
                if not self._put_state(task, inside, tests, fixed=fixed):
                    return None
                measured = self.settings.coverage
                runs.append(self._run(task, inside, directed_by, measured=measured))
        return Pair(*runs)

    def _looks_at_code(
        self, task: SWEBenchTask, env: ReopenedMachine, patch: str, added: frozenset[str]
    ) -> str:
        """Why tests are none of what the code does, "" if they are: remarks decide nothing."""
        for fixed, remark in ((False, "passes"), (True, "fails")):
            with env.fresh() as inside:
                self._put_state(task, inside, patch, fixed=fixed, remarks=True)
                run = self._run(task, inside, patch, measured=False)
            turned = sorted(name for name in added if (run.outcome(name) == "PASSED") is not fixed)
            if turned:
                state = "with" if fixed else "without"
                return f"{remark} {state} the fix once remarks are added to the code: {turned[0]}"
        return ""

    def _put_state(
        self,
        task: SWEBenchTask,
        env: Machine,
        tests: str,
        *,
        fixed: bool,
        remarks: bool = False,
    ) -> bool:
        """The tests in a tree without or with the fix; nothing but the code tells which of both.

        The fix is put on either way and taken off again, so that the same files are new.
        """
        instance = task["instance"]
        fix = instance.patch
        if not (_applied(env, tests) and _applied(env, fix)):
            return False
        if not fixed and not _applied(env, fix, "--reverse"):
            return False
        if remarks:
            _add_remarks(env, fix)
        checkout.level_state(env)
        local = instance.python and not self._official(task, env)
        bytecode = self.setup_of(instance).tree().bytecode() if local else None
        if bytecode is not None:
            changed = diffs.paths(fix) | diffs.paths(tests)
            put_bytecode(env, bytecode, TESTBED, without=changed)
        return True

    def _run(self, task: SWEBenchTask, env: Machine, directed_by: str, *, measured: bool) -> Run:
        if self.settings.mode == "reproduction":
            place = shlex.quote(f"{TESTBED}/{self.settings.reproduction_script}")
            activate = ACTIVATE if self._official(task, env) else "true"
            script = ["bash", "-c", f"{activate} && python {place}"]
            result = env.run_command(script, cwd=TESTBED, timeout=self.settings.test_timeout)
            if result.timed_out:
                return Run()
            return Run({"reproduction_script": "FAILED" if result.exit_code else "PASSED"})
        instance = task["instance"]
        official = self._official(task, env)
        plan = self._plan(instance, official=official)
        plan = replace(plan, command=_directed(plan.command, instance, directed_by))
        if not measured:
            return Run(run_plan(plan, env).trusted())
        files = [f.path for f in diffs.parse(instance.patch) if f.path.endswith(".py")]
        tool = self._tool(task)
        run = run_plan(replace(plan, variables=tool.place(env, files, TESTBED)), env)
        return Run(run.trusted(), tool.read(env, TESTBED, ACTIVATE if official else "true"))

    def _plan(self, instance: SWEBenchInstance, *, official: bool = False) -> TestPlan:
        return instance.plan(timeout=self.settings.test_timeout, in_official_image=official)

    def _official(self, task: SWEBenchTask, env: Environment) -> bool:
        return self.in_official_image(task["instance"], unwrapped(env).name)

    def graded_as(self) -> str:
        return "logic-star-ai/swt-bench (July 2026), logs as swebench 5.0"


def hostile_tests(fix: str) -> Iterator[tuple[str, str]]:
    """(name, tests) that ask which state they are in, and nothing of what the code does."""
    file = next(file for file in diffs.parse(fix) if file.old and file.new)
    fixed = [line[1:].strip() for line in file.text.split("\n") if line[:1] == "+" != line[1:2]]
    git = "subprocess.check_output(['git', {!r}, {!r}], cwd='{}').strip()".format
    start = f"import os, subprocess\nfile = '{TESTBED}/{file.new}'\n"
    for name, test in (
        ("a test that always passes", "True"),
        ("one that never does", "False"),
        ("a test of git status", git("status", "--porcelain", TESTBED)),
        ("a test of git diff", git("diff", "HEAD", TESTBED)),
        ("a test of times", "os.stat(file).st_mtime != os.stat(os.path.dirname(file)).st_mtime"),
        ("a test of the source", f"{max(fixed, key=len, default='')!r} in open(file).read()"),
    ):
        yield name, f"{start}def test_state():\n    assert {test}\n"


def summary(verdicts: Sequence[Verdict], total: int) -> dict[str, Any]:
    """Rates over all instances of the set, as SWT-Bench reports them, not over those answered."""
    deltas = [v.metrics.get("coverage_delta_pred") for v in verdicts]
    countable = [v for v in verdicts if v.metrics.get("coverage_delta_gold") is not None]
    return {
        "S": sum(v.passed for v in verdicts) / total,
        **{
            name: sum(bool(v.metrics.get(key)) for v in verdicts) / total
            for name, key in (
                ("F->P", "f_to_p"),
                ("F->X", "f_to_x"),
                ("P->P", "p_to_p"),
                ("W", "w"),
            )
        },
        "delta_C": sum(d or 0.0 for d in deltas) / len(countable) if countable else None,
    }


def _add_remarks(env: Machine, fix: str) -> None:
    """A change of no effect to the files of the fix: at least as long, and with its words."""
    for file in diffs.parse(fix):
        if file.old and file.new and file.new.endswith(".py"):
            added = [line[1:] for line in file.text.split("\n") if line.startswith("+")]
            words = [line for line in [*added, secrets.token_hex(8 + len(file.text) // 2)]
                     if line.isprintable()]  # fmt: skip
            path = f"{TESTBED}/{file.new}"
            remarks = "".join(f"# {line}\n" for line in words)
            env.write_file(path, env.read_file(path) + b"\n" + remarks.encode())


def _applied(env: Machine, patch: str, *options: str) -> bool:
    if not patch.strip():
        return True
    if diffs.reaches_into_git(patch):
        return False
    env.write_file("/tmp/change.diff", patch if patch.endswith("\n") else patch + "\n")
    apply = " ".join(["git apply --verbose --whitespace=nowarn", *options])
    command = f"{apply} /tmp/change.diff && rm /tmp/change.diff"
    return env.run_command(command, cwd=TESTBED, timeout=120).exit_code == 0


def _as_applied(env: ReopenedMachine, patch: str) -> str:
    """The patch with the line numbers it has in the tree, where it may apply with offsets."""
    with env.fresh() as inside:
        if not _applied(inside, patch):
            raise GraderError("the gold patch does not apply to the base commit")
        result = inside.run_command("git diff --no-color HEAD", cwd=TESTBED)
        return result.stdout.decode("utf-8", "replace")


def _directed(command: str, instance: SWEBenchInstance, directed_by: str) -> str:
    """The test command over the test files that a patch touches instead of the official ones."""
    return " ".join([undirected(command, instance), *directives(directed_by, instance.repo)])


def _why(judgement: Judgement) -> str:
    if judgement.resolved:
        return ""
    if judgement.broken:
        return f"tests that passed before do not pass: {', '.join(sorted(judgement.broken)[:3])}"
    if judgement.still_failing:
        return f"fails even with the fix: {', '.join(sorted(judgement.still_failing)[:3])}"
    return "no test fails without the fix and passes with it"
