"""Containers of Docker or podman, through their command line."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from chimera.environments import engine
from chimera.environments.base import EnvironmentSpec, Machine, Process
from chimera.environments.engine import Engine
from chimera.environments.identity import mounted
from chimera.environments.patterns import matcher
from chimera.environments.provision import provisioned
from chimera.environments.services import ServiceNetwork, image_spec
from chimera.environments.streams import Kept, collect, command_result
from chimera.errors import EnvironmentFault
from chimera.types import JSON, CommandResult

DEFAULT_WORKDIR = "/workspace"
START_SECONDS = 120  # for the engine to start a command; one that takes longer is stuck
MARK = "CHIMERA_COMMAND"
MAIN = "main"  # what services call the task's own container

#: Tells its own process id first, so that the host can signal it, and becomes the command.
ENTER = 'echo "$$"; cd "$1" || exit 126; shift; exec "$@"'

#: The better of the two shells runs the command line that is its argument.
SHELL = 'command -v bash >/dev/null && exec bash -c "$0"; exec sh -c "$0"'

#: Ends process $1, all below it, and all that carry the mark $2 of its command, until none is left.
END = r"""
p=0
while [ $p -lt 30 ]; do
  p=$((p+1)); found=; tree=" $1 "; more=1
  while [ -n "$more" ]; do
    more=
    for d in /proc/[0-9]*; do
      i=${d#/proc/}
      case "$tree" in *" $i "*) continue;; esac
      read -r line < $d/stat || continue
      set -- "$1" "$2" ${line##*) }
      case "$tree" in *" $4 "*) tree="$tree$i "; more=1; continue;; esac
      if [ "$i" != $$ ] && grep -qs "$2" $d/environ; then tree="$tree$i "; more=1; fi
    done
  done
  for i in $tree; do
    read -r line < /proc/$i/stat || continue
    case "${line##*) }" in Z*|X*) continue;; esac
    kill -9 $i && found=1
  done
  [ -n "$found" ] || exit 0
