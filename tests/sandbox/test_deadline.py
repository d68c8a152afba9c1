"""Whose fault it is that a call did not answer in time: the answer's, or the machine's."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chimera.confinement.cgroups import Cgroup
from chimera.errors import EnvironmentFault
from chimera.sandbox import Limits, execute, judge_calls, run_program
from chimera.sandbox.inner.confine import Confinement
from chimera.sandbox.inner.link import CALL_TIME, CALL_WALL_TIME, LOAD, Deadline, waiting_time


@pytest.fixture
def silent() -> Iterator[int]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours.fileno()


@pytest.fixture
def group() -> None:
    """Whether the kernel counts what answers use; elsewhere nobody knows it before they end."""
    made = Cgroup.create()
    handles = made.handles()
    made.remove()
    if handles is None:
        pytest.skip("needs control groups")
    handles.close()


@pytest.mark.parametrize(
    ("used", "gone", "waited", "limit"),
    [
        (1.0, 1, 0, CALL_TIME),
        (0.5, 100, 0, CALL_WALL_TIME),
        (0.5, 1000, 0, CALL_WALL_TIME),
        (0.5, 100, 99, LOAD),
        (1.0, 100, 99, CALL_TIME),
    ],
)
def test_the_limit_is_named_for_what_reached_it(
    tmp_path: Path, silent: int, used: float, gone: float, waited: float, limit: str
) -> None:
    account = tmp_path / "schedstat"
    account.write_text("0 0 0")
    with account.open() as file:
        deadline = Deadline(os.getpid(), 1.0, file.fileno())
        deadline.used_before -= used
        deadline.began -= gone
        account.write_text(f"0 {int(waited * 1e9)} 0")

        assert deadline.reached(silent) == limit


def test_the_kernel_says_how_long_a_process_waited_for_a_processor() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        waits = Confinement(False, None, "", []).waits_of(child.pid)
        known = os.pread(waits, 64, 0)
        child.communicate(b"\n")

    assert known == b"" or int(known.split()[1]) >= 0
    assert waiting_time(waits) == 0.0  # it has ended
    os.close(waits)


@pytest.mark.slow
def test_a_call_that_sleeps_reaches_its_wall_time() -> None:
    program = "import time\ndef f():\n    time.sleep(60)\n    return 1"
    oracle = "def matches(input, expected, actual):\n    return actual == expected"

    outcome = judge_calls(program, "f", [[]], [1], oracle=oracle, seconds_per_call=0.01)

    assert (outcome.passed, outcome.limit) == (False, CALL_WALL_TIME)


IN_A_CHILD = """
import os, time
def f():
    child = os.fork()
    if child == 0:
        while time.process_time() < 2.0:
            pass
        os._exit(0)
    os.waitpid(child, 0)
    return 1
"""


@pytest.mark.usefixtures("group")
def test_a_call_answers_for_the_time_of_its_children() -> None:
    oracle = "def matches(input, expected, actual):\n    return actual == expected"

    outcome = judge_calls(IN_A_CHILD, "f", [[]], [1], oracle=oracle, seconds_per_call=0.5)

    assert (outcome.passed, outcome.limit) == (False, CALL_TIME)


def test_the_load_of_the_machine_is_no_verdict() -> None:
    with pytest.raises(EnvironmentFault, match="too busy"):
        execute._by_the_answer(LOAD)


ALWAYS_SEEN_AT_WORK = """
import time
while True:
    time.sleep(0.05)
    print("look", flush=True)
    end = time.monotonic() + 0.003
    while time.monotonic() < end:
        pass
"""


def test_an_answer_that_sleeps_between_looks_did_not_wait() -> None:
    """What it writes makes the watch look, just when it is at work."""
    result = run_program(ALWAYS_SEEN_AT_WORK, limits=Limits(cpu_seconds=20, wall_seconds=1))

    assert result.limit == "wall time"
