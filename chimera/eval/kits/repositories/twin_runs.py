"""A pass must survive its twin: what the tests decided is believed only if they could have failed.

Tests that share a process with the code under test can be disarmed by it, and their report forged.
So the official tests run in a rewritten form, and what passes them is run once more in a fresh
environment on their twin, whose expected values are others (see `chimera.eval.kits.twins`). Tests
that the reference fails there must not pass for the submission either; those of them that it has to
turn must have passed before, and not been hidden or skipped. A half of the twin is kept as it was
and must pass, so that code which forges all of them or none by chance is found; a second twin keeps
the other half, and finds what is forged in the first.

The reference is the control. It says which tests have a twin, how far it can go, and, when a
submission fails, whether the rewriting itself may be the cause: then the published files decide.
"""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from chimera.cache import digest, stored_value
from chimera.environments.base import Environment, Machine, machine
from chimera.environments.reopened import ReopenedMachine
from chimera.environments.wrapped import unwrapped
from chimera.errors import EnvironmentFault, GraderError
from chimera.eval.kits.reports.report import not_run
from chimera.eval.kits.twins import VERSION, rewritten
from chimera.eval.kits.twins.cases import Half
from chimera.eval.kits.twins.reach import (
    CAREFUL_REACH,
    FULL_REACH,
    LEAST_REACH,
    Reach,
    learnt_reach,
)
from chimera.eval.values import Verdict
from chimera.types import JSON


@dataclass(frozen=True, slots=True)
class Form:
    """One of the forms of test files; in a twin, a choice says which expectations are changed, and
    a half keeps its own. `values` gives the other ones. In a plain form nothing is put around
    assertions."""

    kind: Literal["published", "true", "twin"]
    choice: int | None = None
    half: Half | None = None
    values: int | None = None
    plain: bool = False
    reach: Reach = FULL_REACH


PUBLISHED, TRUE, PLAIN = Form("published"), Form("true"), Form("true", plain=True)
#: Both forms where no reference says how far they can go.
ALONE, TWIN = Form("true", reach=CAREFUL_REACH), Form("twin", reach=CAREFUL_REACH)


@dataclass(frozen=True, slots=True)
class Tried:
    """One run of a patch: its verdict, the tests that are said to have passed, and to have failed.

    Without any of both nothing was run, or nothing of it could be read.
    """

    verdict: Verdict
    passed: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()

    @property
    def ran(self) -> bool:
        return bool(self.passed or self.failed)


@dataclass(frozen=True, slots=True)
class Tests:
    """How a task's patches are tried, and what is known beforehand."""

    __test__ = False

    run: Callable[[Machine, str, Form], Tried]  # in a fresh environment
    files: Collection[str]  # the official ones, which have forms
    gold: str  # the reference; empty where there is none
    wanted: Callable[[str], bool]  # whether a test is one that the submission has to turn
    key: JSON  # whatever the reference's results depend on


class NoTwin(GraderError):
    """Test files in which nothing can be changed: a run of them tells nothing."""


def put_form(env: Machine, root: str, paths: Iterable[str], form: Form) -> None:
    """Replace test files by one of their forms; what has none stays as it is."""
    if form.kind == "published":
        return
    seed = random.Random(secrets.randbits(128))
    changed = False
    for path in sorted(paths):
        try:
            source = env.read_file(f"{root}/{path}")
        except (EnvironmentFault, OSError):
            continue  # the tests remove it
        twin = form.kind == "twin"
        made = rewritten(
            path,
            source,
            twin=twin,
            seed=seed,
            half=form.half,
            choice=form.choice,
            values=form.values,
            plain=form.plain,
            reach=form.reach,
        )
        if made is not None:
            env.write_file(f"{root}/{path}", made.content)
            changed = True
    if form.kind == "twin" and not changed:
        raise NoTwin("the test files have no expected values that could be changed")


