"""The harness: a benchmark, an agent, and the run that brings them together."""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import msgspec

from chimera import __version__
from chimera.agents.base import Agent, as_agent
from chimera.environments.base import Environment, EnvironmentSpec
from chimera.environments.none import NoEnvironment
from chimera.errors import UsageError
from chimera.eval.benchmark import Benchmark, StartEnvironment
from chimera.eval.runs.result import EvalResult
from chimera.eval.runs.seal import seal
from chimera.eval.runs.store import RunStore, StoredBudget
from chimera.eval.trial import (
    StartBackend,
    Submitter,
    TrialSpec,
    close_open_environments,
    run_trial,
)
from chimera.eval.values import Submission, Task, TrialRecord, Verdict
from chimera.eval.workers import ThreadExecutor, results
from chimera.providers.journal import Journal
from chimera.providers.meter import TrialLimits
from chimera.text import storable, storable_value
from chimera.types import JSON

__all__ = ["Benchmark", "EvalResult", "Harness", "Submission", "Task", "Verdict"]


class Observer(Protocol):
    """Told what happens in a run; `started` and `finished` may come from any thread."""

    def planned(self, total: int, done: int) -> None: ...
    def started(self, task_id: str, sample: int) -> None: ...
    def finished(self, record: TrialRecord) -> None: ...


class SilentObserver:
    def planned(self, total: int, done: int) -> None: ...
    def started(self, task_id: str, sample: int) -> None: ...
    def finished(self, record: TrialRecord) -> None: ...


@dataclass(frozen=True, slots=True)
class EnvironmentFactory(StartEnvironment):
    """A user's `env_factory`, which may take the spec or nothing, and may return None."""

    factory: Callable[..., Environment | None]

    def __call__(self, spec: EnvironmentSpec) -> Environment:
        takes_spec = bool(inspect.signature(self.factory).parameters)
        env = self.factory(spec) if takes_spec else self.factory()
        return NoEnvironment() if env is None else env


#: A task, the number of its sample, and what answers it.
Planned = tuple[Any, int, Agent | Submitter]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, after what was done has been stored."""


@dataclass
class Harness:
    """Runs every task of a benchmark `samples` times and stores each trial as it ends.

    `Harness(benchmark=MyBench(), agent=my_agent).run().pass_rate` is all that is needed; a run
    with a `store` can be resumed.
    """

    benchmark: Benchmark[Any]
    agent: Agent | Submitter
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
    #: Stop when this many trials in a row ended with the same fault that no answer can cause.
    breaker: int = 10

    def run(self) -> EvalResult:
        """Run what is not done yet. Raises `Interrupted` on Ctrl-C, with all results stored."""
        if self.samples < 1:
            raise UsageError(f"samples must be at least 1, got {self.samples}")
        store = self._open_store()
        budget = StoredBudget(self.budget, store) if self.budget is not None else None
        plan = self._plan()
        if not plan:
            raise UsageError(f"{self.benchmark.name()}: no task to run")
        self._describe(store, plan)
        self.observer.planned(len(plan), self._count_done(plan, store))

        def work(spec: TrialSpec) -> TrialRecord:
            self.observer.started(spec.task["id"], spec.sample)
            return run_trial(spec, budget=budget, checkpoint=store.write)

        cores = os.cpu_count() or 1
        workers = self.concurrency or min(32, cores * self.benchmark.trials_per_core)
        executor = ThreadExecutor(work, min(workers, len(plan)))
        stopped = self._drive(executor, self._pending(plan, store), store)
        return EvalResult.of(
            store,
            benchmark=self.benchmark.name(),
            planned=len(plan),
            stopped=stopped,
        )

    def _drive(
        self,
        executor: ThreadExecutor[TrialSpec, TrialRecord],
        pending: Iterator[TrialSpec],
        store: RunStore,
    ) -> str | None:
        """Store what the trials came to; the reason why it stopped early, or None."""
        stopped: str | None = None
        streak = _Streak(self.breaker)
        try:
            with closing(results(executor, pending)) as records:
                for record in records:
                    stored = store.write(record)
                    self._forget_journal(store, record)
                    self.observer.finished(stored)
                    if stopped is None and (stopped := streak.reason_to_stop(stored)):
                        executor.finish()
        except KeyboardInterrupt:
            close_open_environments()
            raise Interrupted from None
        return stopped

    @staticmethod
    def _journal(store: RunStore, trial_digest: str) -> Path | None:
        """Where a trial's calls are kept until it is stored; nowhere for a run without a file."""
        if str(store.path) == ":memory:":
            return None
        return Path(f"{store.path}.calls") / f"{trial_digest}.jsonl"

    def _forget_journal(self, store: RunStore, record: TrialRecord) -> None:
        path = self._journal(store, record.digest)
        if path is not None and path.exists():
            Journal(path).remove()

    def _plan(self) -> Plan:
        if self.predictions is not None:
            return self.predictions
        tasks = self.benchmark.tasks() if self.tasks is None else self.tasks
        seen: set[str] = set()
        for task in tasks:
            if storable(task["id"]) != task["id"]:
                raise UsageError(f"{self.benchmark.name()}: task id {task['id']!r} is not text")
            if task["id"] in seen:
                raise UsageError(f"{self.benchmark.name()}: task id {task['id']!r} appears twice")
            seen.add(task["id"])
        return _Rounds(tasks, self.samples, self.agent)

    def _digests(self, plan: Plan) -> Iterator[tuple[Planned, str]]:
        base = content_digest(self.identity())
        contents: dict[str, str] = {}  # of tasks that come again with another sample
        for planned in plan:
            task, sample, agent = planned
            content = contents.get(task["id"]) or content_digest(task)
            if self.samples > 1:
                contents[task["id"]] = content
            own = "" if agent is self.agent else content_digest(as_agent(agent).identity())
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
        for (task, sample, agent), trial_digest in self._digests(plan):
            stored, graded = store.state(task["id"], sample) or ("", False)
            if graded and stored == trial_digest:
                continue
            yield TrialSpec(
                benchmark=self.benchmark,
                task=task,
                sample=sample,
                agent=agent,
                start=start,
                limits=self.limits,
                attempts=self.attempts,
                digest=trial_digest,
                prior=store.record(task["id"], sample) if stored == trial_digest else None,
                journal=self._journal(store, trial_digest),
            )

    def identity(self) -> dict[str, JSON]:
        """Everything that could change an outcome, apart from the task itself."""
        return {
            "benchmark": self.benchmark.name(),
            "options": self.benchmark.options(),
            "grader": self.benchmark.grader_version,
            "agent": as_agent(self.agent).identity(),
            "environment": _start_name(self.env_factory),
            "limits": asdict(self.limits),
        }

    def _start(self) -> StartEnvironment:
        factory = self.env_factory
        if factory is None or isinstance(factory, str):
            return StartBackend(factory or "none", mounts=as_agent(self.agent).mounts())
        return factory if isinstance(factory, StartEnvironment) else EnvironmentFactory(factory)

    def _open_store(self) -> RunStore:
        if isinstance(self.store, RunStore):
            return self.store
        return RunStore(":memory:" if self.store is None else self.store, create=True)

    def _describe(self, store: RunStore, plan: Plan) -> None:
        known = store.manifest()
        manifest = {
            "chimera": {"version": __version__},
            "planned": len(plan),
            "samples": self.samples,
            "identity": self.identity(),
            "started": known.get("started", time.time()),
            **self.manifest,
        }
        store.set_manifest({**manifest, "seal": seal(manifest)})
        store.add_tasks(plan.tasks if isinstance(plan, _Rounds) else (task for task, _, _ in plan))


