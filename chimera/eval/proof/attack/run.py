"""Tries hostile answers on a benchmark's grader, and sees to it that nothing comes of them."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from chimera.errors import RunError, UsageError
from chimera.eval.benchmark import Benchmark, StartEnvironment
from chimera.eval.proof.attack.anywhere import answers, apart
from chimera.eval.proof.attack.catalogue import attacks
from chimera.eval.proof.attack.host import HostWatch
from chimera.eval.proof.attack.targets import TARGETS, Target
from chimera.eval.values import Submission, Task, Verdict
from chimera.sandbox import close_all
from chimera.sandbox.launch import isolation, landlock_available
from chimera.text import did_you_mean


@dataclass(frozen=True, slots=True)
class Finding:
    """One attack on one task. `held` is false when it passed, told a secret, or spoilt the next."""

    attack: str
    task_id: str
    status: str  # failed, error, passed, crash
    why: str
    held: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class AttackReport:
    benchmark: str
    findings: tuple[Finding, ...]
    traces: tuple[str, ...]  # what was left on the host

    @property
    def errors(self) -> int:
        """Attempts that met a fault, of the machine or of the grader: they show nothing."""
        return sum(each.status == "error" for each in self.findings)

    @property
    def held(self) -> bool:
        """Whether nothing came of any attempt, and some got as far as a verdict."""
        decided = self.errors < len(self.findings)
        return decided and not self.traces and all(f.held for f in self.findings)


def require_confinement(environment: str | None) -> None:
    """These answers remove what they can reach: nothing of this machine may be among it."""
    if environment == "local" or (isolation() == "process" and not landlock_available()):
        raise UsageError(
            "hostile answers are tried only where they are confined: install bubblewrap, or name "
            "--environment bubblewrap or docker"
        )


def submissions(
    benchmark: Benchmark[Any], task: Task
) -> Iterator[tuple[str, Callable[[], Submission]]]:
    """The catalogue's attacks that fit this task, and the benchmark's own; each is made later."""
    kind = benchmark.attack_kind
    if kind is not None:
        name = str(task.get("entry_point") or "")
        if kind.startswith("python") and kind != "python scripts" and not name:
            kind = None
    if kind is not None:
        for title, text in attacks(kind, str(task.get("entry_point") or "")):
            if kind.startswith("python"):
                yield title, partial(Submission, text=text, form="solution", raw=text)
            else:
                yield title, partial(benchmark.extract, task, text)
    for title, submission in benchmark.attacks(task):
        yield title, partial(replace, submission)


def attack(
    benchmark: Benchmark[Any],
    tasks: Sequence[Task],
    start: StartEnvironment,
    *,
    only: Iterable[str] | None = None,
) -> AttackReport:
    """Grade every attack on every task; a right answer after each one must still pass."""
    _check_names(benchmark, tasks, only)
    watch = HostWatch()
    wanted = None if only is None else set(only)
    findings: list[Finding] = []
    os.environ["CHIMERA_ATTACK_API_KEY"] = watch.secret
    try:
        for task in tasks:
            gold = benchmark.gold(task) if benchmark.grading == "none" else None
            known, tries = _tries(benchmark, task)
            for name, submission in tries:
                if wanted is None or name in wanted:
                    grade = partial(_grade, benchmark, task, start=start, watch=watch)
                    tried = grade if known else partial(_grade_apart, grade)
                    findings.append(_finding(task, name, submission, gold, tried))
    finally:
        del os.environ["CHIMERA_ATTACK_API_KEY"]
        close_all()
    return AttackReport(benchmark.name(), tuple(findings), tuple(watch.traces()))


Grade = Callable[[Callable[[], Submission]], tuple[str, str, bool]]


def _tries(
    benchmark: Benchmark[Any], task: Task
) -> tuple[bool, list[tuple[str, Callable[[], Submission]]]]:
    """Whether anything is known of the grader, and what is tried on it."""
    if known := list(submissions(benchmark, task)):
        return True, known
    return False, [(title, partial(benchmark.extract, task, text)) for title, text in answers(task)]


def _check_names(
    benchmark: Benchmark[Any], tasks: Sequence[Task], only: Iterable[str] | None
) -> None:
    """Refuse names that no attack on these tasks has, before any is tried."""
    names = dict.fromkeys(name for task in tasks for name, _ in _tries(benchmark, task)[1])
    for wrong in set(only or ()) - set(names):
        raise UsageError(
            f"{benchmark.name()}: there is no attack '{wrong}'{did_you_mean(wrong, names)}\n"
            f"  There are: {', '.join(names)}\n"
            "  A benchmark can bring its own: attacks(task) yields (name, Submission)."
        )


def _grade_apart(grade: Grade, make: Callable[[], Submission]) -> tuple[str, str, bool]:
    return apart(partial(grade, make))


def _finding(
    task: Task,
    name: str,
    submission: Callable[[], Submission],
    gold: Submission | None,
    grade: Grade,
) -> Finding:
    clock = time.monotonic()
    status, why, told = grade(submission)
    held = status in ("failed", "error") and not told
    if told:
        why = f"it told a secret of the host: {why}"
    if gold is not None and held:
        after, reason, _ = grade(partial(replace, gold))
        if after != "passed":
            held, why = False, f"after it, the right answer: {after}: {reason}"
    return Finding(name, task["id"], status, why, held, time.monotonic() - clock)


def _grade(
    benchmark: Benchmark[Any],
    task: Task,
    make: Callable[[], Submission],
    *,
    start: StartEnvironment,
    watch: HostWatch,
) -> tuple[str, str, bool]:
    """(status, why, whether a secret of the host shows in the verdict)."""
    try:
        submission = make()
        if benchmark.grading == "fresh":
            with benchmark.open_grading_environment(task, start) as environment:
                verdict = benchmark.grade(task, submission, environment)
        else:
            with closing(benchmark.open_environment(task, start)) as environment:
                verdict = benchmark.grade(task, submission, environment)
    except RunError as error:
        return "error", str(error), watch.secret in str(error)
    except Exception as error:  # noqa: BLE001 - a grader that an answer can crash is a finding
        return "crash", f"{type(error).__name__}: {error}", watch.secret in str(error)
    status = "passed" if verdict.passed else "failed"
    return status, verdict.why, watch.secret in f"{verdict}"


# The table of docs/attacks.md


def write_table(file: Path) -> tuple[int, int]:
    """Try everything on the built-in graders; how many attacks there were and how many passed."""
    from chimera.eval.proof.attack.repositories import patch_markdown, patch_table

    found = table()
    with tempfile.TemporaryDirectory(prefix="chimera-attack-") as folder:
        on_patches = patch_table(Path(folder))
    tables = [markdown(found), patch_markdown(on_patches), elsewhere_markdown()]
    file.write_text("\n".join(tables), encoding="utf-8")
    outcomes = [each for row in (*found.values(), *on_patches.values()) for each in row.values()]
    broken = [each for each in outcomes if not each.startswith(("failed", "error"))]
    return len(outcomes), len(broken)


def table(kinds: Sequence[str] = tuple(TARGETS)) -> dict[str, dict[str, str]]:
    """attack → kind of grader → what became of it, on the small graders of `targets`."""
    found: dict[str, dict[str, str]] = {}
    for kind in kinds:
        target = TARGETS[kind]
        for name, program in attacks(kind, target.name):
            found.setdefault(name, {})[kind] = outcome(target, program)
    return found


def outcome(target: Target, program: str) -> str:
    """`failed`, `failed: <limit>`, `error` or `PASSED`; a right answer afterwards must pass."""
    try:
        verdict: Verdict = target.grade(program)
    except RunError as error:
        return f"error: {error.boundary}"
    if verdict.passed:
        return "PASSED"
    if not target.grade(target.gold).passed:
        return "SPOILT THE NEXT"
    limit = verdict.metrics.get("limit")
    return f"failed: {limit}" if limit else "failed"


def markdown(found: dict[str, dict[str, str]]) -> str:
    """The table as docs/attacks.md holds it."""
    kinds = list(TARGETS)
    lines = [
        "# Hostile answers and what becomes of them",
        "",
        "Made by `chimera attack --table`. Each row is an answer that tries to pass without being",
        "right, or to harm the machine; each column a kind of grader. `failed: memory` names the",
        "limit that ended it. After every one of them a right answer was graded, and passed. What",
        "the attacks do is in `chimera/eval/proof/attack/`; what the sandbox promises, in",
        "[threat-model.md](threat-model.md). The tests try the same where answers have no namespaces.",
        "Attacks on text, patches and environments are run by `chimera attack BENCHMARK` on the",
        "benchmarks they belong to.",
        "",
        f"| attack | {' | '.join(kinds)} |",
        f"|---|{'---|' * len(kinds)}",
    ]
    for name, row in found.items():
        lines.append(f"| {name} | {' | '.join(row.get(kind, '–') for kind in kinds)} |")
    counts = ", ".join(f"{sum(kind in row for row in found.values())} on {kind}" for kind in kinds)
    return "\n".join([*lines, "", f"{len(found)} attacks: {counts}.", ""])


#: Attacks that are no answer to a small grader, and what tries them.
ELSEWHERE: Mapping[str, str] = {
    "answers where no namespaces are to be had": "tests/adversarial/test_without_namespaces.py",
    "answers that evade a limit of time, memory, processes or files": (
        "tests/adversarial/test_limits.py"
    ),
    "a peer that speaks the protocol and lies, by chance": "tests/sandbox/test_hostile_peer.py",
    "replies and logs that take for ever to read": "tests/adversarial/test_growth.py",
    "run files that are damaged, endless or bombs": "tests/adversarial/test_run_files.py",
    "run files that ask for commands, paths, addresses and keys": "tests/cli/test_strangers_runs.py",
    "data sets that bring pickles, bombs and paths": "tests/adversarial/test_datasets.py",
    "controls of a terminal in foreign text": "tests/test_text.py",
    "exercises in six languages: forged reports, replaced runners and assertions, what equals all": (
        "tests/eval/benchmarks/test_aider_polyglot.py"
    ),
    "exercises in which one assertion of several is forged": (
        "tests/eval/benchmarks/test_aider_polyglot_forgers.py"
    ),
    "exercises in Python, judged apart": "tests/eval/benchmarks/test_aider_polyglot_apart.py",
    "tests that look at the state of a repository instead of calling it": (
        "tests/eval/benchmarks/test_swt_bench.py"
    ),
    "interpreters, libraries and hooks that a root agent leaves for the verifier": (
        "tests/eval/kits/task_folders/test_integrity.py"
    ),
}


def elsewhere_markdown() -> str:
    """The third table of docs/attacks.md."""
    lines = [
        "## Elsewhere",
        "",
        "Attacks that are no answer to a small grader; none may get through. `chimera attack",
        "BENCHMARK` tries those that a benchmark brings along on its own tasks.",
        "",
        "| attack | tried by |",
        "|---|---|",
    ]
    return "\n".join([*lines, *(f"| {what} | `{by}` |" for what, by in ELSEWHERE.items()), ""])
