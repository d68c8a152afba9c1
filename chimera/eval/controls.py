"""No verdict without a control: known answers, graded where the verdict was reached.

A fail counts where the reference answer was seen to pass, a pass where doing nothing was seen to
fail, in an environment of the same identity. Otherwise the trial has no verdict, with what the
known answer came to as evidence; or, where the data themselves reward nothing, a pass is marked.
Checks that break on an answer and not on a known one were broken by it: it has failed.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from chimera import __version__
from chimera.environments.base import Environment
from chimera.environments.identity import mounted, own_code
from chimera.errors import ChimeraError, GraderError, UsageError
from chimera.eval.benchmark import Benchmark, StartEnvironment
from chimera.eval.runs.control_store import ControlStore
from chimera.eval.submitters import OracleAgent, Stored
from chimera.eval.timing import timed
from chimera.eval.trial import Submitter, TrialSpec, boundary, run_trial, submits
from chimera.eval.values import (
    Control,
    ControlAnswer,
    ControlStatus,
    Submission,
    TrialControls,
    TrialError,
    TrialRecord,
    Verdict,
    content_digest,
)
from chimera.eval.workers import ThreadExecutor, results
from chimera.providers.meter import Budget
from chimera.text import shortened, storable, storable_value
from chimera.types import JSON

ValueT = TypeVar("ValueT")
#: `auto`: when a verdict needs one; `first`: all before an agent is paid; `off`: none.
Mode = Literal["auto", "first", "off"]
MODES: tuple[Mode, ...] = ("auto", "first", "off")
ANSWERS: tuple[ControlAnswer, ...] = ("reference", "nothing")
KEPT_LOG = 20_000
#: Stands for the verdict itself among the tests that are known to be unstable.
WHOLE = "(verdict)"


@dataclass(frozen=True, slots=True)
class Untouched(Submitter):
    """Hands in what there is when nothing was done."""

    def submit(
        self, benchmark: Benchmark[Any], task: Any, sample: int, env: Environment
    ) -> Submission:
        return benchmark.untouched(task, env)

    def identity(self) -> JSON:
        return {"agent": "untouched"}


@dataclass(slots=True)
class _Maker:
    lock: threading.Lock = field(default_factory=threading.Lock)
    waiting: int = 0


class _Made:
    """The controls of a run: the latest in memory, all others in a file that goes with it, so that
    a run of a million tasks takes no more than one of a few thousand."""

    IN_MEMORY = 5000

    def __init__(self) -> None:
        self._latest: OrderedDict[tuple[str, str], Control] = OrderedDict()
        self._others: ControlStore | None = None
        self._lock = threading.Lock()

    def get(self, identity: str, answer: ControlAnswer) -> Control | None:
        with self._lock:
            if found := self._latest.get((identity, answer)):
                self._latest.move_to_end((identity, answer))
            elif self._others is not None:
                found = self._others.get(identity, answer)
            return found

    def add(self, control: Control) -> None:
        with self._lock:
            self._latest[control.identity, control.answer] = control
            if len(self._latest) > self.IN_MEMORY:
                self._put_away_oldest()

    def _put_away_oldest(self) -> None:
        key, oldest = next(iter(self._latest.items()))
        try:
            self._others = self._others or ControlStore(None)
            self._others.put(replace(oldest, details=""))  # whoever keeps it has these
        except UsageError:
            return  # no room: it stays in memory
        del self._latest[key]


class Controls:
    """Runs trials under the rule. Safe to use from many threads.

    Controls that hold are kept for ever, in `store`; others are made again by the next run, which
    may find the environment mended. `keep` is told of every control that a trial rests on.
    """

    def __init__(
        self,
        mode: Mode = "auto",
        *,
        store: ControlStore | None = None,
        keep: Callable[[Control], object] | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.mode, self._store, self._keep, self._budget = mode, store, keep, budget
        self._made = _Made()
        self._refuted: dict[str, Control] = {}  # task → the reference that does not pass here
        self._makers: dict[tuple[str, str], _Maker] = {}
        self._lock = threading.Lock()
        self._token = secrets.token_hex(8)
        self._proven = False

    # --- trials

    def run(
        self, spec: TrialSpec, *, checkpoint: Callable[[TrialRecord], object] | None = None
    ) -> TrialRecord:
        """One trial and its record; the verdict is there if it counts."""
        if not (submits(spec.agent) or _paid(spec.prior)):
            fault = self._foreseen(spec)
            if fault is not None:
                return fault
        record = run_trial(spec, budget=self._budget, checkpoint=checkpoint)
        return self.ruled(spec, record)

    def ruled(self, spec: TrialSpec, record: TrialRecord) -> TrialRecord:
        """The record as the rule leaves it."""
        try:
            with boundary(GraderError, "asking the benchmark about its task"):
                return self._ruled(spec, record)
        except ChimeraError as error:  # the environment cannot even be named
            if record.verdict is None:
                return record
            return _withheld(record, TrialControls("error", "error"), str(error))

    def _ruled(self, spec: TrialSpec, record: TrialRecord) -> TrialRecord:
        if record.verdict is None:
            return self._blamed(spec, record) if self.mode != "off" and _broke(record) else record
        verdict = timed(spec.benchmark, spec.task, record.verdict)
        if verdict is not record.verdict:
            record = replace(record, verdict=verdict)
        if self.mode == "off":
            return _unsupported(record, verdict, TrialControls("off", "off"))
        if verdict.metrics.get("decided_by") == "judge":  # rules decide known answers, no judge
            none = TrialControls(negative="none") if verdict.passed else TrialControls("none")
            return _unsupported(record, verdict, none)
        if verdict.passed and not spec.benchmark.has_untouched(spec.task):
            return _unsupported(record, verdict, TrialControls(negative="none"))
        if verdict.passed:
            control = self.control(spec, "nothing")
            found = TrialControls(negative=control.status, identity=control.identity)
            wrong = control.status == "passed" and not spec.benchmark.may_reward_nothing(spec.task)
            if wrong or (control.status == "error" and not control.of_answer):
                return _withheld(record, found, _reason(control))
            return replace(record, control=found)
        if _solves_nothing(spec, record.submission):
            return replace(record, control=TrialControls())
        if not spec.benchmark.has_reference(spec.task):
            return _unsupported(record, verdict, TrialControls(positive="none"))
        control = self.control(spec, "reference")
        rewarded: ControlStatus = (
            "passed" if spec.benchmark.nothing_is_right(spec.task) else "unneeded"
        )
        found = TrialControls(control.status, rewarded, control.identity)
        if not control.holds:
            return _withheld(record, found, _reason(control))
        if self._flips(spec, record, verdict, control.identity):
            return _withheld(record, found, "unstable: the same answer passes when graded again")
        marked = timed(spec.benchmark, spec.task, verdict, control.seconds)
        return replace(record, verdict=marked, control=found)

    def _flips(self, spec: TrialSpec, record: TrialRecord, verdict: Verdict, identity: str) -> bool:
        """Whether a fail that says little turns: one that rests on tests known not to be stable
        here, or one without a sign that the checks ran."""
        if record.submission is None or not spec.benchmark.regradable:
            return False
        failed = {name for name, held in tests_of(verdict).items() if not held} or {WHOLE}
        if not (_silent(verdict) or failed <= self._unstable(identity)):
            return False
        again = replace(spec, agent=Stored(record.submission), prior=None)
        return run_trial(again, budget=self._budget).passed

    def _unstable(self, identity: str) -> frozenset[str]:
        """Tests that are known not to be stable here."""
        nothing: frozenset[str] = frozenset()
        return self._cached(lambda store: frozenset(store.unstable(identity)), nothing)

    def _blamed(self, spec: TrialSpec, record: TrialRecord) -> TrialRecord:
        """What breaks the checks with an answer, again and again, and not with a known answer right
        after it, is that answer's failure; otherwise nobody's, and stays an error."""
        if spec.benchmark.regradable and record.submission is not None:
            answer = Stored(record.submission)
            again = run_trial(replace(spec, agent=answer, prior=None), budget=self._budget)
            if again.verdict is not None:
                return self.ruled(spec, replace(record, verdict=again.verdict, error=None))
            if not _broke(again):
                return record
        known: ControlAnswer = "reference" if spec.benchmark.has_reference(spec.task) else "nothing"
        control = self._make(spec, known)
        if control.status == "error" or (known == "reference" and not control.holds):
            return record
        assert record.error is not None
        why = f"the checks break on this answer alone: {record.error.message}"
        verdict = Verdict(False, why, metrics={"broke_checks": True})
        found = TrialControls(positive="passed" if known == "reference" else "none")
        return replace(record, verdict=verdict, error=None, control=found)

    def _foreseen(self, spec: TrialSpec) -> TrialRecord | None:
        """An error that is known before the agent is paid."""
        try:
            with boundary(GraderError, "checking the task"):
                spec.benchmark.check_task(spec.task, spec.start)
                if self._proves_first(spec):
                    self._prove(spec)
        except ChimeraError as error:
            return _stopped(spec, TrialError(error.boundary, str(error), error.retryable))
        known = self._refuted.get(spec.task["id"])
        if known is None:
            return None
        found = TrialControls(positive=known.status, identity=known.identity)
        foreseen = TrialError("environment", f"{_reason(known)}; no agent was asked")
        return replace(_stopped(spec, foreseen), control=found)

    def _proves_first(self, spec: TrialSpec) -> bool:
        """Where it was asked for; before the first call of a run also where it takes a moment."""
        quick = self.mode == "auto" and not self._proven and spec.benchmark.grading == "none"
        return self.mode == "first" or quick

    def _prove(self, spec: TrialSpec) -> None:
        if spec.benchmark.has_reference(spec.task):
            self._proven = self.control(spec, "reference").holds

    # --- controls

    def control(self, spec: TrialSpec, answer: ControlAnswer) -> Control:
        """What a known answer comes to where a trial is graded, made if nobody has yet."""
        identity, details = self.identity(spec.benchmark, spec.task, spec.start)
        lasting = _lasting(spec.benchmark, spec.start)
        with self._one_at_a_time((identity, answer)):
            made = known = self._made.get(identity, answer)
            if known is None and lasting:
                known = self._stored(identity, answer)
            if known is None:
                known = self._make(spec, answer, identity, details)
                self._save(spec, known)
            if made is None:
                self._made.add(known)
                if self._keep is not None:
                    self._keep(known)
            if answer == "reference" and not known.holds:
                self._refuted[known.task_id] = known
            return known

    @contextmanager
    def _one_at_a_time(self, key: tuple[str, str]) -> Iterator[None]:
        """Who makes a control of that name makes it alone; others wait, to find it made."""
        with self._lock:
            maker = self._makers.setdefault(key, _Maker())
            maker.waiting += 1
        try:
            with maker.lock:
                yield
        finally:
            with self._lock:
                maker.waiting -= 1
                if not maker.waiting:
                    del self._makers[key]

    def learn(
        self,
        spec: TrialSpec,
        record: TrialRecord,
        unstable: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        """Keep what the reference came to in a trial of its own, and which tests vary with it."""
        try:
            identity, details = self.identity(spec.benchmark, spec.task, spec.start)
        except ChimeraError:
            return  # an environment that cannot be named has nothing to be kept under
        self._save(spec, _control_of(spec, "reference", record, identity, details))
        if unstable is not None:
            self._cached(lambda store: store.put_unstable(identity, unstable), None)

    def make_all(
        self,
        benchmark: Benchmark[Any],
        tasks: Iterable[Any],
        start: StartEnvironment,
        *,
        workers: int = 4,
        answers: Iterable[ControlAnswer] = ANSWERS,
    ) -> Iterator[Control]:
        """Both controls of every task, as they come."""

        def make(job: tuple[TrialSpec, ControlAnswer]) -> Control | None:
            spec, answer = job
            has = benchmark.has_reference if answer == "reference" else benchmark.has_untouched
            if not has(spec.task):
                return None
            try:
                return self.control(spec, answer)
            except ChimeraError as error:
                return _unmade(spec, answer, error)

        jobs = (
            (TrialSpec(benchmark, task, 0, Untouched(), start), answer)
            for task in tasks
            for answer in answers
        )
        return (made for made in results(ThreadExecutor(make, workers), jobs) if made is not None)

    def identity(
        self, benchmark: Benchmark[Any], task: Any, start: StartEnvironment
    ) -> tuple[str, str]:
        """The name of all that a verdict depends on beside the answer, and what it is made of."""
        where = start if benchmark.grading == "same" else start.without_network()
        details: dict[str, JSON] = {
            "benchmark": benchmark.name(),
            "chimera": [__version__, own_code()],
            "grader": benchmark.grader_version,
            "options": benchmark.options(),
            "task": content_digest(task),
            "files": mounted(str(path) for path in benchmark.files_beside(task)),
            "environment": _backend(benchmark, start),
            "place": benchmark.graded_in(task, where),
            "run": "" if _lasting(benchmark, start) else self._token,
        }
        return content_digest(details), _written(details)

    def _stored(self, identity: str, answer: ControlAnswer) -> Control | None:
        found = self._cached(lambda store: store.get(identity, answer), None)
        return found if found is not None and found.holds else None

    def _save(self, spec: TrialSpec, control: Control) -> None:
        if _lasting(spec.benchmark, spec.start):
            self._cached(lambda store: store.put(control), None)

    def _cached(self, use: Callable[[ControlStore], ValueT], otherwise: ValueT) -> ValueT:
        """What the cache says; one that cannot be used is only slow."""
        if self._store is None:
            return otherwise
        try:
            return use(self._store)
        except UsageError:
            self._store = None
            return otherwise

    def _make(
        self, spec: TrialSpec, answer: ControlAnswer, identity: str = "", details: str = ""
    ) -> Control:
        agent = OracleAgent() if answer == "reference" else Untouched()
        started = TrialSpec(spec.benchmark, spec.task, 0, agent, spec.start, attempts=spec.attempts)
        record = run_trial(started, budget=self._budget)
        return _control_of(spec, answer, record, identity, details)


def _backend(benchmark: Benchmark[Any], start: StartEnvironment) -> str:
    return "none" if benchmark.grading == "none" else start.backend


def _lasting(benchmark: Benchmark[Any], start: StartEnvironment) -> bool:
    """Whether controls outlive the run: of code that is not ours nobody knows when it changes."""
    return type(benchmark).__module__.startswith("chimera.") and bool(_backend(benchmark, start))


def tests_of(verdict: Verdict) -> dict[str, bool]:
    """The tests that a verdict's evidence names, and whether they held."""
    listed = verdict.evidence.get("tests_status")
    if isinstance(listed, Mapping):
        groups = [group for group in listed.values() if isinstance(group, Mapping)]
        held = {str(name): True for group in groups for name in group.get("success", ())}
        return held | {str(name): False for group in groups for name in group.get("failure", ())}
    named = verdict.evidence.get("tests")
    if isinstance(named, Mapping):
        return {str(name): status in ("PASSED", "XFAIL") for name, status in named.items()}
    passed, failed = (verdict.evidence.get(f"{kind}_tests") or () for kind in ("passed", "failed"))
    return {str(name): True for name in passed} | {str(name): False for name in failed}


