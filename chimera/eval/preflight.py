"""What will certainly fail, said before the first model call and all at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from chimera.environments import available, backend_class, missing_capabilities
from chimera.errors import ChimeraError, StoreError, UsageError
from chimera.eval.benchmark import Benchmark, Lack
from chimera.eval.filed import those
from chimera.eval.runs.files import no_room_for
from chimera.providers import create_provider

#: How many tasks are asked what they need of their environment; those of a benchmark are alike.
ASKED_TASKS = 200


@dataclass(slots=True)
class Problems:
    """Collects what is wrong; `raise_all` says everything that was found."""

    found: list[ChimeraError] = field(default_factory=list)

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Keep what the block finds wrong instead of letting it end the checks."""
        try:
            yield
        except (UsageError, StoreError) as error:
            self.found.append(error)

    def add(self, *messages: str) -> None:
        self.found += map(UsageError, messages)

    def raise_all(self) -> None:
        if not self.found:
            return
        if len(self.found) == 1:
            raise self.found[0]
        lines = [f"{n}. {error}".replace("\n", "\n   ") for n, error in enumerate(self.found, 1)]
        raise UsageError(f"nothing was run: {len(lines)} things are wrong\n" + "\n".join(lines))


def backend_problems(
    benchmark: Benchmark[Any], backend: str, tasks: Sequence[Any]
) -> Iterator[str]:
    """Why the tasks cannot be run in this backend, if they cannot."""
    backend_class(backend)  # that there is one of this name
    if tuple(benchmark.environments) == ("none",):
        return  # it brings an environment of its own
    if reason := available(backend):
        yield f"the environment '{backend}' cannot be used here: {reason}"
    elif lacking := lacking_capabilities(benchmark, backend, tasks):
        yield (
            f"the environment '{backend}' does not offer what the tasks need "
            f"({', '.join(lacking)}); {benchmark.name()} runs in: "
            f"{', '.join(benchmark.environments)}"
        )


def lacking_capabilities(
    benchmark: Benchmark[Any], backend: str, tasks: Sequence[Any]
) -> list[str]:
    """What tasks need that a backend cannot give, where the benchmark starts it as it is."""
    if type(benchmark).open_environment is not Benchmark.open_environment:
        return []
    specs = map(benchmark.environment, tasks[:ASKED_TASKS])
    return sorted({each for spec in specs for each in missing_capabilities(backend, spec)})


def check_disk(folder: Path) -> None:
    """Raise where what a run writes would find no room."""
    place = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    if reason := no_room_for(place / "run"):
        raise StoreError(f"{reason}: make room, or point --runs-dir elsewhere")


def describe(lack: Lack, total: int) -> str:
    """A lack as one line for a person."""
    few = lack.tasks is not None and len(lack.tasks) < total
    concerned = f"{len(lack.tasks or ())} of {total} tasks need" if few else "the tasks need"
    return f"{concerned} {lack.what}: {lack.remedy}"


def runnable(tasks: Sequence[Any], lacks: Iterable[Lack]) -> Sequence[Any]:
    """The tasks that this machine has everything for."""
    lacking = list(lacks)
    if any(lack.tasks is None for lack in lacking):
        return []
    out = {task for lack in lacking for task in lack.tasks or ()}
    return those(tasks, lambda task: task["id"] not in out)


def lacking_packages(modules: Sequence[str], extra: str, purpose: str) -> list[Lack]:
    """The lack of Python packages that an extra of Chimera's installs."""
    if all(find_spec(module) is not None for module in modules):
        return []
    return [Lack(f"Python packages {purpose}", f"pip install 'chimera-eval[{extra}]'")]


def lacking_images(images: Iterable[tuple[str, str]]) -> list[Lack]:
    """Of (task, image): those that are not here and cannot be pulled, by what the engine says."""
    from chimera.environments import engine  # where no container is asked for, it is not needed

    if engine.availability() is not None:
        return []  # what there is to say of that is said elsewhere
    found: dict[str, dict[str, list[str]]] = {}
    for task, image in images:
        if fault := engine.Engine.find().unobtainable(image):
            found.setdefault(fault, {}).setdefault(image, []).append(task)
    return [
        Lack(
            f"the image {next(iter(tasks))}"
            + (f" and {len(tasks) - 1} others" if len(tasks) > 1 else ""),
            f"not here and not to be pulled ({fault})\n"
            f"  Name what to take instead with {engine.IMAGE_MAP}, a JSON object or a file with "
            "one; scripts/docker-base.sh makes stand-ins",
            frozenset(task for ids in tasks.values() for task in ids),
        )
        for fault, tasks in found.items()
    ]


def lacking_model(name: str, purpose: str, option: str) -> list[Lack]:
    """The lack of a model that is named and cannot be called, such as one without its key."""
    try:
        create_provider(name)
    except UsageError as error:
        return [Lack(f"{purpose} (--option {option}=SERVICE/MODEL)", str(error), kind="model")]
    return []


def lacking_judge(
    name: str | None, judged: frozenset[str], *, option: str = "judge_model"
) -> list[Lack]:
    """The lack of a model that decides these tasks: none was named, or it cannot be called."""
    if not judged:
        return []
    if name is not None:
        lacks = lacking_model(name, "a judge", option)
        return [replace(lack, tasks=judged, kind="judge") for lack in lacks]
    remedy = f"--option {option}=SERVICE/MODEL"
    return [Lack("a model that judges answers", remedy, judged, kind="judge")]
