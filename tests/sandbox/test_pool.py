"""Servers: many threads, faults that are no verdicts, other users, no namespaces, nothing left."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

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


def test_nothing_is_left_after_closing() -> None:
    assert run_tests("def f():\n    return 1", "assert f() == 1").passed
    assert own_processes()

    close_all()

    assert not own_processes()
    assert run_tests("def f():\n    return 1", "assert f() == 1").passed


def test_a_server_that_died_is_replaced_and_the_verdict_is_the_same() -> None:
    assert run_tests("def f():\n    return 1", "assert f() == 1").passed
    for workers in pool.pool()._idle.values():
        for worker in workers:
            worker.process.kill()

    assert run_tests("def f():\n    return 1", "assert f() == 1").passed


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("isolation", ["namespaces", "process"])
def test_an_ordinary_user_is_served_too(readable: Path, isolation: str) -> None:
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None or namespaces_refused():
        pytest.skip("no system Python that others may run, or no namespaces")
    version = subprocess.run(
        [python, "-c", "import sys; print(sys.version_info >= (3, 11))"],
        capture_output=True,
        text=True,
        check=True,
    )
    if version.stdout != "True\n":
        pytest.skip(f"{python} is too old")
    shutil.copytree(ROOT / "chimera", readable / "chimera", ignore=shutil.ignore_patterns("*.pyc"))

    done = subprocess.run(
        [python, "-B", "-c", SCRIPT],
        env={
            "PYTHONPATH": str(readable),
            "PATH": os.environ["PATH"],
            "CHIMERA_SANDBOX": isolation,
        },
        cwd="/",
        user=65534,
        group=65534,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )

    assert done.stdout.splitlines() == [EXPECTED, f"{isolation} 1"], done.stderr