done
exit 1
"""


class DockerEnvironment(Machine):
    """A container of its own: the task's image, no network unless asked, bounded resources.

    Without the capability "root" in the spec's needs, the container has no kernel capabilities and
    can gain none. Containers carry labels, and those whose owner died are removed by the next.
    """

    name = "docker"
    capabilities = frozenset({"commands", "confined", "image", "network", "root"})

    def __init__(self, spec: EnvironmentSpec, beside: ServiceNetwork | None = None) -> None:
        self.limits = spec.limits
        self._engine = Engine.find()
        self._closed = False
        self._root = "root" in spec.needs
        self._processes: list[ContainerProcess] = []
        self._variables = {"LANG": "C.UTF-8", **spec.variables}
        self.image = self._engine.image_for(spec)
        self.workdir = spec.workdir or self._engine.workdir_of(self.image) or DEFAULT_WORKDIR
        self.services = beside or ServiceNetwork.start(spec)
        self._owns_services = beside is None
        try:
            self.container = self._run(spec)
        except BaseException:
            self._end_services()
            raise

    def _run(self, spec: EnvironmentSpec) -> str:
        if self.services is None:
            return self._engine.run(spec, self.image, self.workdir)
        # the way out is apart from the services, so that it can be taken away alone
        alias = MAIN if self._owns_services else ""
        joined = self.services.options(spec.volumes, alias=alias)
        inside = replace(spec, network=True)
        container = self._engine.run(inside, self.image, self.workdir, joined)
        if spec.network:
            self._engine.must("network", "connect", "bridge", container)
        return container

    @classmethod
    def start(cls, spec: EnvironmentSpec) -> Self:
        return provisioned(cls(spec), spec)

    @classmethod
    def start_beside(cls, spec: EnvironmentSpec, services: ServiceNetwork | None) -> Self:
        """A fresh container that meets the services of another."""
        return provisioned(cls(spec, services), spec)

    @classmethod
    def availability(cls) -> str | None:
        return engine.availability()

    @classmethod
    def identity(cls, spec: EnvironmentSpec) -> JSON:
        found = Engine.find()
        images = [spec, *(image_spec(service, spec) for service in spec.services)]
        names = [found.image_id(found.image_for(each)) for each in images]
        return [cls.name, *names, mounted(spec.mounts), spec.network]

    # --- commands

    def _exec(
        self, command: Sequence[str], cwd: str, variables: Mapping[str, str], *options: str
    ) -> list[str]:
        settings = [f"--env={name}={value}" for name, value in variables.items()]
        return self._engine.command(
            "exec",
            "-i",
            *options,
            *settings,
            self.container,
            "sh",
            "-c",
            ENTER,
            "sh",
            cwd,
            *command,
        )

    def _must(self, *command: str, cwd: str | None = None) -> bytes:
        result = self.run_command(command, cwd=cwd, timeout=60)
        if not result.success:
            raise EnvironmentFault(f"{shlex.join(command)} failed in {self.image}: {result.output}")
        return result.stdout

    def _inside(self, path: str | None) -> str:
        return os.path.join(self.workdir, path or "")  # noqa: PTH118 (a path inside)

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
        started = time.monotonic()
        deadline = started + self.require_time(timeout)
        process = self._open(command, cwd, variables, stdin is not None)
        bound = self.limits.output_bytes if output_bytes is None else output_bytes
        assert process.stdout is not None
        assert process.stderr is not None
        with process:
            kept = {s.fileno(): Kept(bound) for s in (process.stdout, process.stderr)}
            given = None
            if stdin is not None:
                assert process.stdin is not None
                given = (os.dup(process.stdin.fileno()), stdin)
                process.stdin.close()
            over, _ = collect(kept, stdin=given, deadline=deadline)
            if not over:
                process.kill()
            code = process.wait()
        stdout, stderr = kept.values()
        return command_result(stdout, stderr, code if over else None, started)

    def _open(
        self,
        command: str | Sequence[str],
        cwd: str | None,
        variables: Mapping[str, str] | None,
        with_stdin: bool,
    ) -> ContainerProcess:
        """Start a command; a container that was emptied from inside is started anew."""
        if self._closed:
            raise EnvironmentFault("the docker environment is closed")
        words = ["sh", "-c", SHELL, command] if isinstance(command, str) else list(command)
        mark = secrets.token_hex(8)
        settings = {**self._variables, **(variables or {}), MARK: mark}
        for attempt in (1, 2):
            process = ContainerProcess(
                self._exec(words, self._inside(cwd), settings), self, mark, with_stdin
            )
            if process.inside is not None:
                return process
            said = process.failure()
            if attempt == 1 and "is not running" in said:
                self._engine.must("start", self.container)
                continue
            break
        raise EnvironmentFault(
            f"the container did not take a command: {said}", retryable="is not running" not in said
        )

    def open_process(
        self,
        command: Sequence[str],
        *,
        cwd: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Process:
        self.require_time(1.0)
        process = self._open(list(command), cwd, variables, True)
        self._processes.append(process)
        return process

    def signal(self, number: int, process: int) -> None:
        """Signal a process inside and its group."""
        script = f"kill -{number} -{process} || kill -{number} {process}"
        self._engine.call(*self._ender(), "sh", "-c", script)

    def end(self, process: int, mark: str) -> None:
        """End a process inside with all it started; everything inside, if that is what it takes."""
        done = self._engine.call(
            *self._ender(), "sh", "-c", END, "sh", str(process), f"{MARK}={mark}"
        )
        if done.returncode:  # a fork bomb leaves no room even for this
            self.stop_processes()

    def _ender(self) -> tuple[str, ...]:
        """Where capabilities are dropped, every process is the image's user's, and root no more."""
        return ("exec", *(("--user", "0") if self._root else ()), self.container)

    def stop_processes(self) -> None:
        """The engine ends the container and starts it again: nothing inside has a say in it."""
        self._engine.must("kill", self.container)
        self._engine.must("start", self.container)

    # --- files: by the engine, which resolves paths within the container

    def read_file(self, path: str) -> bytes:
        return self._engine.read_file(self.container, self._inside(path), path)

    def write_file(self, path: str, content: bytes | str) -> None:
        data = content.encode() if isinstance(content, str) else content
        self._engine.write_file(self.container, self._inside(path), data, 0o644)

    def list_files(self, pattern: str = "**/*") -> list[str]:
        listed = self._must("find", ".", "-type", "f", "-print0")
        names = sorted(os.fsdecode(name)[2:] for name in listed.split(b"\0") if name)
        wanted = matcher(pattern)
        return [name for name in names if wanted(name)]

    def copy_in(self, source: Path, target: str) -> None:
        if source.is_file():
            mode = source.stat().st_mode & 0o777
            self._engine.write_file(self.container, self._inside(target), source.read_bytes(), mode)
        elif source.is_dir():
            self._engine.copy_in(self.container, source, self._inside(target))
        else:
            raise FileNotFoundError(f"nothing to copy at {source}")

    def copy_out(self, source: str, target: Path) -> None:
        # of a path that ends so the client hands out the contents, without their directory
        inside = self._inside(source).removesuffix("/.")
        self._engine.copy_out(self.container, inside, target, source)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._engine.remove(self.container)
            self._end_services()
            for process in self._processes:
                process.close()

    def _end_services(self) -> None:
        if self.services is not None and self._owns_services:
            self.services.close()


class ContainerProcess(subprocess.Popen[bytes]):
    """The engine's client for one command; `inside` is the command's id in the container."""

    def __init__(
        self, command: Sequence[str], env: DockerEnvironment, mark: str, with_stdin: bool
    ) -> None:
        self._env = env
        self._mark = mark
        super().__init__(
            command,
            stdin=subprocess.PIPE if with_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            env=engine.client_variables(),
        )
        self.inside = self._told()

    def _told(self) -> int | None:
        """The command's id, its first line; None when it did not start."""
        assert self.stdout is not None
        waiting = select.poll()
        waiting.register(self.stdout, select.POLLIN)
        first = bytearray()
        while not first.endswith(b"\n") and len(first) < 20:
            if not waiting.poll(START_SECONDS * 1000):
                super().send_signal(signal.SIGKILL)
                raise EnvironmentFault(
                    f"the engine did not start a command in {START_SECONDS} s", retryable=True
                )
            byte = self.stdout.read(1)
            if not byte:
                break
            first += byte
        return int(first) if first.strip().isdigit() else None

    def failure(self) -> str:
        """What the client said when the command did not start."""
        assert self.stderr is not None
        with self:
            said = self.stderr.read()
        return said.decode("utf-8", "replace").strip()

    def close(self) -> None:
        """End the client; what it talked to is gone."""
        super().send_signal(signal.SIGKILL)
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()

    def send_signal(self, sig: int) -> None:
        if self.inside is not None and self.poll() is None:
            self._env.signal(sig, self.inside)

    def terminate(self) -> None:
        self.send_signal(15)

    def kill(self) -> None:
        if self.inside is not None and self.poll() is None:
            self._env.end(self.inside, self._mark)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(5)
        super().send_signal(signal.SIGKILL)
