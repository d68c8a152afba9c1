"""Where the tests of a task folder run: apart from what the agent did to the machine.

A fresh container of the task's image gets the files that the agent changed, but for interpreters,
libraries, tools and settings of runners (`integrity`). What of these the task itself asks for, and
whether its tests need processes that a solution leaves running, is learnt from a run of the
reference solution, when a verdict depends on it. Only where the reference passes in its own
container alone, the agent's own container is used, with such changes undone.
"""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Literal

from chimera.cache import digest, file_digest, made_once
from chimera.environments.base import EnvironmentSpec, Machine
from chimera.environments.docker import DockerEnvironment
from chimera.environments.engine import RUN, Engine
from chimera.environments.wrapped import WrappedMachine, unwrapped
from chimera.errors import EnvironmentFault, GraderError
from chimera.eval.kits.task_folders import verifier
from chimera.eval.kits.task_folders.changes import (
    NotCarried,
    ancestors,
    carry,
    changes,
    compared,
    empty_file,
    exported,
    fingerprints,
    remove,
)
from chimera.eval.kits.task_folders.folders import Artifact, HarborTask, Healthcheck
from chimera.eval.kits.task_folders.integrity import (
    RULES,
    Excepted,
    Image,
    excepted,
    told,
    withheld,
)
from chimera.eval.values import Verdict
from chimera.types import JSON

END_ALL_BUT_SERVERS = Path(__file__).parent / "end_all_but_servers.sh"
#: How many of the withheld paths a verdict names.
NAMED = 20
CANNOT = "what the agent left cannot be carried to the tests: {}"

#: By it, containers are removed with this process.
OWN = f"--label=chimera.run={RUN}"

Mode = Literal["apart", "live"]


class PausedAtEnd(WrappedMachine):
    """An agent's container, in which nothing runs once the agent has stopped, but nothing ended.

    A task may want servers to be left running; whether it does is known later.
    """

    def stop_processes(self) -> None:
        container = verifier.container_of(self)
        if container is None:
            self.inner.stop_processes()
        else:
            pause(container)


def pause(container: str) -> None:
    said = (done := Engine.find().call("pause", container)).stderr.decode("utf-8", "replace")
    if done.returncode and "already paused" not in said:
        raise EnvironmentFault(f"a container cannot be paused: {said.strip()}", retryable=True)


