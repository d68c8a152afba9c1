"""SWE-bench Lite: an issue of a real repository, decided by the tests that came with its fix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from chimera.environments.base import Environment
from chimera.errors import UsageError
from chimera.eval.benchmark import Export, StartEnvironment
from chimera.eval.benchmarks._swe_bench.official_report import export
from chimera.eval.data.rows import Row
from chimera.eval.kits.reports.swebench_logs import RELEASES, Version
from chimera.eval.kits.repositories import checkout
from chimera.eval.kits.repositories.agents import SWEBenchConfig, prepared
from chimera.eval.kits.repositories.patch_benchmark import Known, PatchBenchmark
from chimera.eval.kits.repositories.patch_tests import grade_patch
from chimera.eval.kits.repositories.swe_instance import (
    Annexes,
    SourceKind,
    SWEBenchInstance,
    SWEBenchTask,
    interpreters_named,
)
from chimera.eval.values import Submission, Verdict
from chimera.types import JSON

if TYPE_CHECKING:
    pass

__all__ = ["SWEBench", "SWEBenchConfig", "SWEBenchInstance", "SWEBenchTask", "prepared"]

PROMPT = """\
The directory /testbed holds a checkout of the repository {repo}. Resolve the issue below by \
changing its code. The change is taken from the working tree as it is when you stop; it will be \
judged by tests that you cannot see, so do not change tests to make them pass.

<issue>
{problem_statement}
</issue>
"""

Images = Literal["auto", "official", "local"]


class SWEBench(PatchBenchmark[SWEBenchTask]):
    slug = "swe-bench"
    setup = "Download the Lite split (300 instances) of SWE-bench into it, as JSONL or Parquet."
    files = ("swe_bench_lite.{split}.jsonl.gz", "swe_bench_lite.{split}.jsonl", "{split}.parquet",
             "{split}.jsonl", "{split}.json")  # fmt: skip
    grader_version = 1
    exports: ClassVar[Mapping[str, Export]] = {"swe-bench": export}

    config: SWEBenchConfig

    def __init__(
        self,
        dataset_path: str | Path | None = None,
        limit: int | None = None,
        split: str = "test",
        *,
        source: SourceKind = "auto",
        repositories: str | None = None,
        images: Images = "auto",
        base_image: str = "debian:bookworm-slim",
        keep_images: bool = False,
        interpreters: Sequence[str] | None = None,
        test_timeout: float = 1800.0,
        rule: Version = "5.0",
    ) -> None:
        super().__init__(dataset_path, limit)
        if rule not in RELEASES:
            raise UsageError(f"rule must be one of {', '.join(RELEASES)}, got {rule!r}")
        if source not in ("auto", "sdist", "git"):
            raise UsageError(f"source must be auto, sdist or git, got {source!r}")
        if images not in ("auto", "official", "local"):
            raise UsageError(f"images must be auto, official or local, got {images!r}")
        self.config = SWEBenchConfig.for_lite()
        self.split = split
        self.source_kind = source
        self.repositories = repositories
        self.images = images
        self.base_image = base_image
        self.keep_images = keep_images
        self.interpreters = interpreters_named(interpreters)
        self.test_timeout = test_timeout
        self.rule: Version = rule
        self._annexes: Annexes | None = None
        self._pullable: dict[str, bool] = {}
        self._added: list[SWEBenchInstance] = []

    # --- tasks

    @property
    def instances(self) -> list[SWEBenchInstance]:
        return [task["instance"] for task in self.tasks()]

    def add_instance(self, instance: SWEBenchInstance) -> None:
        """One more instance; with at least one added, no data set is needed."""
        self._added.append(instance)
        self._tasks = None

    def source(self) -> Path:
        place = self.place()
        if place.is_dir():
            for name in (pattern.format(split=self.split) for pattern in self.files):
                if (place / name).exists():
                    return place / name
            raise self._missing(place)
        return place

    def rows(self) -> Iterator[Row]:
        if self._added and self.dataset_path is None:
            return iter(())
        return super().rows()

    def tasks(self) -> Sequence[SWEBenchTask]:
        if self._tasks is None:
            added = [instance.to_task(PROMPT) for instance in self._added]
            loaded = [] if self._added and self.dataset_path is None else list(self._load())
            self._tasks = [*loaded, *added]
        return self._tasks

    def dataset_digest(self) -> str:
        if self._added and self.dataset_path is None:
            from chimera.cache import digest

            return digest([instance.instance_id for instance in self._added])
        return super().dataset_digest()

    def task(self, row: Row) -> SWEBenchTask:
        if self._annexes is None:
            self._annexes = Annexes.beside(self.source())
        return self._annexes.complete(SWEBenchInstance.from_row(row)).to_task(PROMPT)

    # --- environments

    def open_environment(self, task: SWEBenchTask, start: StartEnvironment) -> Environment:
        instance = task["instance"]
        if getattr(start, "backend", "") != "docker":
            return checkout.open_virtualenv(self._setup(instance), start)
        from chimera.eval.benchmarks._swe_bench.images import local_image, official_image

        if self._official(instance):
            official_image(instance.image_name, keep=self.keep_images)
            env = checkout.open_image(instance.image_name, start)
            try:
                checkout.hide_history(env)
            except BaseException:
                env.close()
                raise
            return env
        image = local_image(
            self._setup(instance), base_image=self.base_image, keep=self.keep_images
        )
        packages = self._setup(instance).environment()
        return checkout.open_image(image, start, variables=packages.variables())

    def _setup(self, instance: SWEBenchInstance) -> checkout.PythonSetup:
        return instance.setup(self.source_kind, self.repositories, self.interpreters)

    def _official(self, instance: SWEBenchInstance) -> bool:
        """Official images where they are wanted or can be had, or where none can be built."""
        if self.images != "auto" or not instance.requirement:
            return self.images != "local"
        if instance.image_name not in self._pullable:
            from chimera.eval.benchmarks._swe_bench.images import official_image

            here = official_image(instance.image_name, keep=self.keep_images)
            self._pullable[instance.image_name] = here
        return self._pullable[instance.image_name]

    # --- submissions

    def known(self, task: SWEBenchTask) -> Known:
        instance = task["instance"]
        return Known(instance.patch, instance.test_patch, instance.fail_to_pass)

    # --- grading

    def grade(self, task: SWEBenchTask, submission: Submission, env: Environment) -> Verdict:
        instance = task["instance"]
        official = env.name == "docker" and self._official(instance)
        plan = instance.plan(timeout=self.test_timeout, in_official_image=official, rule=self.rule)
        verdict = grade_patch(plan, submission.text, env)
        if official or not instance.python:
            return verdict
        return replace(verdict, metrics={**verdict.metrics, **self._rebuilt(instance)})

    def _rebuilt(self, instance: SWEBenchInstance) -> Mapping[str, JSON]:
        """What a reader must know of an environment that is not the official image."""
        missing = self._setup(instance).environment().missing
        notes: dict[str, JSON] = {"environment": "rebuilt"}
        if missing:
            notes["missing_pins"] = list(missing)
        return notes

    # --- agents

    def options(self) -> dict[str, JSON]:
        return {
            "split": self.split,
            "source": self.source_kind,
            "repositories": self.repositories,
            "images": self.images,
            "base_image": self.base_image,
            "interpreters": dict(self.interpreters),
            "test_timeout": self.test_timeout,
            **({} if self.rule == "5.0" else {"rule": self.rule}),
            "max_steps": self.config.max_steps,
            "ipython": self.config.ipython,
            "condense_every_n_steps": self.config.condense_every_n_steps,
        }