def _control_of(
    spec: TrialSpec, answer: ControlAnswer, record: TrialRecord, identity: str, details: str
) -> Control:
    made = Control(
        identity=identity,
        answer=answer,
        benchmark=spec.benchmark.name(),
        task_id=spec.task["id"],
        status=record.status,
        why=storable(record.why),
        of_answer=record.error is not None and _of_answer(record.error),
        made=record.started,
        seconds=record.duration,
        details=details,
    )
    return made if made.holds else replace(made, log=storable(_log(record)))


def _of_answer(error: TrialError) -> bool:
    """Whether checks broke on what was handed in, and not what they run in."""
    return error.of_answer and error.boundary == "grader"


def machine_store() -> ControlStore:
    """The controls of this machine; a cache that cannot be used is only slow."""
    try:
        return ControlStore.here()
    except UsageError:
        return ControlStore(Path(":memory:"))


def _reason(control: Control) -> str:
    if control.answer == "reference":
        what = "the reference answer does not pass here either"
    elif control.status == "passed":
        what = "the untouched task passes here too"
    else:
        what = "the untouched task has no verdict here"
    return f"{what}: {control.why}" if control.why else what


def _withheld(record: TrialRecord, found: TrialControls, reason: str) -> TrialRecord:
    """No verdict: what decided is not the answer alone."""
    assert record.verdict is not None
    own = f" (the answer: {record.verdict.why})" if record.verdict.why else ""
    error = TrialError("environment", f"no verdict: {reason}{own}")
    return replace(record, verdict=None, error=error, control=found)


