"""The way of one trial: faults are errors, limits are graded, environments are always closed."""

from __future__ import annotations

import pickle
import threading
import time
from dataclasses import dataclass, field, replace

import pytest

from chimera.environments.none import NoEnvironment
from chimera.errors import (
    AgentError,
    EnvironmentFault,
    GraderError,
    LimitReached,
    ProviderError,
)
from chimera.eval import trial
from chimera.eval.benchmark import StartEnvironment
from chimera.eval.harness import Benchmark
from chimera.eval.submitters import Stored
from chimera.eval.trial import EqualAnswers, TrialSpec, run_trial
from chimera.eval.values import Submission, TrialError, Verdict
from chimera.providers.journal import Journal, JournaledCall
from chimera.providers.meter import CallRecord, TrialLimits, current_meter
from chimera.types import AgentResult, Usage

TASK = {"id": "t", "prompt": "say yes"}


class Env(NoEnvironment):
    """Counts what is done to it."""

    def __init__(self):
        self.log = []

    def stop_processes(self):
        self.log.append("stop")

    def close(self):
        self.log.append("close")


@dataclass
class Start(StartEnvironment):
    made: list = field(default_factory=list)

    def __call__(self, spec):
        self.made.append(Env())
        return self.made[-1]


class Yes(Benchmark):
    def name(self):
        return "yes"

    def tasks(self):
        return [TASK]

    def grade(self, task, submission, env):
        return Verdict(submission.text == "yes", "" if submission.text == "yes" else "not yes")


@dataclass(frozen=True)
class Says:
    text: str = "yes"

    def run(self, prompt, env):
        return AgentResult(self.text)


@dataclass
class Raises:
    error: BaseException
    times: int = 100
    calls: int = 0

    def run(self, prompt, env):
        self.calls += 1
        if self.calls <= self.times:
            raise self.error
        return AgentResult("yes")


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(trial, "FIRST_BACKOFF_SECONDS", 0.0)


def spec(benchmark=None, agent=None, **settings):
    settings.setdefault("start", Start())
    settings = {"task": TASK, "sample": 0, **settings}
    return TrialSpec(benchmark=benchmark or Yes(), agent=agent or Says(), **settings)


@pytest.mark.parametrize(("text", "status"), [("yes", "passed"), ("no", "failed"), ("", "failed")])
def test_verdicts(text, status):
    record = run_trial(spec(agent=Says(text)))

    assert record.status == status
    assert record.submission.text == text
    assert record.error is None


def test_an_agent_may_return_plain_text():
    class Plain:
        def run(self, prompt, env):
            return "yes"

    assert run_trial(spec(agent=Plain())).passed


@pytest.mark.parametrize(
    ("error", "boundary", "attempts"),
    [
        (ValueError("bug"), "agent", 1),
        (AgentError("exit code 1"), "agent", 1),
        (ProviderError("HTTP 500", retryable=True), "provider", 3),
        (ProviderError("HTTP 401"), "provider", 1),
        (EnvironmentFault("container died", retryable=True), "environment", 3),
        (GraderError("no report"), "grader", 1),
    ],
)
def test_faults_are_errors_and_never_verdicts(error, boundary, attempts):
    agent = Raises(error)
    record = run_trial(spec(agent=agent))

    assert record.status == "error"
    assert record.verdict is None
    assert record.error.boundary == boundary
    assert str(error) in record.error.message
    assert (record.attempts, agent.calls) == (attempts, attempts)


def test_a_passing_fault_is_tried_again_in_a_fresh_environment():
    start = Start()
    record = run_trial(
        spec(agent=Raises(ProviderError("HTTP 500", retryable=True), times=2), start=start)
    )

    assert record.passed
    assert record.attempts == 3
    assert len(start.made) == 3
    assert all(env.log[-1] == "close" for env in start.made)


def test_a_verdict_outlives_an_environment_that_cannot_be_closed():
    class Stuck(Env):
        def close(self):
            raise EnvironmentFault("the container cannot be removed", retryable=True)

    record = run_trial(spec(start=lambda wanted: Stuck()))

    assert record.passed
    assert record.attempts == 1
    assert record.verdict.metrics["left_behind"] == "the container cannot be removed"


def test_a_grader_that_raises_gives_no_verdict():
    class Broken(Yes):
        def grade(self, task, submission, env):
            raise RuntimeError("boom")

    record = run_trial(spec(Broken()))

    assert record.status == "error"
    assert record.error.boundary == "grader"
    assert "boom" in record.why


