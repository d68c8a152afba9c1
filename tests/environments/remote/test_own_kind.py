"""A kind of remote environment of one's own, in three calls, passes the suite of all backends."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.environments import EnvironmentSpec, Machine, backend_class, machine, start_environment
from chimera.environments.conformance import CHECKS, Check, needing
from chimera.errors import EnvironmentFault, UsageError

EXAMPLE = Path(__file__).parents[3] / "examples" / "container_sandbox.py"


@pytest.fixture(scope="session")
def name(docker_image: str) -> str:
    return f"{EXAMPLE}:Container://{docker_image}?inside=local"


def containers() -> list[str]:
    listed = subprocess.run(
        ["docker", "ps", "--quiet", "--filter", "name=chimera-sandbox-"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return listed.stdout.split()


@pytest.mark.full
@pytest.mark.xdist_group("own_kind")
@pytest.mark.parametrize(
    "check", [pytest.param(check, id=check.name) for check in CHECKS if not check.confined]
)
def test_the_suite_of_all_backends_holds(
    check: Check, name: str, shared_environment: Callable[[str], Machine]
):
    def begin(spec: EnvironmentSpec) -> Machine:
        return machine(start_environment(name, spec))

    if check.kind == "shared":
        check.function(shared_environment(name))
    else:
        check.function(needing(begin, EnvironmentSpec()))


def test_each_place_has_what_it_needs_and_goes_with_its_environment(name: str):
    before = set(containers())
    for turn in range(2):  # what was brought to the first place is not in the second
        with machine(start_environment(name, EnvironmentSpec())) as env:
            env.write_file("said", f"turn {turn}")
            assert env.run_command("cat said").stdout == f"turn {turn}".encode()
            assert len(set(containers()) - before) == 1

    assert set(containers()) <= before


def test_a_place_that_is_removed_is_a_fault_and_no_exit_code(name: str):
    before = set(containers())
    with machine(start_environment(name, EnvironmentSpec())) as env:
        process = env.open_process("sleep 100")
        (mine,) = set(containers()) - before
        subprocess.run(["docker", "rm", "--force", mine], capture_output=True, check=True)

        with pytest.raises(EnvironmentFault, match="lost"):
            env.run_command("true")
        process.close()


@pytest.mark.parametrize(
    ("address", "why"),
    [
        (f"{EXAMPLE}:Container://", "name an image"),
        (f"{EXAMPLE}:Container://image?colour=red", "no setting 'colour'"),
        (f"{EXAMPLE}:Missing://image", "has no 'Missing'"),
        ("apptainer://place", "no environment for 'apptainer' comes with Chimera"),
        ("singularity", "no environment for 'singularity' comes with Chimera"),
        ("modal", "'modal' wants a place"),
        ("shs://host", "unknown kind of remote environment 'shs'"),
    ],
)
def test_what_is_wrong_with_an_address_is_said(address: str, why: str):
    with pytest.raises(UsageError, match=why):
        backend_class(address)