def resume(env: Machine) -> None:
    """Let the processes of a container run on, if they were paused."""
    container = verifier.container_of(env)
    if container is not None:
        Engine.find().call("unpause", container)


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a reference solution taught about its task."""

    mode: Mode
    known: Excepted = Excepted()
    #: Why nothing could be learnt from the reference.
    lacking: str = ""

    @property
    def metrics(self) -> dict[str, JSON]:
        return {"reference": self.lacking} if self.lacking else {}


@dataclass(frozen=True, slots=True)
class Verification:
    """How one task is verified: its tests, a container like the agent's, and the time for each."""

    task: HarborTask
    spec: EnvironmentSpec
    separate: EnvironmentSpec | None  # the verifier's own environment, where the task has one
    seconds: float
    solution_seconds: float
    offline: bool = False
    before: tuple[HarborTask, ...] = ()  # the steps that come before the task, which is one too

    def of(self, env: Machine) -> Verdict:
        """The verdict on what an agent left in `env`."""
        agent = unwrapped(env)
        if not isinstance(agent, DockerEnvironment):
            return self._tests(env)
        self._collect(agent)
        if self.separate is not None:
            return self._separate(agent, self.separate)
        image = Image.of(agent.container, env.workdir)
        if image.volumes:  # what is kept in them is no change of the container's files
            return self._live(agent, image, Lesson("live", lacking="the image has volumes"))
        changed = changes(agent.container)
        held = withheld(agent.container, image, changed, Excepted())
        strict: Verdict | GraderError
        try:
            strict = self._apart(agent, changed, held)
            if strict.passed:
                return strict
        except GraderError as fault:  # perhaps for want of what the reference installs
            strict = fault
        lesson = self.lesson(image)
        if lesson.mode == "live":
            return self._live(agent, image, lesson)
        fewer = withheld(agent.container, image, changed, lesson.known)
        if fewer != held:
            return self._apart(agent, changed, fewer)
        if isinstance(strict, GraderError):
            raise strict
        return _with_metrics(strict, lesson.metrics)

    # --- the three places

    def _apart(
        self, agent: DockerEnvironment, changed: Mapping[str, str], held: frozenset[str]
    ) -> Verdict:
        with DockerEnvironment.start_beside(self.spec, agent.services) as fresh:
            try:
                transfer(agent.container, fresh.container, changed, held)
            except NotCarried as problem:
                return Verdict(False, CANNOT.format(problem))
            verdict = self._tests(fresh)
        return _told(verdict, "apart", told(held, changed))

    def _live(self, agent: DockerEnvironment, image: Image, lesson: Lesson) -> Verdict:
        resume(agent)
        end_all_but_servers(agent.container, image)
        try:
            changed, held = put_back(agent.container, image, lesson.known)
        except NotCarried as problem:
            return Verdict(False, f"the image's programs cannot be put back: {problem}")
        verdict = _told(self._tests(agent), "live", told(held, changed))
        return _with_metrics(verdict, lesson.metrics)

    def _separate(self, agent: DockerEnvironment, spec: EnvironmentSpec) -> Verdict:
        """Harbor's own way: an image for the verifier, and only what the task says is handed in."""
        with DockerEnvironment.start(spec) as fresh:
            try:
                for service in {artifact["service"] for artifact in self.task["artifacts"]}:
                    self._hand_in(_container(agent, service), service, fresh)
            except NotCarried as problem:
                return Verdict(False, CANNOT.format(problem))
            verdict = self._tests(fresh)
        return _with_metrics(verdict, {"verification": "separate"})

    def _hand_in(self, container: str, service: str, fresh: DockerEnvironment) -> None:
        artifacts = [each for each in self.task["artifacts"] if each["service"] == service]
        with exported(container) as archive:
            paths = {"/" + member.name.strip("/") for member in archive}
        wanted = {path for path in paths if _handed_in(path, artifacts)}
        carry(container, fresh.container, wanted)

    def _collect(self, agent: DockerEnvironment) -> None:
        """Let the task's own commands write down what only running containers know."""
        engine = Engine.find()
        for each in self.task["collect"]:
            if not each["service"]:
                resume(agent)
            container = _container(agent, each["service"])
            engine.call("exec", container, "sh", "-c", each["command"], timeout=each["seconds"])
            if not each["service"]:
                pause(container)

    def _tests(self, env: Machine) -> Verdict:
        if self.offline:
            verifier.cut_off(env)
        separate = self.task["separate"]
        return verifier.verify(
            self.task,
            env,
            self.seconds,
            offline=self.offline,
            owns_tests=separate is not None and separate["has_tests"],
            clones=self.spec.clones,
        )

    # --- what the reference teaches

    def lesson(self, image: Image) -> Lesson:
        """What the reference solution teaches, learnt once for an image and a task."""
        if not self.task["solution"]:
            return self._without("there is none")
        steps = (*self.before, self.task)
        folders = {folder for step in steps for folder in (step["directory"], *step["tests"])}
        files = [file_digest(Path(folder)) for folder in sorted(folders)]
        name = digest(RULES, image.id, *files, self.offline)
        if name in _untaught:
            return self._without("did not pass")

        def learn(place: Path) -> None:
            lesson = self._learn(image)
            (place / "known.json").write_text(lesson.known.dump())
            (place / "mode").write_text(lesson.mode)

        try:
            place = made_once("task-lessons", name, learn)
        except ReferenceFailed:
            _untaught.add(name)
            return self._without("did not pass")
        mode: Mode = "live" if (place / "mode").read_text() == "live" else "apart"
        return Lesson(mode, Excepted.load((place / "known.json").read_text()))

    def _without(self, lacking: str) -> Lesson:
        return Lesson("live" if self.task["services"] else "apart", lacking=lacking)

    def _learn(self, image: Image) -> Lesson:
        with DockerEnvironment.start(self.spec) as env:
            for step in (*self.before, self.task):
                set_up(step, env)
                verifier.run_solution(step, env, self.solution_seconds, self.spec.clones)
            pause(env.container)
            changed = changes(env.container)
            known = excepted(env.container, image, changed)
            held = withheld(env.container, image, changed, known)
            live = Lesson("live", known)
            if _passes(lambda: self._apart(env, changed, held)):
                return replace(live, mode="apart")
            if _passes(lambda: self._live(env, image, live)):
                return live
        raise ReferenceFailed(self.task["id"])


#: Tasks whose reference did not pass in this process; the next one may have a network again.
_untaught: set[str] = set()