def _unsupported(record: TrialRecord, verdict: Verdict, found: TrialControls) -> TrialRecord:
    """A verdict that rests on no control; a fail then needs some sign that the checks ran."""
    if _silent(verdict):
        return _withheld(record, found, "nothing shows that the checks ran")
    return replace(record, control=found)


def _silent(verdict: Verdict) -> bool:
    """Whether a fail has no sign that the checks ran."""
    return not verdict.passed and verdict.metrics.get("ran") is False


def _broke(record: TrialRecord) -> bool:
    """Whether an answer was handed in, and grading it broke."""
    error = record.error
    handed_in = record.submission is not None
    return handed_in and error is not None and error.of_answer and error.boundary == "grader"


def _paid(prior: TrialRecord | None) -> bool:
    """Whether an agent was asked already: what it said, and what it cost, is kept."""
    return prior is not None and (prior.submission is not None or bool(prior.calls))


def _stopped(spec: TrialSpec, error: TrialError) -> TrialRecord:
    return TrialRecord(spec.task["id"], spec.sample, spec.digest, error=error, started=time.time())


def _unmade(spec: TrialSpec, answer: ControlAnswer, error: ChimeraError) -> Control:
    """What is said of a control whose environment cannot even be named."""
    why = f"{error.boundary}: {error}"
    return Control(
        "", answer, spec.benchmark.name(), spec.task["id"], "error", why, made=time.time()
    )


def _written(details: Mapping[str, JSON]) -> str:
    try:
        return msgspec.json.encode(details, enc_hook=str).decode()
    except UnicodeEncodeError:  # lone surrogates
        return msgspec.json.encode(storable_value(dict(details)), enc_hook=str).decode()


def _solves_nothing(spec: TrialSpec, submission: Submission | None) -> bool:
    """Whether nothing was handed in where something is wanted: that it fails needs no proof."""
    if submission is None or spec.benchmark.grading == "same":
        return False
    empty = not (submission.text.strip() or submission.files or submission.data)
    return empty and not spec.benchmark.may_reward_nothing(spec.task)


def _log(record: TrialRecord) -> str:
    """What the checks of a control printed."""
    if record.verdict is None:
        return record.error.message if record.error else ""
    for name in ("log", "output"):
        text = record.verdict.evidence.get(name)
        if isinstance(text, str):
            return shortened(text, KEPT_LOG)
    plain = {k: v for k, v in record.verdict.evidence.items() if not isinstance(v, bytes)}
    text = msgspec.json.encode(storable_value(plain), enc_hook=str).decode()
    return shortened(text, KEPT_LOG) if plain else ""
