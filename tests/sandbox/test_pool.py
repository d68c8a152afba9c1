"""Servers: many threads, faults that are no verdicts, other users, no namespaces, nothing left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chimera.confinement.cgroups import available, parents
from chimera.confinement.namespaces import namespaces_refused
from chimera.errors import EnvironmentFault
from chimera.eval.proof.attack.host import own_processes
from chimera.sandbox import Limits, close_all, execute, launch, pool, run_program, run_tests

ROOT = Path(__file__).parents[2]
#: One verdict of each sort, printed by an interpreter that has only Chimera's source.
SCRIPT = """\
from chimera.sandbox import Limits, call_function, run_program, run_tests
good = run_tests("def f(x):\\n    x.append(1)\\n    return x", "x = []\\nassert f(x) is x == [1]")
bad = run_tests("import os; os._exit(0)", "pass")
slow = run_tests("while True: pass", "pass", limits=Limits(cpu_seconds=0.3, wall_seconds=30))
strays = run_program("import os, time\\nif os.fork() == 0: time.sleep(60)\\nprint(input())", "hi")
killer = run_program("import os\\nos.kill(-1, 9)\\nos.kill(os.getppid() or 1, 9)", "")
net = run_program("import socket\\nsocket.create_connection(('1.1.1.1', 53), 2)", "")
print(good.passed, bad.passed, slow.limit, strays.stdout, killer.exit_code != 0, net.exit_code)
print(good.isolation, call_function("def f(x): return x", "f", [[1]])[0].value)
"""
EXPECTED = "True False CPU time b'hi\\n' True 1"


@pytest.fixture
def readable() -> Iterator[Path]:
    """A directory that other users can enter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_many_threads_share_the_servers() -> None:
    def grade(number: int) -> bool:
        program = f"def f(x):\n    return x + {number}"
        return run_tests(program, f"assert f(1) == {number + 1 if number % 3 else 0}").passed

    with ThreadPoolExecutor(8) as threads:
        passed = list(threads.map(grade, range(60)))

    assert passed == [bool(number % 3) for number in range(60)]
    assert len(own_processes()) <= 5 * pool.pool().size


def own_groups() -> list[Path]:
    """Control groups of this process."""
    return [path for parent in parents() for path in parent.glob(f"chimera-{os.getpid()}-*")]


def test_nothing_is_left_after_closing() -> None:
    close_all()
    before = own_groups()  # those of environments that other tests of this process share
    assert run_tests("def f():\n    return 1", "assert f() == 1").passed
    assert own_processes()
    assert own_groups() != before or not available()

    close_all()

    assert not own_processes()
    assert own_groups() == before
    assert run_tests("def f():\n    return 1", "assert f() == 1").passed


def test_a_server_that_cannot_be_started_leaves_no_group() -> None:
    before = own_groups()

    with pytest.raises(EnvironmentFault, match="not installed"):
        run_tests("def f():\n    return 1", "f()", packages=["no_such_package"])

    assert own_groups() == before


def test_a_server_that_died_is_replaced_and_the_verdict_is_the_same() -> None:
    assert run_tests("def f():\n    return 1", "assert f() == 1").passed
    for workers in pool.pool()._idle.values():
        for worker in workers:
            worker.process.kill()

    assert run_tests("def f():\n    return 1", "assert f() == 1").passed


def test_a_server_that_is_held_up_costs_the_answer_its_wall_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "STRETCH", 0)
    monkeypatch.setattr(pool, "GRACE_SECONDS", 0.2)

    result = run_program("import time\ntime.sleep(5)", limits=Limits(wall_seconds=4))

    assert result.limit == "wall time"


def end_server(worker: pool.Worker) -> object:
    """What an answer would do that ends its server."""
    if isinstance(worker, pool.Worker):
        for pid in (*pool._children(worker.process.pid), worker.process.pid):
            os.kill(pid, signal.SIGKILL)
    return worker.ask({}, [], 1)["limit"]


