"""FeatureBench: put a feature back that was taken out of a project, or write the package anew."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from chimera.environments.base import Environment, EnvironmentSpec, Machine
from chimera.errors import DatasetError, GraderError, UsageError
from chimera.eval.benchmark import StartEnvironment
from chimera.eval.benchmarks._feature_bench import pytest_summary
from chimera.eval.data.hub import hub_snapshot
from chimera.eval.data.rows import Row
from chimera.eval.data.sources import HubFile, Item
from chimera.eval.kits.patches import diffs
from chimera.eval.kits.patches.apply import Chain, apply_submission
from chimera.eval.kits.reports.report import FAILING, PASSING, Status
from chimera.eval.kits.repositories import checkout
from chimera.eval.kits.repositories.benchmark import PatchBenchmark, PythonOptions, Reference
from chimera.eval.kits.repositories.row_fields import commit_of_row, repository_of_row
from chimera.eval.kits.repositories.source import (
    FirstToBeHad,
    GitRepository,
    Patched,
    Source,
    SourceDistribution,
    clone_or_copy,
)
from chimera.eval.kits.repositories.swe_instance import CODE_HOST, test_ids
from chimera.eval.kits.repositories.twin_runs import Form, Tests, Tried, decide, put_form
from chimera.eval.kits.repositories.virtualenvs import TESTBED
from chimera.eval.kits.repositories.witness import Account, place_witness, read_account
from chimera.eval.options import option
from chimera.eval.values import Submission, Task, Verdict
from chimera.types import JSON

HUB = "LiberCoders/FeatureBench"
DEFAULT_COMMAND = "pytest -rA -p no:cacheprovider --color=no"
PROJECT = "/root/my_repo"  # the whole project in an official image
#: Official images have the project's Python in a conda environment.
ACTIVATE = "[ ! -f /opt/miniconda3/bin/activate ] || . /opt/miniconda3/bin/activate testbed; "
#: What a package that is written from nothing is installed by; the project's own come after it.
PACKAGING = frozenset({"setup.py", "setup.cfg", "pyproject.toml"})
APPLICATION = Chain(("git apply --whitespace=fix --verbose {file}",))


@dataclass(frozen=True, slots=True)
class Release:
    """A release whose files around a draft's feature are those of its base commit."""

    requirement: str
    python: str = ""  # where the draft itself names none
    pins: tuple[str, ...] = ()


RELEASES: Mapping[str, Release] = {
    "pydata/xarray@97f3a746": Release("xarray==2025.10.1"),
    "sympy/sympy@c1097516": Release(
        "sympy==1.14.0", "3.11", ("mpmath==1.3.0", "pytest==8.3.5", "hypothesis==6.82.6")
    ),
}

Split = Literal["full", "lite", "fast"]


class FeatureTask(Task):
    repo: str
    base_commit: str
    level: str
    start_patch: str  # removes the feature (and its tests)
    gold: str  # empty where the benchmark has none
    test_patch: str
    test_patch_removes: bool  # official rows: reversing it brings the tests back
    fail_to_pass: list[str]  # test files
    pass_to_pass: list[str]
    image: str
    test_command: str
    timeout: float
    timeout_one: int | None
    python: str
    pins: list[str]


@dataclass(frozen=True, slots=True)
class FeatureBenchOptions(PythonOptions):
    split: Split = option("lite", "which part of the data set")
    level_filter: Literal["lv1", "lv2"] | None = option(
        None, "only tasks that put a feature back, or only those that write a package"
    )


