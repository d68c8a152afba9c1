"""Control groups, where they may be made: bounds on memory, processes and CPU together."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

MOUNT = Path("/sys/fs/cgroup")
NAME = re.compile(r"chimera-(?P<process>\d+)-(?P<started>\d+)-\d+")
_numbers = itertools.count()
CPU_PERIOD = 100_000  # microseconds


@dataclass(slots=True)
class Handles:
    """Descriptors of one group's control files; whoever holds them may use them."""

    enter: list[int]
    memory: list[int]  # its limit, and in version 1 that of memory and swap
    usage: int
    kills: int
    cpu: int
    processes: int

    def descriptors(self) -> list[int]:
        each = [*self.enter, *self.memory, self.usage, self.kills, self.cpu, self.processes]
        return [descriptor for descriptor in each if descriptor >= 0]

    def close(self) -> None:
        for descriptor in self.descriptors():
            os.close(descriptor)


class Cgroup:
    """One group (a directory for each hierarchy); empty where none can be made."""

    def __init__(self, directories: tuple[Path, ...]) -> None:
        self._directories = directories
        self.bounds_memory = False
        self.bounds_processes = False

    @classmethod
    def create(
        cls,
        *,
        memory_bytes: int | None = None,
        processes: int | None = None,
        cpus: float | None = None,
    ) -> Self:
        """A new group below this process's own, or beside it, with what could be bounded."""
        name = f"chimera-{os.getpid()}-{start_time(os.getpid())}-{next(_numbers)}"
        group = cls(tuple(parent / name for parent in parents() if made(parent, name)))
        group._set("memory.swap.max", 0)
        group._bound(memory_bytes, processes, cpus)
        return group

    def _bound(self, memory: int | None, processes: int | None, cpus: float | None) -> None:
        if memory is not None:
            self.bounds_memory = self._set("memory.limit_in_bytes", memory) or self._set(
                "memory.max", memory
            )
            self._set("memory.memsw.limit_in_bytes", memory)
        if processes is not None:
            # the guest and a keeper are counted too
            self.bounds_processes = self._set("pids.max", processes + 8)
        if cpus is not None:
            quota = int(cpus * CPU_PERIOD)
            _ = self._set("cpu.max", f"{quota} {CPU_PERIOD}") or self._set(
                "cpu.cfs_quota_us", quota
            )

    def _set(self, name: str, value: int | str) -> bool:
        for directory in self._directories:
            if (directory / name).exists():
                with contextlib.suppress(OSError):
                    (directory / name).write_text(str(value))
                    return True
        return False

    def handles(self) -> Handles | None:
        """Its control files, opened for a process that sees no cgroup; None if one is missing."""
        handles = Handles([], [], -1, -1, -1, -1)
        try:
            handles.usage = self._open("memory.current", "memory.usage_in_bytes")
            handles.kills = self._open("memory.events", "memory.oom_control")
            handles.cpu = self._open("cpuacct.usage", "cpu.stat")
            handles.processes = self._open("pids.max", flags=os.O_WRONLY)
            handles.memory.append(
                self._open("memory.max", "memory.limit_in_bytes", flags=os.O_WRONLY)
            )
            with contextlib.suppress(FileNotFoundError):
                handles.memory.append(self._open("memory.memsw.limit_in_bytes", flags=os.O_WRONLY))
            for directory in self._directories:
                handles.enter.append(os.open(directory / "cgroup.procs", os.O_WRONLY))
        except OSError:
            handles.close()
            return None
        return handles

    def _open(self, *names: str, flags: int = os.O_RDONLY) -> int:
        for directory in self._directories:
            for name in names:
                if (directory / name).exists():
                    return os.open(directory / name, flags)
        raise FileNotFoundError(names[0])

    def add(self, process: int) -> None:
        for directory in self._directories:
            (directory / "cgroup.procs").write_text(str(process))

    def processes(self) -> set[int]:
        found: set[int] = set()
        for directory in self._directories:
            with contextlib.suppress(OSError):
                found.update(map(int, (directory / "cgroup.procs").read_text().split()))
        return found

    def kill(self, spare: int = 0) -> bool:
        """End every process of the group but `spare`; False when that could not be done."""
        # 0 stands for a process that cannot be seen from here; as a target it would mean ourselves
        if not self._directories:
            return False
        for _ in range(200):
            self._set("freezer.state", "FROZEN")
            alive = self.processes() - {spare, 0}
            for process in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            self._set("freezer.state", "THAWED")
            if not alive:
                return True
            time.sleep(0.01)
        return False

    def remove(self) -> None:
        """End what is left in the group and remove it."""
        if self._directories:
            self.kill()
        for directory in self._directories:
            for attempt in range(100):
                try:
                    directory.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:  # the kernel still counts a process that is on its way out
                    time.sleep(min(0.005 * (attempt + 1), 0.2))


def available() -> bool:
    """Whether a group can be made that bounds memory and processes and counts CPU time."""
    group = Cgroup.create()
    try:
        handles = group.handles()
        if handles is not None:
            handles.close()
        return handles is not None
    finally:
        group.remove()


def parents() -> list[Path]:
    """Where groups of ours belong: below our own in version 1, beside it in version 2."""
    found: list[Path] = []
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            if controller in ("memory", "pids", "cpu", "cpuacct", "freezer"):
                found.append(MOUNT / controller / path.lstrip("/"))
        if not controllers and (MOUNT / "cgroup.controllers").exists():
            own = MOUNT / path.lstrip("/")
            found.append(own if own == MOUNT else own.parent)
    return found


def made(parent: Path, name: str) -> bool:
    """Whether a group could be made in `parent`, after those of dead processes were cleared."""
    controls = parent / "cgroup.subtree_control"
    try:
        if controls.exists() and not {"memory", "pids"} <= set(controls.read_text().split()):
            return False
        for other in parent.glob("chimera-*"):
            owner = NAME.fullmatch(other.name)
            if owner is not None and start_time(int(owner["process"])) != owner["started"]:
                with contextlib.suppress(OSError):
                    other.rmdir()
        (parent / name).mkdir()
    except OSError:
        return False
    return True


def start_time(process: int) -> str:
    """When a process started, in clock ticks since boot: with its id, it names it for good."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return "0"
    return stat.rpartition(")")[2].split()[19]
