"""One trial, from task to verdict: the way every result of Chimera has come."""

from __future__ import annotations

import contextvars
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

from chimera.activity import doing
from chimera.agents.base import Agent
from chimera.environments.base import Environment, EnvironmentSpec, machine
from chimera.environments.none import NoEnvironment
from chimera.environments.reopened import ReopenedMachine
from chimera.errors import (
    AgentError,
    ChimeraError,
    EnvironmentFault,
    GraderError,
    LimitReached,
    RunError,
    fault,
)
from chimera.eval.benchmark import Benchmark, StartEnvironment
from chimera.eval.values import (
    Submission,
    TrialError,
    TrialRecord,
    Verdict,
    checked_submission,
    checked_verdict,
    content_digest,
)
from chimera.providers.journal import Journal
from chimera.providers.meter import Budget, CallRecord, Meter, TrialLimits, metered
from chimera.providers.secrets import without_keys
from chimera.text import storable_value, with_texts
from chimera.types import JSON, AgentResult, Usage

if TYPE_CHECKING:
    from typing_extensions import TypeIs

ResultT = TypeVar("ResultT")

#: How long an agent may take to notice that its time is up before it is given up.
GRACE_SECONDS = 10.0
FIRST_BACKOFF_SECONDS = 1.0
#: The most US dollars that an agent is believed to have cost.
MOST_COST = 1e9
#: What the store has room for.
MOST_COUNTED = 2**63

_open_environments: dict[int, Environment] = {}


@runtime_checkable
class Submitter(Protocol):
    """What knows the answer (gold, stored predictions) and hands it in itself, as no agent can."""

    def submit(
        self, benchmark: Benchmark[Any], task: Any, sample: int, env: Environment
    ) -> Submission: ...


def submits(agent: object) -> TypeIs[Submitter]:
    """Whether it is a `Submitter`; asked several times a trial, which `isinstance` is slow for."""
    return callable(getattr(agent, "submit", None))


@dataclass(frozen=True, slots=True)
class StartBackend(StartEnvironment):
    """Starts environments with one named backend, with a network if the user asked for one."""

    backend: str
    network: bool = False
    #: What the agent brings along, asked for where trials run: host path → target, read-only.
    mounts: Callable[[], Mapping[str, str]] = field(default=dict, compare=False)

    def __call__(self, spec: EnvironmentSpec) -> Environment:
        from chimera.environments import start_environment

        return start_environment(self.backend, self._allowed(spec))

    def identity(self, spec: EnvironmentSpec) -> JSON:
        from chimera.environments import backend_class

        return backend_class(self.backend).identity(self._allowed(spec))

    def _allowed(self, spec: EnvironmentSpec) -> EnvironmentSpec:
        """The spec with what the user allows beside it."""
        from chimera.environments import backend_class

        if self.network:
            spec = replace(spec, network=True)
        if "confined" in backend_class(self.backend).capabilities:
            spec = replace(spec, mounts={**spec.mounts, **self.mounts()})
        return spec

    def without_network(self) -> StartBackend:
        return StartBackend(self.backend)


class EqualAnswers:
    """The verdicts of a run's latest answers: an equal one to the same task gets the same."""

    KEPT = 2000

    def __init__(self) -> None:
        self._verdicts: OrderedDict[str, tuple[int, Future[Verdict]]] = OrderedDict()
        self._lock = threading.Lock()

    def verdict(
        self, task_id: str, sample: int, submission: Submission, grade: Callable[[], Verdict]
    ) -> Verdict:
        """What `grade` says, or said of the same answer; the verdict tells of which sample."""
        key = content_digest([task_id, asdict(replace(submission, raw=None))])
        with self._lock:
            if found := self._verdicts.get(key):
                self._verdicts.move_to_end(key)
            else:
                mine: Future[Verdict] = Future()
                self._verdicts[key] = sample, mine
                if len(self._verdicts) > self.KEPT:
                    self._verdicts.popitem(last=False)
        if found is None:
            return self._graded(key, mine, grade)
        first, theirs = found
        try:
            verdict = theirs.result()
        except ChimeraError:  # its fault is not ours
            return grade()
        return replace(verdict, metrics={**verdict.metrics, "graded_as_sample": first})

    def _graded(self, key: str, mine: Future[Verdict], grade: Callable[[], Verdict]) -> Verdict:
        try:
            mine.set_result(grade())
        except BaseException as error:
            with self._lock:
                self._verdicts.pop(key, None)
            mine.set_exception(error if isinstance(error, ChimeraError) else GraderError("broken"))
            raise
        return mine.result()


