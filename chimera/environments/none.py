"""The environment of tasks that need none: using it says what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn, Self

from chimera.environments.base import Environment, EnvironmentSpec, Process
from chimera.errors import EnvironmentFault
from chimera.types import CommandResult


class NoEnvironment(Environment):
    """A null object. Closing it and ending its processes do nothing; all else is a fault."""

    name = "none"

    @classmethod
    def start(cls, spec: EnvironmentSpec) -> Self:
        return cls()

    def run_command(
        self,
        command: str | Sequence[str],
        *,
        timeout: float = 120.0,
        cwd: str | None = None,
        variables: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        output_bytes: int | None = None,
    ) -> CommandResult:
        self._missing("run commands")

    def open_process(
        self,
        command: Sequence[str],
        *,
        cwd: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Process:
        self._missing("start processes")

    def read_file(self, path: str) -> bytes:
        self._missing("read files")

    def write_file(self, path: str, content: bytes | str) -> None:
        self._missing("write files")

    def list_files(self, pattern: str = "**/*") -> list[str]:
        self._missing("list files")

    def copy_in(self, source: Path, target: str) -> None:
        self._missing("take files")

    def copy_out(self, source: str, target: Path) -> None:
        self._missing("give files")

    def stop_processes(self) -> None:
        return

    def close(self) -> None:
        return

    def _missing(self, what: str) -> NoReturn:
        raise EnvironmentFault(
            f"this trial has no environment that could {what}: "
            "choose one with --environment bubblewrap, docker or local (not confined)"
        )
