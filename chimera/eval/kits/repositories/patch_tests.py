"""Decide a patch by a repository's own tests: apply, bring in the official tests, run, read, judge.

Fails closed: a test that is not known to have passed has failed. A pass needs the official rule of
swebench to hold on the log and, where the runner has a witness, on the witness's account as well;
and it must survive its twin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chimera.environments.base import Environment, Machine
from chimera.errors import EnvironmentFault, GraderError
from chimera.eval.kits.patches import diffs
from chimera.eval.kits.patches.apply import (
    SWEBENCH_4,
    SWEBENCH_5,
    Application,
    apply_submission,
    put_tests,
)
from chimera.eval.kits.patches.blobs import RebuiltTree
from chimera.eval.kits.reports import swebench_logs
from chimera.eval.kits.reports.report import FAILING, Status
from chimera.eval.kits.repositories import swebench_rule as rule
from chimera.eval.kits.repositories.twin_runs import Form, Tests, Tried, decide, put_form
from chimera.eval.kits.repositories.witness import (
    Witness,
    place_witness,
    read_account,
    runner_of,
)
from chimera.eval.values import Verdict
from chimera.text import shortened
from chimera.types import JSON, CommandResult

#: More than any real test log; what is longer was flooded.
LOG_BYTES = 64 * 1024**2
KEPT_LOG = 2_000_000
UNPACK_SECONDS = 120


@dataclass(frozen=True, slots=True)
class TestPlan:
    """What decides one instance."""

    __test__ = False

    command: str
    log_parser: str
    test_patch: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    gold_patch: str = ""
    eval_type: rule.EvalType = "pass_and_fail"
    rule: swebench_logs.Version = "5.0"
    root: str = "/testbed"
    timeout: float = 1800.0
    variables: Mapping[str, str] = field(default_factory=dict)
    environment: JSON = None  # what the tests run in, as far as it is known
    tree: RebuiltTree | None = None  # where the checkout is not the base commit's own
    bytecode: Path | None = None  # an archive of the base commit's modules, compiled

    def test_files(self) -> frozenset[str]:
        """The files of the test patch that hold its tests.

        Where ids name their files those alone: others may be data that look like tests.
        """
        files = frozenset(file.new for file in diffs.parse(self.test_patch) if file.new)
        ids = (*self.fail_to_pass, *self.pass_to_pass)
        return files & {name.partition("::")[0] for name in ids if "::" in name} or files


@dataclass(frozen=True, slots=True)
class TestRun:
    """One run of the test command, read by the official rule and by the witness."""

    __test__ = False

    official: rule.Decision
    witnessed: rule.Decision | None  # None: no witness for this runner
    statuses: Mapping[str, Status]
    log: str
    result: CommandResult
    finished: bool  # whether the witness saw the runner end by itself
    account: Mapping[str, Status] | None = None  # what the witness saw

    @property
    def passed(self) -> bool:
        return self.official.resolved and (self.witnessed is None or self.witnessed.resolved)

    def trusted(self) -> dict[str, str]:
        """Statuses that log and witness agree on, for graders with a rule of their own."""
        if self.official.ungradable:
            return {}
        if self.account is None:
            return dict(self.statuses)
        return {
            name: status
            for name, status in self.statuses.items()
            if self.account.get(name) == status
        }

    def claimed(self) -> frozenset[str]:
        """Listed tests that the log or the witness has as passed."""
        decisions = [self.official, *([self.witnessed] if self.witnessed else [])]
        readable = [decision for decision in decisions if not decision.ungradable]
        both = [{**d.fail_to_pass, **d.pass_to_pass} for d in readable]
        return frozenset(name for held in both for name in held if held[name])

    def failed(self) -> frozenset[str]:
        """Listed tests that the log or the witness has as failed, and none of them as passed."""
        if self.official.ungradable or not self.finished:
            return frozenset()
        listed = {**self.official.fail_to_pass, **self.official.pass_to_pass}
        both = [self.statuses, *([self.account] if self.account is not None else [])]
        found = {n for n in listed if any(rule.status_of(n, s) in FAILING for s in both)}
        return frozenset(found - self.claimed())

    @property
    def tampered(self) -> bool:
        return self.official.resolved and self.witnessed is not None and not self.witnessed.resolved


def grade_patch(plan: TestPlan, patch: str, env: Environment) -> Verdict:
    """The verdict on a patch, in a fresh environment whose checkout is at the base commit."""
    if not patch.strip():
        return _not_run(plan, "the submission is an empty patch", patch_exists=False)
    tests = Tests(
        lambda inside, tried, form: _try(plan, tried, inside, form),
        plan.test_files(),
        plan.gold_patch,
        plan.fail_to_pass.__contains__,
        [plan.test_patch, plan.command, plan.rule, [*plan.fail_to_pass], plan.environment],
    )
    return decide(tests, patch, env)


def _try(plan: TestPlan, patch: str, env: Machine, form: Form) -> Tried:
    """Run the tests on a patch, in one of their forms."""
    application = apply_submission(
        env,
        patch,
        root=plan.root,
        test_paths=diffs.paths(plan.test_patch),
        expected=(plan.gold_patch, plan.test_patch),
        chain=SWEBENCH_4 if plan.rule == "4.1" else SWEBENCH_5,
        tree=plan.tree,
    )
    if not application.applied:
        reason = application.output.strip().split("\n")[0][:200]
        why = f"the patch does not apply: {reason}"
        return Tried(_not_run(plan, why, patch_applied=False))
    if not application.changed:
        why = "the patch changes nothing but tests and files that steer them"
        return Tried(_not_run(plan, why, application))
    if not put_tests(env, plan.test_patch, root=plan.root):
        if any(_in_the_way(path, plan.test_patch) for path in application.changed):
            why = "the patch stands in the way of the official tests"
            return Tried(_not_run(plan, why, application))
        raise GraderError("the test patch does not apply to the base commit")
    put_form(env, plan.root, plan.test_files(), form)
    if plan.bytecode is not None:  # only now: what a submission brings of it was taken out
        put_bytecode(env, plan.bytecode, plan.root)
    run = run_plan(plan, env)
    return Tried(_verdict(plan, application, run), run.claimed(), run.failed())


def put_bytecode(env: Machine, archive: Path, root: str, *, without: Iterable[str] = ()) -> None:
    """Spare a run the compiling of what nobody changed; Python looks whether it still fits.

    Nothing of it is put beside the files `without`. A run can do without all of it.
    """
    folders = {path.rpartition("/")[0] for path in without}
    excluded = [f"--exclude=./{folder}/__pycache__" if folder else "--exclude=./__pycache__"
                for folder in sorted(folders)]  # fmt: skip
    unpack = ["tar", "-xf", "-", "-C", root, "--no-same-owner", "--anchored", *excluded]
    done = env.run_command(unpack, stdin=archive.read_bytes(), timeout=UNPACK_SECONDS)
    if done.timed_out:  # a file that was cut would break what imports it
        raise EnvironmentFault(
            f"bytecode was not unpacked within {UNPACK_SECONDS} s", retryable=True
        )


def run_plan(plan: TestPlan, env: Machine) -> TestRun:
    """Run the test command on the checkout as it is."""
    runner = runner_of(plan.command, plan.log_parser)
    witness = place_witness(env, runner) if runner else None
    command = witness.command(plan.command) if witness else plan.command
    result = env.run_command(
        ["bash", "-c", f"( {command} ) 2>&1"],
        cwd=plan.root,
        timeout=plan.timeout,
        variables=_joined(plan.variables, witness),
        output_bytes=LOG_BYTES,
    )
    log = rule.write_log(result.stdout.decode("utf-8", "replace"), result.exit_code)
    expected = (plan.fail_to_pass, plan.pass_to_pass)
    if result.timed_out:
        reason = f"the tests did not end within {plan.timeout:g} s"
        return TestRun(rule.undecided(reason, *expected), None, {}, log, result, False)
    if result.truncated:
        reason = f"the tests printed more than {LOG_BYTES >> 20} MiB"
        return TestRun(rule.undecided(reason, *expected), None, {}, log, result, False)
    reading = rule.read_log(log, plan.log_parser, plan.rule)
    if reading.ungradable:
        official = rule.undecided(reading.ungradable, *expected)
    else:
        official = rule.decide(reading.statuses, *expected, plan.eval_type, plan.rule)
    witnessed, account = _witnessed(plan, env, witness)
    finished = witness is None or account is not None
    return TestRun(official, witnessed, reading.statuses, log, result, finished, account)


def _joined(variables: Mapping[str, str], witness: Witness | None) -> dict[str, str]:
    """The plan's variables and the witness's; both may want a place on PYTHONPATH."""
    if witness is None:
        return dict(variables)
    joined = {**variables, **witness.variables()}
    if "PYTHONPATH" in variables:
        joined["PYTHONPATH"] += ":" + variables["PYTHONPATH"]
    return joined


def _witnessed(
    plan: TestPlan, env: Machine, witness: Witness | None
) -> tuple[rule.Decision | None, Mapping[str, Status] | None]:
    """What follows from the witness's account, and the account; None when the run had no end.

    Some listed PASS_TO_PASS ids are no tests but lines that other tests print ("[100%]"): an id of
    a file that did not run is left to the log. FAIL_TO_PASS ids are not excused.
    """
    if witness is None:
        return None, None
    account = read_account(env, witness)
    expected = (plan.fail_to_pass, plan.pass_to_pass)
    if not account.finished:
        return rule.undecided("the runner did not come to its end", *expected), None
    try:
        statuses = swebench_logs.parser(plan.log_parser, plan.rule)(account.as_log(witness.runner))
    except swebench_logs.UnreadableLog as error:
        return rule.undecided(str(error), *expected), None
    decision = rule.decide(statuses, *expected, plan.eval_type, plan.rule)
    known = {name.partition("::")[0] for name, _ in account.results}
    excused = {
        name: held or (witness.runner == "pytest" and name.partition("::")[0] not in known)
        for name, held in decision.pass_to_pass.items()
    }
    return replace(decision, pass_to_pass=excused), statuses


def _verdict(plan: TestPlan, application: Application, run: TestRun) -> Verdict:
    official = run.official
    metrics: dict[str, JSON] = {
        **_counts(official),
        **_application(application),
        "resolved": official.status if not run.tampered else "NO",
        "rule": _rule(plan),
        "witness": run.witnessed is not None,
        "exit_code": run.result.exit_code,
    }
    if official.ungradable:
        metrics["ungradable"] = True
        metrics["ran"] = run.result.timed_out
    if run.result.timed_out:
        metrics.update(timed_out=True, timeout=plan.timeout)
    if run.tampered:
        metrics["tampering"] = True
    if run.witnessed and run.witnessed.resolved and not official.resolved:
        # the log lost results, for example to output of the tests themselves
        metrics["corrected"] = True
    evidence = {
        "tests": dict(run.statuses),
        "tests_status": _tests_status(official),
        "log": shortened(run.log, KEPT_LOG),
    }
    return Verdict(
        run.passed,
        _why(run),
        score=float(run.passed),
        metrics=metrics,
        evidence=evidence,
    )


def _why(run: TestRun) -> str:
    if run.passed:
        return ""
    if run.tampered:
        if not run.finished:
            return "tampering: the log claims passes, but the test runner never came to its end"
        assert run.witnessed is not None
        return f"tampering: the log claims passes that did not happen: {_some(run.witnessed)}"
    if run.official.ungradable:
        return run.official.ungradable
    return f"not passed: {_some(run.official)}"


def _some(decision: rule.Decision) -> str:
    failures = decision.failures()
    shown = ", ".join(failures[:3])
    return shown if len(failures) <= 3 else f"{shown} and {len(failures) - 3} more"


def _not_run(
    plan: TestPlan, why: str, application: Application | None = None, **more: Any
) -> Verdict:
    nothing = rule.undecided(why, plan.fail_to_pass, plan.pass_to_pass)
    metrics = {**_counts(nothing), "resolved": "NO", "rule": _rule(plan)}
    if application is not None:
        metrics.update(_application(application))
    return Verdict(False, why, score=0.0, metrics={**metrics, **more})


def _rule(plan: TestPlan) -> str:
    return f"swebench {swebench_logs.RELEASES[plan.rule]}"


def _counts(decision: rule.Decision) -> dict[str, JSON]:
    return {
        "f2p_passed": sum(decision.fail_to_pass.values()),
        "f2p_total": len(decision.fail_to_pass),
        "p2p_passed": sum(decision.pass_to_pass.values()),
        "p2p_total": len(decision.pass_to_pass),
    }


def _tests_status(decision: rule.Decision) -> dict[str, JSON]:
    """The listed tests by run, as the official report has them."""
    return {
        name: {
            "success": [test for test, held in tests.items() if held],
            "failure": [test for test, held in tests.items() if not held],
        }
        for name, tests in (
            ("FAIL_TO_PASS", decision.fail_to_pass),
            ("PASS_TO_PASS", decision.pass_to_pass),
        )
    }


def _application(application: Application) -> dict[str, JSON]:
    return {"patch_exists": True, "patch_applied": application.command, **application.undone()}


def _in_the_way(path: str, test_patch: str) -> bool:
    """Whether a file of the submission stands where a test needs a directory, or the reverse."""
    return any(
        name.startswith(f"{path}/") or path.startswith(f"{name}/")
        for name in diffs.paths(test_patch)
    )
