"""Control groups by their files, in either version of the kernel's interface."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from chimera.confinement.cgroups import Cgroup
from chimera.sandbox.inner.groups import Group

FILES = {
    "first": {
        "memory.usage_in_bytes": "1000\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        "cpuacct.usage": "1500000000\n",
        "memory.limit_in_bytes": "",
        "memory.memsw.limit_in_bytes": "",
    },
    "second": {
        "memory.current": "1000\n",
        "memory.events": "low 0\nhigh 0\nmax 7\noom 4\noom_kill 3\noom_group_kill 0\n",
        "cpu.stat": "usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\n",
        "memory.max": "",
    },
}


@pytest.fixture(params=FILES)
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Files that hold what the kernel would show."""
    for name, text in {**FILES[request.param], "pids.max": "", "cgroup.procs": ""}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def group(directory: Path) -> Iterator[Group]:
    handles = Cgroup((directory,)).handles()
    assert handles is not None
    yield Group(dataclasses.asdict(handles))
    handles.close()


def test_what_was_used_is_read(group: Group) -> None:
    assert (group.cpu_seconds(), group.memory_bytes(), group.kills()) == (1.5, 1000, 3)


def test_bounds_come_on_top_of_what_the_server_uses(group: Group, directory: Path) -> None:
    group.settle()
    group.bound(5000, 9)

    written = {path.name: path.read_text() for path in directory.iterdir()}
    assert {written[name] for name in written if "limit" in name or name == "memory.max"} == {
        "6000"
    }
    assert written["pids.max"] == "9"


def test_a_group_without_all_its_files_is_none(directory: Path) -> None:
    (directory / "pids.max").unlink()
    before = len(list(Path("/proc/self/fd").iterdir()))

    assert Cgroup((directory,)).handles() is None
    assert len(list(Path("/proc/self/fd").iterdir())) == before
