"""Confinement: hostile commands harm neither the host nor the environment's next command."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chimera.environments.base import EnvironmentSpec, Machine, ResourceLimits
from chimera.environments.conformance.base import Start, expect
from chimera.environments.conformance.files import host_secret

MIB = 1024**2


@contextmanager
def host_variable() -> Iterator[str]:
    """A variable of this process, as an API key would be; yields its value."""
    value = secrets.token_hex(16)
    os.environ["CHIMERA_CHECK_API_KEY"] = value
    try:
        yield value
    finally:
        del os.environ["CHIMERA_CHECK_API_KEY"]


def no_variables_of_the_host(start: Start) -> None:
    """Neither in the command's environment nor in that of any process it can see."""
    with host_variable() as value, start(EnvironmentSpec()) as env:
        expect(value.encode() not in env.run_command("env; set").stdout, "a variable leaked")
        if "confined" in env.capabilities:
            seen = env.run_command("cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null")
            expect(value.encode() not in seen.stdout, "a variable of the host was seen in /proc")


def no_files_of_the_host(env: Machine) -> None:
    with host_secret() as (path, content):
        seen = env.run_command(f"cat {path}; ls {path.parent}")
        expect(content not in seen.stdout and b"secret" not in seen.stdout, "a host file was seen")
        env.run_command(f"mkdir -p {path.parent}; echo gone > {path}; rm -rf {path.parent}")


def processes_are_its_own(env: Machine) -> None:
    """Raises when a process of the host is in sight: what kills or floods must not be tried then,
    because a backend that is confined in name only would let it loose on the machine."""
    marker = f"chimera-check-{secrets.token_hex(8)}"
    with subprocess.Popen(["sh", "-c", f"read x; : {marker}"], stdin=subprocess.PIPE):
        seen = env.run_command("cat /proc/[0-9]*/cmdline; readlink /proc/self/ns/pid").stdout
    expect(marker.encode() not in seen, "a process of the host was seen")
    own = bytes(Path("/proc/self/ns/pid").readlink())
    expect(b"pid:[" in seen and own not in seen, "the processes are in the host's PID namespace")


def no_processes_of_the_host(env: Machine) -> None:
    processes_are_its_own(env)
    with subprocess.Popen(["sleep", "600"]) as child:
        env.run_command(f"kill -9 {child.pid}")
        unharmed = child.poll() is None
        child.kill()
    expect(unharmed, "a process of the host was killed")


