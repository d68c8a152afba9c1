"""A pass must survive its twin: what the tests decided is believed only if they could have failed.

Tests that share a process with the code under test can be disarmed by it, and their report forged.
So the official tests run in a rewritten form, and what passes them is run once more in a fresh
environment on their twin, whose expected values are others (see `chimera.eval.kits.twins`). Tests
that the reference fails there must not pass for the submission either; those of them that it has to
turn must have passed before, and not been hidden or skipped. One test of the twin is kept as it was
and must pass, so that code which forges all of them or none by chance is found; a second twin keeps
none, and finds what forges that one alone.

The reference is the control. It says which tests have a twin, how far it can go, and, when a
submission fails, whether the rewriting itself may be the cause: then the published files decide.
"""

from __future__ import annotations

import json
import random
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from chimera.cache import digest, stored_value
from chimera.environments.base import Environment, Machine, machine
from chimera.environments.reopened import ReopenedMachine
from chimera.environments.wrapped import unwrapped
from chimera.errors import EnvironmentFault, GraderError
from chimera.eval.kits.reports.report import not_run
from chimera.eval.kits.twins import VERSION, rewritten
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
    Python's functions that the id `kept` names keep theirs. `values` gives the other ones. In a
    plain form nothing is put around assertions."""

    kind: Literal["published", "true", "twin"]
    choice: int | None = None
    kept: str = ""
    values: int | None = None
    plain: bool = False
    reach: Reach = FULL_REACH

    def keeps(self, number: int, name: str) -> bool:
        return bool(name) and name in _words(self.kept)


def _words(test: str) -> list[str]:
    return re.findall(r"\w+", test)


def _function(test: str) -> tuple[str, ...]:
    """What tells a test's function from others, whatever the runner calls it."""
    return tuple(word for word in _words(test.partition("[")[0]) if word.startswith("test"))


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
    listed: Sequence[str] = ()  # the tests by their names, as far as the data set has them

    def may_break(self, tried: Tried) -> bool:
        """Whether a run may have failed by how its tests were rewritten: one that ran, or one whose
        tests are compiled."""
        return tried.ran or not all(path.endswith(".py") for path in self.files)


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
            keeps=form.keeps,
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
    if tests.gold and not tried.verdict.passed and tests.may_break(tried):
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
    changed = lesson.failing | lesson.changed_last
    counts: JSON = {"tests": len(tried.passed), "twinned": len(tried.passed & changed)}
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
    for _ in range(2):  # an honest test may fail by chance, but not twice
        twin = _twin(tests, patch, env, lesson.form)
        if twin.verdict.passed or twin.passed & lesson.failing:
            return _tampered(verdict, _CHANGED, sorted(twin.passed & lesson.failing), counts)
        lost = sorted(lesson.passing - twin.passed)
        if twin.ran and not lost:
            return _decide_kept(tests, patch, env, tried, lesson, counts)
    if not twin.ran:
        return _failed(verdict, f"the twin did not come to its end: {twin.verdict.why}", counts)
    return _tampered(verdict, "failed tests of the twin that were not changed", lost, counts)


def _decide_kept(
    tests: Tests, patch: str, env: ReopenedMachine, tried: Tried, lesson: _Lesson, counts: JSON
) -> Verdict:
    """The verdict on what met the twin as it must, by the twin that does not keep a test."""
    if not lesson.changed_last:
        return _marked(tried.verdict, counts)
    for _ in range(2):
        whole = _twin(tests, patch, env, replace(lesson.form, kept=""))
        if forged := sorted(whole.passed & lesson.changed_last):
            return _tampered(tried.verdict, _CHANGED, forged, counts)
        if whole.ran:
            return _marked(tried.verdict, counts)
    return _failed(tried.verdict, f"the twin did not come to its end: {whole.verdict.why}", counts)


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
    """The twin that submissions meet: what the reference fails in it, what it passes because it
    was kept, and what it fails once nothing is kept."""

    form: Form
    failing: frozenset[str]
    passing: frozenset[str]
    changed_last: frozenset[str]


_REWRITTEN = (TRUE, PLAIN)

#: The choice of expectations, the test that keeps its own, the values' seed, where the reach is
#: less, the tests that fail, and those that do when none is kept.
_Learnt = tuple[int | None, str, int, list[tuple[str, int]], list[str], list[str]]


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
        choice, kept, values, lowered, failing, last = self._stored(kind, learn)
        reach = Reach(lowered=tuple((name, most) for name, most in lowered))
        form, passing = Form("twin", choice, kept, values, plain, reach), [kept] if kept else []
        lesson = _Lesson(form, frozenset(failing), frozenset(passing), frozenset(last))
        return lesson, bool(made)

    def _learnt(self, *, plain: bool) -> _Learnt:
        """Choices by chance, which nobody knows; all expectations where they miss what counts."""
        values = secrets.randbits(64)
        for choice in (secrets.randbits(64), None):
            form = Form("twin", choice, "", values, plain, LEAST_REACH)
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
        kept, last = self._kept(), frozenset[str]()
        if kept:
            passed = self._run(replace(form, kept=kept, reach=reach)).passed
            last = failed & passed if kept in passed else last
        if not last:
            kept = ""
        return choice, kept, values, [*reach.lowered], sorted(failed - last), sorted(last)

    def _kept(self) -> str:
        """A test that counts, if one of another function is left, else one that does not."""
        wanted = [name for name in self.tests.listed if self.tests.wanted(name)]
        functions = set(map(_function, wanted))
        others = [name for name in self.tests.listed if _function(name) not in functions]
        pool = wanted if len(functions) > 1 else others
        return secrets.choice(pool) if pool else ""

    def _run(self, form: Form) -> Tried:
        return _fresh(self.tests, self.tests.gold, self.env, form)

    def _stored(self, kind: str, make: Callable[[], Any]) -> Any:
        name = digest(VERSION, kind, self.backend, self.tests.gold, self.tests.key)
        return stored_value(
            "twin-controls", name, make, dump=lambda v: json.dumps(v).encode(), load=json.loads
        )