@dataclass(frozen=True, slots=True)
class _Rounds:
    """Every task once for each sample, a whole round at a time, without a list of them all."""

    tasks: Sequence[Any]
    samples: int
    agent: Agent | Submitter

    def __len__(self) -> int:
        return len(self.tasks) * self.samples

    def __iter__(self) -> Iterator[Planned]:
        return ((task, n, self.agent) for n in range(self.samples) for task in self.tasks)


Plan = _Rounds | Sequence[Planned]


class _Streak:
    """Counts trials in a row that met the same fault; the numbers in a message do not matter.

    Only what no answer can bring about counts: ten hostile answers must not end a run.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._count, self._last = limit, 0, ""

    def reason_to_stop(self, record: TrialRecord) -> str | None:
        if record.error is None or record.error.of_answer or record.error.boundary == "store":
            self._count, self._last = 0, ""
            return None
        if record.error.boundary == "budget":
            return f"the budget is used up: {record.error.message}"
        fault = re.sub(r"[0-9a-f]{6,}|\d+", "#", record.why)
        self._count = self._count + 1 if fault == self._last else 1
        self._last = fault
        if self._count >= self._limit:
            return f"{self._count} trials in a row ended with the same error: {record.why}"
        return None


def content_digest(value: JSON) -> str:
    try:
        encoded = msgspec.json.encode(value, enc_hook=_encode_other, order="sorted")
    except UnicodeEncodeError:  # lone surrogates
        cleaned = storable_value(value)
        encoded = msgspec.json.encode(cleaned, enc_hook=_encode_other, order="sorted")
    return hashlib.sha256(encoded).hexdigest()[:32]


def _encode_other(value: object) -> object:
    if isinstance(value, Path | range | complex):
        return repr(value)
    if hasattr(value, "__dict__"):
        return vars(value)
    raise UsageError(f"a task holds a {type(value).__name__}, which cannot be stored")


def _start_name(factory: object) -> str:
    if factory is None or isinstance(factory, str):
        return factory or "none"
    if isinstance(factory, StartBackend):
        return factory.backend + ("+network" if factory.network else "")
    return getattr(factory, "__qualname__", type(factory).__qualname__)
