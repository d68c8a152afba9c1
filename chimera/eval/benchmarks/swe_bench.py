"""SWE-bench Lite: an issue of a real repository, decided by the tests that came with its fix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from chimera.agents.base import Agent
from chimera.environments.base import Environment, EnvironmentSpec
from chimera.errors import UsageError
from chimera.eval.benchmark import StartEnvironment
from chimera.eval.datasets import DatasetBenchmark, Row
from chimera.eval.graders.patch_tests import grade_patch
from chimera.eval.reports.swebench_logs import RELEASES, Version
from chimera.eval.repositories import checkout, patches
from chimera.eval.repositories.hostile import hostile_patches
from chimera.eval.repositories.swe_instance import (
    Annexes,
    SourceKind,
    SWEBenchInstance,
    SWEBenchTask,
    interpreters_named,
)
from chimera.eval.repositories.virtualenvs import TESTBED
from chimera.eval.types import Submission, Verdict
from chimera.types import JSON, AgentResult

if TYPE_CHECKING:
    from chimera.agents.compaction import SummaryCompaction
    from chimera.providers.base import Provider
    from chimera.tools.base import Tool

__all__ = ["SWEBench", "SWEBenchConfig", "SWEBenchInstance", "SWEBenchTask"]

PROMPT = """\
The directory /testbed holds a checkout of the repository {repo}. Resolve the issue below by \
changing its code. The change is taken from the working tree as it is when you stop; it will be \
judged by tests that you cannot see, so do not change tests to make them pass.