def test_an_answer_that_ends_its_server_twice_has_failed() -> None:
    assert pool.with_worker(end_server) == "sandbox"


def test_a_sandbox_that_ends_for_every_answer_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_serves", end_server)

    with pytest.raises(EnvironmentFault, match="sandbox"):
        pool.with_worker(end_server)


def test_a_sandbox_that_cannot_start_is_a_fault_and_no_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    close_all()
    monkeypatch.setattr(launch, "START", "raise SystemExit('no good')")

    with pytest.raises(EnvironmentFault, match="did not start: no good"):
        run_tests("def f():\n    return 1", "assert f() == 1")


def test_a_process_that_cannot_confine_itself_is_a_fault() -> None:
    with pytest.raises(EnvironmentFault, match="cannot confine"):
        run_tests("x = 1", "assert x", limits=Limits(memory_bytes=1 << 70))


def test_a_time_out_is_tried_again_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []
    real = execute.with_worker

    def watched(action: object, packages: object = (), *, alone: bool = False) -> object:
        tries.append(alone)
        return real(action, packages, alone=alone)  # type: ignore[arg-type]

    monkeypatch.setattr(execute, "with_worker", watched)
    limits = Limits(cpu_seconds=0.2)

    assert run_tests("while True: pass", "pass", limits=limits).limit == "CPU time"
    assert run_program("while True: pass", limits=limits).limit == "CPU time"
    assert run_tests("def f():\n    return 1", "assert f() == 2").limit is None
    assert tries == [False, True, False, True, False]


FORKING = """
import os
from chimera.sandbox import close_all, run_program
assert run_program("print(1)").ok
child = os.fork()
if child == 0:
    ok = run_program("print(2)").stdout == b"2\\n"
    close_all()
    os._exit(0 if ok else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert run_program("print(3)").stdout == b"3\\n"
print("both served")
"""


def test_a_forked_process_starts_servers_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, check=True
    )

    assert done.stdout == "both served\n"


def test_importing_starts_nothing() -> None:
    code = "import chimera.sandbox as s, chimera.sandbox.pool as p; print(p._pool)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "None\n"


def test_without_namespaces_verdicts_are_marked_and_others_are_safe() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "CHIMERA_SANDBOX": "process", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )

    assert done.stdout.splitlines() == [EXPECTED, "process 1"], done.stderr


@pytest.fixture
def system_python(readable: Path) -> list[str]:
    """An interpreter that every user may run, with a copy of Chimera that every user may read."""
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None or namespaces_refused():
        pytest.skip("no system Python that others may run, or no namespaces")
    code = "import sys; print(sys.version_info >= (3, 11))"
    version = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    if version.stdout != "True\n":
        pytest.skip(f"{python} is too old")
    shutil.copytree(ROOT / "chimera", readable / "chimera", ignore=shutil.ignore_patterns("*.pyc"))
    return ["env", f"PYTHONPATH={readable}", python, "-B", "-c"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("isolation", ["namespaces", "process"])
@pytest.mark.parametrize("user", [0, 65534])
def test_every_user_is_served(system_python: list[str], isolation: str, user: int) -> None:
    done = subprocess.run(
        [*system_python, SCRIPT],
        env={"PATH": os.environ["PATH"], "CHIMERA_SANDBOX": isolation},
        cwd="/",
        user=user,
        group=user,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )

    assert done.stdout.splitlines() == [EXPECTED, f"{isolation} 1"], done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("isolation", ["namespaces", "process"])
def test_an_answer_to_root_has_a_user_of_its_own(system_python: list[str], isolation: str) -> None:
    code = (
        "from chimera.sandbox import run_program\n"
        "print(int(run_program('import os; open(\\'x\\', \\'w\\'); print(os.getuid())').stdout))"
    )

    done = subprocess.run(
        [*system_python, code],
        env={"PATH": os.environ["PATH"], "CHIMERA_SANDBOX": isolation},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )

    assert int(done.stdout) >= 1 << 30
