"""The harness: a benchmark, an agent, and the run that brings them together."""

from __future__ import annotations

import inspect
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, Protocol

from chimera import __version__
from chimera.activity import heard
from chimera.agents import create_agent
from chimera.agents.base import Agent, as_agent, checked_agent
from chimera.environments.base import Environment, EnvironmentSpec
from chimera.environments.none import NoEnvironment
from chimera.errors import StoreError, UsageError
from chimera.eval.benchmark import Benchmark, StartEnvironment, checked_tasks, tasks_of
from chimera.eval.controls import Controls, Mode, machine_store
from chimera.eval.registry import create_benchmark
from chimera.eval.runs.comparison import basis_of
from chimera.eval.runs.files import no_room_for
from chimera.eval.runs.lock import held
from chimera.eval.runs.result import EvalResult
from chimera.eval.runs.seal import seal
from chimera.eval.runs.sequential import UntilDecided
from chimera.eval.runs.store import MOST_SAMPLES, RunStore, StoredBudget
from chimera.eval.submitters import SUBMITTERS, create_submitter
from chimera.eval.trial import (
    EqualAnswers,
    StartBackend,
    Submitter,
    TrialSpec,
    close_open_environments,
)
from chimera.eval.values import Submission, Task, TrialRecord, Verdict, content_digest
from chimera.eval.workers import Executor, Surroundings, ThreadExecutor, batches
from chimera.providers.journal import Journal
from chimera.providers.meter import TrialLimits
from chimera.types import JSON

__all__ = ["Benchmark", "EvalResult", "Harness", "Submission", "Task", "Verdict"]


class Observer(Protocol):
    """Told what happens in a run; all but `planned` may come from any thread.

    `doing` is what a trial does now ("" for nothing to tell), and how many seconds it will wait;
    `noticed` is about the run as a whole.
    """

    def planned(self, total: int, done: int) -> None: ...
    def started(self, task_id: str, sample: int) -> None: ...
    def doing(self, task_id: str, sample: int, what: str, seconds: float) -> None: ...
    def finished(self, record: TrialRecord) -> None: ...
    def noticed(self, what: str) -> None: ...


class SilentObserver:
    def planned(self, total: int, done: int) -> None: ...
    def started(self, task_id: str, sample: int) -> None: ...
    def doing(self, task_id: str, sample: int, what: str, seconds: float) -> None: ...
    def finished(self, record: TrialRecord) -> None: ...
    def noticed(self, what: str) -> None: ...


@dataclass(frozen=True, slots=True)
class EnvironmentFactory(StartEnvironment):
    """A user's `env_factory`, which may take the spec or nothing, and may return None."""

    factory: Callable[..., Environment | None]

    def __call__(self, spec: EnvironmentSpec) -> Environment:
        takes_spec = bool(inspect.signature(self.factory).parameters)
        env = self.factory(spec) if takes_spec else self.factory()
        return NoEnvironment() if env is None else env


_FIELD_KINDS: Mapping[str, tuple[type, ...]] = {
    "samples": (int,),
    "concurrency": (int, NoneType),
    "limits": (TrialLimits,),
    "budget": (int, float, NoneType),
    "attempts": (int,),
    "store": (RunStore, Path, str, NoneType),
}

#: Of `content_digest`, which gives them as hexadecimal digits.
_DIGEST_BYTES = 16

