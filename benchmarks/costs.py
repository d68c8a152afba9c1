"""What a command costs: CPU seconds of everything that it starts, by a control group of its own.

A process that is killed together with its supervisor is in nobody's account of children; the kernel
counts it in the group. Where no group can be made, `how` says that the account is of reaped
children alone.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
ENTER = 'echo $$ > "$0" && exec "$@"'
PEERS = Path.home() / ".cache" / "chimera" / "peers"
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Cost:
    cpu: float  # seconds
    wall: float  # seconds
    memory: float  # MB, the most of one process
    output: str
    how: str  # "control group" or "reaped children"


def cost_of(
    command: Sequence[str],
    *,
    directory: Path | None = None,
    variables: Mapping[str, str] | None = None,
    answers: Sequence[int] = (0,),
) -> Cost:
    """What a command costs from its start to the end of all that it left; ends on failure."""
    with _group() as group:
        entered = ["sh", "-c", ENTER, str(group / "cgroup.procs"), *command] if group else command
        began = time.monotonic()
        child = subprocess.Popen(
            entered, cwd=directory, env={**os.environ, **(variables or {})}, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert child.stdout is not None
        output = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        wall = time.monotonic() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        child.stdout.close()
        if child.returncode not in answers:
            raise SystemExit(f"{' '.join(command)}\n{output[-2000:]}")
        cpu = _usage(group) if group else used.ru_utime + used.ru_stime
    how = "control group" if group else "reaped children"
    return Cost(cpu, wall, used.ru_maxrss / 1024, output, how)


def load() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def peer(name: str, *packages: str) -> Path:
    """The directory of a peer's programs; its virtual environment is made when it is absent."""
    folder = Path(os.environ.get("CHIMERA_PEERS", PEERS)) / name
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [folder / "bin" / "python", "-m", "pip", "install", "-q", *packages]
        subprocess.run(install, check=True)
        (folder / "ready").touch()
    return folder / "bin"


@contextlib.contextmanager
def _group() -> Iterator[Path | None]:
    """A new control group that counts CPU time, those below it included."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = {
        controllers: path.lstrip("/") for _, controllers, path in (x.split(":", 2) for x in lines)
    }
    version_1 = next((names for names in own if "cpuacct" in names.split(",")), None)
    parent = MOUNT / "cpuacct" / own[version_1] if version_1 else MOUNT / own.get("", "")
    group = parent / f"cost-{os.getpid()}-{next(_numbers)}"
    try:
        group.mkdir()
    except OSError:
        yield None
        return
    try:
        yield group
    finally:
        for _ in range(50):  # what was killed may still be leaving
            with contextlib.suppress(OSError):
                for inner in group.glob("*/"):
                    inner.rmdir()
                group.rmdir()
                break
            time.sleep(0.1)


def _usage(group: Path) -> float:
    """CPU seconds of a group."""
    nanoseconds = group / "cpuacct.usage"
    if nanoseconds.exists():
        return int(nanoseconds.read_text()) / 1e9
    fields = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
    return int(fields["usage_usec"]) / 1e6