<issue>
{problem_statement}
</issue>
"""

Images = Literal["auto", "official", "local"]


@dataclass(frozen=True, slots=True)
class SWEBenchConfig:
    """How an agent works on an instance."""

    variant: Literal["lite", "verified"] = "verified"
    max_steps: int = 500
    ipython: bool = True
    condense_every_n_steps: int = 25
    condense_keep_first: int = 2
    condense_keep_last: int = 20
    extra_tools: tuple[Tool, ...] = ()

    def __post_init__(self) -> None:
        if self.variant not in ("lite", "verified"):
            raise UsageError(f"variant must be 'lite' or 'verified', got {self.variant!r}")
        if self.max_steps < 1:
            raise UsageError(f"max_steps must be at least 1, got {self.max_steps}")
        for name in ("condense_every_n_steps", "condense_keep_first", "condense_keep_last"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} must not be negative, got {getattr(self, name)}")

    @classmethod
    def for_lite(cls) -> SWEBenchConfig:
        return cls(variant="lite", max_steps=100, ipython=False, condense_every_n_steps=0)

    @classmethod
    def for_verified(cls) -> SWEBenchConfig:
        return cls()

    def should_condense(self, step: int) -> bool:
        """Whether the conversation is condensed before this step."""
        every = self.condense_every_n_steps
        return every > 0 and step > 0 and step % every == 0

    def build_ipython_tool(self) -> Tool | None:
        if not self.ipython:
            return None
        from chimera.tools.ipython import IPythonTool

        return IPythonTool()

    def build_condensation(self, provider: Provider | None = None) -> SummaryCompaction:
        """How a long conversation is made short; with a provider the model writes the summary."""
        from chimera.agents.compaction import SummaryCompaction

        return SummaryCompaction(
            provider, keep_first=self.condense_keep_first, keep_last=self.condense_keep_last
        )


class SWEBench(DatasetBenchmark[SWEBenchTask]):
    slug = "swe-bench"
    trials_per_core = 1
    setup = "Download the Lite split (300 instances) of SWE-bench into it, as JSONL or Parquet."
    files = ("swe_bench_lite.{split}.jsonl.gz", "swe_bench_lite.{split}.jsonl", "{split}.parquet",
             "{split}.jsonl", "{split}.json")  # fmt: skip
    grading = "fresh"
    environments = ("docker", "bubblewrap")
    default_agent = "react"
    grader_version = 1

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
            from chimera.eval.repositories.cache import digest

            return digest([instance.instance_id for instance in self._added])
        return super().dataset_digest()

    def task(self, row: Row) -> SWEBenchTask:
        if self._annexes is None:
            self._annexes = Annexes.beside(self.source())
        return self._annexes.complete(SWEBenchInstance.from_row(row)).to_task(PROMPT)

    # --- environments

    def environment(self, task: SWEBenchTask) -> EnvironmentSpec:
        return EnvironmentSpec(needs=frozenset({"commands"}), workdir=TESTBED)

    def open_environment(self, task: SWEBenchTask, start: StartEnvironment) -> Environment:
        instance = task["instance"]
        if getattr(start, "backend", "") != "docker":
            return checkout.open_virtualenv(self._setup(instance), start)
        from chimera.eval.repositories.images import local_image, official_image

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

    open_grading_environment = open_environment

    def _setup(self, instance: SWEBenchInstance) -> checkout.PythonSetup:
        return instance.setup(self.source_kind, self.repositories, self.interpreters)

    def _official(self, instance: SWEBenchInstance) -> bool:
        """Official images where they are wanted or can be had, or where none can be built."""
        if self.images != "auto" or not instance.requirement:
            return self.images != "local"
        if instance.image_name not in self._pullable:
            from chimera.eval.repositories.images import official_image

            here = official_image(instance.image_name, keep=self.keep_images)
            self._pullable[instance.image_name] = here
        return self._pullable[instance.image_name]

    # --- submissions

    def extract(self, task: SWEBenchTask, reply: str) -> Submission:
        return checkout.reply_submission(reply)

    def collect(self, task: SWEBenchTask, result: AgentResult, env: Environment) -> Submission:
        return checkout.tree_submission(env, result.output)

    def gold(self, task: SWEBenchTask) -> Submission | None:
        patch = task["instance"].patch
        return Submission(text=patch, form="model_patch") if patch else None

    def mutants(self, task: SWEBenchTask) -> Iterable[Submission]:
        """Nothing at all, and the gold patch without its largest hunk of code."""
        yield Submission(form="model_patch")
        index = largest_hunk(task["instance"].patch)
        shorter = patches.without_hunk(task["instance"].patch, index)
        if shorter:
            yield Submission(text=shorter, form="model_patch")

    def attacks(self, task: SWEBenchTask) -> Iterable[tuple[str, Submission]]:
        """Patches that try to pass without a fix; each must fail."""
        instance = task["instance"]
        for name, patch in hostile_patches(instance.test_patch, instance.fail_to_pass):
            yield name, Submission(text=patch, form="model_patch")

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

    def prepare_agent(self, agent: Agent) -> Agent:
        return prepared(agent, self.config)

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


def prepared(agent: Agent, config: SWEBenchConfig) -> Agent:
    """A copy of a react agent with the configuration's steps, tools and condensation.

    A number of steps that was asked for stays; other kinds of agents are left as they are.
    """
    from chimera.agents.react import ReactAgent

    if not isinstance(agent, ReactAgent):
        return agent
    tools = [tool for tool in agent.tools if _tool_name(tool) != "ipython"]
    ipython = config.build_ipython_tool()
    more = (*([ipython] if ipython else []), *config.extra_tools)
    default = next(f.default for f in fields(ReactAgent) if f.name == "max_steps")
    asked = agent.max_steps != default
    loop = replace(
        agent.loop,
        compaction=config.build_condensation(agent.provider),
        condense_every_n_steps=config.condense_every_n_steps,
    )
    return replace(
        agent,
        tools=(*tools, *more),
        loop=loop,
        max_steps=agent.max_steps if asked else config.max_steps,
    )


def _tool_name(tool: str | Tool) -> str:
    return tool if isinstance(tool, str) else tool.name


def largest_hunk(patch: str) -> int:
    """The number of the hunk that changes most lines of program code."""
    best, best_size, number = 0, -1, 0
    for file in patches.parse(patch):
        is_code = file.path.endswith((".py", ".js", ".ts", ".java")) and "doc" not in file.path
        for hunk in file.hunks:
            size = (len(hunk.added) + len(hunk.removed)) if is_code else 0
            if size > best_size:
                best, best_size = number, size
            number += 1
    return best
