"""SWT-Bench: write tests that show an issue, failing before its fix and passing after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from chimera.environments.base import Environment, EnvironmentSpec, Machine
from chimera.errors import GraderError, UsageError
from chimera.eval.benchmark import StartEnvironment
from chimera.eval.benchmarks._swt_bench.generated_tests import (
    Judgement,
    Pair,
    Run,
    change_coverage,
    judge,
)
from chimera.eval.benchmarks._swt_bench.line_coverage import CoverageTool, coverage_tool
from chimera.eval.benchmarks._swt_bench.reopened import ReopenedMachine
from chimera.eval.data.datasets import datasets_dir
from chimera.eval.data.rows import Row
from chimera.eval.kits.repositories import checkout, patches
from chimera.eval.kits.repositories.hostile import new_file
from chimera.eval.kits.repositories.patch_benchmark import Known, PatchBenchmark
from chimera.eval.kits.repositories.patch_tests import run_plan
from chimera.eval.kits.repositories.swe_instance import (
    Annexes,
    SourceKind,
    SWEBenchInstance,
    SWEBenchTask,
    directives,
    interpreters_named,
)
from chimera.eval.kits.repositories.virtualenvs import TESTBED
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


class SWTBench(PatchBenchmark[SWEBenchTask]):
    slug = "swt-bench"
    setup = "Put SWE-bench Lite or Verified less SWT-Bench's exclusions into it, as JSONL."
    environments = ("bubblewrap", "docker")

    def __init__(
        self,
        dataset_path: str | Path | None = None,
        limit: int | None = None,
        split: Split = "lite",
        mode: Mode = "unit_test",
        *,
        coverage: bool = True,
        reproduction_script: str = "reproduction.py",
        source: SourceKind = "auto",
        repositories: str | None = None,
        interpreters: Sequence[str] | None = None,
        test_timeout: float = 1800.0,
    ) -> None:
        super().__init__(dataset_path, limit)
        if split not in ("lite", "verified"):
            raise UsageError(f"split must be lite or verified, got {split!r}")
        if mode not in ("unit_test", "reproduction"):
            raise UsageError(f"mode must be unit_test or reproduction, got {mode!r}")
        self.split, self.mode, self.coverage = split, mode, coverage
        self.reproduction_script = reproduction_script
        self.source_kind, self.repositories = source, repositories
        self.interpreters = interpreters_named(interpreters)
        self.test_timeout = test_timeout
        self._annexes: Annexes | None = None

    def source(self) -> Path:
        place = self.place()
        if place.is_dir():
            stem = f"swt_bench_{self.split}"
            for name in (f"{stem}.jsonl.gz", f"{stem}.jsonl", f"{stem}.parquet", f"{stem}.json"):
                if (place / name).exists():
                    return place / name
            raise self._missing(place)
        return place

    def task(self, row: Row) -> SWEBenchTask:
        if self._annexes is None:
            beside = Annexes.beside(self.source())
            self._annexes = (
                beside if beside.settings else Annexes.beside(datasets_dir() / "swe-bench")
            )
        how = HOW[self.mode].format(script=self.reproduction_script)
        prompt = PROMPT.replace("{how}", how)
        return self._annexes.complete(SWEBenchInstance.from_row(row)).to_task(prompt)

    # --- environments

    def open_environment(self, task: SWEBenchTask, start: StartEnvironment) -> Environment:
        return checkout.open_virtualenv(self._setup(task), start)

    def open_grading_environment(self, task: SWEBenchTask, start: StartEnvironment) -> Environment:
        setup = self._setup(task)
        mounts = self._tool(task).mounts() if self.coverage else {}

        def with_mounts(spec: EnvironmentSpec) -> Environment:
            return start(replace(spec, mounts={**spec.mounts, **mounts}))

        return ReopenedMachine(lambda: checkout.open_virtualenv(setup, with_mounts))

    def _setup(self, task: SWEBenchTask) -> checkout.PythonSetup:
        return task["instance"].setup(self.source_kind, self.repositories, self.interpreters)

    def _tool(self, task: SWEBenchTask) -> CoverageTool:
        return coverage_tool(self._setup(task).environment().python)

    # --- submissions

    def known(self, task: SWEBenchTask) -> Known:
        instance = task["instance"]
        return Known(instance.test_patch, instance.test_patch, instance.fail_to_pass)

    def gold(self, task: SWEBenchTask) -> Submission | None:
        """The golden test patch; there is none for reproduction scripts."""
        if self.mode == "reproduction":
            return None
        return Submission(text=task["instance"].test_patch, form="model_patch")

    def mutants(self, task: SWEBenchTask) -> Iterable[Submission]:
        yield Submission(form="model_patch")
        files = [
            f.new for f in patches.parse(task["instance"].test_patch) if f.old is None and f.new
        ]
        if not files:
            yield Submission(text=task["instance"].patch, form="model_patch")

    def attacks(self, task: SWEBenchTask) -> Iterable[tuple[str, Submission]]:
        always = "def test_always():\n    pass\n"
        never = "def test_never():\n    assert False\n"
        for name, content in (
            ("a test that always passes", always),
            ("one that never does", never),
        ):
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
        submitted = self._pair(task, env, patch, patch)
        if submitted is None:
            return Verdict(False, "the patch does not apply", metrics={"patch_applied": False})
        base = self._pair(task, env, patch, "")
        assert base is not None
        judgement = judge(submitted, base)
        metrics: dict[str, JSON] = {
            "patch_exists": True,
            "mode": self.mode,
            "added_f2p": len(judgement.added_f2p),
            "f_to_p": bool(judgement.added_f2p),
            "f_to_x": judgement.fail_to_any,
            "p_to_p": judgement.added_p2p,
            "w": judgement.well_formed,
        }
        if self.coverage and self.mode == "unit_test":
            gold = self._pair(task, env, instance.test_patch, instance.test_patch)
            if gold is None:
                raise GraderError("the golden test patch does not apply to the base commit")
            fix = _as_applied(env, instance.patch)
            for name, pair in (("pred", submitted), ("gold", gold), ("base", base)):
                measured = change_coverage(fix, pair, base, gold)
                metrics[f"coverage_{name}"] = measured.coverage
                if name != "base":
                    metrics[f"coverage_delta_{name}"] = measured.delta
        evidence = {
            "before": dict(submitted.pre.statuses),
            "after": dict(submitted.post.statuses),
        }
        return Verdict(judgement.resolved, _why(judgement), metrics=metrics, evidence=evidence)

    def _pair(
        self, task: SWEBenchTask, env: ReopenedMachine, directed_by: str, tests: str
    ) -> Pair | None:
        """The test files of `directed_by`, with the patch `tests` in, without and with the fix."""
        runs = []
        for fix in ("", task["instance"].patch):
            with env.fresh() as inside:
                if not all(_applied(inside, patch) for patch in (tests, fix)):
                    return None
                runs.append(self._run(task, inside, directed_by))
        return Pair(*runs)

    def _run(self, task: SWEBenchTask, env: Machine, directed_by: str) -> Run:
        if self.mode == "reproduction":
            script = ["python", f"{TESTBED}/{self.reproduction_script}"]
            result = env.run_command(script, cwd=TESTBED, timeout=self.test_timeout)
            if result.timed_out:
                return Run()
            return Run({"reproduction_script": "FAILED" if result.exit_code else "PASSED"})
        instance = task["instance"]
        plan = instance.plan(timeout=self.test_timeout, in_official_image=False)
        plan = replace(plan, command=_directed(plan.command, instance, directed_by))
        if not self.coverage:
            return Run(run_plan(plan, env).trusted())
        files = [f.path for f in patches.parse(instance.patch) if f.path.endswith(".py")]
        tool = self._tool(task)
        outcome = run_plan(replace(plan, variables=tool.place(env, files, TESTBED)), env)
        return Run(outcome.trusted(), tool.read(env, TESTBED))

    def options(self) -> dict[str, JSON]:
        return {
            "split": self.split,
            "mode": self.mode,
            "coverage": self.coverage,
            "reproduction_script": self.reproduction_script,
            "source": self.source_kind,
            "repositories": self.repositories,
            "interpreters": dict(self.interpreters),
            "test_timeout": self.test_timeout,
        }


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


def _applied(env: Machine, patch: str) -> bool:
    if not patch.strip():
        return True
    if patches.reaches_into_git(patch):
        return False
    env.write_file("/tmp/change.diff", patch if patch.endswith("\n") else patch + "\n")
    command = "git apply --verbose --whitespace=nowarn /tmp/change.diff && rm /tmp/change.diff"
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
    official = directives(instance.test_patch, instance.repo)
    stem = command
    for name in official:
        stem = stem.replace(f" {name}", "")
    return " ".join([stem, *directives(directed_by, instance.repo)])


def _why(judgement: Judgement) -> str:
    if judgement.resolved:
        return ""
    if judgement.broken:
        return f"tests that passed before do not pass: {', '.join(sorted(judgement.broken)[:3])}"
    if judgement.still_failing:
        return f"fails even with the fix: {', '.join(sorted(judgement.still_failing)[:3])}"
    return "no test fails without the fix and passes with it"
