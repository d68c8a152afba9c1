"""Environments on a host that a real ssh reaches pass the suite of all backends, and then some."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chimera.environments import (
    EnvironmentSpec,
    Machine,
    available,
    backend_class,
    machine,
    start_environment,
)
from chimera.environments.conformance import CHECKS, Check, needing
from chimera.errors import EnvironmentFault, UsageError
from tests.environments.conftest import HEAVY


@pytest.fixture
def start(ssh_environment: str) -> Iterator[Callable[..., Machine]]:
    started: list[Machine] = []

    def begin(spec: EnvironmentSpec | None = None, more: str = "") -> Machine:
        name = ssh_environment + more
        started.append(machine(start_environment(name, spec or EnvironmentSpec())))
        return started[-1]

    yield begin
    for env in started:
        env.close()


@pytest.mark.xdist_group("ssh")
@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=check.name, marks=[pytest.mark.full] * (check.name in HEAVY))
        for check in CHECKS
    ],
)
def test_the_suite_of_all_backends_holds(
    check: Check, ssh_environment: str, shared_environment: Callable[[str], Machine]
):
    def begin(spec: EnvironmentSpec) -> Machine:
        return machine(start_environment(ssh_environment, spec))

    if check.kind == "shared":
        check.function(shared_environment(ssh_environment))
    else:
        check.function(needing(begin, EnvironmentSpec()))


def connections() -> list[int]:
    """The processes of ssh that this process started."""
    listed = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "-x", "ssh"], capture_output=True, text=True, check=False
    )
    return [int(word) for word in listed.stdout.split()]


def test_a_lost_connection_is_a_fault_and_no_exit_code(start):
    env = start()
    before = time.monotonic()
    killer = threading.Timer(1.0, lambda: [os.kill(each, signal.SIGKILL) for each in connections()])
    killer.start()

    with pytest.raises(EnvironmentFault, match="lost") as caught:
        env.run_command("sleep 60")

    assert caught.value.retryable
    assert time.monotonic() - before < 50
    with pytest.raises(EnvironmentFault, match="lost"):
        env.read_file("anything")


def test_a_process_whose_connection_is_lost_was_not_killed(start):
    env = start()
    process = env.open_process(["sleep", "60"])
    for each in connections():
        os.kill(each, signal.SIGKILL)

    with pytest.raises(EnvironmentFault, match="lost"):
        process.wait(30)


def test_what_runs_there_ends_with_the_connection(start):
    env = start()
    mark = f"{os.getpid()}.{time.monotonic_ns() % 10**6}"
    env.open_process(["sleep", mark])
    for each in connections():
        os.kill(each, signal.SIGKILL)

    assert gone(mark)


def gone(mark: str) -> bool:
    for _ in range(100):
        if subprocess.run(["pgrep", "-f", f"sleep {mark}"], stdout=subprocess.DEVNULL).returncode:
            return True
        time.sleep(0.1)
    return False


def test_a_place_ends_when_its_time_is_over(start):
    env = start(more="&seconds=3")

    with pytest.raises(EnvironmentFault, match="lost"):
        env.run_command("sleep 60")


def test_what_a_command_wrote_is_there_when_it_ended(start):
    env = start()

    results = [env.run_command("head -c 300000 /dev/zero; echo end >&2") for _ in range(20)]

    assert {(len(result.stdout), result.stderr) for result in results} == {(300_000, b"end\n")}


def test_programs_in_the_background_go_on_and_may_write(start):
    env = start()
    env.run_command("(while :; do echo flood; done) & sleep 0.1")
    env.run_command("(for n in $(seq 2000); do echo line; done; touch written) & exit 0")

    for _ in range(100):
        if "written" in env.list_files():
            break
        time.sleep(0.1)

    assert "written" in env.list_files()


def test_mounts_are_brought_there_and_read_only(start, tmp_path: Path):
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    (tmp_path / "tree" / "deep" / "file").write_text("content")
    (tmp_path / "alone.txt").write_text("alone")
    mounts = {str(tmp_path / "tree"): "/data", str(tmp_path / "alone.txt"): "/alone.txt"}
    env = start(EnvironmentSpec(mounts=mounts))

    result = env.run_command("cat /data/deep/file /alone.txt; touch /data/new")

    assert result.stdout == b"contentalone"
    assert not result.success


def test_identity_follows_what_is_there_and_what_is_mounted(ssh_environment: str, tmp_path: Path):
    (tmp_path / "file").write_text("one")
    kind = backend_class(ssh_environment)
    spec = EnvironmentSpec(mounts={str(tmp_path): "/data"})
    first = kind.identity(spec)
    same = kind.identity(spec)
    (tmp_path / "file").write_text("another")

    assert first == same
    assert kind.identity(spec) != first


def test_no_more_places_are_taken_than_the_address_allows(ssh_environment: str):
    name = f"{ssh_environment}&most=1"
    env = start_environment(name, EnvironmentSpec())
    second: list[object] = []
    waiting = threading.Thread(
        target=lambda: second.append(start_environment(name, EnvironmentSpec())), daemon=True
    )
    waiting.start()
    waiting.join(2)
    waited = not second
    env.close()
    waiting.join(60)

    assert waited
    assert len(second) == 1
    second[0].close()  # type: ignore[attr-defined]


def test_a_host_that_cannot_be_reached_says_why(ssh_environment: str):
    nobody = re.sub(r":\d+", ":1", ssh_environment)

    assert "Connection refused" in str(available(nobody))
    with pytest.raises(UsageError, match="Connection refused"):
        start_environment(nobody, EnvironmentSpec())


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("ssh://", "no host"),
        ("ssh://-oProxyCommand=x", "no host"),
        ("ssh://host:port", "ort"),
        ("ssh://host?insight=local", "no setting 'insight'"),
        ("ssh://host?inside=docker", "bubblewrap or local"),
        ("ssh://host?most=0", "above 0"),
        ("rsh://host", "unknown kind of remote environment 'rsh'"),
    ],
)
def test_a_wrong_address_is_refused(address: str, said: str):
    with pytest.raises(UsageError, match=said):
        backend_class(address)


def test_an_old_python_there_is_named(ssh_environment: str, tmp_path: Path):
    old = tmp_path / "python"
    old.write_text('#!/bin/sh\necho "Python 3.6" >&2; exit 1\n')
    old.chmod(0o755)
    name, _, _ = ssh_environment.rpartition("&python=")

    assert "Python 3.6" in str(available(f"{name}&python={old}"))