class FeatureBench(PatchBenchmark[FeatureTask]):
    slug = "feature-bench"
    aliases = ("featurebench",)
    description = "Put a feature back that was taken out of a project, or write the package anew"
    setup = "Or put FeatureBench (full, lite or fast) there, as JSONL or Parquet."
    sources = tuple(
        Item(
            f"{split}.parquet",
            HubFile(
                "LiberCoders/FeatureBench",
                f"data/{split}-00000-of-00001.parquet",
                "e99d6efdfe511ea832c1b5735c536129561ec96a",
            ),
            sha256=sha256,
        )
        for split, sha256 in (
            ("full", ""),
            ("lite", ""),
            ("fast", "e8a704f83d673e1cc78086eefb76bd56461ead8a65ca06fd6972f7363be8a775"),
        )
    )
    licence = "MIT"
    files = ("{split}.jsonl", "{split}.jsonl.gz", "{split}.parquet",
             "featurebench_draft_runnable.jsonl.gz")  # fmt: skip
    needs = ("docker; drafts: bubblewrap and packages",)

    option_type = FeatureBenchOptions
    settings: FeatureBenchOptions

    @classmethod
    def load_from_hub(
        cls, repository: str = HUB, *, revision: str | None = None, **options: Any
    ) -> Self:
        """The benchmark with its rows from the hub; `options` are those of the constructor."""
        split = FeatureBenchOptions(**options).split
        folder = hub_snapshot(repository, [f"*{split}*"], revision=revision)
        files = sorted(file for file in folder.rglob(f"*{split}*") if file.is_file())
        if not files:
            raise DatasetError(f"{repository} has no file of the split '{split}'")
        return cls(files[0], **options)

    def task(self, row: Row) -> FeatureTask | None:
        instance = str(row["instance_id"])
        level = instance.rpartition(".")[2]
        if level not in ("lv1", "lv2"):
            raise DatasetError(f"{instance}: an id ends in .lv1 or .lv2")
        if self.settings.level_filter not in (None, level):
            return None
        draft = "start_patch" in row
        if not draft and "patch" not in row:
            raise DatasetError(
                f"{instance}: the row has a statement but no patches; it cannot be run"
            )
        settings = _settings(row.get("repo_settings"))
        repo = repository_of_row(row)
        commit = commit_of_row(row) if row.get("base_commit") else ""
        release = _release(repo, commit) if draft else None
        files = row.get("test_files") if draft else test_ids(row["FAIL_TO_PASS"])
        return FeatureTask(
            id=instance,
            prompt=str(row["problem_statement"]),
            metadata={"level": level, "repo": repo, "draft": draft},
            repo=repo,
            base_commit=commit,
            level=level,
            start_patch=str(row["start_patch"] if draft else row["patch"]),
            gold=str(row["patch"]) if draft else _official_gold(row, level),
            test_patch=str(row["test_patch"]),
            test_patch_removes=not draft and level == "lv1",
            fail_to_pass=list(files or ()),
            pass_to_pass=[] if draft else list(test_ids(row.get("PASS_TO_PASS") or [])),
            image=str(row.get("image_name") or row.get("instance_image") or ""),
            test_command=_command(repo, settings, draft),
            timeout=float(settings.get("timeout_run", 600)),
            timeout_one=None if draft else int(settings.get("timeout_one", 10)),
            python=str(row.get("python") or (release.python if release else "")),
            pins=list(row.get("pins") or (release.pins if release else ())),
        )

    # --- environments

    def fitting_environments(self, task: FeatureTask) -> Sequence[str]:
        """Drafts have no image, and official rows nothing else."""
        return ("bubblewrap",) if task["python"] else ("docker",)

    def code(self, task: FeatureTask, backend: str) -> Source | None:
        return self._source(task) if task["python"] else None

    def interpreter(self, task: FeatureTask, backend: str) -> str:
        return task["python"]

    def images(self, task: FeatureTask, backend: str) -> Sequence[str]:
        return (task["image"],) if task["image"] and not task["python"] else ()

    def open_environment(self, task: FeatureTask, start: StartEnvironment) -> Environment:
        if task["python"]:
            return checkout.open_virtualenv(self._setup(task), start)
        if not task["image"]:
            raise UsageError(f"{task['id']}: neither an image nor Python pins are known for it")
        return checkout.open_image(task["image"], start, prepare=lambda env: _make_start(task, env))

    def graded_in(self, task: FeatureTask, start: StartEnvironment) -> JSON:
        if task["python"]:
            return checkout.virtualenv_identity(self._setup(task), start)
        return start.identity(EnvironmentSpec(image=task["image"]))

    def _setup(self, task: FeatureTask) -> checkout.PythonSetup:
        source = Patched(self._source(task), (task["start_patch"],))
        wanted = tuple(task["pins"])
        return checkout.PythonSetup(
            source, task["python"], (), self.settings.interpreter_paths(), wanted
        )

    def _source(self, task: FeatureTask) -> Source:
        if self.settings.repositories:
            names = (task["repo"], task["repo"].replace("/", "__"))
            return clone_or_copy(self.settings.repositories, names, task["base_commit"])
        hosted = GitRepository(CODE_HOST.format(repo=task["repo"]), task["base_commit"])
        release = _release(task["repo"], task["base_commit"])
        if release:
            return FirstToBeHad(hosted, SourceDistribution(release.requirement))
        return hosted

    # --- submissions

    def reference(self, task: FeatureTask) -> Reference:
        return Reference(task["gold"], task["test_patch"], task["fail_to_pass"])

    # --- grading

    def grade(self, task: FeatureTask, submission: Submission, env: Environment) -> Verdict:
        if not submission.text.strip():
            return _failed(task, "the submission is an empty patch")
        tests = Tests(
            lambda inside, patch, form: self._try(task, patch, inside, form),
            task["fail_to_pass"],
            task["gold"],
            lambda name: name.startswith(task["fail_to_pass"][0]),
            [task["id"], task["test_patch"], task["test_command"], task["image"], task["pins"]],
        )
        return decide(tests, submission.text, env)

    def _try(self, task: FeatureTask, patch: str, env: Machine, form: Form) -> Tried:
        """Run the tests on a patch, in one of their forms."""
        application = apply_submission(
            env,
            patch,
            root=TESTBED,
            test_paths=frozenset(task["fail_to_pass"][:1]),
            expected=(task["gold"], task["test_patch"]),
            allowed=PACKAGING if task["level"] == "lv2" else frozenset(),
            chain=APPLICATION,
            tree=self._setup(task).tree().rebuilt() if task["python"] else None,
        )
        if not application.applied:
            return Tried(_failed(task, "the patch does not apply"))
        if task["level"] == "lv2":
            _install_package(env)
        _bring_tests(task, env)
        target = task["fail_to_pass"][0]
        official = {target, *task["pass_to_pass"]} - {*application.changed}
        put_form(env, TESTBED, official, form)
        run = _run(task, env, target)
        others = {name: _run(task, env, name) for name in task["pass_to_pass"]}
        broken = [name for name, other in others.items() if other.why]
        why = run.why
        if broken and not why:
            why = f"existing tests fail: {', '.join(broken[:3])}"
        metrics: dict[str, JSON] = {
            "pass_rate": pytest_summary.pass_rate(run.statuses),
            "level": task["level"],
            **application.undone(),
            "f2p_exit_code": run.exit_code,
            "p2p_failed": len(broken),
        }
        if why and not (run.statuses or run.account.results):
            metrics["ran"] = False
        evidence = {"tests": run.statuses, "log": run.log[-100_000:]}
        verdict = Verdict(not why, why, score=float(not why), metrics=metrics, evidence=evidence)
        runs = [run, *others.values()]
        passed = frozenset[str]().union(*(each.passed for each in runs))
        return Tried(verdict, passed, frozenset[str]().union(*(each.failed for each in runs)))

    def graded_as(self) -> str:
        return "LiberCoders/FeatureBench (June 2026): fail-to-pass and pass-to-pass files"