def decide(tests: Tests, patch: str, env: Environment) -> Verdict:
    """The verdict on a patch, its twin run included."""
    form = TRUE if tests.gold else ALONE
    tried = tests.run(machine(env), patch, form)
    if not isinstance(env, ReopenedMachine):
        return _without(tried, "the environment cannot be had anew")
    if not tests.files:
        return _without(tried, "the task brings no test files")
    control = _Control(tests, env, unwrapped(env).name)
    if tried.verdict.passed and patch == tests.gold:
        control.keep_holding()
    if tests.gold and not tried.verdict.passed:  # perhaps by how its tests were rewritten
        form = control.true_form()
        if form != TRUE:
            tried = _fresh(tests, patch, env, form)
    if not tried.verdict.passed:
        return tried.verdict
    env.close()  # nothing that the first run left may tell the second one of it
    return _decide_twin(tests, patch, env, tried, control, form)


def _decide_twin(
    tests: Tests, patch: str, env: ReopenedMachine, tried: Tried, control: _Control, form: Form
) -> Verdict:
    """The verdict on what passed the tests in a form."""
    verdict = tried.verdict
    if not tests.gold:
        try:
            return _without_reference(tests, tried, _fresh(tests, patch, env, TWIN))
        except NoTwin as reason:
            return _without(tried, str(reason))
    try:
        lesson, learnt_now = control.lesson(plain=form.plain)
    except GraderError as error:
        return _without(tried, f"the reference's twin cannot be run: {error}")
    if not lesson.failing:
        return _without(tried, "the reference fails no test of the twin")
    counts: JSON = {"tests": len(tried.passed), "twinned": len(tried.passed & lesson.failing)}
    if learnt_now and patch == tests.gold:
        return _marked(verdict, counts)  # this very run was the lesson
    if form.kind == "true" and form.reach != lesson.form.reach:
        # where the twin tries less, the first run can be told from it: another one decides
        alike = replace(form, reach=lesson.form.reach)
        tried = _fresh(tests, patch, env, alike)
        if not tried.verdict.passed:
            tried = _fresh(tests, patch, env, alike)
        if not tried.verdict.passed:
            return tried.verdict
    if why := not_run(filter(tests.wanted, lesson.failing), tried.passed):
        return _failed(verdict, why, counts)  # not by every rule a test that is hidden or skipped
    for twin_form, passing in lesson.forms:
        failing, lost = lesson.failing - passing, passing & tried.passed
        for _ in range(2):  # an honest test may fail by chance, but not twice
            twin = _twin(tests, patch, env, twin_form)
            forged = sorted(twin.passed & failing)
            changed = not passing or any(map(tests.wanted, failing))
            if forged or (twin.verdict.passed and changed):
                return _tampered(verdict, _CHANGED, forged, counts)
            lost -= twin.passed
            if twin.ran and not lost:
                break
        if not twin.ran:
            return _failed(verdict, f"the twin did not come to its end: {twin.verdict.why}", counts)
        if lost:
            what = "failed tests of the twin that were not changed"
            return _tampered(verdict, what, sorted(lost), counts)
    return _marked(verdict, counts)


_CHANGED = "passed tests whose expected values were changed"


def _without_reference(tests: Tests, tried: Tried, twin: Tried) -> Verdict:
    """No control: some test may pass its twin rightly, but not all that ought to be fixed."""
    wanted = frozenset(filter(tests.wanted, tried.passed))
    failed = wanted - twin.passed
    counts: JSON = {"tests": len(tried.passed), "twinned": len(failed), "why": "no reference"}
    if twin.verdict.passed or (wanted and not failed):
        return _tampered(tried.verdict, _CHANGED, sorted(wanted), counts)
    return _marked(tried.verdict, counts)


def _tampered(verdict: Verdict, what: str, tests: list[str], counts: JSON) -> Verdict:
    why = f"tampering: {what}"
    if tests:
        more = f" and {len(tests) - 3} more" if len(tests) > 3 else ""
        why += f": {', '.join(tests[:3])}{more}"
    return _failed(verdict, why, counts, tampering=True)


def _failed(verdict: Verdict, why: str, counts: JSON, **marks: JSON) -> Verdict:
    metrics = {**verdict.metrics, "twin": counts, **marks}
    if "resolved" in metrics:
        metrics["resolved"] = "NO"
    score = None if verdict.score is None else 0.0
    return replace(verdict, passed=False, why=why, score=score, metrics=metrics)


def _without(tried: Tried, reason: str) -> Verdict:
    counts: JSON = {"tests": len(tried.passed), "twinned": 0, "why": reason}
    return _marked(tried.verdict, counts) if tried.verdict.passed else tried.verdict


