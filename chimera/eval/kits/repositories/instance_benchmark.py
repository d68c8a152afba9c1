"""What the benchmarks on SWE-bench's instances have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from chimera.environments.base import Environment, EnvironmentSpec, Machine
from chimera.environments.engine import Engine
from chimera.eval.benchmark import StartEnvironment
from chimera.eval.data.rows import Row
from chimera.eval.kits.repositories import checkout
from chimera.eval.kits.repositories.benchmark import PatchBenchmark, PythonOptions
from chimera.eval.kits.repositories.checkout import PythonSetup
from chimera.eval.kits.repositories.images import local_image, official_image, pullable
from chimera.eval.kits.repositories.source import Source
from chimera.eval.kits.repositories.swe_instance import (
    Annexes,
    SourceKind,
    SWEBenchInstance,
    SWEBenchTask,
)
from chimera.eval.options import option
from chimera.types import JSON

Images = Literal["auto", "official", "local"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceOptions(PythonOptions):
    source: SourceKind = option(
        "auto",
        "where code comes from: a clone, the code host or else a source distribution; the "
        "distribution; or git",
    )
    test_timeout: float = option(1800.0, "seconds for one run of the tests")
    setup_timeout: float | None = option(
        None,
        "seconds for each step that sets a repository up (fetching, installing); by default each "
        "has its own, 5 to 30 minutes",
        outcome=False,
        least=0,
    )
    images: Images = option("auto", "official images where they can be had, always, or never")
    base_image: str = option("debian:bookworm-slim", "what images are built from")
    keep_images: bool = option(False, "keep all images, not the youngest eight", outcome=False)


class InstanceBenchmark(PatchBenchmark[SWEBenchTask]):
    """Instances with their annexes, set up as Python projects."""

    settings: InstanceOptions
    _annexes: Annexes | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_annexes": None}

    def prompt(self) -> str:
        """What an agent is told, with `{repo}` and `{problem_statement}` in it."""
        raise NotImplementedError

    def task(self, row: Row) -> SWEBenchTask:
        if self._annexes is None:
            self._annexes = self.annexes(self.dataset().source())
        return self._annexes.complete(SWEBenchInstance.from_row(row)).to_task(self.prompt())

    def annexes(self, source: Path) -> Annexes:
        return Annexes.beside(source)

    def check_task(self, task: SWEBenchTask, start: StartEnvironment) -> None:
        """Some rows do not say how they are tested: nobody should be paid for them."""
        task["instance"].plan(timeout=self.settings.test_timeout, in_official_image=False)

    def setup_of(self, instance: SWEBenchInstance) -> PythonSetup:
        settings = self.settings
        interpreters = settings.interpreter_paths()
        setup = instance.setup(settings.source, settings.repositories, interpreters)
        return replace(setup, step_seconds=settings.setup_timeout)

    # --- environments

    def fitting_environments(self, task: SWEBenchTask) -> Sequence[str]:
        """An instance whose packages are not known has its image alone."""
        return self.environments if task["instance"].python else ("docker",)

    def code(self, task: SWEBenchTask, backend: str) -> Source | None:
        set_up = self.interpreter(task, backend)
        return self.setup_of(task["instance"]).source if set_up else None

    def interpreter(self, task: SWEBenchTask, backend: str) -> str:
        instance = task["instance"]
        official = self._starts_from(instance, backend) == instance.image_name
        return "" if official else instance.python

    def images(self, task: SWEBenchTask, backend: str) -> Sequence[str]:
        image = self._starts_from(task["instance"], backend)
        return (image,) if image else ()

    def _starts_from(self, instance: SWEBenchInstance, backend: str) -> str:
        """The image to be pulled in a backend: the official one, or what one is built on."""
        if backend != "docker":
            return ""
        known = instance.requirement or instance.python
        if self.settings.images == "local" and known:
            return self.settings.base_image
        if self.settings.images == "official" or not known:
            return instance.image_name
        absent = Engine.find().unobtainable(instance.image_name)
        return self.settings.base_image if absent else instance.image_name

    def open_environment(self, task: SWEBenchTask, start: StartEnvironment) -> Environment:
        return self.open_instance(task["instance"], start)

    def open_instance(
        self,
        instance: SWEBenchInstance,
        start: StartEnvironment,
        *,
        mounts: Mapping[str, str] | None = None,
    ) -> Machine:
        """The instance's checkout: in its official image, in one built here, or beside none."""
        if start.backend != "docker":
            return checkout.open_virtualenv(self.setup_of(instance), start, mounts=mounts)
        if self.in_official_image(instance, start.backend):
            image = instance.image_name
            official_image(image, keep=self.settings.keep_images)
            hide = checkout.hide_history
            return checkout.open_image(image, start, mounts=mounts, prepare=hide)
        variables = self.setup_of(instance).environment().variables()
        return checkout.open_image(
            self._local_image(instance), start, variables=variables, mounts=mounts
        )

    def graded_in(self, task: SWEBenchTask, start: StartEnvironment) -> JSON:
        return self.instance_identity(task["instance"], start)

    def instance_identity(
        self,
        instance: SWEBenchInstance,
        start: StartEnvironment,
        *,
        mounts: Mapping[str, str] | None = None,
    ) -> JSON:
        """What decides in `open_instance` beside the answer."""
        if start.backend != "docker":
            return checkout.virtualenv_identity(self.setup_of(instance), start, mounts=mounts)
        official = self.in_official_image(instance, start.backend)
        image = instance.image_name if official else self._local_image(instance)
        return start.identity(EnvironmentSpec(image=image, mounts=dict(mounts or {})))

    def _local_image(self, instance: SWEBenchInstance) -> str:
        settings = self.settings
        return local_image(
            self.setup_of(instance), base_image=settings.base_image, keep=settings.keep_images
        )

    def in_official_image(self, instance: SWEBenchInstance, backend: str) -> bool:
        """Official images where they are wanted or can be had, or where none can be built."""
        if backend != "docker":
            return False
        if self.settings.images != "auto" or not (instance.requirement or instance.python):
            return self.settings.images != "local"
        return pullable(instance.image_name, keep=self.settings.keep_images)
