"""SWE-bench Lite: an issue of a real repository, decided by the tests that came with its fix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import ClassVar

from chimera.cache import digest
from chimera.environments.base import Environment
from chimera.environments.wrapped import unwrapped
from chimera.eval.benchmark import Export
from chimera.eval.benchmarks._swe_bench.official_report import export
from chimera.eval.data.rows import Row
from chimera.eval.data.sources import HubFile, Item
from chimera.eval.kits.reports.swebench_logs import RELEASES, Version
from chimera.eval.kits.repositories.agents import SWEBenchConfig, configured_agent
from chimera.eval.kits.repositories.benchmark import Reference
from chimera.eval.kits.repositories.built import build_failure
from chimera.eval.kits.repositories.instance_benchmark import InstanceBenchmark, InstanceOptions
from chimera.eval.kits.repositories.patch_tests import grade_patch
from chimera.eval.kits.repositories.swe_instance import SWEBenchInstance, SWEBenchTask
from chimera.eval.kits.repositories.virtualenvs import minor
from chimera.eval.options import option
from chimera.eval.values import Submission, Verdict
from chimera.types import JSON

__all__ = ["SWEBench", "SWEBenchConfig", "SWEBenchInstance", "SWEBenchTask", "configured_agent"]

PROMPT = """\
The directory /testbed holds a checkout of the repository {repo}. Resolve the issue below by \
changing its code. The change is taken from the working tree as it is when you stop; it will be \
judged by tests that you cannot see, so do not change tests to make them pass.

<issue>
{problem_statement}
</issue>
"""


@dataclass(frozen=True, slots=True)
class SWEBenchOptions(InstanceOptions):
    split: str = option("test", "which file of the data set: `test`, `dev`")
    _: KW_ONLY
    rule: Version = option("5.0", "the release of swebench that decides", quiet=True)


class SWEBench(InstanceBenchmark):
    slug = "swe-bench"
    aliases: ClassVar[Sequence[str]] = ("swe-bench-lite", "swebench", "swebench-lite")
    description = "300 issues of Python repositories, decided by the tests of their fixes"
    setup = "Or put the Lite split (300 instances) of SWE-bench there, as JSONL or Parquet."
    files = ("swe_bench_lite.{split}.jsonl.gz", "swe_bench_lite.{split}.jsonl",
             "swe_bench_lite.{split}.parquet", "{split}.parquet", "{split}.jsonl",
             "{split}.json")  # fmt: skip
    sources = tuple(
        Item(
            f"swe_bench_lite.{split}.parquet",
            HubFile(
                "princeton-nlp/SWE-bench_Lite",
                f"data/{split}-00000-of-00001.parquet",
                "6ec7bb89b9342f664a54a6e0a6ea6501d3437cc2",
            ),
            sha256=sha256,
            size=size,
        )
        for split, sha256, size in (
            ("test", "7a21f37b8bc179c7db5beeb14e88ac538ba283455c776e6b2535bbfb6e3551b4", 1_119_540),
            ("dev", "8312f321838051849d2fa7c6ca071244733a3e90bb517ff6ca8186f722199b5c", 0),
        )
    )
    licence = "MIT"
    exports: ClassVar[Mapping[str, Export]] = {"swe-bench": export}
    needs = ("docker or bubblewrap", "packages of each instance")

    option_type = SWEBenchOptions
    settings: SWEBenchOptions

    _added: tuple[SWEBenchInstance, ...] = ()

    # --- tasks

    @property
    def instances(self) -> list[SWEBenchInstance]:
        return [task["instance"] for task in self.tasks()]

    def add_instance(self, instance: SWEBenchInstance) -> None:
        """One more instance; with at least one added, no data set is needed."""
        self._added = (*self._added, instance)
        self._tasks = None

    @property
    def _only_added(self) -> bool:
        return bool(self._added) and self.dataset_path is None

    def rows(self) -> Iterator[Row]:
        return iter(()) if self._only_added else super().rows()

    def tasks(self) -> Sequence[SWEBenchTask]:
        if self._tasks is None:
            added = [instance.to_task(PROMPT) for instance in self._added]
            self._tasks = [*([] if self._only_added else self._load()), *added]
        return self._tasks

    def dataset_digest(self) -> str:
        if self._only_added:
            return digest([instance.instance_id for instance in self._added])
        return super().dataset_digest()

    def prompt(self) -> str:
        return PROMPT

    # --- grading

    def reference(self, task: SWEBenchTask) -> Reference:
        instance = task["instance"]
        return Reference(instance.patch, instance.test_patch, instance.fail_to_pass)

    def grade(self, task: SWEBenchTask, submission: Submission, env: Environment) -> Verdict:
        instance, settings = task["instance"], self.settings
        official = self.in_official_image(instance, unwrapped(env).name)
        plan = instance.plan(
            timeout=settings.test_timeout, in_official_image=official, rule=settings.rule
        )
        packages: JSON = [instance.python, [*instance.pins], instance.requirement]
        environment = instance.image_name if official else packages
        tree = None if official or not instance.python else self.setup_of(instance).tree()
        plan = replace(plan, environment=environment)
        if tree is not None:
            plan = replace(plan, tree=tree.rebuilt(), bytecode=tree.bytecode())
        verdict = grade_patch(plan, submission.text, env)
        if tree is None:
            return verdict
        return replace(verdict, metrics={**verdict.metrics, **self._rebuilt(instance)})

    def _rebuilt(self, instance: SWEBenchInstance) -> Mapping[str, JSON]:
        """What a reader must know of an environment that is not the official image."""
        setup = self.setup_of(instance)
        packages, tree = setup.environment(), setup.tree()
        notes: dict[str, JSON] = {"environment": "rebuilt"}
        if (rebuilt := tree.rebuilt()) is not None:
            known, files = rebuilt.known_files(instance.patch, instance.test_patch)
            notes["base_files"] = f"{known} of {files}"
        if absent := tree.absent():
            notes["absent_files"] = list(absent)
        if packages.missing:
            notes["missing_pins"] = list(packages.missing)
        if minor(packages.version) != minor(instance.python):
            notes["python"] = f"{packages.version}, not {instance.python}"
        if failure := build_failure(tree.path):
            notes["build"] = failure
        return notes

    def graded_as(self) -> str:
        return f"swebench {RELEASES[self.settings.rule]}"

    def options(self) -> dict[str, JSON]:
        agent = ("max_steps", "ipython", "condense_every_n_steps")
        return {**super().options(), **{name: getattr(self.config, name) for name in agent}}