def _marked(verdict: Verdict, counts: JSON) -> Verdict:
    return replace(verdict, metrics={**verdict.metrics, "twin": counts})


def _twin(tests: Tests, patch: str, env: ReopenedMachine, form: Form) -> Tried:
    """A submission's run; that it has no test files, where the reference has, is its own doing."""
    try:
        return _fresh(tests, patch, env, form)
    except NoTwin as reason:
        return Tried(Verdict(passed=False, why=str(reason)))


def _fresh(tests: Tests, patch: str, env: ReopenedMachine, form: Form) -> Tried:
    with env.fresh() as inside:
        return tests.run(inside, patch, form)


@dataclass(frozen=True, slots=True)
class _Lesson:
    """What the reference fails in the twin, and what of it passes in the twins of the two halves,
    which submissions meet."""

    form: Form
    failing: frozenset[str]
    passing: Sequence[frozenset[str]]

    @property
    def forms(self) -> Iterator[tuple[Form, frozenset[str]]]:
        """The twins for submissions, each with the tests that pass in it."""
        yield from zip(_halves(self.form), self.passing, strict=True)
        if frozenset.intersection(*self.passing):
            yield self.form, frozenset()  # some test has no half that changes it


def _halves(form: Form) -> list[Form]:
    number = form.values or 0
    return [replace(form, half=Half(number, second)) for second in (False, True)]


_REWRITTEN = (TRUE, PLAIN)

#: The choice of expectations, the values' seed, where the reach is less, the tests that fail, and
#: those of them that pass with each half.
_Learnt = tuple[int | None, int, list[tuple[str, int]], list[str], list[list[str]]]


@dataclass(frozen=True, slots=True)
class _Control:
    """What the reference does, run once a task and kept."""

    tests: Tests
    env: ReopenedMachine
    backend: str  # asked beforehand, since that opens what is closed by then

    def true_form(self) -> Form:
        """The rewritten tests that the reference passes, else the published ones."""
        number = self._stored("true", self._first_passed)
        return (*_REWRITTEN, PUBLISHED)[number]

    def _first_passed(self) -> int:
        passed = (self._run(form).verdict.passed for form in _REWRITTEN)
        return next((number for number, each in enumerate(passed) if each), len(_REWRITTEN))

    def keep_holding(self) -> None:
        """Keep that the reference was seen to pass the rewritten tests."""
        self._stored("true", lambda: 0)

    def lesson(self, *, plain: bool) -> tuple[_Lesson, bool]:
        """What the reference does with the twin, and whether it was run just now."""
        made: list[_Learnt] = []

        def learn() -> _Learnt:
            made.append(self._learnt(plain=plain))
            return made[0]

        kind = "plain twins" if plain else "twins"
        choice, values, lowered, failing, passing = self._stored(kind, learn)
        reach = Reach(lowered=tuple((name, most) for name, most in lowered))
        form = Form("twin", choice, None, values, plain, reach)
        return _Lesson(form, frozenset(failing), [*map(frozenset, passing)]), bool(made)

    def _learnt(self, *, plain: bool) -> _Learnt:
        """Choices by chance, which nobody knows; all expectations where they miss what counts."""
        values = secrets.randbits(64)
        for choice in (secrets.randbits(64), None):
            form = Form("twin", choice, None, values, plain, LEAST_REACH)
            try:
                tried = self._run(form)
            except NoTwin:
                if choice is None:
                    raise
                continue
            if any(map(self.tests.wanted, tried.failed)):
                break
        if not tried.ran:
            raise GraderError(tried.verdict.why)  # not stored: it may be the machine's fault

        def failing(reach: Reach) -> frozenset[str]:
            return self._run(replace(form, reach=reach)).failed

        reach, failed = learnt_reach(failing, tried.failed)
        halves = map(self._run, _halves(replace(form, reach=reach)))
        passing = [sorted(failed & half.passed) for half in halves]
        return choice, values, [*reach.lowered], sorted(failed), passing

    def _run(self, form: Form) -> Tried:
        return _fresh(self.tests, self.tests.gold, self.env, form)

    def _stored(self, kind: str, make: Callable[[], Any]) -> Any:
        name = digest(VERSION, kind, self.backend, self.tests.gold, self.tests.key)
        return stored_value(
            "twin-controls", name, make, dump=lambda v: json.dumps(v).encode(), load=json.loads
        )