#: A task, the number of its sample, and what answers it.
Planned = tuple[Any, int, Agent | Submitter]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or the like (its cause), after what was done has been stored."""


@dataclass
class Harness:
    """Runs every task of a benchmark `samples` times and stores each trial as it ends.

    `Harness(benchmark=MyBench(), agent=my_agent).run().pass_rate` is all that is needed; a run
    with a `store` can be resumed.
    """

    benchmark: Benchmark[Any] | str
    agent: Agent | Submitter | Callable[..., Any] | str
    env_factory: StartEnvironment | Callable[[], Environment | None] | str | None = None
    samples: int = 1
    concurrency: int | None = None
    limits: TrialLimits = field(default_factory=TrialLimits)
    budget: float | None = None
    attempts: int = 3
    store: RunStore | Path | str | None = None
    tasks: Sequence[Any] | None = None  # a selection of the benchmark's; None is all of them
    predictions: Sequence[Planned] | None = None  # stored answers, not an agent
    manifest: dict[str, JSON] = field(default_factory=dict)
    observer: Observer = field(default_factory=SilentObserver)
    #: When known answers are graded beside those of the agent; see `chimera.eval.controls`.
    controls: Mode = "auto"
    #: Stop when this many trials in a row ended with the same fault that no answer can cause;
    #: stored answers are all graded, and the fault is only told.
    breaker: int = 10
    #: The same, for what every trial would meet: a wrong key, no connection.
    first_breaker: int = 3
    #: Of an agent that is given by its name.
    model: str | None = None
    #: Where trials are run, from what they share and how many there are; None is this process.
    executor: Callable[[Surroundings, int], Executor[TrialSpec, TrialRecord]] | None = None
    #: Stop when the tasks so far, in their order, have decided; all samples of one come together.
    until: UntilDecided | None = None
    _benchmark: Benchmark[Any] = field(init=False, repr=False)
    _agent: Agent | Submitter = field(init=False, repr=False)

    def __post_init__(self) -> None:
        given = self.benchmark
        self._benchmark = checked_benchmark(
            create_benchmark(given) if isinstance(given, str) else given
        )
        self._agent = checked_agent(
            named_agent(self.agent, self._benchmark, model=self.model)
            if isinstance(self.agent, str)
            else self.agent
        )
        for name, kinds in _FIELD_KINDS.items():
            value = getattr(self, name)
            if not isinstance(value, kinds) or isinstance(value, bool):
                *most, last = (kind.__name__.replace("NoneType", "None") for kind in kinds)
                expected = f"{', '.join(most)} or {last}" if most else last
                raise UsageError(f"{name} is {value!r:.60}: expected {expected}")
        for name, value in {"budget": self.budget, **asdict(self.limits)}.items():
            if value is not None and not 0 <= value < math.inf:
                raise UsageError(f"{name} is {value!r:.60}: expected a number from 0 on")

    def run(self) -> EvalResult:
        """Run what is not done yet. Raises `Interrupted` on Ctrl-C, with all results stored."""
        if not 1 <= self.samples <= MOST_SAMPLES:
            raise UsageError(f"samples must be from 1 to {MOST_SAMPLES}, got {self.samples}")
        plan = self._plan()
        if not plan:
            raise UsageError(f"{self._benchmark.name()}: no task to run")
        store = self._open_store()
        with held(store.path):
            return self._run(plan, store)

    def _run(self, plan: Plan, store: RunStore) -> EvalResult:
        budget = StoredBudget(self.budget, store)
        for provider in as_agent(self._agent).providers():
            provider.start()
        done = self._count_done(plan, store)
        self._describe(store, plan, goes_on=done < len(plan))
        self.observer.planned(len(plan), done)

        make, observer = self.executor or self._threads, self.observer
        surroundings = Surroundings(
            budget, store.write, observer.started, observer.doing, store.add_control_soon
        )
        executor = make(surroundings, len(plan))
        stopped = self._drive(executor, self._pending(plan, store), store)
        return EvalResult.of(
            store,
            benchmark=self._benchmark.name(),
            planned=len(plan),
            stopped=stopped or (self.until.reason if self.until else None),
        )

    def _threads(
        self, surroundings: Surroundings, trials: int
    ) -> ThreadExecutor[TrialSpec, TrialRecord]:
        """The trials of this run in threads of this process."""
        workers = trials_at_once(self._benchmark, self.concurrency)
        keep, budget = surroundings.controlled, surroundings.budget
        controls = Controls(self.controls, store=machine_store(), keep=keep, budget=budget)
        if self.controls == "first":
            self._make_controls(controls, workers)

        def work(spec: TrialSpec) -> TrialRecord:
            trial = spec.task["id"], spec.sample
            surroundings.started(*trial)
            with heard(partial(surroundings.doing, *trial)):
                return controls.run(spec, checkpoint=surroundings.checkpoint)

        return ThreadExecutor(work, min(workers, trials))

    def _make_controls(self, controls: Controls, workers: int) -> None:
        """All of them, before any agent is asked; on a cluster each machine makes its own."""
        plan = self._plan()
        if isinstance(plan, _Rounds):
            tasks = plan.tasks
        else:
            tasks = list({task["id"]: task for task, _, _ in plan}.values())
        for _ in controls.make_all(self._benchmark, tasks, self._start(), workers=workers):
            pass

    def _drive(
        self,
        executor: Executor[TrialSpec, TrialRecord],
        pending: Iterator[TrialSpec],
        store: RunStore,
    ) -> str | None:
        """Store what the trials came to; the reason why it stopped early, or None."""
        stopped: str | None = None
        streak = _Streak(self.breaker, self.first_breaker)
        journals = _journals(store)
        taken: list[TrialRecord] = []  # from the executor, perhaps not stored yet
        no_room = no_room_for(store.path)
        if no_room:
            raise StoreError(no_room)
        try:
            with closing(batches(executor, pending, hold=streak.would_meet_all)) as found:
                for taken in found:
                    left = journals if journals is not None and journals.exists() else None
                    for record in store.write_all(taken):
                        _forget_journal(left, record)
                        self.observer.finished(record)
                        stopped = stopped or self._broken(streak, record) or self._decided(record)
                    taken = []
                    no_room = no_room or no_room_for(store.path)
                    if stopped or no_room:
                        executor.finish()
            store.flush()
        except BaseException as error:
            full = (OSError, StoreError)  # of the run's file, or of what the observer writes to
            with suppress(*full) if isinstance(error, full) else nullcontext():
                for _ in store.write_all([*taken, *executor.ended()]):  # paid for
                    pass
                store.flush()
            close_open_environments()
            if isinstance(error, KeyboardInterrupt):
                raise Interrupted from error
            raise
        if no_room:  # the trials that were under way have been stored in what was left
            raise StoreError(no_room)
        return stopped

    def _broken(self, streak: _Streak, record: TrialRecord) -> str | None:
        reason = streak.reason_to_stop(record)
        if reason is None or self.predictions is None:
            return reason
        self.observer.noticed(f"{reason}; going on: every stored answer is graded")
        return None

    def _decided(self, record: TrialRecord) -> str | None:
        if self.until is None:
            return None
        passed = None if record.verdict is None else record.passed
        return self.until.add(record.task_id, record.sample, passed=passed)

    def _plan(self) -> Plan:
        if self.predictions is not None:
            return self.predictions
        if self.tasks is None:
            tasks = tasks_of(self._benchmark)
        else:
            tasks = checked_tasks(self._benchmark.name(), self.tasks)
        return _Rounds(tasks, self.samples, self._agent, by_task=self.until is not None)

    def _digests(self, plan: Plan) -> Iterator[tuple[Planned, str]]:
        base = content_digest(self.identity())
        contents = bytearray()  # of tasks that come again with another sample
        for place, planned in enumerate(plan):
            task, sample, agent = planned
            known = plan.number(place) * _DIGEST_BYTES if isinstance(plan, _Rounds) else 0
            if known < len(contents):
                content = contents[known : known + _DIGEST_BYTES].hex()
            else:
                content = content_digest(task)
                if isinstance(plan, _Rounds) and plan.samples > 1:
                    contents += bytes.fromhex(content)
            own = "" if agent is self._agent else content_digest(as_agent(agent).identity())
            yield planned, content_digest([base, content, sample, own])

    def _count_done(self, plan: Plan, store: RunStore) -> int:
        if store.is_new():
            return 0
        return sum(
            store.state(task["id"], sample) == (trial_digest, True)
            for (task, sample, _), trial_digest in self._digests(plan)
        )

    def _pending(self, plan: Plan, store: RunStore) -> Iterator[TrialSpec]:
        """What is left to do, made one at a time: a run's memory does not grow with its trials."""
        start = self._start()
        journals = _journals(store) if as_agent(self._agent).replies_are_kept else None
        is_new = isinstance(plan, _Rounds) and store.is_new()  # which has each trial once
        equal = EqualAnswers() if self._benchmark.decided_by_answer else None
        for (task, sample, agent), trial_digest in self._digests(plan):
            known = None if is_new else store.state(task["id"], sample)
            stored, graded = known or ("", False)
            if graded and stored == trial_digest:
                if self.until is not None:
                    self.until.add(task["id"], sample, passed=store.passed(task["id"], sample))
                continue
            if self.until is not None and self.until.reason:
                return
            yield TrialSpec(
                benchmark=self._benchmark,
                task=task,
                sample=sample,
                agent=agent,
                start=start,
                limits=self.limits,
                attempts=self.attempts,
                digest=trial_digest,
                prior=store.record(task["id"], sample) if stored == trial_digest else None,
                journals=journals,
                equal=equal,
            )

    def identity(self) -> dict[str, JSON]:
        """Everything that could change an outcome, apart from the task itself."""
        return {
            "benchmark": self._benchmark.name(),
            "options": self._benchmark.options(),
            "grader": self._benchmark.grader_version,
            "agent": as_agent(self._agent).identity(),
            "environment": _start_name(self.env_factory),
            "limits": asdict(self.limits),
        }

    def _start(self) -> StartEnvironment:
        factory = self.env_factory
        if factory is None or isinstance(factory, str):
            return StartBackend(factory or "none", mounts=as_agent(self._agent).mounts)
        return factory if isinstance(factory, StartEnvironment) else EnvironmentFactory(factory)

    def _open_store(self) -> RunStore:
        if isinstance(self.store, RunStore):
            return self.store
        return RunStore(":memory:" if self.store is None else self.store, create=True)

    def _describe(self, store: RunStore, plan: Plan, *, goes_on: bool) -> None:
        known = store.manifest()
        manifest = {
            "chimera": {"version": __version__},
            "planned": len(plan),
            "samples": self.samples,
            "identity": self.identity(),
            "started": known.get("started", time.time()),
            **self.manifest,
        }
        again = known.get("graded_again")
        if isinstance(again, Mapping):  # the verdicts that are there stay what they are
            alike = content_digest(basis_of(known)) == content_digest(basis_of(manifest))
            two = {**again, "grader": "two in one run"} if goes_on else again
            manifest["graded_again"] = None if alike else two
        store.set_manifest({**manifest, "seal": seal(manifest)})
        store.add_tasks(plan.tasks if isinstance(plan, _Rounds) else (task for task, _, _ in plan))


