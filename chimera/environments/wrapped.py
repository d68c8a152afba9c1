"""A machine around another: adapters override what is particular to their protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chimera.environments.base import Environment, Machine, Process
from chimera.types import CommandResult, TestResult

if TYPE_CHECKING:
    from chimera.tools.base import Tool


class WrappedMachine(Machine):
    """Hands everything on to `inner`."""

    name = "wrapped"

    def __init__(self, inner: Machine) -> None:
        self._inner = inner
        self.capabilities = inner.capabilities
        self.workdir = inner.workdir
        self.system_prompt = inner.system_prompt

    @property
    def inner(self) -> Machine:
        return self._inner

    @property
    def deadline(self) -> float | None:
        return self.inner.deadline

    @deadline.setter
    def deadline(self, value: float | None) -> None:
        self.inner.deadline = value

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
        return self.inner.run_command(
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
        return self.inner.open_process(command, cwd=cwd, variables=variables)

    def read_file(self, path: str) -> bytes:
        return self.inner.read_file(path)

    def write_file(self, path: str, content: bytes | str) -> None:
        self.inner.write_file(path, content)

    def list_files(self, pattern: str = "**/*") -> list[str]:
        return self.inner.list_files(pattern)

    def run_tests(self, command: str | Sequence[str] = (), *, timeout: float = 600.0) -> TestResult:
        return self.inner.run_tests(command, timeout=timeout)

    def copy_in(self, source: Path, target: str) -> None:
        self.inner.copy_in(source, target)

    def copy_out(self, source: str, target: Path) -> None:
        self.inner.copy_out(source, target)

    def stop_processes(self) -> None:
        self.inner.stop_processes()

    def close(self) -> None:
        self.inner.close()

    def tools(self) -> Sequence[Tool]:
        return self.inner.tools()

    def reply(self, text: str) -> str | None:
        return self.inner.reply(text)

    def evaluate_task(self, task: Any, output: str) -> Any:
        return self.inner.evaluate_task(task, output)


def unwrapped(env: Environment) -> Environment:
    """The environment that a backend started."""
    while isinstance(env, WrappedMachine):
        env = env.inner
    return env
