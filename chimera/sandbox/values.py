"""The values of the sandbox: limits that go in, outcomes that come out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Isolation = Literal["namespaces", "process", "shared"]
MEBIBYTE = 1024**2


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one answer. CPU time decides; wall time is a backstop for answers that wait.

    `memory_bytes` bounds what the answer and all it starts hold together, and the address space of
    each of them; `processes` counts threads too; `file_bytes` bounds a file and the whole scratch
    directory; `output_bytes` each of stdout and stderr.
    """

    cpu_seconds: float = 10.0
    wall_seconds: float | None = None  # None: three times the CPU time and five seconds
    memory_bytes: int = 4096 * MEBIBYTE
    processes: int = 64
    file_bytes: int = 64 * MEBIBYTE
    output_bytes: int = 16 * MEBIBYTE

    @property
    def wall(self) -> float:
        return 3 * self.cpu_seconds + 5 if self.wall_seconds is None else self.wall_seconds


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether the judge saw every check hold. `limit` names the limit that decided, if one did.

    `results` has one entry for each input that was tried (`judge_calls`): whether it held.
    `handles` are the kinds of the answer's own objects that the checks looked into: what those say
    is as good as the answer. `records` is what was asked and answered, by program and checks; one
    that is too long is cut, and ends with `…`. See `replaying`.
    """

    passed: bool
    why: str
    limit: str | None
    isolation: Isolation
    results: tuple[bool, ...] | None = None
    cpu_seconds: float = 0.0
    handles: tuple[str, ...] = ()
    records: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """What a function made of one input: a plain value, or why there is none."""

    value: Any = None
    error: str | None = None
    limit: str | None = None

    @property
    def ok(self) -> bool:
        return self.error is None


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """How a program ended. `exit_code` is negative for a signal; `why` is empty for a clean end."""

    stdout: bytes
    stderr: bytes
    exit_code: int
    limit: str | None
    why: str
    isolation: Isolation
    cpu_seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and self.limit is None