def _journals(store: RunStore) -> Path | None:
    """Where calls of trials are kept until these are stored; nowhere for a run without a file."""
    return None if str(store.path) == ":memory:" else Path(f"{store.path}.calls")


def _forget_journal(journals: Path | None, stored: TrialRecord) -> None:
    """Unless the trial could not be stored as it was: then it is all that is left of its calls."""
    if stored.error is not None and stored.error.boundary == "store":
        return
    if journals is not None and (journals / f"{stored.digest}.jsonl").exists():
        Journal(journals, f"{stored.digest}.jsonl").remove()


@dataclass(frozen=True, slots=True)
class _Rounds:
    """Every task once for each sample, a whole round at a time, without a list of them all.

    With `by_task`, all samples of a task come together.
    """

    tasks: Sequence[Any]
    samples: int
    agent: Agent | Submitter
    by_task: bool = False

    def __len__(self) -> int:
        return len(self.tasks) * self.samples

    def number(self, place: int) -> int:
        """Which of the tasks comes at a place."""
        return place // self.samples if self.by_task else place % len(self.tasks)

    def __iter__(self) -> Iterator[Planned]:
        if self.by_task:
            return ((task, n, self.agent) for task in self.tasks for n in range(self.samples))
        return ((task, n, self.agent) for n in range(self.samples) for task in self.tasks)