def _failed(task: FeatureTask, why: str) -> Verdict:
    metrics: dict[str, JSON] = {"pass_rate": 0.0, "level": task["level"]}
    return Verdict(False, why, score=0.0, metrics=metrics)


def _release(repo: str, base_commit: str) -> Release | None:
    return RELEASES.get(f"{repo}@{base_commit[:8]}")


def summary(verdicts: Sequence[Verdict], total: int) -> dict[str, float]:
    """%Resolved and %Passed over all tasks of the split, not over those that were answered."""
    resolved = sum(verdict.passed for verdict in verdicts)
    passed = sum(float(verdict.metrics.get("pass_rate") or 0.0) for verdict in verdicts)
    return {"resolved": round(resolved / total, 4), "passed": round(passed / total, 4)}


@dataclass(frozen=True, slots=True)
class FileRun:
    """Tests of one file: what was seen, the exit code, and why it does not count, if so."""

    statuses: dict[str, Status]
    exit_code: int
    why: str
    log: str
    account: Account = Account()

    @property
    def passed(self) -> frozenset[str]:
        """Tests that the log or the witness has as passed."""
        results = [*self.statuses.items(), *self.account.results]
        return frozenset(name for name, status in results if status in PASSING)

    @property
    def failed(self) -> frozenset[str]:
        return frozenset(name for name, status in self.account.results if status in FAILING)


def _run(task: FeatureTask, env: Machine, file: str) -> FileRun:
    """Run one test file.

    Upstream takes exit code 0 as success; here at least one test must also be known to have passed.
    """
    witness = place_witness(env, "pytest")
    limit = f" --timeout={task['timeout_one']}" if task["timeout_one"] else ""
    command = witness.command(f"{task['test_command']}{limit} {shlex.quote(file)}")
    result = env.run_command(
        ["bash", "-c", f"( {ACTIVATE}{command} ) 2>&1"],
        cwd=TESTBED,
        timeout=task["timeout"],
        variables=witness.variables(),
        output_bytes=64 * 1024**2,
    )
    log = result.stdout.decode("utf-8", "replace")
    if task["repo"] == "pydantic/pydantic":
        statuses = pytest_summary.verbose(log)
    else:
        statuses = pytest_summary.summary(log, subtests=task["repo"].startswith("mesonbuild/"))
    account = read_account(env, witness)
    if result.timed_out:
        why = f"{file}: no end within {task['timeout']:g} s"
        return FileRun(statuses, result.exit_code, why, log, account)
    if result.exit_code != 0:
        failed = [name for name, status in statuses.items() if status in ("FAILED", "ERROR")]
        why = f"not passed: {', '.join(failed[:3]) or file}"
        return FileRun(statuses, result.exit_code, why, log, account)
    if not account.finished or not any(s in ("PASSED", "XFAIL") for _, s in account.results):
        why = f"{file}: the command ended with 0, but no test is known to have passed"
        return FileRun(statuses, 0, why, log, account)
    return FileRun(statuses, 0, "", log, account)


