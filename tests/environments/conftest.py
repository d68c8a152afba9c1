"""The backends of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from chimera.environments import EnvironmentSpec, Machine, available, machine, start_environment
from tests.conftest import missing
from tests.environments.remote.hosts import ssh_host, sshd

#: Over a second or two each in containers and on other hosts; `make test-full` runs them there too.
HEAVY = {
    "commands_run_side_by_side",
    "huge_files_are_refused",
    "output_is_bounded",
    "processes_can_be_killed",
    "test_reports_decide",
    "time_outs_end_what_ignores_signals",
    "time_outs_spare_earlier_processes",
}


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
