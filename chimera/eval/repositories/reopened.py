"""An environment that can be had anew: for grading that runs hostile code more than once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from chimera.environments.base import Environment, Process
from chimera.types import CommandResult


class ReopenedEnvironment(Environment):
    """Opens its inside when it is first used; `fresh()` gives one that nothing has touched."""

    name = "reopened"

    def __init__(self, open_inside: Callable[[], Environment]) -> None:
        self._open = open_inside
        self._inside: Environment | None = None

    @contextmanager
    def fresh(self) -> Iterator[Environment]:
        """A new environment, closed at the end of the block."""
        with self._open() as env:
            env.deadline = self.deadline
            yield env

    def inside(self) -> Environment:
        if self._inside is None:
            self._inside = self._open()
            self._inside.deadline = self.deadline
        return self._inside

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
        return self.inside().run_command(
            command,
            timeout=timeout,
            cwd=cwd,
            variables=variables,
            stdin=stdin,
            output_bytes=output_bytes,
        )

    def open_process(
        self,
        command: Sequence[str],
        *,
        cwd: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Process:
        return self.inside().open_process(command, cwd=cwd, variables=variables)

    def read_file(self, path: str) -> bytes:
        return self.inside().read_file(path)

    def write_file(self, path: str, content: bytes | str) -> None:
        self.inside().write_file(path, content)

    def list_files(self, pattern: str = "**/*") -> list[str]:
        return self.inside().list_files(pattern)

    def copy_in(self, source: Path, target: str) -> None:
        self.inside().copy_in(source, target)

    def copy_out(self, source: str, target: Path) -> None:
        self.inside().copy_out(source, target)

    def stop_processes(self) -> None:
        if self._inside is not None:
            self._inside.stop_processes()

    def close(self) -> None:
        if self._inside is not None:
            self._inside.close()
            self._inside = None
