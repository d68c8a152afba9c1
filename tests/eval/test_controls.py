"""No verdict without a control: what known answers come to decides whether a verdict counts."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pytest

from chimera.environments.base import Environment
from chimera.errors import EnvironmentFault, GraderError, JudgeFault, UsageError
from chimera.eval.benchmark import Benchmark
from chimera.eval.controls import Controls, _Made
from chimera.eval.harness import Harness
from chimera.eval.runs.control_store import ControlStore
from chimera.eval.submitters import Stored
from chimera.eval.trial import StartBackend, TrialSpec
from chimera.eval.values import Submission, Verdict
from chimera.types import AgentResult


@dataclass
class Answers(Benchmark):
    """Passes the answers that it is told to; others fail, or have no verdict."""

    passing: frozenset[str] = frozenset({"right"})
    breaking: frozenset[str] = frozenset()
    faulty: frozenset[str] = frozenset()
    gold_text: str | None = "right"
    rewards_nothing: bool = False
    ran: bool = True
    place: str = "here"
    graded: list[str] = field(default_factory=list)

    grading = "none"

    def name(self):
        return "answers"

    def tasks(self):
        return [{"id": "t", "prompt": "p"}]

    def grade(self, task, submission, env):
        self.graded.append(submission.text)
        if submission.text in self.breaking:
            raise GraderError("the checks broke")
        if submission.text in self.faulty:
            raise EnvironmentFault("the machine is gone")
        passed = submission.text in self.passing
        metrics = {} if self.ran else {"ran": False}
        return Verdict(passed, "" if passed else "wrong", metrics=metrics)

    def gold(self, task):
        return None if self.gold_text is None else Submission(self.gold_text)

    def graded_in(self, task, start):
        return self.place

    def may_reward_nothing(self, task):
        return self.rewards_nothing


def ruled(benchmark, text, *, mode="auto", controls=None):
    spec = TrialSpec(
        benchmark, benchmark.tasks()[0], 0, Stored(Submission(text)), StartBackend("none")
    )
    return (controls or Controls(mode)).run(spec)


@pytest.mark.parametrize(
    ("case", "text", "status", "positive", "negative"),
    [
        ({}, "right", "passed", "unneeded", "failed"),
        ({}, "wrong", "failed", "passed", "unneeded"),
        # the reference fails as well: the machine's fault
        ({"passing": frozenset()}, "wrong", "error", "failed", "unneeded"),
        ({"breaking": frozenset({"right"})}, "wrong", "error", "error", "unneeded"),
        # everything passes: nobody knows what for
        ({"passing": frozenset({"right", ""})}, "right", "error", "unneeded", "passed"),
        ({"passing": frozenset({"right", ""}), "rewards_nothing": True}, "right", "passed",
         "unneeded", "passed"),
        # the checks break on nothing at all: it did not pass
        ({"breaking": frozenset({""})}, "right", "passed", "unneeded", "error"),
        # the machine breaks on the way: nobody knows what nothing would have come to
        ({"faulty": frozenset({""})}, "right", "error", "unneeded", "error"),
        # no reference
        ({"gold_text": None}, "wrong", "failed", "none", "unneeded"),
        ({"gold_text": None, "ran": False}, "wrong", "error", "none", "unneeded"),
        ({"ran": False}, "wrong", "failed", "passed", "unneeded"),
        # nothing was handed in
        ({"passing": frozenset()}, "", "failed", "unneeded", "unneeded"),
        # nothing may be right: then the reference must pass where it is not
        ({"passing": frozenset(), "rewards_nothing": True}, "", "error", "failed", "unneeded"),
    ],
)  # fmt: skip
def test_a_verdict_counts_where_known_answers_come_out_as_they_must(
    case, text, status, positive, negative
):
    record = ruled(Answers(**case), text)

    assert record.status == status
    assert (record.control.positive, record.control.negative) == (positive, negative)


@pytest.mark.parametrize(
    ("case", "status"),
    [
        ({"breaking": frozenset({"odd"})}, "failed"),
        ({"breaking": frozenset({"odd"}), "gold_text": None}, "failed"),
        # with the reference they break as well, or it does not pass: nobody knows whose fault it is
        ({"breaking": frozenset({"odd", "right"})}, "error"),
        ({"breaking": frozenset({"odd"}), "passing": frozenset()}, "error"),
        ({"breaking": frozenset({"odd", ""}), "gold_text": None}, "error"),
    ],
)
def test_checks_that_break_on_an_answer_alone_were_broken_by_it(case, status):
    record = ruled(Answers(**case), "odd")

    assert record.status == status
    assert "the checks broke" in record.why
    assert ruled(Answers(**case), "odd", mode="off").status == "error"


def test_a_judges_fault_is_not_the_answers_though_a_rule_decides_the_reference():
    class NeedsAJudge(Answers):
        def grade(self, task, submission, env):
            if submission.text == "open":
                raise JudgeFault("no judge is there")
            return super().grade(task, submission, env)

    record = ruled(NeedsAJudge(), "open")

    assert (record.status, record.error.boundary) == ("error", "judge")


def test_checks_that_broke_once_decide_nothing():
    class Once(Answers):
        def grade(self, task, submission, env):
            self.breaking = frozenset() if self.graded else frozenset({"right"})
            return super().grade(task, submission, env)

    record = ruled(Once(), "right")

    assert (record.status, record.control.negative) == ("passed", "failed")


def test_an_error_says_what_the_reference_came_to_and_keeps_the_submission():
    record = ruled(Answers(passing=frozenset()), "wrong")

    assert record.error.boundary == "environment"
    assert "the reference answer does not pass here either: wrong" in record.why
    assert record.submission.text == "wrong"


@pytest.mark.parametrize(("text", "passing"), [("right", {"right"}), ("wrong", set())])
def test_without_controls_verdicts_are_marked(text, passing):
    benchmark = Answers(passing=frozenset(passing))

    record = ruled(benchmark, text, mode="off")

    assert record.uncontrolled
    assert benchmark.graded == [text]


def test_without_controls_a_fail_needs_a_sign_that_the_checks_ran():
    assert ruled(Answers(ran=False), "wrong", mode="off").status == "error"


def test_a_control_is_made_once_for_each_identity():
    benchmark, controls = Answers(), Controls()
    for text in ("wrong", "wrong", "right", "right"):
        ruled(benchmark, text, controls=controls)
    assert benchmark.graded == ["wrong", "right", "wrong", "right", "", "right"]

    benchmark.place = "elsewhere"
    ruled(benchmark, "wrong", controls=controls)

    assert benchmark.graded[6:] == ["wrong", "right"]


class Shipped(Answers):
    """As if it came with Chimera: its code is known by its version."""


Shipped.__module__ = "chimera.shipped"


@dataclass
class Numbered(Answers):
    count: int = 12

    def tasks(self):
        return [{"id": f"t{number}", "prompt": "p"} for number in range(self.count)]


@pytest.mark.parametrize("room", [True, False])
def test_controls_of_many_tasks_are_made_once_and_few_stay_in_memory(room, monkeypatch):
    """All samples of one come after those of all others; each has one control all the same."""
    monkeypatch.setattr(_Made, "IN_MEMORY", 3)
    benchmark, controls = Numbered(), Controls()
    if not room:
        monkeypatch.setattr(ControlStore, "put", no_room)

    for sample in range(3):
        for task in benchmark.tasks():
            answer = Stored(Submission("right"))
            found = controls.run(TrialSpec(benchmark, task, sample, answer, StartBackend("none")))
            assert found.control.negative == "failed"

    assert benchmark.graded.count("") == benchmark.count
    assert controls._makers == {}
    assert len(controls._made._latest) == (3 if room else benchmark.count)


def no_room(*_):
    raise UsageError("the disk is full")


def test_controls_that_hold_are_kept_for_later_runs(tmp_path):
    store, benchmark = ControlStore(tmp_path / "c.sqlite"), Shipped()
    for _ in range(2):
        ruled(benchmark, "wrong", controls=Controls(store=store))

    assert benchmark.graded == ["wrong", "right", "wrong"]


def test_controls_that_do_not_hold_are_made_again_by_the_next_run(tmp_path):
    store, benchmark = ControlStore(tmp_path / "c.sqlite"), Shipped(passing=frozenset())
    assert ruled(benchmark, "wrong", controls=Controls(store=store)).status == "error"

    benchmark.passing = frozenset({"right"})

    assert ruled(benchmark, "wrong", controls=Controls(store=store)).status == "failed"


def test_controls_of_code_that_is_not_ours_end_with_the_run(tmp_path):
    store, benchmark = ControlStore(tmp_path / "c.sqlite"), Answers()
    for _ in range(2):
        ruled(benchmark, "wrong", controls=Controls(store=store))

    assert benchmark.graded == ["wrong", "right", "wrong", "right"]


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE controls",
        "UPDATE controls SET made = 'yesterday'",
        "DROP TABLE controls; CREATE TABLE controls (identity, answer)",
        "DROP TABLE controls; CREATE VIEW controls AS SELECT 1",
    ],
)
def test_a_cache_that_is_damaged_is_only_slow(damage, tmp_path):
    path, benchmark = tmp_path / "c.sqlite", Shipped()
    store = ControlStore(path)
    ruled(benchmark, "wrong", controls=Controls(store=store))
    with closing(sqlite3.connect(path)) as other:
        other.executescript(damage)

    assert ruled(benchmark, "wrong", controls=Controls(store=store)).status == "failed"
    assert benchmark.graded == ["wrong", "right"] * 2


@dataclass
class Interrupted(Answers):
    """Its checks do not run the first time."""

    grading = "fresh"

    def grade(self, task, submission, env):
        verdict = super().grade(task, submission, env)
        return verdict if len(self.graded) > 1 else Verdict(False, metrics={"ran": False})


@pytest.mark.parametrize(("text", "status"), [("right", "error"), ("wrong", "failed")])
def test_a_fail_without_a_sign_that_checks_ran_is_graded_again(text, status):
    assert ruled(Interrupted(), text).status == status


class Judged(Answers):
    def grade(self, task, submission, env):
        verdict = super().grade(task, submission, env)
        return replace(verdict, metrics={"decided_by": "judge"})


@pytest.mark.parametrize("text", ["right", "wrong"])
def test_what_a_judge_decides_rests_on_no_answer_that_rules_decide(text):
    assert ruled(Judged(), text).uncontrolled


class Shaky(Shipped):
    """One test decides, and comes out as it is told."""

    outcomes: ClassVar[list[bool]] = []

    def grade(self, task, submission, env):
        held = submission.text == "right" or self.outcomes.pop(0)
        return Verdict(held, evidence={"tests": {"shaky": "PASSED" if held else "FAILED"}})


Shaky.__module__ = "chimera.shipped"


@pytest.mark.parametrize(
    ("known", "outcomes", "status"),
    [
        ({}, [False], "failed"),
        ({"other": (1, 2)}, [False], "failed"),
        ({"shaky": (1, 2)}, [False, False], "failed"),
        ({"shaky": (1, 2)}, [False, True], "error"),
    ],
)
def test_a_fail_that_rests_on_unstable_tests_is_graded_again(known, outcomes, status, tmp_path):
    store, benchmark = ControlStore(tmp_path / "c.sqlite"), Shaky()
    benchmark.outcomes[:] = outcomes
    controls = Controls(store=store)
    identity, _ = controls.identity(benchmark, benchmark.tasks()[0], StartBackend("none"))
    store.put_unstable(identity, known)

    record = ruled(benchmark, "wrong", controls=controls)

    assert record.status == status
    assert benchmark.outcomes == []
    assert status != "error" or "unstable" in record.why


@dataclass
class Paid:
    """Counts how often it is asked."""

    says: str = "wrong"
    asked: int = 0

    def run(self, prompt, env):
        self.asked += 1
        return AgentResult(self.says)


def test_nobody_is_asked_where_the_reference_is_known_to_fail():
    agent = Paid()

    result = Harness(Answers(passing=frozenset()), agent, controls="first", samples=3).run()

    assert (result.errored, agent.asked) == (3, 0)
    assert "no agent was asked" in result.results[0].why


def test_the_first_reference_is_graded_before_the_first_call_where_that_is_cheap():
    agent = Paid()

    Harness(Answers(passing=frozenset()), agent, samples=2).run()

    assert agent.asked == 0


class Unready(Answers):
    def check_task(self, task, start):
        raise GraderError("the row does not say how it is tested")


@pytest.mark.parametrize("mode", ["auto", "first", "off"])
def test_what_cannot_be_decided_is_told_before_the_agent_is_paid(mode):
    agent = Paid()

    result = Harness(Unready(), agent, controls=mode).run()

    assert agent.asked == 0
    assert result.results[0].why == "grader: the row does not say how it is tested"


def test_a_run_keeps_its_controls_and_says_what_its_verdicts_are_worth(tmp_path):
    benchmark = Answers(passing=frozenset({"right", ""}), rewards_nothing=True)
    path = tmp_path / "r.sqlite"

    result = Harness(benchmark, Paid("right"), samples=2, store=path).run()

    assert (result.passed, result.uninformative) == (2, 2)
    assert [(c.answer, c.status) for c in result.store.controls()] == [
        ("reference", "passed"),
        ("nothing", "passed"),
    ]
    record = result.store.record("t", 1)
    assert record.uninformative
    assert record.control.identity == result.store.controls()[1].identity


def test_a_withheld_verdict_is_reached_again_without_the_agent(tmp_path):
    benchmark, agent, path = Answers(breaking=frozenset({"right"})), Paid(), tmp_path / "r.sqlite"
    benchmark.grading = "fresh"  # nothing is proven before the first call
    first = Harness(benchmark, agent, store=path).run()
    assert first.errored == 1
    benchmark.breaking = frozenset()

    second = Harness(benchmark, agent, store=path).run()

    assert (second.failed, agent.asked) == (1, 1)


def test_what_was_paid_for_is_not_forgotten_while_the_environment_is_broken(tmp_path):
    benchmark, agent, path = Answers(breaking=frozenset({"right"})), Paid(), tmp_path / "r.sqlite"
    benchmark.grading = "fresh"
    for _ in range(2):
        result = Harness(benchmark, agent, store=path, controls="first").run()

    assert (result.errored, agent.asked) == (1, 0)
    first = Harness(benchmark, agent, store=tmp_path / "s.sqlite").run()
    second = Harness(benchmark, agent, store=tmp_path / "s.sqlite", controls="first").run()

    assert (first.errored, second.errored, agent.asked) == (1, 1, 1)
    assert second.store.record("t", 0).submission.text == "wrong"


class ThreeMethods(Benchmark):
    def name(self):
        return "three"

    def tasks(self):
        return [{"id": "t", "prompt": "p"}]

    def evaluate(self, task, agent_output, env: Environment):
        return int(agent_output or "4") == 4


def test_a_check_of_ones_own_that_nothing_passes_is_uninformative_and_no_error():
    result = Harness(ThreeMethods(), Paid("4")).run()

    assert (result.passed, result.uninformative) == (1, 1)
