"""A control group by its files, which the host opened: exact accounts and hard bounds.

The server and all answers live in one group and the judge in another, so that no verdict has to
move a process. What the server itself uses is taken off.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

MOST = 1 << 62


class Group:
    def __init__(self, handles: dict[str, Any]) -> None:
        self.doors: list[int] = handles["enter"]
        self.memory: list[int] = handles["memory"]
        self.usage: int = handles["usage"]
        self.deaths: int = handles["kills"]
        self.clock: int = handles["cpu"]
        self.processes: int = handles["processes"]
        self.base = 0
        self.bounds = (0, 0)

    def enter(self) -> None:
        for door in self.doors:
            os.write(door, b"0")

    def memory_bytes(self) -> int:
        return int(os.pread(self.usage, 64, 0))

    def settle(self) -> None:
        """What is used now is the server's own and comes on top of every limit."""
        self.base = self.memory_bytes()

    def bound(self, memory: int, processes: int) -> None:
        """Hold the group to these; written only when they are others than before."""
        if self.bounds == (memory, processes):
            return
        allowed = b"%d" % min(self.base + memory, MOST)
        for descriptor in self.memory:  # in version 1 the first may not pass the second on the way
            with suppress(OSError):
                os.pwrite(descriptor, allowed, 0)
        os.pwrite(self.memory[0], allowed, 0)
        os.pwrite(self.processes, b"%d" % processes, 0)
        self.bounds = memory, processes

    def cpu_seconds(self) -> float:
        """CPU time of everything that was ever in the group."""
        return cpu_seconds(self.clock)

    def kills(self) -> int:
        """How many processes the kernel ended because the group's memory was used up."""
        words = os.pread(self.deaths, 512, 0).split()
        return int(words[words.index(b"oom_kill") + 1])


def cpu_seconds(clock: int) -> float:
    """CPU time of everything that was ever in a group, by its account of it."""
    first, *rest = os.pread(clock, 64, 0).split()
    return int(rest[0]) / 1e6 if rest else int(first) / 1e9
