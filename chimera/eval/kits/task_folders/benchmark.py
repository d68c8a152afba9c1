"""What benchmarks of task folders share: each task runs in a container of its own image."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from chimera.agents.base import Agent
from chimera.environments.base import (
    Environment,
    EnvironmentSpec,
    Machine,
    ResourceLimits,
    Service,
    machine,
)
from chimera.environments.clones import CODE_HOST, clone_at, cloned
from chimera.environments.engine import Engine
from chimera.environments.engine import availability as lacks_engine
from chimera.errors import EnvironmentFault, UsageError
from chimera.eval.benchmark import Lack, StartEnvironment
from chimera.eval.data.datasets import Dataset, DatasetBenchmark
from chimera.eval.data.rows import Row
from chimera.eval.kits.task_folders import attacks as harbor_attacks
from chimera.eval.kits.task_folders import verifier as harbor_verifier
from chimera.eval.kits.task_folders.compose import Composed, composed
from chimera.eval.kits.task_folders.folders import (
    HarborTask,
    folders_in,
    folders_source,
    load_task,
)
from chimera.eval.kits.task_folders.images import (
    base_images,
    named_hosts,
    unknown_host,
    with_base_images,
)
from chimera.eval.kits.task_folders.registry import registered
from chimera.eval.kits.task_folders.steps import SteppedMachine, SteppingAgent
from chimera.eval.kits.task_folders.verification import (
    PausedAtEnd,
    Verification,
    resume,
    set_up,
)
from chimera.eval.options import Options, option
from chimera.eval.preflight import lacking_images
from chimera.eval.values import Submission, Verdict
from chimera.types import JSON

#: How long a reference solution may take where the task sets no limit.
SOLUTION_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class HarborOptions(Options):
    tasks: Sequence[str] | None = option(None, "only these, by their ids")
    base_images: Sequence[str] | None = option(
        None,
        "`NAME=OTHER`: base images to take in place of others in Dockerfiles; results then carry "
        "`image: rebuilt`. `CHIMERA_DOCKER_IMAGE_MAP` works too",
    )
    network: bool | None = option(
        None, "whether the agent has a network; unset: what the task says"
    )
    time_factor: float = option(
        1.0, "multiplies the limits of agent and verifier; say so when you publish"
    )
    verifier_network: bool = option(
        True, "false: the container is cut off before the tests come in"
    )
    repositories: Path | None = option(
        None,
        "a directory with clones as OWNER/NAME: what Dockerfiles, solutions and registry files "
        "take from a code host is taken from it",
        outcome=False,
    )
    name: str | None = option(
        None,
        "NAME or NAME@VERSION: which data set of a registry file (registry.json) is read",
        quiet=True,
    )
    uv_cache: Path | None = option(
        None,
        "what uv installs from then: a `UV_CACHE_DIR` that the same uv filled elsewhere",
        outcome=False,
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", tuple(self.tasks or ()))
        object.__setattr__(self, "base_images", tuple(self.base_images or ()))
        Options.__post_init__(self)
        self.image_map()

    def image_map(self) -> dict[str, str]:
        return dict(_pair(pair) for pair in self.base_images or ())

    def outcome(self) -> dict[str, JSON]:
        return {**Options.outcome(self), "base_images": dict(self.image_map())}


def _pair(text: str) -> tuple[str, str]:
    name, equals, other = text.partition("=")
    if not (name and equals and other):
        raise UsageError(f"base_images: expected NAME=OTHER, got {text!r}")
    return name, other


class HarborBenchmark(DatasetBenchmark[HarborTask]):
    """A set of task folders.

    Where `base_images` replaces base images, the task's image is a rebuilt one, and results say so.
    """

    grading = "same"
    environments = ("docker",)
    needs = ("docker",)
    trials_per_core = 1
    grader_version = 2

    option_type = HarborOptions
    settings: HarborOptions

    def dataset(self) -> Dataset:
        return replace(super().dataset(), locate=folders_source)

    def rows(self) -> Iterator[Row]:
        source = self.dataset().source()
        folders = (
            registered(source, self.settings.name, self.settings.repositories)
            if source.name.endswith(".json")
            else folders_in(source)
        )
        yield from ({"directory": str(place)} for place in folders)

    def task(self, row: Row) -> HarborTask | None:
        place = Path(row["directory"])
        if self.settings.tasks and place.name not in self.settings.tasks:
            return None
        return load_task(place)

    def environment(self, task: HarborTask) -> EnvironmentSpec:
        context, uv_cache = self._build_context(task), self.settings.uv_cache
        if task["refused"]:
            raise EnvironmentFault(f"{task['id']} cannot be run here: it needs {task['refused']}")
        if context is None and not task["image"]:
            raise EnvironmentFault(f"{task['id']}: neither a Dockerfile nor an image")
        beside = composed(Path(task["compose"])) if task["compose"] else Composed()
        return EnvironmentSpec(
            needs=frozenset({"commands", "image", "root"}),
            image=None if context is not None else task["image"],
            build_context=context,
            workdir=task["workdir"] or None,
            network=task["network"] if self.settings.network is None else self.settings.network,
            variables=harbor_verifier.resolved(task["variables"]),
            mounts={str(uv_cache): harbor_verifier.UV_CACHE} if uv_cache else {},
            limits=_limits(task["cpus"], task["memory_mb"]),
            services=tuple(map(self._service, beside.services)),
            volumes=beside.volumes,
            clones=self.settings.repositories,
        )

    def _service(self, service: Service) -> Service:
        context = service.build_context
        if context is None:
            return service
        return replace(service, build_context=with_base_images(context, self._mapping()))

    def _build_context(self, task: HarborTask) -> Path | None:
        """What the image is built from; None for one that exists already."""
        if not task["context"] or (task["image"] and not self.settings.base_images):
            return None
        return with_base_images(Path(task["context"]), self._mapping())

    def _rebuilt(self, task: HarborTask) -> bool:
        """Whether the image is, or starts from, another than the task names."""
        context = self._build_context(task)
        return (
            task["image"] in self._mapping() if context is None else str(context) != task["context"]
        )

    def _mapping(self) -> dict[str, str]:
        from chimera.environments.engine import image_map

        return {**image_map(), **self.settings.image_map()}

    def open_environment(self, task: HarborTask, start: StartEnvironment) -> Environment:
        env = machine(start(self.environment(task)))
        try:
            set_up(task, env)
            if task["steps"]:
                return SteppedMachine(env, task, lambda at, own: self._verify_step(task, at, own))
        except BaseException:
            env.close()
            raise
        return PausedAtEnd(env)

    def prepare_agent(self, agent: Agent) -> Agent:
        if not any(task["steps"] for task in self.tasks()):
            return agent
        return SteppingAgent(agent, self.settings.time_factor)

    def missing(self, tasks: Sequence[HarborTask] | None = None) -> Sequence[Lack]:
        refused = {task["refused"]: task["id"] for task in tasks or () if task["refused"]}
        return [
            Lack(what, "not to be had here; leave it out (--exclude)", frozenset({name}))
            for what, name in refused.items()
        ]

    def out_of_reach(self, tasks: Sequence[HarborTask], backend: str) -> Sequence[Lack]:
        whole = [task for task in tasks if not task["refused"]]
        images = ((task["id"], image) for task in whole for image in self._pulled(task))
        lacks = [*lacking_images(images), *self._unknown_hosts(whole)]
        return lacks if lacks_engine() else [*lacks, *self._lacking_clones(whole)]

    def _lacking_clones(self, tasks: Sequence[HarborTask]) -> Iterator[Lack]:
        """What images that are not here yet clone, where neither clones nor the code host have it.

        Where clones are named, git asks nobody else.
        """
        clones = self.settings.repositories
        host = urlsplit(CODE_HOST).netloc
        if clones is None and not unknown_host(host):
            return
        found: dict[str, set[str]] = {}
        for task in tasks:
            context = self.environment(task).build_context
            if context is None or Engine.find().has_built(context):
                continue
            for name in cloned((context / "Dockerfile").read_text("utf-8")):
                if clones is None or clone_at(clones / name) is None:
                    found.setdefault(name, set()).add(task["id"])
        where = f"{clones} has none" if clones else f"the name {host} is not known here"
        for name, ids in sorted(found.items()):
            remedy = f"{where}; --option repositories=DIRECTORY names a directory with clones"
            yield Lack(f"a clone of {name}", remedy, frozenset(ids))

    def _pulled(self, task: HarborTask) -> Iterator[str]:
        """The images that the task's own and its services' are, or are built on."""
        spec, mapping = self.environment(task), self._mapping()
        starts = [(each.image, each.build_context) for each in spec.services]
        for image, context in [(spec.image, spec.build_context), *starts]:
            if context is not None:
                yield from base_images((context / "Dockerfile").read_text("utf-8"), mapping)
            elif image is not None:
                yield mapping.get(image, image)

    def _unknown_hosts(self, tasks: Sequence[HarborTask]) -> Iterator[Lack]:
        """Hosts that Dockerfiles name and nobody here knows; what they fetch may not matter."""
        found: dict[str, list[str]] = {}
        for task in tasks:
            recipe = Path(task["context"]) / "Dockerfile"
            for host in named_hosts(recipe) if task["context"] else ():
                found.setdefault(host, []).append(task["id"])
        if self.settings.repositories is not None:
            found.pop(urlsplit(CODE_HOST).netloc, None)
        for host in filter(unknown_host, sorted(found)):
            what = f"something from {host} for their images"
            remedy = "the name is not known here; --task NAME tries one all the same"
            yield Lack(what, remedy, frozenset(found[host]), "doubt")

    def graded_in(self, task: HarborTask, start: StartEnvironment) -> JSON:
        separate = self._separate(task, self.environment(task))
        return [super().graded_in(task, start), separate and start.identity(separate)]

    def files_beside(self, task: HarborTask) -> Sequence[Path]:
        return (Path(task["directory"]),)

    def agent_seconds(self, task: HarborTask) -> float | None:
        """A task's limit; of steps, that of all with the time in which they are verified."""
        factor = self.settings.time_factor
        if not task["steps"]:
            return _times(task["agent_seconds"], factor)
        limits = [step["agent_seconds"] for step in task["steps"]]
        verified = [self._verified_seconds(step) for step in task["steps"]]
        known = [seconds * factor for seconds in limits if seconds is not None]
        return sum(known) + sum(verified) if len(known) == len(limits) else None

    def _verified_seconds(self, step: HarborTask) -> float:
        """What it may take to verify a step: with what its reference teaches, three runs."""
        return 3 * step["verifier_seconds"] * self.settings.time_factor + self._solution_seconds(
            step
        )

    def oracle(self, task: HarborTask, env: Environment) -> Submission:
        if not isinstance(env, SteppedMachine):
            return self._solve(task, env)
        handed_in = self._solve(env.step, env)
        while env.advance():
            handed_in = self._solve(env.step, env)
        return handed_in

    def _solve(self, task: HarborTask, env: Environment) -> Submission:
        seconds, clones = self._solution_seconds(task), self.settings.repositories
        return harbor_verifier.run_solution(task, env, seconds, clones)

    def has_reference(self, task: HarborTask) -> bool:
        return all(step["solution"] for step in task["steps"] or [task])

    def _solution_seconds(self, task: HarborTask) -> float:
        factor = self.settings.time_factor
        return _times(task["agent_seconds"], factor) or SOLUTION_SECONDS * factor

    def attacks(self, task: HarborTask) -> Iterable[tuple[str, Submission]]:
        return harbor_attacks.attacks()

    def grade(self, task: HarborTask, submission: Submission, env: Environment) -> Verdict:
        inside = harbor_verifier.image_machine(env)

        def work(task: HarborTask) -> None:
            if submission.form == harbor_attacks.COMMANDS:
                resume(inside)
                seconds = task["agent_seconds"] or SOLUTION_SECONDS
                inside.run_command(submission.text, timeout=seconds)
                inside.stop_processes()

        if isinstance(inside, SteppedMachine):
            verdict = inside.verdict(work)
        else:
            work(task)
            verdict = self._verification(task).of(inside)
        if self._rebuilt(task):
            return replace(verdict, metrics={**verdict.metrics, "image": "rebuilt"})
        return verdict

    def _verify_step(self, task: HarborTask, at: int, env: Machine) -> Verdict:
        steps = task["steps"]
        return replace(self._verification(steps[at]), before=tuple(steps[:at])).of(env)

    def _verification(self, task: HarborTask) -> Verification:
        spec = self.environment(task)
        return Verification(
            task,
            spec,
            self._separate(task, spec),
            seconds=task["verifier_seconds"] * self.settings.time_factor,
            solution_seconds=self._solution_seconds(task),
            offline=not self.settings.verifier_network,
        )

    def _separate(self, task: HarborTask, spec: EnvironmentSpec) -> EnvironmentSpec | None:
        own = task["separate"]
        if own is None:
            return None
        image, context = own["image"], Path(own["context"])
        return replace(
            spec,
            image=image or None,
            build_context=None if image else with_base_images(context, self._mapping()),
            workdir=None,
            network=own["network"],
            variables=harbor_verifier.resolved(own["variables"]),
            limits=_limits(own["cpus"], own["memory_mb"]),
            services=(),
            volumes={},
        )


def _times(seconds: float | None, factor: float) -> float | None:
    return None if seconds is None else seconds * factor


def _limits(cpus: float | None, memory_mb: int) -> ResourceLimits:
    return ResourceLimits(
        memory_bytes=memory_mb * 1024**2, cpus=cpus, processes=4096, file_bytes=None
    )
