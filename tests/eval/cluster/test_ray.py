"""Real Ray clusters of several nodes on this machine; nodes, raylets and drivers are killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chimera.errors import UsageError
from chimera.eval.runs.store import RunStore

from .growing import growing_cluster

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("ray")]
#: Each kind of loss is tried twenty times, at moments of two runs that are drawn by chance.
TURNS, KILLS = 2, 10
#: Say CHIMERA_TEST_SEED to see again what a failure names.
SEED = os.environ.get("CHIMERA_TEST_SEED") or secrets.token_hex(4)
TRIALS, SLOTS = 600, 4
EXPECTED = {f"t{n}": "failed" if n % 2 else "passed" for n in range(TRIALS)}
#: Enough for all trials and for what a loss may cost, and what ends in the middle of a run.
ENOUGH, SCARCE = 40.0, 0.12
#: Even on a machine with much else to do.
PATIENCE = 900


@pytest.fixture(scope="module")
def machines() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    monkey = pytest.MonkeyPatch()
    monkey.setenv("RAY_worker_niceness", "0")  # not behind all else that a machine does
    # hooks for the end of a process are set in its main thread, and machines come back in another
    made = Cluster(shutdown_at_exit=False)
    added(made, include_dashboard=False)
    yield made
    made.shutdown()
    monkey.undo()


@pytest.fixture
def cluster(machines: Any) -> Any:
    """A cluster of four machines."""
    while len(machines.worker_nodes) < 3:
        added(machines)
    return machines


def added(machines: Any, **more: Any) -> None:
    """One more machine; Ray gives up on a busy one that takes over half a minute to start."""
    for attempt in range(10):
        before = children()
        try:
            machines.add_node(num_cpus=1, **more)
        except Exception as error:
            for left in children() - before:  # they would make the next one slower still
                os.kill(left, signal.SIGKILL)
            if "timed out during startup" not in str(error) or attempt == 9:
                raise
        else:
            return


def children() -> set[int]:
    """The processes that this one has started."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((place / "stat").read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(place.name))
    return found


def started(file: Path, address: str, *more: str, seconds: float = 1) -> subprocess.Popen[bytes]:
    """`chimera eval` over the cluster, as a person starts it."""
    with said().open("wb") as output:  # a pipe that nobody reads would fill and hold it up
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "chimera", "eval", "--on", "ray", "-n", str(SLOTS)),
                *("-b", f"{file}:Waits", "-a", f"{file}:Payer", "--runs-dir", "runs"),
                *("--agent-option", f"seconds={seconds}"),
                *("--agent-option", f"bill={bill()}", *more),
            ],
            env={**os.environ, "RAY_ADDRESS": address},
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def said() -> Path:
    """What the run that was started last says."""
    return Path.cwd() / "said"


def paid(
    file: Path, address: str, budget: float, *more: str, seconds: float = 1
) -> subprocess.Popen[bytes]:
    options = ("-e", "none", "--option", f"count={TRIALS}", "--budget", str(budget))
    return started(file, address, *options, *more, seconds=seconds)


def bill() -> Path:
    return Path.cwd() / "bill"


def calls() -> Counter[str]:
    """How often the service was paid for each task."""
    lines = bill().read_text().splitlines() if bill().exists() else []
    return Counter(f"t{line.split()[0]}" for line in lines)


def outcomes(budget: float) -> dict[str, str]:
    """What is stored of the one run there is: a row a trial, and never more spent than it may."""
    (file,) = Path("runs").glob("*.chi")
    billed = sum(float(line.split()[1]) for line in bill().read_text().splitlines())
    with RunStore(file) as store:
        records = list(store.records())
        assert billed <= store.spent() + 1e-9
        assert store.spent() <= budget + 1e-9
        (rows,) = next(store.rows(tuple[int], "SELECT count(*) FROM trials"))
    found = {record.task_id: record.status for record in records}
    assert rows == len(records) == len(found)
    return found


