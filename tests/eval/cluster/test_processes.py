"""Runs over several processes of this machine: real processes, lost and interrupted."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chimera.errors import EnvironmentFault, UsageError
from chimera.eval.cluster import processes
from chimera.eval.cluster.fleet import Fleet
from chimera.eval.cluster.run import on_nodes, process_count
from chimera.eval.run import RunSettings, prepare
from chimera.eval.runs.result import EvalResult
from chimera.eval.runs.store import RunStore
from chimera.eval.workers import Surroundings

TRIALS = 40
EXPECTED = {f"t{n}": "failed" if n % 2 else "passed" for n in range(TRIALS)}
MODULE = processes.__name__.encode()


def settings(file: Path, *, count: int = TRIALS, seconds: float = 0.05, **more: Any) -> RunSettings:
    return RunSettings(
        benchmark=f"{file}:Waits", agent=f"{file}:Payer", option=(f"count={count}",),
        agent_option=(f"seconds={seconds}",), concurrency=4, environment="none", **more,
    )  # fmt: skip


class Nodes:
    """A run over processes, what it says, and its node processes while it goes on."""

    def __init__(self, settings: RunSettings, on: str = "processes:2") -> None:
        self.prepared, self.said = prepare(settings), list[str]()
        self.fleet: Fleet
        self.make = on_nodes(self.prepared, on, self.hear)

    def hear(self, text: str) -> None:
        self.said.append(text)

    def executor(self, surroundings: Surroundings, trials: int) -> Fleet:
        return self.make(surroundings, trials)

    def run(self) -> EvalResult:
        harness = self.prepared.harness(self.prepared.open_store(Path("runs")))
        harness.executor = self.executor
        return harness.run()


def nodes_of(parent: int) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((place / "stat").read_text().rpartition(")")[2].split()[1]) != parent:
                continue
            if MODULE in (place / "cmdline").read_bytes():
                found.append(int(place.name))
    return found


def gone(pids: list[int], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def outcomes(result: EvalResult) -> dict[str, str]:
    found = {record.task_id: record.status for record in result.results}
    assert len(found) == len(result.results)
    return found


def test_trials_are_done_by_processes_that_end_with_the_run(waits: Path):
    run = Nodes(settings(waits))

    result = run.run()

    assert outcomes(result) == EXPECTED
    assert sorted(run.said) == [f"node process-{n} takes 2 trials at once" for n in (1, 2)]
    assert nodes_of(os.getpid()) == []


ODD = """
from chimera.agents.base import BaseAgent
from chimera.eval.harness import Benchmark, Verdict
from chimera.types import AgentResult, Message, Step


class Unreadable:
    def __reduce__(self):
        return eval, ("1/0",)


class Odd(Benchmark):
    grading = "none"

    def options(self):
        return {"odd": self.odd}

    def __init__(self, odd):
        self.odd = odd

    def name(self):
        return "odd"

    def tasks(self):
        return [{"id": f"t{n}", "prompt": str(n)} for n in range(4)]

    def grade(self, task, submission, env):
        odd = {"silent": lambda: 0, "unreadable": Unreadable(), "deep": deep(2000)}
        return Verdict(True, metrics={"odd": odd[self.odd]} if task["id"] == "t1" else {})


class Says(BaseAgent):
    name = "says"

    def identity(self):
        return {"agent": "says"}

    def run(self, prompt, env):
        return AgentResult("x")


def deep(levels):
    found = []
    for _ in range(levels):
        found = [found]
    return found
"""


@pytest.mark.parametrize(
    ("odd", "why"),
    [("silent", "pickle"), ("deep", "recursion"), ("unreadable", "cannot be read: ZeroDivision")],
)
def test_a_record_that_cannot_travel_is_an_error_of_its_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: str, why: str
):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / f"{odd}_of_tests.py"
    file.write_text(ODD)
    run = Nodes(
        RunSettings(
            benchmark=f"{file}:Odd",
            agent=f"{file}:Says",
            option=(f"odd={odd}",),
            environment="none",
            concurrency=1,
            controls="off",
        )
    )

    result = run.run()

    assert outcomes(result) == {"t0": "passed", "t1": "error", "t2": "passed", "t3": "passed"}
    assert why in next(record.why for record in result.results if record.task_id == "t1")


KEEPER = """
import os
from chimera.agents.base import BaseAgent
from chimera.providers.journal import JournaledCall
from chimera.providers.meter import CallRecord, current_meter
from chimera.types import AgentResult, Usage


class Keeper(BaseAgent):
    name = "keeper"

    def identity(self):
        return {"agent": "keeper"}

    def run(self, prompt, env):
        journal = current_meter().journal
        if journal.take("paid") is None:
            journal.add(JournaledCall("paid", b"", CallRecord("m", Usage(), 0.0, 0.0, 0.0)))
            os.kill(os.getpid(), 9)
        return AgentResult(prompt)