@dataclass(frozen=True, slots=True)
class TrialSpec:
    """All that a trial needs, as values that can be sent to another process."""

    benchmark: Benchmark[Any]
    task: Any
    sample: int
    agent: Agent | Submitter
    start: StartEnvironment
    limits: TrialLimits = TrialLimits()
    attempts: int = 3
    digest: str = ""
    prior: TrialRecord | None = None  # an earlier, unfinished record: its costs are kept
    journals: Path | None = None  # where calls of trials are kept until these are stored
    equal: EqualAnswers | None = None  # where equal answers need no grading of their own


@dataclass(slots=True)
class _Account:
    """What is known of a trial so far, whatever happens next."""

    meter: Meter
    steps: int = 0
    submission: Submission | None = None
    trajectory: tuple[Any, ...] = ()
    stop_reason: str = ""
    usage: Usage = field(default_factory=Usage)
    verdict: Verdict | None = None
    taken_over: tuple[CallRecord, ...] = ()
    phase: Literal["start", "agent", "answer"] = "start"

    def blames_answer(self, error: ChimeraError) -> bool:
        """Whether an answer, or what the model did on its way to one, may have caused the fault.

        What a service or the budget fails at once the model has spoken may be what it led to:
        where it is not, the next trial meets it with its first call.
        """
        if self.phase == "agent" and error.boundary in ("provider", "budget"):
            return self.meter.answered
        return self.phase == "answer" or (self.phase == "agent" and bool(self.meter.calls))

    def take_over(self, prior: TrialRecord) -> None:
        """Go on from a stored record: what was paid stays paid, what was handed in is graded."""
        self.taken_over = prior.calls
        for call in prior.calls:
            self.meter.record(call)
        if not prior.calls:  # an agent that keeps its own account was asked, or none
            self.meter.cost, self.usage = prior.cost, prior.usage
        # there was a verdict, without the control it needs, or one that could not be stored
        withheld = prior.control is not None or (prior.error and prior.error.boundary == "store")
        if (prior.error is None or withheld) and prior.submission is not None:
            self.submission, self.trajectory = prior.submission, prior.trajectory
            self.steps, self.stop_reason = prior.steps, prior.stop_reason


def run_trial(
    spec: TrialSpec,
    *,
    budget: Budget | None = None,
    checkpoint: Callable[[TrialRecord], object] | None = None,
) -> TrialRecord:
    """Run one trial and return its record; faults are recorded, never raised.

    `checkpoint` is given the record as soon as there is a submission, where grading it takes an
    environment of its own, and so its time.
    """
    started, clock = time.time(), time.monotonic()
    meter = Meter(limits=spec.limits, budget=budget, sample=spec.sample)
    account = _Account(meter)
    if spec.prior is not None:
        account.take_over(spec.prior)
    if spec.journals is not None:
        meter.journal = Journal(spec.journals, f"{spec.digest}.jsonl")
        for call in meter.journal.left:
            if not any(_same_call(call.account, known) for known in account.taken_over):
                meter.record(call.account)

    def record(
        attempt: int, verdict: Verdict | None = None, error: TrialError | None = None
    ) -> TrialRecord:
        return TrialRecord(
            task_id=spec.task["id"],
            sample=spec.sample,
            digest=spec.digest,
            submission=account.submission,
            verdict=verdict,
            error=error,
            usage=meter.usage if meter.calls else account.usage,
            cost=meter.cost,
            steps=account.steps,
            duration=time.monotonic() - clock,
            attempts=attempt,
            started=started,
            stop_reason=account.stop_reason,
            calls=tuple(meter.calls),
            trajectory=account.trajectory or tuple(meter.trajectory),
        )

    attempt = 0
    while True:
        attempt += 1
        account.phase, meter.earlier, meter.replied_again = "start", len(meter.calls), False

        def submitted(attempt: int = attempt) -> None:
            if checkpoint is not None and meter.calls and spec.benchmark.grading == "fresh":
                checkpoint(record(attempt))
                if meter.journal is not None:
                    meter.journal.remove()

        try:
            with metered(meter):
                return record(attempt, verdict=_attempt(spec, account, submitted))
        except ChimeraError as error:
            if account.verdict is not None:  # only the end of the environment failed
                metrics = {**account.verdict.metrics, "left_behind": str(error)}
                return record(attempt, verdict=replace(account.verdict, metrics=metrics))
            failure = TrialError(
                error.boundary,
                str(error),
                error.retryable,
                of_answer=account.blames_answer(error),
                everywhere=error.everywhere,
            )
            if not failure.retryable or attempt >= spec.attempts:
                return record(attempt, error=failure)
            wait = _backoff(attempt, error.retry_after)
            with doing(f"attempt {attempt + 1} in {wait:.0f} s after {error}", seconds=wait):
                time.sleep(wait)


