"""A node's side of a run: it makes the run's benchmark and agent itself and does trials in threads.

Data and keys are the node's own: neither travels. What must be the same everywhere is compared
before the first trial.
"""

from __future__ import annotations

import itertools
import platform
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from chimera import __version__
from chimera.agents.base import Agent
from chimera.environments import available
from chimera.errors import BudgetExceeded, ChimeraError, EnvironmentFault, UsageError, fault
from chimera.eval.cluster.messages import (
    Checkpoint,
    Controlled,
    Done,
    Job,
    Joined,
    Message,
    Refused,
    Reserve,
    Settle,
    Setup,
    Throttled,
)
from chimera.eval.controls import Controls, machine_store
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.filed import ById
from chimera.eval.harness import trials_at_once
from chimera.eval.run import RunSettings, chosen_agent
from chimera.eval.runs.store import FORMS
from chimera.eval.trial import (
    EqualAnswers,
    StartBackend,
    Submitter,
    TrialSpec,
    close_open_environments,
)
from chimera.eval.values import Control, TrialError, TrialRecord, content_digest
from chimera.eval.workers import ThreadExecutor
from chimera.providers.limiter import hearing_refusals
from chimera.providers.meter import Budget
from chimera.providers.secrets import redact, without_keys
from chimera.text import with_texts
from chimera.types import JSON


class Desk(Protocol):
    """The driver, as a node knows it."""

    def post(self, message: Message) -> None: ...
    def ask(self, message: Reserve) -> str | None: ...


class DriverBudget(Budget):
    """The run's money, which the driver keeps."""

    def __init__(self, node: str, desk: Desk, total: float | None) -> None:
        super().__init__(total)
        self._node, self._desk = node, desk
        self._numbers = itertools.count(1)
        self._open: dict[float, list[int]] = {}
        self._lock = threading.Lock()

    def reserve(self, worst_case: float, timeout: float | None = None) -> None:
        number, began = next(self._numbers), time.monotonic()
        refusal = self._desk.ask(Reserve(self._node, number, worst_case, timeout))
        if refusal is not None:
            late = timeout is not None and time.monotonic() - began >= timeout
            raise BudgetExceeded(refusal, retryable=late)
        with self._lock:
            self._open.setdefault(worst_case, []).append(number)

    def settle(self, worst_case: float, actual: float) -> None:
        with self._lock:
            number = self._open[worst_case].pop()
        self._desk.post(Settle(self._node, number, actual))