"""


def test_calls_of_a_trial_whose_process_was_killed_are_not_paid_again(waits: Path):
    """As those of a run that was killed: a coding agent's replies are beside its file."""
    file = waits.parent / "keeper_of_tests.py"
    file.write_text(KEEPER)
    run = Nodes(
        RunSettings(
            benchmark=f"{waits}:Waits",
            agent=f"{file}:Keeper",
            option=("count=2",),
            environment="none",
            concurrency=2,
        )
    )

    assert set(outcomes(run.run()).values()) == {"passed"}
    assert not list(Path("runs").glob("*.calls"))


class Killer(Nodes):
    """Kills a node process whenever so many nodes have joined."""

    def __init__(self, settings: RunSettings, kills: int) -> None:
        super().__init__(settings)
        self.kills = kills

    def hear(self, text: str) -> None:
        super().hear(text)
        if self.kills and "takes" in text:
            self.kills -= 1
            os.kill(random.choice(nodes_of(os.getpid())), signal.SIGKILL)


def test_a_process_that_is_killed_costs_no_verdict(waits: Path):
    run = Killer(settings(waits), kills=2)  # of three a trial may be in all

    assert outcomes(run.run()) == EXPECTED
    lost = [text for text in run.said if "SIGKILL" in text]
    assert 1 <= len(lost) <= 2


def test_processes_together_never_spend_more_than_the_budget(waits: Path):
    result = Nodes(settings(waits, budget=0.12), "processes:3").run()

    assert 0 < (result.total_cost or 0) <= 0.12
    assert result.stopped is not None
    assert "budget" in result.stopped


def test_processes_that_cannot_start_end_the_run(waits: Path, monkeypatch: pytest.MonkeyPatch):
    run = Nodes(settings(waits))
    monkeypatch.setattr(processes.sys, "executable", "/bin/false")

    with pytest.raises(EnvironmentFault, match="no process can take part: it ended 3 times"):
        run.run()
    assert nodes_of(os.getpid()) == []


def test_a_program_that_is_not_there_is_said(waits: Path, monkeypatch: pytest.MonkeyPatch):
    run = Nodes(settings(waits))
    monkeypatch.setattr(processes.sys, "executable", str(waits.parent / "absent"))

    with pytest.raises(EnvironmentFault, match="no process could be started"):
        run.run()


def started(file: Path, *more: str) -> subprocess.Popen[bytes]:
    """A run as a person starts it, whose trials wait for a while."""
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "chimera", "eval", "--on", "processes:2", "-n", "4"),
            *("-b", f"{file}:Waits", "-a", f"{file}:Payer", "--runs-dir", "runs"),
            *("--option", f"count={TRIALS}", "-e", "none", *more),
        ],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip


def stored() -> int:
    for file in Path("runs").glob("*.chi"):
        with contextlib.suppress(UsageError), RunStore(file) as store:  # it is being made
            return len(store.trial_keys())
    return 0


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (lambda pid: os.kill(pid, signal.SIGKILL), -signal.SIGKILL),
        # as a terminal's Ctrl-C: all hear it
        pytest.param(lambda pid: os.killpg(pid, signal.SIGINT), 130, marks=pytest.mark.slow),
        pytest.param(lambda pid: os.kill(pid, signal.SIGTERM), 143, marks=pytest.mark.slow),
    ],
    ids=["killed", "interrupted", "terminated"],
)
def test_a_run_that_is_cut_off_leaves_no_process_and_is_resumed(
    waits: Path, end: Callable[[int], None], code: int
):
    process = started(waits, "--agent-option", "seconds=0.3")
    limit = time.monotonic() + 120
    while stored() < 3 and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.05)
    nodes = nodes_of(process.pid)
    end(process.pid)
    told = process.communicate(timeout=120)[0].decode()

    assert process.returncode == code, told
    assert len(nodes) == 2
    assert gone(nodes)
    assert 3 <= stored() < TRIALS

    resumed = started(waits, "--agent-option", "seconds=0.3", "--resume", "latest", "--json")
    told = resumed.communicate(timeout=120)[0].decode()
    assert resumed.returncode == 0, told
    (file,) = Path("runs").glob("*.chi")
    with RunStore(file) as store:
        records = list(store.records())
    assert {record.task_id: record.status for record in records} == EXPECTED
    assert len(records) == TRIALS
    assert all(isinstance(json.loads(line), dict) for line in told.splitlines())


@pytest.mark.parametrize("on", ["processes:0", "processes:", "processes:257", "processes:two", "x"])
def test_what_on_does_not_take_is_said(on: str):
    with pytest.raises(UsageError, match=r"expected processes, processes:N, ray, or ray://"):
        process_count(on)


def test_batches_are_not_made_by_several(waits: Path):
    prepared = prepare(settings(waits))
    prepared = replace(prepared, settings=replace(prepared.settings, batch="x"))

    with pytest.raises(UsageError, match="--batch collects calls in one process"):
        on_nodes(prepared, "processes:2")


def test_processes_are_as_many_as_cores_or_as_asked_for():
    assert process_count("processes") == os.cpu_count()
    assert process_count("processes:7") == 7
    assert process_count("ray") is None