def test_an_environment_that_does_not_start_gives_no_verdict():
    def start(_):
        raise OSError("no space left on device")

    record = run_trial(spec(start=start))

    assert (record.status, record.error.boundary) == ("error", "environment")


def test_what_an_agent_has_at_its_limit_is_graded():
    record = run_trial(spec(agent=Raises(LimitReached("tokens", "5 of 5 tokens are used"))))

    assert record.status == "failed"
    assert record.stop_reason == "limit:tokens"


def test_processes_are_ended_before_grading_in_the_same_environment():
    seen = []

    class Same(Yes):
        def grade(self, task, submission, env):
            seen.extend(env.log)
            return Verdict(True)

    start = Start()
    run_trial(spec(Same(), start=start))

    assert seen == ["stop"]
    assert start.made[0].log == ["stop", "close"]


def test_fresh_grading_starts_after_the_agents_environment_is_gone():
    class Fresh(Yes):
        grading = "fresh"

        def grade(self, task, submission, env):
            assert env is start.made[1]
            assert start.made[0].log == ["close"]
            return Verdict(True)

    start = Start()

    assert run_trial(spec(Fresh(), start=start)).passed
    assert [env.log for env in start.made] == [["close"], ["close"]]


def test_who_knows_the_answer_opens_no_environment_that_nobody_uses():
    class Fresh(Yes):
        grading = "fresh"

    start = Start()

    assert run_trial(spec(Fresh(), agent=Stored(Submission("yes")), start=start)).passed
    assert [env.log for env in start.made] == [["close"]]  # the grader's


@pytest.mark.parametrize("cost", [-1.0, float("nan"), float("inf"), "3"])
def test_a_cost_that_nothing_can_have_is_not_known(cost):
    class Claims:
        def run(self, prompt, env):
            return AgentResult("yes", cost=cost)

    record = run_trial(spec(agent=Claims()))

    assert (record.status, record.cost) == ("passed", None)


def test_what_an_agent_paid_itself_is_kept_however_often_it_is_asked():
    class Pays:
        def run(self, prompt, env):
            return AgentResult("yes", Usage(5, 1), cost=1.0)

    class Breaks(Yes):
        def grade(self, task, submission, env):
            raise GraderError("the judge is away", retryable=True)

    class Apart(Yes):
        grading = "none"

    first = run_trial(spec(benchmark=Breaks(), agent=Pays(), attempts=2))
    second = run_trial(spec(agent=Pays(), prior=first))
    graded = replace(second, verdict=None)  # what was handed in waits for its verdict
    third = run_trial(spec(benchmark=Apart(), agent=Pays(), prior=graded))

    assert (first.status, first.cost, first.usage) == ("error", 2.0, Usage(10, 2))
    assert (second.status, second.cost, second.usage) == ("passed", 3.0, Usage(15, 3))
    assert (third.status, third.cost, third.usage) == ("passed", 3.0, Usage(15, 3))


def test_a_call_that_is_stored_and_in_the_journal_too_was_paid_once(tmp_path):
    stored = CallRecord("m", Usage(5, 1), 0.006, started=100.0001, seconds=0.5)
    accounts = [
        replace(stored, started=100.0, seconds=0.5002),  # of the request around that call
        replace(stored, started=101.0),  # a later call, equal but for its time
    ]
    journal = Journal(tmp_path / "calls", "d.jsonl")
    for account in accounts:
        journal.add(JournaledCall("key", b"reply", account))
    prior = run_trial(spec(digest="d"))
    prior = replace(prior, calls=(stored,), verdict=None, error=TrialError("store", "full"))
    record = run_trial(spec(digest="d", prior=prior, journals=journal.directory))

    assert record.calls == (stored, accounts[1])
    assert record.cost == pytest.approx(0.012)


def test_the_agent_never_gets_the_task():
    class Spy:
        def run(self, prompt, env):
            self.prompt = prompt
            return AgentResult("yes")

    spy = Spy()
    run_trial(spec(agent=spy))

    assert spy.prompt == TASK["prompt"]


def test_an_agent_that_never_returns_is_given_up(monkeypatch):
    monkeypatch.setattr(trial, "GRACE_SECONDS", 0.05)
    release = threading.Event()

    class Stuck:
        def run(self, prompt, env):
            release.wait(30)
            return AgentResult("yes")

    start = Start()
    record = run_trial(spec(agent=Stuck(), start=start, limits=TrialLimits(seconds=0.05)))
    release.set()

    assert (record.status, record.error.boundary) == ("error", "agent")
    assert "time limit" in record.why
    assert "close" in start.made[0].log


