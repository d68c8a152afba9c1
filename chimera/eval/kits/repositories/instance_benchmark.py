"""What the benchmarks on SWE-bench's instances have in common."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chimera.eval.benchmark import StartEnvironment
from chimera.eval.data.rows import Row
from chimera.eval.kits.repositories.benchmark import PatchBenchmark, PythonOptions
from chimera.eval.kits.repositories.checkout import PythonSetup
from chimera.eval.kits.repositories.swe_instance import (
    Annexes,
    SourceKind,
    SWEBenchInstance,
    SWEBenchTask,
)
from chimera.eval.options import option


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