Plan = _Rounds | Sequence[Planned]


#: Trials in a row that began and could not be paid to their end: the budget is used up.
_MOST_UNAFFORDABLE = 3


class _Streak:
    """Counts trials in a row that met the same fault; the numbers in a message do not matter.

    Only what no answer can bring about counts: ten hostile answers must not end a run.
    """

    def __init__(self, limit: int, first: int) -> None:
        self._limit, self._first, self._count, self._last = limit, first, 0, ""
        self._unaffordable = 0

    def would_meet_all(self) -> bool:
        """Whether the latest trial met what every other one would meet: the next can wait."""
        return self._last == "everywhere"

    def reason_to_stop(self, record: TrialRecord) -> str | None:
        if record.error is not None and record.error.boundary == "budget":
            self._unaffordable += not record.error.retryable
            used_up = not record.error.of_answer or self._unaffordable == _MOST_UNAFFORDABLE
            if used_up and not record.error.retryable:
                return f"the budget is used up: {record.error.message}"
        else:
            self._unaffordable = 0
        if record.error is None or record.error.of_answer or record.error.boundary == "store":
            self._count, self._last = 0, ""
            return None
        everywhere = record.error.everywhere
        fault = "everywhere" if everywhere else re.sub(r"[0-9a-f]{6,}|\d+", "#", record.why)
        self._count = self._count + 1 if fault == self._last else 1
        self._last = fault
        if self._count == (self._first if everywhere else self._limit):
            return f"{self._count} trials in a row ended with the same error: {record.why}"
        return None


def trials_at_once(benchmark: Benchmark[Any], asked: int | None) -> int:
    """How many trials a machine like this one runs at once, unless so many were asked for."""
    return asked or min(32, (os.cpu_count() or 1) * benchmark.trials_per_core)


def checked_benchmark(benchmark: object) -> Benchmark[Any]:
    """The benchmark, or a `UsageError` that says what was expected."""
    if isinstance(benchmark, Benchmark):
        return benchmark
    if isinstance(benchmark, type):
        raise UsageError(f"the benchmark is a class: give an object of it, {benchmark.__name__}(…)")
    raise UsageError(
        f"the benchmark is {type(benchmark).__name__}: expected a name or an object of a class "
        "derived from Benchmark"
    )


def named_agent(name: str, benchmark: Benchmark[Any], **settings: Any) -> Agent | Submitter:
    """The agent of that name as the benchmark wants it, or what hands in answers by itself."""
    if name.partition(":")[0] in SUBMITTERS:
        return create_submitter(name, settings.get("options") or {})
    agent: Any = create_agent(name, others=SUBMITTERS, **settings)
    if not isinstance(agent, (Agent, Submitter)):
        raise UsageError(f"agent '{name}' has neither run(prompt, env) nor submit(…)")
    return agent if isinstance(agent, Submitter) else benchmark.prepare_agent(agent)


def _start_name(factory: object) -> str:
    if factory is None or isinstance(factory, str):
        return factory or "none"
    if isinstance(factory, StartBackend):
        return factory.backend + ("+network" if factory.network else "")
    return getattr(factory, "__qualname__", type(factory).__qualname__)
