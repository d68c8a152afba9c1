"""A pass must survive its twin: what the tests decided is believed only if they could have failed.

Tests that share a process with the code under test can be disarmed by it, and their report forged.
So the official tests run in a rewritten form, and what passes them is run once more in a fresh
environment on their twin, whose expected values are others (see `chimera.eval.kits.twins`). Tests
that the reference fails there must not pass for the submission either.

The reference is the control. It says which tests have a twin, and, when a submission fails, whether
the rewriting itself may be the cause: then the published files decide.
"""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from chimera.cache import digest, stored_value
from chimera.environments.base import Environment, Machine, machine
from chimera.environments.reopened import ReopenedMachine
from chimera.environments.wrapped import unwrapped
from chimera.errors import EnvironmentFault, GraderError
from chimera.eval.kits.twins import VERSION, rewritten
from chimera.eval.values import Verdict
from chimera.types import JSON


@dataclass(frozen=True, slots=True)
class Form:
    """One of the forms of test files; in a twin, a choice says which expectations are changed."""

    kind: Literal["published", "true", "twin"]
    choice: int | None = None


PUBLISHED, TRUE, TWIN = Form("published"), Form("true"), Form("twin")


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


def put_form(env: Machine, root: str, paths: Iterable[str], form: Form) -> None:
    """Replace test files by one of their forms; what has none stays as it is."""
    if form.kind == "published":
        return
    seed = random.Random(secrets.randbits(128))
    for path in sorted(paths):
        try:
            source = env.read_file(f"{root}/{path}")
        except (EnvironmentFault, OSError):
            continue  # the tests remove it
        twin = form.kind == "twin"
        made = rewritten(path, source, twin=twin, seed=seed, choice=form.choice)
        if made is not None:
            env.write_file(f"{root}/{path}", made.content)


def decide(tests: Tests, patch: str, env: Environment) -> Verdict:
    """The verdict on a patch, its twin run included."""
    tried = tests.run(machine(env), patch, TRUE)
    if not isinstance(env, ReopenedMachine):
        return _without(tried, "the environment cannot be had anew")
    if not tests.files:
        return _without(tried, "the task brings no test files")
    control = _Control(tests, env)
    if not tried.verdict.passed and tried.ran and not control.holds():
        tried = _fresh(tests, patch, env, PUBLISHED)
    if not tried.verdict.passed:
        return tried.verdict
    env.close()  # nothing that the first run left may tell the second one of it
    return _decide_twin(tests, patch, env, tried, control)


def _decide_twin(
    tests: Tests, patch: str, env: ReopenedMachine, tried: Tried, control: _Control
) -> Verdict:
    verdict = tried.verdict
    if not tests.gold:
        return _without_reference(tests, tried, _fresh(tests, patch, env, TWIN))
    try:
        form, failing = control.twin()
    except GraderError as error:
        return _without(tried, f"the reference's twin cannot be run: {error}")
    if not failing:
        return _without(tried, "the reference fails no test of the twin")
    twin = _fresh(tests, patch, env, form)
    counts: JSON = {"tests": len(tried.passed), "twinned": len(tried.passed & failing)}
    if twin.verdict.passed or twin.passed & failing:
        return _tampered(verdict, sorted(twin.passed & failing), counts)
    return _marked(verdict, counts)


def _without_reference(tests: Tests, tried: Tried, twin: Tried) -> Verdict:
    """No control: some test may pass its twin rightly, but not all that ought to be fixed."""
    wanted = frozenset(filter(tests.wanted, tried.passed))
    failed = wanted - twin.passed
    counts: JSON = {"tests": len(tried.passed), "twinned": len(failed), "why": "no reference"}
    if twin.verdict.passed or (wanted and not failed):
        return _tampered(tried.verdict, sorted(wanted), counts)
    return _marked(tried.verdict, counts)


def _tampered(verdict: Verdict, survived: list[str], counts: JSON) -> Verdict:
    why = "tampering: passed tests whose expected values were changed"
    if survived:
        more = f" and {len(survived) - 3} more" if len(survived) > 3 else ""
        why += f": {', '.join(survived[:3])}{more}"
    metrics = {**verdict.metrics, "tampering": True, "twin": counts}
    if "resolved" in metrics:
        metrics["resolved"] = "NO"
    score = None if verdict.score is None else 0.0
    return replace(verdict, passed=False, why=why, score=score, metrics=metrics)


def _without(tried: Tried, reason: str) -> Verdict:
    counts: JSON = {"tests": len(tried.passed), "twinned": 0, "why": reason}
    return _marked(tried.verdict, counts) if tried.verdict.passed else tried.verdict


def _marked(verdict: Verdict, counts: JSON) -> Verdict:
    return replace(verdict, metrics={**verdict.metrics, "twin": counts})


def _fresh(tests: Tests, patch: str, env: ReopenedMachine, form: Form) -> Tried:
    with env.fresh() as inside:
        return tests.run(inside, patch, form)


@dataclass(frozen=True, slots=True)
class _Control:
    """What the reference does, run once a task and kept."""

    tests: Tests
    env: ReopenedMachine

    def holds(self) -> bool:
        """Whether the reference passes the rewritten tests; True where there is none to ask."""
        if not self.tests.gold:
            return True
        return bool(self._kept("true", lambda: self._run(TRUE).verdict.passed))

    def twin(self) -> tuple[Form, frozenset[str]]:
        """The twin that submissions meet, and the tests that the reference fails in it."""
        choice, failing = self._kept("twin", self._chosen)
        return Form("twin", choice), frozenset(failing)

    def _chosen(self) -> tuple[int | None, list[str]]:
        """A choice by chance, which nobody knows; all expectations where it misses what counts."""
        for choice in (secrets.randbits(64), None):
            tried = self._run(Form("twin", choice))
            if any(map(self.tests.wanted, tried.failed)):
                break
        if not tried.ran:
            raise GraderError(tried.verdict.why)  # not kept: it may be the machine's fault
        return choice, sorted(tried.failed)

    def _run(self, form: Form) -> Tried:
        return _fresh(self.tests, self.tests.gold, self.env, form)

    def _kept(self, kind: str, make: Callable[[], Any]) -> Any:
        backend = unwrapped(self.env).name
        name = digest(VERSION, kind, backend, self.tests.gold, self.tests.key)
        return stored_value(
            "twin-controls", name, make, dump=lambda v: json.dumps(v).encode(), load=json.loads
        )