def _attempt(spec: TrialSpec, account: _Account, submitted: Callable[[], None]) -> Verdict:
    benchmark, task = spec.benchmark, spec.task
    with ExitStack() as stack:
        env: Environment = NoEnvironment()
        submission = account.submission if benchmark.grading != "same" else None
        if submission is None:
            with boundary(EnvironmentFault, "starting the environment"):
                env = _agents_environment(spec)
            stack.callback(_close, env)
            _open_environments[id(env)] = env
            account.phase = "agent"
            submission = _solve(spec, env, account)
            with boundary(AgentError, "reading the submission"):
                submission = with_texts(
                    storable_value(checked_submission(submission)), without_keys
                )
                account.submission = submission
            submitted()
        account.submission = submission
        if benchmark.grading == "same":
            with boundary(EnvironmentFault, "ending the agent's processes"):
                env.deadline = None
                env.stop_processes()
        else:
            stack.close()
            env = NoEnvironment()
        if benchmark.grading == "fresh":
            account.phase = "start"
            with boundary(EnvironmentFault, "starting the grading environment"):
                env = benchmark.open_grading_environment(task, spec.start.without_network())
            stack.callback(_close, env)
            _open_environments[id(env)] = env
        account.phase = "answer"
        with boundary(GraderError, "grading"):
            account.verdict = _graded(spec, submission, env)
            return account.verdict


def _agents_environment(spec: TrialSpec) -> Environment:
    """Where the agent works; who knows the answer needs it rarely, and then has it at first use."""

    def opened() -> Environment:
        return spec.benchmark.open_environment(spec.task, spec.start)

    if submits(spec.agent) and spec.benchmark.grading == "fresh":
        return ReopenedMachine(lambda: machine(opened()))
    return opened()


def _graded(spec: TrialSpec, submission: Submission, env: Environment) -> Verdict:
    def grade() -> Verdict:
        return checked_verdict(spec.benchmark.grade(spec.task, submission, env))

    if spec.equal is None:
        return grade()
    return spec.equal.verdict(spec.task["id"], spec.sample, submission, grade)


def _solve(spec: TrialSpec, env: Environment, account: _Account) -> Submission:
    """Let the agent work, then take what it hands in."""
    meter = account.meter
    with boundary(GraderError, "asking for the task's time"):
        seconds = _seconds(spec)
    if seconds is not None:
        meter.limits = replace(spec.limits, seconds=seconds)
        meter.deadline = time.monotonic() + seconds
    if submits(spec.agent):
        with boundary(AgentError, "handing in"):
            return spec.agent.submit(spec.benchmark, spec.task, spec.sample, env)
    env.deadline = meter.deadline
    try:
        with boundary(AgentError, "the agent"):
            result = _run_agent(spec.agent, spec.task["prompt"], env, seconds)
    except LimitReached as limit:
        result = AgentResult("", stop_reason=f"limit:{limit.limit}")
    account.steps, account.trajectory = result.steps, result.trajectory
    account.stop_reason, account.usage = result.stop_reason, account.usage + result.usage
    if not meter.calls and result.cost != 0.0:  # an outside agent that keeps its own account
        told = _believable(result.cost)
        meter.cost = None if meter.cost is None or told is None else meter.cost + told
    env.deadline = None
    account.phase, meter.earlier = "answer", len(meter.calls)
    with boundary(AgentError, "collecting the submission"):
        return spec.benchmark.collect(spec.task, result, env)