def _bring_tests(task: FeatureTask, env: Machine) -> None:
    env.write_file("/tmp/tests.diff", task["test_patch"].rstrip("\n") + "\n")
    target = shlex.quote(task["fail_to_pass"][0])
    reverse = " -R" if task["test_patch_removes"] else ""
    command = f"rm -f -- {target} && git apply{reverse} --whitespace=nowarn /tmp/tests.diff"
    _must(env, command, "the tests put in place")


def _install_package(env: Machine) -> None:
    """Level 2: what was written is installed, and the project's own files take its place."""
    env.run_command(["bash", "-c", f"{ACTIVATE}pip install ."], cwd=TESTBED, timeout=600)
    _must(env, f"rm -rf {TESTBED}/* && cp -r {PROJECT}/* {TESTBED}/", "the project restored")


def _make_start(task: FeatureTask, env: Machine) -> None:
    """The official starting state inside an official image: the project without the feature at
    level 1, nothing at level 2."""
    if task["level"] == "lv2":
        start = f"rm -rf {TESTBED}/* && echo '# A package to write' > {TESTBED}/README.md"
    else:
        env.write_file("/tmp/start.diff", task["start_patch"].rstrip("\n") + "\n")
        tests = " ".join(shlex.quote(name) for name in task["fail_to_pass"])
        start = (
            f"rm -rf {TESTBED}/* && cp -r {PROJECT}/* {TESTBED}/ && "
            f"git apply --whitespace=fix /tmp/start.diff && rm -f /tmp/start.diff && "
            f"rm -rf -- {tests}"
        )
    _must(env, start, "the starting state made")
    checkout.hide_history(env)


def _must(env: Machine, script: str, what: str) -> None:
    result = env.run_command(script, cwd=TESTBED, timeout=600)
    if result.exit_code != 0:
        raise GraderError(f"{what}: cannot be done: {result.output[-300:]}")


def _official_gold(row: Row, level: str) -> str:
    """Official rows carry the patch that removes the feature: gold is its reverse, for level 1."""
    if level != "lv1":
        return ""
    hidden = set(test_ids(row["FAIL_TO_PASS"]))
    kept = [f for f in diffs.parse(str(row["patch"])) if not ({f.old, f.new} & hidden)]
    return "".join(reverse(file) for file in kept)


def reverse(file: diffs.FilePatch) -> str:
    """The patch that undoes one file's patch."""
    swap = {"+": "-", "-": "+"}
    lines = []
    for line in file.text.split("\n")[:-1]:
        if line.startswith("--- "):
            lines.append("+++ " + _other_side(line[4:]))
        elif line.startswith("+++ "):
            lines.insert(len(lines) - 1, "--- " + _other_side(line[4:]))
        elif line.startswith("@@"):
            lines.append(re.sub(r"^@@ -(\S+) \+(\S+) @@", r"@@ -\2 +\1 @@", line))
        elif line.startswith("new file mode"):
            lines.append(line.replace("new file", "deleted file"))
        elif line.startswith("deleted file mode"):
            lines.append(line.replace("deleted file", "new file"))
        elif line.startswith("index "):
            continue
        else:
            lines.append(swap.get(line[:1], line[:1]) + line[1:])
    return "\n".join(lines) + "\n"


def _other_side(name: str) -> str:
    return {"a/": "b/", "b/": "a/"}.get(name[:2], name[:2]) + name[2:]


def _settings(value: Any) -> Mapping[str, Any]:
    if isinstance(value, str):
        value = json.loads(value)
    return value or {}


def _command(repo: str, settings: Mapping[str, Any], draft: bool) -> str:
    if repo == "pydantic/pydantic":
        return "pytest -rA -v --color=no"
    command = str(settings.get("test_cmd") or DEFAULT_COMMAND)
    if draft:  # the repository may ask for plug-ins that the draft does not pin
        command += " -o addopts="
    return f"uv run {command}" if settings.get("use_uv") else command
