"""What benchmarks have in common whose answer is a patch of a repository."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from chimera.agents.base import Agent
from chimera.environments.base import Environment, EnvironmentSpec, machine
from chimera.environments.reopened import ReopenedMachine
from chimera.errors import EnvironmentFault, UsageError
from chimera.eval.benchmark import Lack, StartEnvironment, TaskT
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.kits.patches import diffs
from chimera.eval.kits.patches.hostile import hostile_patches
from chimera.eval.kits.patches.weaker import weaker
from chimera.eval.kits.repositories import checkout
from chimera.eval.kits.repositories.agents import SWEBenchConfig, configured_agent
from chimera.eval.kits.repositories.source import Source, out_of_reach
from chimera.eval.kits.repositories.virtualenvs import TESTBED, find_interpreter, minor
from chimera.eval.options import Options, option
from chimera.eval.preflight import lacking_images
from chimera.eval.values import Submission
from chimera.types import JSON, AgentResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryOptions(Options):
    repositories: str | None = option(
        None, "a directory with clones of the repositories, or copies of them"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonOptions(RepositoryOptions):
    interpreters: Sequence[str] | None = option(
        None, "interpreters beside those of PATH and pyenv: `3.9=/opt/py39/bin/python`, …"
    )

    def __post_init__(self) -> None:
        Options.__post_init__(self)
        self.interpreter_paths()

    def interpreter_paths(self) -> dict[str, str]:
        """Version → path."""
        pairs = {}
        for text in self.interpreters or ():
            version, separator, path = text.partition("=")
            if not separator:
                raise UsageError(f"interpreters: expected VERSION=PATH, got {text!r}")
            pairs[version] = path
        return pairs

    def outcome(self) -> dict[str, JSON]:
        return {**Options.outcome(self), "interpreters": self.interpreter_paths()}


#: A file that no project has.
UNTOUCHED = "chimera-untouched.txt"


@dataclass(frozen=True, slots=True)
class Reference:
    """What is known of a task's answer. `gold` is empty where there is none."""

    gold: str
    test_patch: str
    fail_to_pass: Sequence[str]


class PatchBenchmark(DatasetBenchmark[TaskT]):
    """An agent works on a checkout at TESTBED; what it changed is graded on a fresh one."""

    trials_per_core: ClassVar[int] = 1
    grading = "fresh"
    environments: Sequence[str] = ("docker", "bubblewrap")
    default_agent: ClassVar[str] = "react"

    @cached_property
    def config(self) -> SWEBenchConfig:
        """How an agent works on a task."""
        return SWEBenchConfig.for_lite()

    @abstractmethod
    def reference(self, task: TaskT) -> Reference: ...

    def code(self, task: TaskT, backend: str) -> Source | None:
        """Where the code of the task comes from; None where an image has it."""
        return None

    def images(self, task: TaskT, backend: str) -> Sequence[str]:
        """What a container of the task starts from, where that is pulled."""
        return ()

    def interpreter(self, task: TaskT, backend: str) -> str:
        """The CPython of this machine that the task's packages are installed for; "": none is."""
        return ""

    def out_of_reach(self, tasks: Sequence[TaskT], backend: str) -> Sequence[Lack]:
        images = ((task["id"], image) for task in tasks for image in self.images(task, backend))
        return [
            *lacking_images(images),
            *self._lacking_code(tasks, backend),
            *self._lacking_interpreters(tasks, backend),
        ]

    def _lacking_interpreters(self, tasks: Sequence[TaskT], backend: str) -> Iterator[Lack]:
        wanted: dict[str, list[str]] = {}
        for task in tasks:
            if version := self.interpreter(task, backend):
                wanted.setdefault(minor(version), []).append(task["id"])
        if not wanted:
            return
        assert isinstance(self.settings, PythonOptions)
        named = self.settings.interpreter_paths()
        for version, ids in sorted(wanted.items()):
            try:
                find_interpreter(version, named)
            except UsageError as error:
                yield Lack(f"CPython {version}", str(error), frozenset(ids))

    def _lacking_code(self, tasks: Sequence[TaskT], backend: str) -> Iterator[Lack]:
        found: dict[tuple[str, str], list[str]] = {}
        for task in tasks:
            try:
                source = self.code(task, backend)
            except EnvironmentFault as error:  # clones were named, and this one is not among them
                found.setdefault(("code", str(error)), []).append(task["id"])
                continue
            if lacking := source and out_of_reach(source):
                reason = (f"code from {lacking.place}", lacking.why)
                found.setdefault(reason, []).append(task["id"])
        for (what, why), ids in found.items():
            remedy = f"{why}; name a directory with clones: --option repositories=DIRECTORY"
            yield Lack(what, remedy, frozenset(ids))

    def environment(self, task: TaskT) -> EnvironmentSpec:
        return EnvironmentSpec(needs=frozenset({"commands"}), workdir=TESTBED)

    def open_grading_environment(self, task: TaskT, start: StartEnvironment) -> Environment:
        """One that can be had anew: a pass is tried again on the tests' twin."""
        return ReopenedMachine(lambda: machine(self.open_environment(task, start)))

    def extract(self, task: TaskT, reply: str) -> Submission:
        return checkout.reply_submission(reply)

    def collect(self, task: TaskT, result: AgentResult, env: Environment) -> Submission:
        return checkout.tree_submission(env, result.output)

    def gold(self, task: TaskT) -> Submission | None:
        gold = self.reference(task).gold
        return Submission(text=gold, form="model_patch") if gold else None

    def untouched(self, task: TaskT, env: Environment) -> Submission:
        """A patch that changes no code: an empty one is refused before any test runs."""
        return Submission(text=diffs.new_file(UNTOUCHED, "nothing\n"), form="model_patch")

    def mutants(self, task: TaskT) -> Iterable[Submission]:
        """The gold patch with a part of it left out, or one statement changed."""
        for patch in weaker(self.reference(task).gold):
            yield Submission(text=patch, form="model_patch")

    def attacks(self, task: TaskT) -> Iterable[tuple[str, Submission]]:
        """Patches that try to pass without a fix; each must fail."""
        reference = self.reference(task)
        for name, patch in hostile_patches(reference.test_patch, reference.fail_to_pass):
            yield name, Submission(text=patch, form="model_patch")

    def prepare_agent(self, agent: Agent) -> Agent:
        return configured_agent(agent, self.config)