def raylets(machines: Any) -> set[int]:
    nodes = [machines.head_node, *machines.worker_nodes]
    return {node.all_processes["raylet"][0].process.pid for node in nodes}


def node_actors(parents: set[int]) -> list[int]:
    """The processes of the nodes of a run that raylets have started."""
    found = []
    for place in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            command = (place / "cmdline").read_bytes()
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            if command.startswith(b"ray::NodeActor") and parent in parents:
                found.append(int(place.name))
    return found


def stored_trials() -> int:
    for file in Path("runs").glob("*.chi"):
        with contextlib.suppress(UsageError), RunStore(file) as store:  # it is being made
            return len(store.trial_keys())
    return 0


def wait_until(process: subprocess.Popen[bytes], reached: Callable[[], object]) -> None:
    while process.poll() is None and not reached():
        time.sleep(0.02)


def moments(kind: str, turn: int) -> Iterator[random.Random]:
    """Waits for moments in a run that are drawn by chance: so many trials stored, and a little."""
    chance = random.Random(f"{SEED}-{kind}-{turn}")
    after = sorted(chance.sample(range(1, TRIALS // 2), KILLS))
    print(f"CHIMERA_TEST_SEED={SEED}: {kind}, turn {turn}, after {after} trials")
    for count in after:
        end = time.monotonic() + PATIENCE
        while stored_trials() < count:
            assert time.monotonic() < end, f"{stored_trials()} trials are stored, not {count}"
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 0.3))
        yield chance


def ended(process: subprocess.Popen[bytes]) -> str:
    process.wait(PATIENCE)
    assert process.returncode == 0, said().read_text()
    return said().read_text()


def test_four_nodes_do_a_run(cluster: Any, waits: Path):
    told = ended(paid(waits, cluster.address, ENOUGH))

    assert told.count(f"takes {SLOTS} trials at once") == 4
    assert outcomes(ENOUGH) == EXPECTED
    assert calls() == dict.fromkeys(EXPECTED, 1)


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


def test_money_ends_in_the_middle_and_a_resumed_run_goes_on(cluster: Any, waits: Path):
    paid(waits, cluster.address, SCARCE).wait(PATIENCE)
    first = outcomes(SCARCE)

    ended(paid(waits, cluster.address, ENOUGH, "--resume", "latest"))

    assert 0 < len([status for status in first.values() if status != "error"]) < TRIALS
    assert outcomes(ENOUGH) == EXPECTED


@pytest.mark.parametrize("turn", range(TURNS))
def test_killed_nodes_cost_no_verdict(cluster: Any, waits: Path, turn: int):
    process, parents = paid(waits, cluster.address, ENOUGH, seconds=3), raylets(cluster)
    for chance in moments("node", turn):
        wait_until(process, lambda: len(node_actors(parents)) >= 3)
        os.kill(chance.choice(node_actors(parents)), signal.SIGKILL)

    ended(process)

    assert outcomes(ENOUGH) == EXPECTED
    assert calls().total() <= TRIALS + KILLS * SLOTS


@contextlib.contextmanager
def coming_back(machines: Any) -> Iterator[None]:
    """Machines come back by themselves, however long a busy one takes, until this ends."""
    over = threading.Event()

    def add() -> None:
        while not over.wait(0.1):
            if len(machines.worker_nodes) < 3:
                added(machines)

    thread = threading.Thread(target=add)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("turn", range(TURNS))
def test_lost_machines_cost_no_verdict(cluster: Any, waits: Path, turn: int):
    process = paid(waits, cluster.address, ENOUGH, seconds=6)
    with coming_back(cluster):
        for chance in moments("raylet", turn):
            wait_until(process, lambda: cluster.worker_nodes)
            assert process.poll() is None, "the run ended before all machines were lost"
            cluster.remove_node(chance.choice(list(cluster.worker_nodes)), allow_graceful=False)

        told = ended(process)

    assert outcomes(ENOUGH) == EXPECTED
    assert "(raylet)" not in told
    assert calls().total() <= TRIALS + KILLS * SLOTS


@pytest.mark.parametrize("turn", range(TURNS))
def test_killed_drivers_are_resumed(cluster: Any, waits: Path, turn: int):
    process, before = paid(waits, cluster.address, ENOUGH), dict[str, str]()
    for _ in moments("driver", turn):
        process.kill()
        process.wait()
        found = outcomes(ENOUGH)
        assert before.items() <= found.items()
        before = {task: status for task, status in found.items() if status != "error"}
        process = paid(waits, cluster.address, ENOUGH, "--resume", "latest", "--json")

    events = [json.loads(line) for line in ended(process).splitlines() if line.startswith("{")]

    again = {event["task_id"] for event in events if event.get("event") == "trial"}
    assert outcomes(ENOUGH) == EXPECTED
    assert not before.keys() & again
    assert calls().total() <= TRIALS + KILLS * 4 * 2 * SLOTS


def working(mark: str) -> list[int]:
    """The processes that trials started."""
    found = subprocess.run(["pgrep", "-f", f"^sleep {mark}"], capture_output=True, check=False)
    return [int(line) for line in found.stdout.split()]


@pytest.mark.parametrize("ending", ["interrupt", "driver", "node"])
def test_what_trials_have_running_ends_with_their_run(cluster: Any, waits: Path, ending: str):
    mark = f"{random.randrange(10_000, 90_000)}.{secrets.randbelow(10**6)}"
    process = started(waits, cluster.address, "-e", "bubblewrap",
                      "--agent-option", f"command=sleep {mark}")  # fmt: skip
    wait_until(process, lambda: len(working(mark)) >= 4 * SLOTS)
    assert process.poll() is None, said().read_text()
    if ending == "node":
        for actor in node_actors(raylets(cluster)):
            os.kill(actor, signal.SIGKILL)
        wait_until(process, lambda: len(working(mark)) < 4 * SLOTS)
    process.send_signal(signal.SIGKILL if ending == "driver" else signal.SIGINT)
    process.wait(PATIENCE)

    for _ in range(600):
        if not working(mark):
            return
        time.sleep(0.1)
    pytest.fail(f"still there: {working(mark)}")


def test_a_cluster_grows_by_machines_that_have_what_the_trials_need(
    waits: Path, docker_image: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CHIMERA_DOCKER_IMAGE", docker_image)  # the machines' own setting
    kinds = {"plain": {"CPU": 1}, "with-docker": {"CPU": 1, "chimera_docker": 1}}
    with growing_cluster(kinds) as address:
        process = started(waits, address, "-e", "docker", "--option", "count=6", seconds=1)
        told = ended(process)
        grown = workers(address)

    assert "takes 4 trials at once" in told
    assert grown
    assert all("chimera_docker" in machine for machine in grown)


@pytest.mark.parametrize("ending", ["done", "killed"])
def test_a_grown_cluster_keeps_its_machines_for_the_run_and_no_longer(waits: Path, ending: str):
    with growing_cluster({"plain": {"CPU": 1}}, idle_minutes=0.1) as address:
        process = started(waits, address, "-e", "none", "--option", "count=12", seconds=30)
        wait_until(process, lambda: len(workers(address)) > 1)
        if ending == "killed":
            assert process.poll() is None, said().read_text()
            process.kill()
            process.wait()
        else:
            assert "is lost" not in ended(process)
        end = time.monotonic() + PATIENCE
        while machines := workers(address):
            assert time.monotonic() < end, f"{len(machines)} machines are still wished for"
            time.sleep(1)


def workers(address: str) -> list[dict[str, float]]:
    """What each machine of a cluster that takes part in runs has."""
    return [machine for machine in alive(address) if machine.get("CPU")]


def alive(address: str) -> list[dict[str, float]]:
    """What each machine of a cluster has."""
    program = (
        "import json, ray; ray.init(log_to_driver=False); "
        "print(json.dumps([n['Resources'] for n in ray.nodes() if n['Alive']]))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "RAY_ADDRESS": address},
        stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    found: list[dict[str, float]] = json.loads(told.stdout.splitlines()[-1])
    return found
