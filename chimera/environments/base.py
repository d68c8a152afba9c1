"""The environment contract: where an agent works and where checks run."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

from chimera.errors import LimitReached, UsageError
from chimera.types import JSON, CommandResult, TestResult

if TYPE_CHECKING:
    from chimera.tools.base import Tool

READ_BYTES = 256 * 1024**2  # what read_file() reads at most; a file of holes costs an agent nothing
ADVICE = "choose --environment bubblewrap or docker (or local, which confines nothing)"

Capability = Literal["commands", "confined", "image", "network", "root", "browser", "dialogue"]


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """Bounds of one environment. None means the backend's default."""

    memory_bytes: int | None = 4 * 1024**3
    cpus: float | None = None
    processes: int | None = 512
    file_bytes: int | None = 2 * 1024**3  # one file
    disk_bytes: int | None = None  # all files together
    output_bytes: int = 10 * 1024**2  # kept of each of a command's two streams


@dataclass(frozen=True, slots=True)
class Service:
    """A container beside the task's own, which reaches it by its name."""

    name: str
    image: str | None = None
    build_context: Path | None = None
    entrypoint: tuple[str, ...] | None = None  # None: the image's own, as for the command
    command: tuple[str, ...] | None = None
    user: str | None = None
    workdir: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, str] = field(default_factory=dict)  # read-only: host path → target
    volumes: Mapping[str, str] = field(default_factory=dict)  # target → name, shared by its name
    health: tuple[str, ...] | None = None  # a command that says whether it is ready
    once: bool = False  # it does its work and ends; the next one starts after that


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """What a task needs of its environment, as data that is checked before anything starts."""

    needs: frozenset[Capability] = frozenset()
    image: str | None = None
    build_context: Path | None = None  # directory with a Dockerfile, when `image` must be built
    files: Mapping[str, bytes | Path] = field(default_factory=dict)  # target in workdir → content
    mounts: Mapping[str, str] = field(default_factory=dict)  # read-only: host path → target
    setup: tuple[str, ...] = ()
    setup_timeout: float = 600.0
    workdir: str | None = None  # None: the backend's own (a fresh directory)
    network: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    limits: ResourceLimits = ResourceLimits()
    services: tuple[Service, ...] = ()  # started before it, in this order
    volumes: Mapping[str, str] = field(default_factory=dict)  # shared with them: target → name
    clones: Path | None = None  # OWNER/NAME: what a Dockerfile clones is taken from here


class Process(Protocol):
    """A running process inside, as far as it is like `subprocess.Popen` with three pipes."""

    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it ended; `subprocess.TimeoutExpired` when it did not in time."""

    def send_signal(self, signal: int, /) -> None:
        """Signal the process and those of its group, as a terminal does."""

    def terminate(self) -> None: ...

    def kill(self) -> None:
        """End it with everything it started."""


class Environment:
    """Where an agent works; fresh for each trial, always closed.

    A backend is a subclass that `start`s from a spec and says in `availability` what it lacks.
    One with commands and files is a `Machine`.
    """

    name: ClassVar[str]
    capabilities: frozenset[Capability] = frozenset()

    deadline: float | None = None  # set by the trial: time.monotonic() at which its time is up
    system_prompt: str = ""  # what the environment tells the agent beside the task's prompt

    @classmethod
    def start(cls, spec: EnvironmentSpec) -> Self:
        """A fresh environment for `spec`, its files in place and its set-up done."""
        raise UsageError(f"the environment '{cls.name}' cannot be started by its name")

    @classmethod
    def availability(cls) -> str | None:
        """None when this machine can start it, else what is missing and how to get it."""
        return None

    @classmethod
    def identity(cls, spec: EnvironmentSpec) -> JSON:
        """What a fresh environment for `spec` is made of; another value is another environment."""
        return cls.name

    def tools(self) -> Sequence[Tool]:
        """Tools that belong to this environment (a shop's API, a browser)."""
        return ()

    def reply(self, text: str) -> str | None:
        """What the other side of a conversation answers; None when nobody is there or it ended."""
        return None

    def evaluate_task(self, task: Any, output: str) -> Any:
        """What an environment that judges its tasks itself decides: a verdict, a truth value or a
        reward. `NotImplemented`: it does not judge, the benchmark does."""
        return NotImplemented

    def stop_processes(self) -> None:
        """End every process that was started inside, so that grading meets none of them."""

    def close(self) -> None:
        """End all processes and remove what was made. Safe to call twice."""

    def remaining(self, timeout: float) -> float:
        """`timeout`, cut to what the trial's deadline leaves."""
        if self.deadline is None:
            return timeout
        return max(0.0, min(timeout, self.deadline - time.monotonic()))

    def require_time(self, timeout: float) -> float:
        """`remaining(timeout)` for a command about to start; after the deadline none may."""
        left = self.remaining(timeout)
        if self.deadline is not None and left <= 0.0:
            raise LimitReached("time", "the trial's time is used up; no further command is started")
        return left

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Tell code that takes every environment for a machine what to choose."""
            advice = f": {ADVICE}" if hasattr(Machine, name) else ""
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'{advice}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Machine(Environment, ABC):
    """An environment that runs commands and keeps files.

    Paths are relative to `workdir` unless absolute; none can leave the environment's root.
    What is wrong with a path is an `OSError` (`FileNotFoundError`, `PermissionError` for one that
    leads out, `IsADirectoryError`); what is wrong with the environment is an `EnvironmentFault`.
    At `deadline` every running command is ended, and none starts after it.
    """

    workdir: str = "."

    @abstractmethod
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
        """Run a command (a string goes through the shell) and end all it started on time-out."""

    @abstractmethod
    def open_process(
        self,
        command: Sequence[str],
        *,
        cwd: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Process:
        """Start a long-lived process inside, with pipes; it ends with the environment."""

    @abstractmethod
    def read_file(self, path: str) -> bytes:
        """The content of a regular file of at most `READ_BYTES`."""

    @abstractmethod
    def write_file(self, path: str, content: bytes | str) -> None:
        """Write a file anew, its directories made on the way; text becomes UTF-8."""

    @abstractmethod
    def list_files(self, pattern: str = "**/*") -> list[str]:
        """Sorted paths of regular files below `workdir`, relative to it."""

    @abstractmethod
    def copy_in(self, source: Path, target: str) -> None:
        """Copy a host file or directory to `target` inside."""

    @abstractmethod
    def copy_out(self, source: str, target: Path) -> None:
        """Copy a file or directory inside to `target` on the host; links are not followed."""

    @abstractmethod
    def stop_processes(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def read_text(self, path: str) -> str:
        return self.read_file(path).decode("utf-8", "replace")

    def run_tests(self, command: str | Sequence[str] = (), *, timeout: float = 600.0) -> TestResult:
        """Run a test command and read its JUnit report; no report is no pass.

        `{report}` in the command stands for the path of the report; a command without it must be
        pytest's, which gets `--junitxml`. A list is one of test files for pytest; without any, it
        runs all it finds.
        """
        from chimera.environments.testing import run_tests

        return run_tests(self, command, timeout=timeout)


def machine(env: Environment) -> Machine:
    """`env` for those who need commands or files; where it has none, what to choose instead."""
    if isinstance(env, Machine):
        return env
    raise UsageError(f"the environment '{env.name}' runs no commands and keeps no files: {ADVICE}")