class Node:
    """Does the trials that it is given and tells the driver's desk what they came to."""

    def __init__(self, name: str, setup: Setup, desk: Desk) -> None:
        self._name, self._setup, self._desk = name, setup, desk
        self._budget = DriverBudget(name, desk, setup.budget) if setup.has_budget else None
        self._executor: ThreadExecutor[Job, None] | None = None
        self._ends = ExitStack()

    def join(self) -> None:
        """Prepare, compare, and tell the driver whether trials may come."""
        try:
            slots = self._prepare()
        except ChimeraError as error:
            self._desk.post(Refused(self._name, redact(str(error))))
            return
        self._ends.enter_context(hearing_refusals(self._throttled))
        self._executor = ThreadExecutor(self._work, slots)
        self._executor.start()
        self._desk.post(Joined(self._name, slots))

    def take(self, job: Job) -> None:
        assert self._executor is not None, "a node that has not joined got a trial"
        self._executor.submit(job)

    def close(self) -> None:
        """Begin nothing more, and end what trials have running."""
        if self._executor is not None:
            self._executor.stop()
        self._ends.close()
        close_open_environments()

    def _prepare(self) -> int:
        settings = RunSettings.of_manifest(self._setup.settings)
        reason = available(self._setup.environment)
        if reason is not None:
            raise UsageError(f"no environment '{self._setup.environment}': {reason}")
        self._benchmark = benchmark = settings.create_benchmark()
        self._equal = EqualAnswers() if benchmark.decided_by_answer else None
        for lack in benchmark.missing():
            if lack.tasks is None and not (self._setup.stored_answers and lack.kind == "model"):
                raise UsageError(f"the tasks need {lack.what}: {lack.remedy}")
        self._agent = None
        if not self._setup.stored_answers:
            self._agent = chosen_agent(settings, benchmark)
            self._tasks = ById(benchmark.tasks())
        self._compare(node_identity(benchmark, self._agent))
        self._start = StartBackend(self._setup.environment, network=settings.network)
        self._controls = Controls(
            settings.controls, store=machine_store(), keep=self._keep, budget=self._budget
        )
        self._limits, self._attempts = settings.limits(), settings.retries + 1
        return trials_at_once(benchmark, settings.concurrency)

    def _compare(self, own: dict[str, JSON]) -> None:
        for key, value in self._setup.identity.items():
            if own.get(key) != value:
                raise UsageError(f"its {key} is {own.get(key)!r:.200}, the driver's {value!r:.200}")

    def _work(self, job: Job) -> None:
        try:
            record = self._controls.run(self._spec(job), checkpoint=partial(self._checkpoint, job))
        except BaseException as error:  # noqa: BLE001 - a trial that is not told of is waited for
            record = unfinished(job, TrialError("cluster", f"the node's own code: {fault(error)}"))
        self._tell(job, record)

    def _tell(self, job: Job, record: TrialRecord) -> None:
        """What of a record cannot travel is told as what cannot be stored: a trial that is not told
        of is waited for."""
        fault: Exception | None = None
        for form in FORMS:
            try:
                done = Done(self._name, job.number, _without_keys(form(record, fault)))
                return self._desk.post(done)
            except Exception as error:  # noqa: BLE001 - values pickle themselves, in any way
                fault = error
        raise EnvironmentFault(f"the driver cannot be told of a trial: {fault}")

    def _checkpoint(self, job: Job, record: TrialRecord) -> None:
        self._desk.post(Checkpoint(self._name, job.number, _without_keys(record)))

    def _throttled(self, endpoint: str, seconds: float) -> None:
        self._desk.post(Throttled(self._name, endpoint, seconds))

    def _keep(self, control: Control) -> None:
        clean = replace(control, why=redact(control.why), log=redact(control.log))
        self._desk.post(Controlled(self._name, clean))

    def _spec(self, job: Job) -> TrialSpec:
        agent = job.answer or self._agent
        assert agent is not None, "a trial without an agent and without an answer"
        return TrialSpec(
            benchmark=self._benchmark,
            task=self._tasks[job.task] if isinstance(job.task, str) else job.task,
            sample=job.sample,
            agent=agent,
            start=self._start,
            limits=self._limits,
            attempts=self._attempts,
            digest=job.digest,
            prior=job.prior,
            journals=job.journals,
            equal=self._equal,
        )


def _without_keys(record: TrialRecord) -> TrialRecord:
    """What may leave this machine: the driver does not know this machine's keys."""
    clean = with_texts(record, redact)
    kept = with_texts(record.submission, without_keys)  # as it was graded
    return replace(clean, task_id=record.task_id, digest=record.digest, submission=kept)


def unfinished(job: Job, error: TrialError) -> TrialRecord:
    """The record of a trial that came to no verdict; its answer stays, if it had one."""
    if job.prior is not None:
        return replace(job.prior, verdict=None, error=error)
    task_id = job.task if isinstance(job.task, str) else job.task["id"]
    return TrialRecord(task_id=task_id, sample=job.sample, digest=job.digest, error=error)


def node_identity(benchmark: Any, agent: Agent | Submitter | None) -> dict[str, JSON]:
    """What must be the same on the driver and on every node, in words for a person."""
    from chimera.agents.base import as_agent

    found: dict[str, JSON] = {
        "version of chimera": __version__,
        "grader": benchmark.grader_version,
        "options": content_digest(benchmark.options()),
        "Python": ".".join(platform.python_version_tuple()[:2]),
    }
    if isinstance(benchmark, DatasetBenchmark):
        found["data set"] = benchmark.dataset_digest()
    if agent is not None:
        found["agent"] = content_digest(as_agent(agent).identity())
    return found


def job_of(number: int, spec: TrialSpec, agent: Agent | Submitter, *, stored: bool) -> Job:
    """A trial as it is sent; the answer goes with it where it is not the run's agent that works."""
    return Job(
        number=number,
        task=spec.task if stored else spec.task["id"],
        sample=spec.sample,
        digest=spec.digest,
        prior=spec.prior,
        answer=None if spec.agent is agent and not stored else spec.agent,
    )