def _same_call(journaled: CallRecord, stored: CallRecord) -> bool:
    """Whether a call is in the trial's record as well as in its journal, which was not removed: it
    was paid once. The journal has the time of the request, the record that of the call in it."""
    begun, ended = journaled.started - 0.01, journaled.started + journaled.seconds + 0.01
    paid = (journaled.model, journaled.usage, journaled.cost)
    return paid == (stored.model, stored.usage, stored.cost) and (
        begun <= stored.started <= stored.started + stored.seconds <= ended
    )


def _believable(cost: object) -> float | None:
    """What an agent says it cost; what nothing can have cost is not known."""
    told = isinstance(cost, (int, float)) and 0 <= cost <= MOST_COST
    return float(cost) if told else None  # type: ignore[arg-type]


def _seconds(spec: TrialSpec) -> float | None:
    """How long the agent may work: the user's limit or the task's own, whichever ends first."""
    own = spec.benchmark.agent_seconds(spec.task)
    if own is not None and not (isinstance(own, (int, float)) and own > 0):
        raise GraderError(f"agent_seconds gives {own!r}: expected a number above 0, or None")
    bounds = (spec.limits.seconds, own)
    return min((seconds for seconds in bounds if seconds is not None), default=None)


def _run_agent(agent: Agent, prompt: str, env: Environment, seconds: float | None) -> AgentResult:
    result: AgentResult | str
    if seconds is None:
        result = agent.run(prompt, env)
    else:
        result = _within(lambda: agent.run(prompt, env), seconds, env)
    if not isinstance(result, (AgentResult, str)):
        kind = type(result).__name__
        raise AgentError(f"the agent returned {kind}, not a text or an AgentResult")
    return AgentResult(result) if isinstance(result, str) else _checked_result(result)


def _checked_result(result: AgentResult) -> AgentResult:
    """Of an agent of one's own: what could not be counted or stored is told."""
    expected: dict[str, type] = {"output": str, "usage": Usage, "steps": int, "stop_reason": str}
    for name, kind in expected.items():
        if not isinstance(value := getattr(result, name), kind):
            raise AgentError(f"the agent's {name} is {value!r:.80}: expected {kind.__name__}")
    counts = (result.steps, *asdict(result.usage).values())
    if not all(isinstance(count, int) and 0 <= count < MOST_COUNTED for count in counts):
        told = ", ".join(map(repr, counts))
        raise AgentError(f"the agent's steps and tokens are {told:.80}: expected numbers from 0")
    return result


def _within(call: Callable[[], ResultT], seconds: float, env: Environment) -> ResultT:
    """Run `call` in a thread of its own, so that an agent that never returns is given up."""
    box: list[ResultT | BaseException] = []
    context = contextvars.copy_context()

    def body() -> None:
        try:
            box.append(context.run(call))
        except BaseException as error:  # noqa: BLE001 - raised again by the caller's thread
            box.append(error)

    thread = threading.Thread(target=body, daemon=True, name="chimera-agent")
    thread.start()
    thread.join(seconds + GRACE_SECONDS)
    if thread.is_alive():
        env.close()
        raise AgentError(f"the agent did not stop at its time limit of {seconds:g} s")
    outcome = box[0]
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


class boundary(doing):
    """Name an unexpected exception for the boundary it crossed; ours pass as they are."""

    __slots__ = ("_kind",)

    def __init__(self, kind: type[RunError], phase: str) -> None:
        super().__init__(phase)
        self._kind = kind

    def __enter__(self) -> None:
        try:
            super().__enter__()
        except Exception as error:
            self._name(error)
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            super().__exit__(kind, error, trace)
        except Exception as failure:
            self._name(failure)
            raise
        if error is not None:
            self._name(error)

    def _name(self, error: BaseException) -> None:
        """Any code of users and adapters may fail in any way, or ask the program to end."""
        if not isinstance(error, (ChimeraError, KeyboardInterrupt)):
            raise self._kind(f"{self._what} failed: {fault(error)}") from error


def _close(env: Environment) -> None:
    _open_environments.pop(id(env), None)
    with boundary(EnvironmentFault, "closing the environment"):
        env.close()


def close_open_environments() -> None:
    """End what interrupted trials have running."""
    for env in list(_open_environments.values()):
        _close(env)


def _backoff(attempt: int, retry_after: float | None) -> float:
    wait = FIRST_BACKOFF_SECONDS * 2.0 ** (attempt - 1) * random.uniform(0.5, 1.5)
    return max(wait, retry_after or 0.0)
