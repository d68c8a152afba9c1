"""After environments, hostile ones among them, nothing of theirs is left on the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from chimera.confinement.cgroups import parents
from chimera.environments import (
    EnvironmentSpec,
    ResourceLimits,
    backend_class,
    start_environment,
)
from chimera.environments.conformance.confinement import processes_are_its_own
from chimera.environments.engine import RUN, program

#: Unruly, but they touch nothing that they did not start or make.
UNRULY = (
    "setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1; done' >/dev/null 2>&1 & exit 0",
    "mkdir -p a/b; touch a/b/c; chmod 0 a/b a; ln -s / out; mkfifo pipe",
    "while :; do echo flood; done",
    "sleep 1000",
)
#: These end or exhaust whatever they reach: for confined environments alone.
HOSTILE = (
    "(setsid setsid sleep 1000 &) ; nohup sleep 1000 & kill -9 $PPID; kill -9 -1",
    "f() { f | f & }; f; sleep 100",
    "head -c 300000000 /dev/zero | tail -c 300000000",
    "kill -STOP $PPID; sleep 1000",
)


def left_on_the_machine() -> dict[str, set[str]]:
    """What an environment could leave behind, by kind."""
    processes = {
        entry.name
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and is_ours(entry) and int(entry.name) != os.getpid()
    }
    prefix = f"chimera-{os.getpid()}-"
    return {
        "processes": processes,
        "cgroups": {str(p) for parent in parents() for p in parent.glob(f"{prefix}*")},
        "directories": {str(p) for p in Path(tempfile.gettempdir()).glob("chimera-local-*")},
        "mounts": {
            line
            for line in Path("/proc/self/mountinfo").read_text().splitlines()
            if "chimera" in line
        },
    }


def is_ours(entry: Path) -> bool:
    """Whether a process descends from this one or carries one of our cgroups."""
    try:
        return f"chimera-{os.getpid()}-" in (entry / "cgroup").read_text()
    except OSError:
        return False


def containers() -> list[str]:
    client = program()
    assert client is not None
    listed = subprocess.run(
        [client, "ps", "-aq", "--filter", f"label=chimera.run={RUN}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return listed.stdout.split()


def misuse(backend: str, spec: EnvironmentSpec, number: int) -> None:
    limits = ResourceLimits(memory_bytes=128 * 1024**2, processes=60)
    confined = "confined" in backend_class(backend).capabilities
    commands = UNRULY + HOSTILE if confined else UNRULY
    with start_environment(backend, replace(spec, limits=limits)) as env:
        env.write_file("file", b"x")
        assert env.run_command("cat file").stdout == b"x"
        if number % 2:
            if confined:
                processes_are_its_own(env)
            command = commands[number // 2 % len(commands)]
            env.run_command(["sh", "-c", command], timeout=0.5, output_bytes=1000)


CASES = [
    pytest.param("local", 8),
    pytest.param("bubblewrap", 16),
    pytest.param("docker", 4),
    pytest.param("local", 40, marks=pytest.mark.full),
    pytest.param("bubblewrap", 200, marks=pytest.mark.full),
    pytest.param("docker", 40, marks=pytest.mark.full),
]


@pytest.mark.parametrize(("backend", "count"), CASES)
def test_nothing_is_left(
    backend: str,
    count: int,
    base_spec: Callable[[str], EnvironmentSpec],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = base_spec(backend)
    tmp_path.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # other tests leave theirs elsewhere
    before = left_on_the_machine()
    kept = set(containers()) if backend == "docker" else set()

    misuse(backend, spec, 0)  # what is opened once for all time is open now
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(count):
        misuse(backend, spec, number)

    for _ in range(100):  # the kernel takes a moment to clear a namespace away
        after = left_on_the_machine()
        new = {kind: found - before[kind] for kind, found in after.items()}
        if not any(new.values()):
            break
        time.sleep(0.1)
    assert not any(new.values()), new
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors
    if backend == "docker":
        assert set(containers()) == kept


@pytest.mark.parametrize("backend", ["local", "bubblewrap"])
def test_a_killed_owner_takes_its_environment_along(
    backend: str, base_spec: Callable[[str], EnvironmentSpec]
) -> None:
    base_spec(backend)
    code = (
        "import os, signal\n"
        "from chimera.environments import start_environment, EnvironmentSpec\n"
        f"env = start_environment({backend!r}, EnvironmentSpec())\n"
        "env.run_command('setsid sleep 1000 >/dev/null 2>&1 &')\n"
        "print(env._server, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    server = Path("/proc", done.stdout.strip())

    for _ in range(200):
        if not server.exists() or "zombie" in (server / "status").read_text():
            return
        time.sleep(0.05)
    pytest.fail("the environment outlived its owner")


def test_containers_of_dead_owners_are_removed(docker_image: str) -> None:
    from chimera.environments.engine import Engine

    code = (
        "import os, signal\n"
        "from chimera.environments import start_environment, EnvironmentSpec\n"
        f"env = start_environment('docker', EnvironmentSpec(image={docker_image!r}))\n"
        "print(env.container, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    container = done.stdout.strip()

    removed = Engine.find().reap()

    assert container
    assert any(container.startswith(name) for name in removed) or not listed(container)
    assert not listed(container)


def listed(container: str) -> bool:
    client = program()
    assert client is not None
    shown = subprocess.run([client, "inspect", container], capture_output=True, check=False)
    return shown.returncode == 0
