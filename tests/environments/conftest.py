"""The backends of this machine; docker's daemon and base image are brought up where possible."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chimera.environments import EnvironmentSpec, Machine, available, machine, start_environment
from tests.conftest import missing
from tests.environments.remote.hosts import ssh_host, sshd

BASE_IMAGE = "chimera-base:bookworm"
SCRIPT = Path(__file__).parents[2] / "scripts" / "docker-base.sh"


def start_daemon() -> None:
    """Start dockerd when nobody answers and this is root's machine; it outlives the tests."""
    if available("docker") is None or os.geteuid() != 0 or shutil.which("dockerd") is None:
        return
    subprocess.Popen(
        ["dockerd"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    ).returncode = 0  # fmt: skip
    for _ in range(120):
        if available("docker") is None:
            return
        time.sleep(0.5)


@pytest.fixture(scope="session")
def docker_image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The base image; made once, by whichever worker comes first."""
    import fcntl

    lock = Path(tmp_path_factory.getbasetemp().parent, "docker.lock")
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        start_daemon()
        reason = available("docker")
        if reason is not None:
            missing(reason)
        made = subprocess.run([SCRIPT, BASE_IMAGE], capture_output=True, text=True, check=False)
        if made.returncode:
            missing(f"the image {BASE_IMAGE} cannot be made: {made.stdout}{made.stderr}")
    return BASE_IMAGE


@pytest.fixture(scope="session")
def ssh_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of the environment at a host that `ssh` reaches: this one."""
    if sshd() is None:
        missing("sshd is not installed: apt install openssh-server")
    with ssh_host(tmp_path_factory.mktemp("ssh")) as name:
        yield name


@pytest.fixture(scope="session")
def base_spec(request: pytest.FixtureRequest) -> Callable[[str], EnvironmentSpec]:
    """What a backend needs at least; skips those this machine lacks."""

    def spec_for(backend: str) -> EnvironmentSpec:
        if backend == "docker":
            return EnvironmentSpec(image=request.getfixturevalue("docker_image"))
        reason = available(backend)
        if reason is not None:
            missing(reason)
        return EnvironmentSpec()

    return spec_for


@pytest.fixture(scope="session")
def shared_environment(
    base_spec: Callable[[str], EnvironmentSpec],
) -> Iterator[Callable[[str], Machine]]:
    """One environment of each backend for all tests that leave it usable."""
    started: dict[str, Machine] = {}

    def environment(backend: str) -> Machine:
        if backend not in started:
            started[backend] = machine(start_environment(backend, base_spec(backend)))
        return started[backend]

    yield environment
    for env in started.values():
        env.close()
