"""Hostile answers against every kind of grader: none passes, none leaves anything, none spoils."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chimera.confinement.namespaces import namespaces_refused
from chimera.environments.base import Environment
from chimera.environments.none import NoEnvironment
from chimera.eval.benchmark import Benchmark
from chimera.eval.benchmarks.human_eval import HumanEval
from chimera.eval.proof.attack.catalogue import KINDS, attacks
from chimera.eval.proof.attack.host import HostWatch, own_processes, processes_left
from chimera.eval.proof.attack.repositories import FIXTURES
from chimera.eval.proof.attack.run import (
    ELSEWHERE,
    attack,
    elsewhere_markdown,
    markdown,
    outcome,
)
from chimera.eval.proof.attack.targets import TARGETS
from chimera.eval.values import Submission, Task, Verdict
from chimera.sandbox import close_all, run_program, run_tests

#: These wait for a limit of time, twice.
SLOW = {
    "busy-children", "endless-loop", "endless-loop-swallowing", "sleep", "wait-for-input",
    "huge-number", "bytes-many",
    "slow-pattern", "remove-system", "deep-list", "colliding-set", "memory-bomb-in-children",
    "fork-bomb", "endless-output", "reads-tests-on-disk", "endless-generator", "chain-of-processes",
    "children-nobody-waits-for",
}  # fmt: skip
DOCS = Path(__file__).parents[4] / "docs" / "attacks.md"


@pytest.fixture(autouse=True)
def confined() -> None:
    if reason := namespaces_refused():
        pytest.skip(f"hostile code is not run without namespaces: {reason}")


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left() -> Iterator[None]:
    watch = HostWatch()
    yield
    close_all()
    assert watch.traces() == []


def cases(slow: bool) -> list[object]:
    return [
        pytest.param(kind, program, id=f"{kind}: {name}")
        for kind, target in TARGETS.items()
        for name, program in attacks(kind, target.name)
        if (name in SLOW) is slow and (slow or kind != "python calls" or hash_of(name) % 3 == 0)
    ]


def hash_of(name: str) -> int:
    return sum(name.encode())


def test_there_are_at_least_forty_attacks_on_each_kind() -> None:
    for kind in KINDS:
        names = [name for name, _ in attacks(kind, "f")]
        assert len(names) >= 40, kind
        assert len(set(names)) == len(names), kind


@pytest.mark.parametrize(("kind", "program"), cases(slow=False))
def test_no_attack_passes_or_spoils_the_next_verdict(kind: str, program: str) -> None:
    assert outcome(TARGETS[kind], program).startswith("failed")


@pytest.mark.full
@pytest.mark.parametrize(("kind", "program"), cases(slow=True))
def test_no_slow_attack_passes_either(kind: str, program: str) -> None:
    assert outcome(TARGETS[kind], program).startswith("failed")


def test_the_table_in_the_docs_names_every_attack() -> None:
    text = DOCS.read_text(encoding="utf-8")
    rows = {line.split(" | ")[0].removeprefix("| ") for line in text.splitlines()[11:]}

    for kind, target in TARGETS.items():
        assert {name for name, _ in attacks(kind, target.name)} <= rows, kind
    assert "PASSED" not in text.replace("`PASSED`", "")
    assert "SPOILT" not in text


def test_the_docs_have_every_patch_on_every_runner() -> None:
    text = DOCS.read_text(encoding="utf-8").partition("## Patches")[2]
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in text.splitlines()}
    runners = list(FIXTURES)

    for runner, fixture in FIXTURES.items():
        for name, _ in fixture.attacks():
            outcome = rows[name].removesuffix(" |").split(" | ")[1 + runners.index(runner)]
            assert outcome.startswith("failed"), (runner, name, outcome)


def test_the_docs_say_what_tries_the_other_attacks() -> None:
    assert DOCS.read_text(encoding="utf-8").endswith(elsewhere_markdown())
    for file in ELSEWHERE.values():
        assert (DOCS.parents[1] / file).is_file(), file


def test_a_table_shows_what_got_through() -> None:
    assert "| os-exit | PASSED | – | – |" in markdown({"os-exit": {"python tests": "PASSED"}})


def test_after_many_hostile_verdicts_nothing_is_left() -> None:
    assert leave_nothing(60) == []


@pytest.mark.full
def test_after_a_thousand_hostile_verdicts_nothing_is_left() -> None:
    assert leave_nothing(1000) == []


def leave_nothing(count: int) -> list[str]:
    """Grade hostile answers that start, write and reach; what is new on the host afterwards."""
    names = {
        "daemon", "fifty-children", "write-outside", "climb-out", "link-out", "poison-scratch",
        "fill-disk", "kill-everybody", "kernel-keys", "os-exit", "new-user-namespace",
        "host-socket",
    }  # fmt: skip
    programs = [program for name, program in attacks("python tests", "arrange") if name in names]
    watch = HostWatch()
    for number in range(count):
        assert not TARGETS["python tests"].grade(programs[number % len(programs)]).passed
    close_all()
    return watch.traces()


def test_processes_of_the_sandbox_are_known_by_their_mark() -> None:
    assert run_tests("def f():\n    return 1", "assert f() == 1").passed

    assert own_processes()
    close_all()
    assert not processes_left()


def test_a_key_of_the_host_does_not_reach_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-do-not-tell")
    close_all()

    result = run_program("import os\nprint(dict(os.environ))")

    assert b"sk-do-not-tell" not in result.stdout
    assert b"OPENAI_API_KEY" not in result.stdout


def test_an_answer_sees_nothing_of_the_host() -> None:
    program = (
        "import glob, os, socket\n"
        "print(sorted(os.listdir('/')), os.listdir('/proc'), os.listdir('/tmp'), os.getpid())\n"
        "print(glob.glob('/sandbox/**', recursive=True))\n"
        "print(os.path.exists('/etc/passwd'), os.getuid() != 0, os.environ.get('USER'))\n"
        "try:\n    socket.socket()\nexcept PermissionError as error:\n    print(error.errno)\n"
    )

    written = run_program(program).stdout.decode()

    assert "[] ['shm', 'work'] 1" in written or "[] ['work', 'shm'] 1" in written
    assert f"False True None\n{errno.EPERM}\n" in written
    assert "/sandbox/inner/codec.py" in written
    assert str(Path.cwd()) not in written


# The command and its runner


class Naive(Benchmark[Task]):
    """What not to do: a program passes when it exits with code 0."""

    grading = "none"

    def name(self) -> str:
        return "naive"

    def tasks(self) -> list[Task]:
        return [Task(id="1", prompt="Add.")]

    def grade(self, task: Task, submission: Submission, env: Environment) -> Verdict:
        return Verdict(run_program(f"{submission.text}\nassert add(1, 2) == 3").exit_code == 0)

    def gold(self, task: Task) -> Submission:
        return Submission(text="def add(a, b):\n    return a + b", form="solution")

    def attacks(self, task: Task) -> Iterator[tuple[str, Submission]]:
        yield "exits", Submission(text="import os\nos._exit(0)", form="solution")
        yield "is-wrong", Submission(text="def add(a, b):\n    return 0", form="solution")


def nowhere(spec: object) -> Environment:
    return NoEnvironment()


def test_a_weak_grader_is_found_out() -> None:
    benchmark = Naive()

    report = attack(benchmark, benchmark.tasks(), nowhere)

    assert not report.held
    assert [(each.attack, each.held) for each in report.findings] == [
        ("exits", False),
        ("is-wrong", True),
    ]
    assert report.traces == ()


def test_human_eval_holds(dataset: Callable[[str], Path]) -> None:
    benchmark = HumanEval(dataset("human-eval/HumanEval.jsonl.gz"), limit=1)
    only = ["os-exit", "equal-object", "tell-environment", "daemon", "own-check", "write-outside"]

    report = attack(benchmark, benchmark.tasks(), nowhere, only=only)

    assert len(report.findings) == len(only)
    assert report.held, report
    assert "CHIMERA_ATTACK_API_KEY" not in os.environ