def no_network(env: Machine) -> None:
    """No device but the loopback, and that is not the host's."""
    devices = env.run_command("cat /proc/net/dev").stdout.decode().splitlines()[2:]
    names = [line.split(":")[0].strip() for line in devices]
    expect(not [name for name in names if name not in IDLE_DEVICES], f"devices: {names}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        env.run_command(["bash", "-c", f"echo hi > /dev/tcp/127.0.0.1/{port}"], timeout=20)
        server.settimeout(0.2)
        try:
            server.accept()[0].close()
        except TimeoutError:
            return
    raise AssertionError("the host's loopback was reached")


#: Tunnel ends that some kernels put, switched off, into every network namespace.
IDLE_DEVICES = ("lo", "tunl0", "sit0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip_vti0",
                "ip6_vti0", "ip6gre0")  # fmt: skip


def no_kernel_settings(env: Machine) -> None:
    """What the kernel offers root in /proc is not to be written."""
    for name in (
        "sys/kernel/core_pattern",
        "sys/kernel/hostname",
        "sysrq-trigger",
        "sys/vm/swappiness",
    ):
        if not Path("/proc", name).exists():
            continue
        before = Path("/proc", name).read_bytes() if name.startswith("sys/") else b""
        result = env.run_command(f"cat /proc/{name} > value; cat value > /proc/{name}", timeout=20)
        if name.startswith("sys/"):
            expect(Path("/proc", name).read_bytes() == before, f"/proc/{name} was changed")
            expect(not result.success, f"/proc/{name} was written")


def the_system_is_kept(env: Machine) -> None:
    """What is written to system directories inside is not written to those of the host."""
    name = f"chimera-check-{secrets.token_hex(8)}"
    for directory in ("/usr/bin", "/etc", "/var"):
        planted = Path(directory, name)
        env.run_command(f"touch {planted}")
        found = planted.exists()
        planted.unlink(missing_ok=True)
        expect(not found, f"{planted} was made on the host")


def mounts_are_read_only(start: Start) -> None:
    with tempfile.TemporaryDirectory() as host:
        Path(host, "data").write_text("given")
        Path(host).chmod(0o755)
        with start(EnvironmentSpec(mounts={host: "/mnt/given"})) as env:
            expect(env.read_file("/mnt/given/data") == b"given", "the mount is not there")
            env.run_command("echo changed > /mnt/given/data; touch /mnt/given/new")
        expect(Path(host, "data").read_text() == "given", "a read-only mount was written")
        expect(
            [path.name for path in Path(host).iterdir()] == ["data"],
            "a file was made in a read-only mount",
        )


def fork_bombs_are_bounded(start: Start) -> None:
    limits = ResourceLimits(processes=100)
    with start(EnvironmentSpec(limits=limits)) as env:
        processes_are_its_own(env)
        bomb = "f() { f | f & }; f; sleep 600"
        result = env.run_command(["sh", "-c", bomb], timeout=4, output_bytes=10_000)
        expect(result.timed_out or not result.success, "the bomb was reported as a success")
        env.stop_processes()
        expect(env.run_command("echo on", timeout=60).stdout == b"on\n", "nothing runs after it")
        count = env.run_command("ls -d /proc/[0-9]* | wc -l").stdout
        expect(int(count) < 20, f"{int(count)} processes are left")


def memory_bombs_are_bounded(start: Start) -> None:
    limits = ResourceLimits(memory_bytes=256 * MIB)
    with start(EnvironmentSpec(limits=limits)) as env:
        processes_are_its_own(env)
        bomb = "head -c 2000000000 /dev/zero | tail -c 2000000000 > /dev/null"
        result = env.run_command(bomb, timeout=60, output_bytes=10_000)
        expect(not result.success, "2 GB were held under a limit of 256 MiB")
        expect(not result.timed_out, "the bomb was neither stopped nor did it end")
        expect(env.run_command("echo on").stdout == b"on\n", "nothing runs after it")


def parents_are_out_of_reach(env: Machine) -> None:
    """A command that kills all it can reach leaves an environment that goes on."""
    processes_are_its_own(env)
    env.write_file("kept", b"1")
    result = env.run_command("kill -9 $PPID; kill -9 1; kill -9 -1; kill -STOP -1", timeout=20)
    expect(not result.timed_out, "the command hung")
    time.sleep(0.2)
    expect(env.run_command("echo on", timeout=60).stdout == b"on\n", "nothing runs after it")
    expect(env.read_file("kept") == b"1", "a file was lost")


def no_new_privileges(env: Machine) -> None:
    """Without the need for root, no capability of the kernel is held or can be gained."""
    status = env.run_command("grep -E 'Cap(Eff|Prm|Bnd)|NoNewPrivs' /proc/self/status").output
    values = dict(line.split(":") for line in status.splitlines() if ":" in line)
    held = int(values.get("CapEff", "0").strip(), 16) | int(values.get("CapPrm", "0").strip(), 16)
    expect(held == 0, f"capabilities are held: {held:x}")
    expect(values.get("NoNewPrivs", "0").strip() == "1", "privileges can be gained")


SHARED = (
    no_files_of_the_host,
    no_processes_of_the_host,
    no_network,
    no_kernel_settings,
    the_system_is_kept,
    no_new_privileges,
    parents_are_out_of_reach,
)
FRESH = (mounts_are_read_only, fork_bombs_are_bounded, memory_bombs_are_bounded)
UNCONFINED_FRESH = (no_variables_of_the_host,)