def test_a_time_limit_leaves_a_quick_agent_alone():
    deadlines = []

    class Looks:
        def run(self, prompt, env):
            deadlines.append(env.deadline - time.monotonic())
            return AgentResult("yes")

    assert run_trial(spec(agent=Looks(), limits=TrialLimits(seconds=60))).passed
    assert 0 < deadlines[0] <= 60


@pytest.mark.parametrize(("own", "asked", "left"), [(30, None, 30), (30, 60, 30), (60, 30, 30)])
def test_the_earlier_of_two_time_limits_holds_for_commands_and_calls(own, asked, left):
    class Timed(Yes):
        def agent_seconds(self, task):
            return own

    class Looks:
        def run(self, prompt, env):
            meter = current_meter()
            for remaining in (env.deadline - time.monotonic(), meter.remaining_seconds()):
                assert left - 5 < remaining <= left
            assert meter.limits.seconds == left
            return AgentResult("yes")

    record = run_trial(spec(Timed(), agent=Looks(), limits=TrialLimits(seconds=asked)))

    assert record.passed, record.why


def test_a_reference_solution_is_not_held_to_the_time_of_agents():
    class Oracle:
        def submit(self, benchmark, task, sample, env):
            return Submission("yes" if env.deadline is None else "no")

        def identity(self):
            return "oracle"

    assert run_trial(spec(agent=Oracle(), limits=TrialLimits(seconds=60))).passed


@pytest.mark.parametrize(
    ("grading", "model", "kept"),
    [
        ("fresh", None, []),  # no model was called: nothing would be lost
        ("none", "scripted/text:yes", []),  # the verdict is there at once
        ("fresh", "scripted/text:yes", [("yes", None)]),
    ],
)
def test_a_submission_is_checkpointed_when_it_was_paid_for_and_waits(grading, model, kept):
    from chimera.agents import create_agent

    class Graded(Yes):
        pass

    Graded.grading = grading
    agent = Says() if model is None else create_agent("direct", model=model)
    seen = []
    run_trial(spec(Graded(), agent), checkpoint=seen.append)

    assert [(record.submission.text, record.verdict) for record in seen] == kept


def test_a_checkpointed_submission_is_graded_without_the_agent():
    class NoGrading(Yes):
        grading = "none"

    prior = run_trial(spec(NoGrading()))
    prior = type(prior)(task_id="t", sample=0, digest="", submission=Submission("yes"), steps=7)
    record = run_trial(spec(NoGrading(), agent=Raises(AssertionError("not called")), prior=prior))

    assert record.passed
    assert record.steps == 7


def test_specs_and_records_are_values_that_can_be_sent():
    one = TrialSpec(Yes(), TASK, 0, Says(), trial.StartBackend("none"))
    record = run_trial(pickle.loads(pickle.dumps(one)))

    assert pickle.loads(pickle.dumps(record)) == record
    assert record.passed


class Counted(Yes):
    """Fails its first grading where it is told to."""

    grading = "none"

    def __init__(self, faults=0):
        self.faults, self.gradings = faults, 0

    def grade(self, task, submission, env):
        self.gradings += 1
        if self.gradings <= self.faults:
            raise GraderError("the grader's own fault")
        return super().grade(task, submission, env)


def test_equal_answers_to_one_task_are_graded_once():
    benchmark, equal = Counted(), EqualAnswers()
    said = ["yes", "no", "yes", "yes"]

    records = [
        run_trial(spec(benchmark, Says(text), sample=sample, equal=equal))
        for sample, text in enumerate(said)
    ]

    assert benchmark.gradings == 2
    assert [record.passed for record in records] == [True, False, True, True]
    told = [record.verdict.metrics.get("graded_as_sample") for record in records]
    assert told == [None, None, 0, 0]


def test_a_fault_in_grading_is_not_shared():
    benchmark, equal = Counted(faults=1), EqualAnswers()

    first = run_trial(spec(benchmark, Says("yes"), sample=0, equal=equal, attempts=1))
    second = run_trial(spec(benchmark, Says("yes"), sample=1, equal=equal, attempts=1))

    assert first.error is not None
    assert second.passed
    assert "graded_as_sample" not in second.verdict.metrics


def test_the_same_answer_to_another_task_is_graded():
    benchmark, equal = Counted(), EqualAnswers()

    for task_id in ("a", "b"):
        run_trial(spec(benchmark, Says("yes"), task={"id": task_id, "prompt": ""}, equal=equal))

    assert benchmark.gradings == 2
