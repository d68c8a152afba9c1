"""Real Ray clusters of several nodes on this machine; nodes, raylets and drivers are killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chimera.errors import UsageError
from chimera.eval.runs.store import RunStore

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("ray")]
#: How often each kind of loss is tried, at a moment drawn by chance.
TIMES = 20


@pytest.fixture(scope="module")
def machines() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    yield made
    made.shutdown()


@pytest.fixture
def cluster(machines: Any) -> Any:
    """A cluster of four machines."""
    while len(machines.worker_nodes) < 3:
        machines.add_node(num_cpus=1)
    return machines


def started(file: Path, address: str, *more: str) -> subprocess.Popen[bytes]:
    """`chimera eval` over the cluster, as a person starts it."""
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "chimera", "eval", "--on", "ray", "-e", "none", "-n", "4"),
            *("-b", f"{file}:Waits", "-a", f"{file}:Payer", "--agent-option", "seconds=0.2"),
            *("--option", "count=100", "--budget", "50", "--runs-dir", "runs", *more),
        ],
        env={**os.environ, "RAY_ADDRESS": address},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def outcomes() -> dict[str, str]:
    """What is stored of the one run there is; it never spent more than it may."""
    (file,) = Path("runs").glob("*.chi")
    with RunStore(file) as store:
        assert store.spent() <= 50
        return {record.task_id: record.status for record in store.records()}


def processes(name: str) -> list[int]:
    found = subprocess.run(["pgrep", "-f", name], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def wait_for_trials(process: subprocess.Popen[bytes], count: int) -> None:
    while process.poll() is None and count > 0:
        for file in Path("runs").glob("*.chi"):
            with contextlib.suppress(UsageError), RunStore(file) as store:  # it is being made
                if len(store.trial_keys()) >= count:
                    return
        time.sleep(0.05)


EXPECTED = {f"t{n}": "failed" if n % 2 else "passed" for n in range(100)}


def test_four_nodes_do_a_run(cluster: Any, waits: Path):
    process = started(waits, cluster.address)

    said, _ = process.communicate(timeout=120)

    assert process.returncode == 0, said.decode()
    assert said.count(b"takes 4 trials at once") == 4
    assert outcomes() == EXPECTED


def test_the_doctor_looks_at_each_machine(cluster: Any):
    told = subprocess.run(
        [sys.executable, "-m", "chimera", "doctor", "--on", "ray", "--json"],
        env={**os.environ, "RAY_ADDRESS": cluster.address}, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    findings = json.loads(told.stdout)

    machines = {each["topic"] for each in findings}
    assert len(machines) == 4
    usable = {each["topic"] for each in findings if each["name"] == "none" and each["good"]}
    assert usable == machines


@pytest.mark.parametrize("turn", range(TIMES))
def test_a_killed_node_costs_no_verdict(cluster: Any, waits: Path, turn: int):
    process = started(waits, cluster.address)
    wait_for_trials(process, random.Random(turn).randrange(1, 90))
    for victim in random.Random(turn).sample(processes("ray::NodeActor"), 1):
        os.kill(victim, signal.SIGKILL)

    said, _ = process.communicate(timeout=120)

    assert process.returncode == 0, said.decode()
    assert outcomes() == EXPECTED


@pytest.mark.parametrize("turn", range(TIMES))
def test_a_lost_machine_costs_no_verdict(cluster: Any, waits: Path, turn: int):
    process = started(waits, cluster.address)
    wait_for_trials(process, random.Random(turn).randrange(1, 90))
    cluster.remove_node(random.Random(turn).choice(cluster.worker_nodes), allow_graceful=False)

    said, _ = process.communicate(timeout=180)

    assert process.returncode == 0, said.decode()
    assert outcomes() == EXPECTED


@pytest.mark.parametrize("turn", range(TIMES))
def test_a_killed_driver_is_resumed(cluster: Any, waits: Path, turn: int):
    process = started(waits, cluster.address)
    wait_for_trials(process, random.Random(turn).randrange(1, 90))
    process.kill()
    process.communicate()
    before = {key for key, status in outcomes().items() if status != "error"}

    resumed = started(waits, cluster.address, "--resume", "latest", "--json")
    said, _ = resumed.communicate(timeout=120)

    events = [json.loads(line) for line in said.splitlines() if line.startswith(b"{")]
    again = {event["task_id"] for event in events if event.get("event") == "trial"}
    assert resumed.returncode == 0, said.decode()
    assert outcomes() == EXPECTED
    assert not before & again
