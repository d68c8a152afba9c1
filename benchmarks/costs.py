"""What commands cost: CPU seconds of everything that they start, by a control group of their own.

A process that is killed together with its supervisor is in nobody's account of children; the kernel
counts it in the group.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

MOUNT = Path("/sys/fs/cgroup")
ENTER = 'echo $$ > "$0" && exec "$@"'
_numbers = itertools.count()


class Group:
    """A control group that counts the CPU time of what is started in it, and in groups below."""

    def __init__(self) -> None:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        own = {names: path.lstrip("/") for _, names, path in (x.split(":", 2) for x in lines)}
        first = next((names for names in own if "cpuacct" in names.split(",")), None)
        parent = MOUNT / "cpuacct" / own[first] if first else MOUNT / own.get("", "")
        self.directory = parent / f"cost-{os.getpid()}-{next(_numbers)}"
        try:
            self.directory.mkdir()
        except OSError as error:
            raise SystemExit(f"costs are counted by control groups, as root: {error}") from None

    def entered(self, command: Sequence[str]) -> list[str]:
        """A command that enters the group first."""
        return ["sh", "-c", ENTER, str(self.directory / "cgroup.procs"), *command]

    def cpu(self) -> float:
        """CPU seconds so far."""
        nanoseconds = self.directory / "cpuacct.usage"
        if nanoseconds.exists():
            return int(nanoseconds.read_text()) / 1e9
        lines = (self.directory / "cpu.stat").read_text().splitlines()
        return int(dict(line.split() for line in lines)["usage_usec"]) / 1e6

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for _ in range(50):  # what was killed may still be leaving
            with contextlib.suppress(OSError):
                for inner in self.directory.glob("*/"):
                    inner.rmdir()
                self.directory.rmdir()
                return
            time.sleep(0.1)


@dataclass(frozen=True, slots=True)
class Cost:
    cpu: float  # seconds
    wall: float  # seconds
    memory: float  # MB, the most of one process
    output: str


def cost_of(
    command: Sequence[str],
    *,
    directory: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> Cost:
    """What a command costs from start to end; exits with what it said when it fails."""
    with Group() as group:
        began = time.monotonic()
        child = subprocess.Popen(
            group.entered(command), cwd=directory, env={**os.environ, **(variables or {})},
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert child.stdout is not None
        with child.stdout:
            output = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        wall = time.monotonic() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise SystemExit(f"{' '.join(command)}\n{output[-2000:]}")
        return Cost(group.cpu(), wall, used.ru_maxrss / 1024, output)


def load() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def peers() -> Path:
    """Where the peers' virtual environments are."""
    found = os.environ.get("CHIMERA_PEERS") or Path.home() / ".cache" / "chimera" / "peers"
    return Path(found)


def peer(name: str, *packages: str) -> dict[str, str]:
    """The variables with which a peer's users start it: its own programs first on PATH.

    Its virtual environment is made when it is absent.
    """
    folder = peers() / name
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [folder / "bin" / "python", "-m", "pip", "install", "-q", *packages]
        subprocess.run(install, check=True)
        (folder / "ready").touch()
    return {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "VIRTUAL_ENV": str(folder)}
