"""The verdict on files by an exercise's own tests, and by the twins that a pass must survive."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chimera.cache import digest
from chimera.environments.base import Machine
from chimera.environments.reopened import ReopenedMachine
from chimera.errors import GraderError
from chimera.eval.benchmarks._aider_polyglot.languages import (
    Language,
    TestRun,
    run_command,
    run_exercise,
)
from chimera.eval.benchmarks._aider_polyglot.twins import (
    Control,
    Form,
    chosen,
    control_name,
    controlled,
    forms,
    resting_on_their_end,
)
from chimera.eval.kits.twins.reach import FULL_REACH
from chimera.eval.values import Verdict
from chimera.types import JSON


@dataclass(frozen=True, slots=True)
class EarlyTwin:
    """A submission's run of a twin, and the control whose first twin that was: one that was not
    kept is another the next time."""

    control: Control
    run: TestRun


@dataclass(frozen=True, slots=True)
class ExerciseTests:
    """The tests of one exercise."""

    language: Language
    directory: Path
    editable: Sequence[str]
    declared: Sequence[str]
    reference: Mapping[str, bytes] | None
    seconds: float
    command: str = ""  # instead of the language's own

    def verdict(
        self, files: Mapping[str, bytes], env: ReopenedMachine, metrics: Mapping[str, JSON]
    ) -> Verdict:
        """What the tests say of files, each time in an environment that nothing has touched."""
        early = self._early_twin(files, env)
        run = self._run_form(files, env, Form(twin=False))
        verdict = self.verdict_of_run(run, metrics)
        if not verdict.passed and self._needs_plain(env):
            with env.fresh() as fresh:
                run = self._run_form(files, fresh, Form(twin=False, plain=True))
            verdict = self.verdict_of_run(run, metrics)
        return self._survived(files, run, verdict, env, early) if verdict.passed else verdict

    def run(self, files: Mapping[str, bytes], env: Machine) -> TestRun:
        """The tests on these files, written over those that are there."""
        name = self.directory.name
        for path, content in files.items():
            env.write_file(f"{name}/{path}", content)
        toolchain = self.language.toolchain(self.directory)
        if self.command:
            return run_command(env, self.language, self.command, name, toolchain, self.seconds)
        return run_exercise(env, self.language, name, toolchain, self.seconds)

    def _run_form(self, files: Mapping[str, bytes], env: Machine, form: Form) -> TestRun:
        """The tests in a form on these files; nothing else differs between two runs."""
        reference = (self.reference or {}).values()
        made = forms(self.language, self.directory, self.editable, form, reference)
        return self.run({**files, **made}, env)

    def _early_twin(self, files: Mapping[str, bytes], env: ReopenedMachine) -> EarlyTwin | None:
        """The first twin's run, by chance before the true one: code that remembers earlier runs
        cannot tell by the first of them that it is true."""
        if secrets.randbits(1):
            return None
        try:
            control = self.control(env)
        except GraderError:
            return None  # it is said where something has passed
        if not control.fails:
            return None
        form, _ = next(control.forms)
        with env.fresh() as fresh:
            return EarlyTwin(control, self._run_form(files, fresh, form))

    def _needs_plain(self, env: ReopenedMachine) -> bool:
        """Whether the reference fails the rewritten tests too, but for the plain form."""
        try:
            return self.control(env).plain
        except GraderError:
            return False

    def _survived(
        self,
        files: Mapping[str, bytes],
        run: TestRun,
        passed: Verdict,
        env: ReopenedMachine,
        early: EarlyTwin | None,
    ) -> Verdict:
        """The verdict on a run that passed, by the control and the twin."""
        env.close()  # nothing that the first run left may tell the second one of it
        control = early.control if early else self.control(env)
        if control.reach != FULL_REACH:
            # where the twin tries less, the first run can be told from it: another one decides
            with env.fresh() as fresh:
                form = Form(False, plain=control.plain, reach=control.reach)
                run = self._run_form(files, fresh, form)
            passed = self.verdict_of_run(run, passed.metrics)
            if not passed.passed:
                return passed
        metrics = {**passed.metrics, "twin": control.metrics()}
        why = control.missing(run)
        if not why and control.fails:
            why = self._tampering(files, control, env, [early.run] if early else [])
            metrics |= {"tampering": True} if why.startswith("tampering") else {}
        if not why:
            return replace(passed, metrics=metrics)
        metrics |= {"official": True, "test_timeouts": 0}
        return rated(False, why, {**metrics, "pass_rate_1": 0, "pass_rate_2": 0}, passed.evidence)

    def _tampering(
        self,
        files: Mapping[str, bytes],
        control: Control,
        env: ReopenedMachine,
        early: Sequence[TestRun],
    ) -> str:
        """What the twins show, the first of which may have been run; an honest test may fail by
        chance, but not twice."""
        for form, passing in control.forms:
            runs, early = list(early), ()
            for number in range(2):
                if number == len(runs):
                    with env.fresh() as fresh:
                        runs.append(self._run_form(files, fresh, form))
                if why := control.tampering(runs[-1], passing):
                    return why
                if not (why := control.lost(*runs, passing=passing)):
                    break
            if why:
                return why
        return ""

    def control(self, env: ReopenedMachine) -> Control:
        """What the reference shows of the twins."""
        if self.reference is None:
            return Control(why="the exercise has no reference")

        def run(files: Mapping[str, bytes], form: Form) -> TestRun:
            with env.fresh() as fresh:
                return self._run_form(files, fresh, form)

        toolchain = self.language.toolchain(self.directory)
        name = digest(control_name(self.language, self.directory, toolchain), self.command)
        control = controlled(self.reference, run, chosen(self.language), name)
        at_end = resting_on_their_end(self.language, self.directory, self.editable)
        return replace(control, at_end=at_end)

    def verdict_of_run(self, run: TestRun, metrics: Mapping[str, JSON]) -> Verdict:
        """What one run of the tests says, in whichever form."""
        evidence: dict[str, JSON] = {"output": run.output[-20_000:]}
        report = run.report
        if run.timed_out:
            why = "the tests did not end within the time limit"
        elif report is None:
            last = run.output.strip().splitlines()[-1:] or ["nothing was printed"]
            why = f"there is no test report (exit code {run.exit_code}): {last[0][:200]}"
        elif failed := report.failed():
            total = len(failed) + run.passes
            why = f"{len(failed)} of {total} tests failed, first {failed[0]}"
        elif run.passes == 0:
            why = "no test ran"
        elif run.exit_code != 0:
            why = f"the tests passed but the command ended with exit code {run.exit_code}"
        elif missing := [n for n in self.declared if not any(n in p for p in report.passed())]:
            why = f"{len(missing)} declared tests did not run, first {missing[0]}"
        else:
            return rated(True, f"{run.passes} tests passed", metrics, evidence)
        metrics = {**metrics, "test_timeouts": int(run.timed_out)}
        if report is None and not run.timed_out:
            metrics["ran"] = False
        if run.exit_code == 0 and not run.timed_out:
            metrics["official"] = True  # upstream asks for nothing but the exit status
        return rated(False, why, metrics, evidence)


def rated(
    passed: bool,
    why: str,
    metrics: Mapping[str, JSON],
    evidence: Mapping[str, JSON] | None = None,
    decided_by: str = "tests",
) -> Verdict:
    """A verdict with the rates of the leaderboard, after one attempt and after two."""
    first = int(passed and metrics["attempts"] == 1)
    rates = {"pass_rate_1": first, "pass_rate_2": int(passed), "decided_by": decided_by}
    return Verdict(passed, why, metrics={**rates, **metrics}, evidence=evidence or {})