def _passes(verify: Callable[[], Verdict]) -> bool:
    try:
        return verify().passed
    except GraderError:
        return False


class ReferenceFailed(Exception):
    """A reference solution that does not pass teaches nothing."""


def set_up(task: HarborTask, env: Machine) -> None:
    """What comes before the agent: a step's files and script, and the wait until all is ready."""
    if task["workfiles"]:
        env.copy_in(Path(task["workfiles"]), env.workdir)
        if Path(task["workfiles"], "setup.sh").is_file():
            done = env.run_command(["bash", "setup.sh"], timeout=task["verifier_seconds"])
            if not done.success:
                raise EnvironmentFault(f"{task['id']}: setup.sh failed: {done.output[-500:]}")
    if task["health"] is not None:
        _until_healthy(task["health"], env)


def _until_healthy(health: Healthcheck, env: Machine) -> None:
    grace = time.monotonic() + health["grace"]
    failures = 0
    while not env.run_command(health["command"], timeout=health["seconds"]).success:
        failures += time.monotonic() >= grace
        if failures >= health["retries"]:
            raise EnvironmentFault(f"the health check failed {failures} times", retryable=True)
        time.sleep(health["interval"])


def _container(agent: DockerEnvironment, service: str) -> str:
    if not service:
        return agent.container
    found = agent.services.containers.get(service) if agent.services is not None else None
    if found is None:
        raise GraderError(f"the task has no service '{service}'")
    return found


def transfer(agent: str, fresh: str, changed: Mapping[str, str], held: frozenset[str]) -> None:
    """Make a fresh container's files the agent's, but for what is held back."""
    free = set(changed) - held
    gone = {path for path in free if changed[path] == "D"}
    remove(fresh, gone)
    carry(agent, fresh, free - gone, {path for path in free if changed[path] == "C"})


@contextmanager
def _pristine(image_id: str) -> Iterator[str]:
    """A container of an image that is never started."""
    engine = Engine.find()
    container = engine.must("create", OWN, image_id, "true").decode().strip()
    try:
        yield container
    finally:
        engine.remove(container)


@lru_cache(maxsize=4)
def _files(image_id: str) -> Mapping[str, str]:
    """The fingerprints of an image's files: megabytes, read once for the trials of a task."""
    with _pristine(image_id) as container:
        return fingerprints(container)


def put_back(agent: str, image: Image, known: Excepted) -> tuple[Mapping[str, str], frozenset[str]]:
    """Undo changes in the agent's own container: all that there were, and those undone.

    The programs that do it are put back first.
    """
    changed = compared(_files(image.id), agent)
    held = withheld(agent, image, changed, known)
    added = {path for path in held if changed[path] == "A"}
    if held - added:
        with _pristine(image.id) as container:
            carry(container, agent, held - added)
    if "/etc/ld.so.preload" in added:
        empty_file(agent, "/etc/ld.so.preload")
    remove(agent, (path for path in added if not added & set(ancestors(path))))
    return changed, held


def end_all_but_servers(agent: str, image: Image) -> None:
    """From a container of its own, whose programs are the image's."""
    shared = (f"--pid=container:{agent}", f"--network=container:{agent}")
    script = END_ALL_BUT_SERVERS.read_text("utf-8")
    Engine.find().must(
        "run", "--rm", OWN, *shared, "--user=0", "--entrypoint=sh", image.id, "-c", script
    )


def _handed_in(path: str, artifacts: list[Artifact]) -> bool:
    for artifact in artifacts:
        source = artifact["source"]
        if path == source or path.startswith(source + "/"):
            inside = PurePosixPath(path).relative_to(source)
            return not any(
                fnmatch.fnmatch(str(inside), pattern) or pattern in inside.parts
                for pattern in artifact["exclude"]
            )
    return False


def _with_metrics(verdict: Verdict, metrics: Mapping[str, JSON]) -> Verdict:
    return replace(verdict, metrics={**verdict.metrics, **metrics})


def _told(verdict: Verdict, mode: Mode, paths: list[str]) -> Verdict:
    """The verdict with where it was reached and without what."""
    metrics: dict[str, JSON] = {"verification": mode}
    why = verdict.why
    if paths:
        metrics["withheld"] = [*paths[:NAMED]]
        if not verdict.passed:
            why += f"; withheld from the tests: {len(paths)} changes, first {paths[0]}"
    return _with_metrics(replace(verdict, why=why), metrics)
