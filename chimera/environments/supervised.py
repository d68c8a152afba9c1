"""The host's side of an environment whose inside is served by `guest.py`."""

from __future__ import annotations

import array
import errno
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from chimera.confinement.cgroups import Cgroup
from chimera.environments import tar_streams
from chimera.environments.base import READ_BYTES, EnvironmentSpec, Machine, Process
from chimera.environments.patterns import matcher
from chimera.environments.streams import Kept, collect, command_result
from chimera.errors import EnvironmentFault
from chimera.types import CommandResult

GUEST = Path(__file__).with_name("guest.py")
KILLED = 137


class SupervisedEnvironment(Machine):
    """Commands and files by way of the guest; subclasses say how the guest is started."""

    #: The directory no file operation leaves, as the guest sees it.
    root: str = "/"

    def __init__(self, spec: EnvironmentSpec, variables: Mapping[str, str]) -> None:
        self.limits = spec.limits
        self.variables = dict(variables)
        self._lock = threading.Lock()
        self._processes: list[GuestProcess] = []
        self._closed = False
        self._control: socket.socket | None = None
        self._launcher: subprocess.Popen[bytes] | None = None
        self._cgroup: Cgroup | None = None
        self._server = 0  # the guest's process id, seen from here

    def _launch(
        self,
        prefix: Sequence[str],
        python: str,
        guest: str,
        *,
        processes: int | None = None,
        become: tuple[int, Sequence[str]] | None = None,
        descriptors: Sequence[int] = (),
    ) -> None:
        """Start the guest behind `prefix` and put it under the limits set from outside.

        `processes` bounds those of the guest's user where no cgroup can; `become` is the user that
        a guest started by root turns into, and the directories it gives to him first;
        `descriptors` are for whatever `prefix` starts.
        """
        self._cgroup = Cgroup.create(
            memory_bytes=self.limits.memory_bytes,
            processes=self.limits.processes,
            cpus=self.limits.cpus,
        )
        control, theirs = socket.socketpair()
        control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        settings = {
            "control": theirs.fileno(),
            "file_bytes": self.limits.file_bytes,
            "data_bytes": None if self._cgroup.bounds_memory else self.limits.memory_bytes,
            "become": become,
            "processes": None if self._cgroup.bounds_processes else processes,
        }
        with theirs:
            self._launcher = subprocess.Popen(
                [*prefix, python, "-I", "-S", guest, json.dumps(settings)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno(), *descriptors],
                env={"PATH": os.defpath, "LANG": "C.UTF-8"},
                start_new_session=True,
            )
        self._control = control
        control.settimeout(30)
        try:
            self._server = peer_process(control)
            self._cgroup.add(self._server)
            control.sendall(b"!")
        except OSError as error:
            control.close()
            self._launcher.kill()
            said = self._launcher.stderr.read() if self._launcher.stderr else b""
            raise EnvironmentFault(
                f"the {self.name} environment did not start: "
                f"{said.decode('utf-8', 'replace').strip() or error}",
                retryable=isinstance(error, TimeoutError),
            ) from error
        control.settimeout(None)

    # --- requests

    def request(
        self,
        order: bytes,
        payload: Mapping[str, Any] | None = None,
        descriptors: Sequence[int] = (),
    ) -> socket.socket:
        """Hand the guest a request; the answer comes over the socket returned."""
        if self._closed or self._control is None:
            raise EnvironmentFault(f"the {self.name} environment is closed")
        mine, theirs = socket.socketpair()
        try:
            with theirs, self._lock:
                rights = array.array("i", [theirs.fileno(), *descriptors]).tobytes()
                self._control.sendmsg([order], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            if payload is not None:
                mine.sendall(json.dumps(payload).encode() + b"\n")
        except OSError as error:
            mine.close()
            raise EnvironmentFault(f"the {self.name} environment is gone: {error}") from error
        return mine

    def _job(self, command: str | Sequence[str], cwd: str | None, variables: Any) -> dict[str, Any]:
        return {
            "command": command if isinstance(command, str) else list(command),
            "cwd": os.path.join(self.workdir, cwd or ""),  # noqa: PTH118 (a path inside)
            "variables": {**self.variables, **(variables or {})},
        }

    # --- commands

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
        bound = self.limits.output_bytes if output_bytes is None else output_bytes
        pipes = Pipes(stdin is not None)
        try:
            channel = self.request(b"R", self._job(command, cwd, variables), pipes.theirs)
        except BaseException:
            pipes.close()
            raise
        with channel:
            pipes.close_theirs()
            kept = {pipes.stdout: Kept(bound), pipes.stderr: Kept(bound)}
            given = None if stdin is None else (pipes.release_stdin(), stdin)
            try:
                over, left_open = collect(
                    kept, stdin=given, ended=channel.fileno(), deadline=deadline
                )
                code = self._exit_code(channel) if over else None
                if not over:
                    self._end(channel)
                elif left_open:
                    leave(channel, left_open)
            finally:
                pipes.close()
        stdout, stderr = kept.values()
        return command_result(stdout, stderr, code, started)

    def _exit_code(self, channel: socket.socket) -> int:
        """The code the keeper reported; a keeper that was killed took its command along."""
        report = read_line(channel)
        if report is None:
            self.require_connection()
            return KILLED
        return int(report["exit"])

    def require_connection(self) -> None:
        """Raise an `EnvironmentFault` where silence does not mean that a process was killed."""

    def _end(self, channel: socket.socket) -> None:
        """End a command with all it started; everything in here, if that is what it takes."""
        try:
            channel.sendall(b"K\0")
            channel.settimeout(3)
            if read_line(channel) is None:
                self.stop_processes()
        except OSError:
            self.stop_processes()

    def open_process(
        self,
        command: Sequence[str],
        *,
        cwd: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Process:
        self.require_time(1.0)
        pipes = Pipes(True)
        try:
            channel = self.request(b"R", self._job(command, cwd, variables), pipes.theirs)
        except BaseException:
            pipes.close()
            raise
        pipes.close_theirs()
        process = GuestProcess(channel, pipes, self.require_connection)
        self._processes.append(process)
        return process

    def stop_processes(self) -> None:
        with self.request(b"K") as channel:
            channel.settimeout(30)
            try:
                report = read_line(channel)
            except OSError:
                report = None
        if report is not None and report["gone"]:
            return
        if self._cgroup is None or not self._cgroup.kill(spare=self._server):
            raise EnvironmentFault(f"processes in the {self.name} environment cannot be ended")

    # --- files

    def _files(
        self, do: str, path: str, descriptors: Sequence[int] = (), mode: int | None = None
    ) -> socket.socket:
        job = {"do": do, "path": path, "root": self.root, "workdir": self.workdir, "mode": mode}
        channel = self.request(b"F", job, descriptors)
        channel.settimeout(600)
        return channel

    def read_file(self, path: str) -> bytes:
        with self._files("read", path) as channel:
            try:
                data, descriptors, _, _ = socket.recv_fds(channel, 65536, 1)
            except OSError as error:
                raise EnvironmentFault(f"the {self.name} environment does not answer") from error
            check(data, path)
        with os.fdopen(descriptors[0], "rb") as file:
            content = file.read(READ_BYTES + 1)
        if len(content) > READ_BYTES:
            raise OSError(errno.EFBIG, f"is longer than {READ_BYTES} bytes", path)
        return content

    def write_file(self, path: str, content: bytes | str) -> None:
        data = content.encode() if isinstance(content, str) else content
        self._send("write", path, lambda stream: stream.write(data))

    def list_files(self, pattern: str = "**/*") -> list[str]:
        with self._files("list", ".") as channel:
            report = check(read_all(channel), self.workdir)
        wanted = matcher(pattern)
        return [name for name in report["files"] if wanted(name)]

    def copy_in(self, source: Path, target: str) -> None:
        if source.is_file():
            with source.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                self._send("write", target, lambda stream: shutil.copyfileobj(file, stream), mode)
        elif source.is_dir():
            self._send("unpack", target, lambda stream: tar_streams.pack(source, stream))
        else:
            raise FileNotFoundError(f"nothing to copy at {source}")

    def _send(
        self, do: str, target: str, fill: Callable[[IO[bytes]], object], mode: int | None = None
    ) -> None:
        """Have the guest do something with what `fill` writes to a pipe."""
        reader, writer = os.pipe()
        with os.fdopen(writer, "wb") as stream:
            try:
                channel = self._files(do, target, [reader], mode)
            finally:
                os.close(reader)
            with channel:
                try:
                    fill(stream)
                    stream.close()
                except BrokenPipeError:
                    pass  # the guest says below why it stopped reading
                check(read_all(channel), target)

    def copy_out(self, source: str, target: Path) -> None:
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb") as stream:
            try:
                channel = self._files("pack", source, [writer])
            finally:
                os.close(writer)
            with channel:
                tar_streams.unpack(stream, target, named=source)
                check(read_all(channel), source)

    # --- the end

    def close(self) -> None:
        if self._closed:
            return
        if self._control is not None:
            self._control_off()
        self._closed = True
        for process in self._processes:
            process.close()
        if self._launcher is not None:
            end_launcher(self._launcher)
        if self._cgroup is not None:
            self._cgroup.remove()

    def _control_off(self) -> None:
        assert self._control is not None
        try:
            self.stop_processes()
        except EnvironmentFault:
            pass  # the guest itself ends next, and the cgroup with what is in it
        finally:
            self._control.close()


class Pipes:
    """Three pipes for a process inside: our ends and theirs."""

    def __init__(self, with_stdin: bool) -> None:
        self._ours: list[int] = []
        self.theirs: list[int] = []
        self.stdin = -1
        if with_stdin:
            reader, self.stdin = os.pipe()
            self._ours.append(self.stdin)
        else:
            reader = os.open(os.devnull, os.O_RDONLY)
        self.stdout, out = os.pipe()
        self.stderr, err = os.pipe()
        self._ours += [self.stdout, self.stderr]
        self.theirs = [reader, out, err]

    def close_theirs(self) -> None:
        while self.theirs:
            os.close(self.theirs.pop())

    def release_stdin(self) -> int:
        self._ours.remove(self.stdin)
        return self.stdin

    def release(self) -> None:
        self._ours.clear()

    def close(self) -> None:
        self.close_theirs()
        while self._ours:
            os.close(self._ours.pop())


class GuestProcess:
    """A long-lived process inside; its keeper reports its end over `channel`."""

    def __init__(
        self, channel: socket.socket, pipes: Pipes, require_connection: Callable[[], None]
    ) -> None:
        self._channel, self._require_connection = channel, require_connection
        self._code: int | None = None
        self.stdin: IO[bytes] | None = os.fdopen(pipes.stdin, "wb", buffering=0)
        self.stdout: IO[bytes] | None = os.fdopen(pipes.stdout, "rb")
        self.stderr: IO[bytes] | None = os.fdopen(pipes.stderr, "rb")
        pipes.release()

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self._code is None:
            poll = select.poll()
            poll.register(self._channel, select.POLLIN)
            if not poll.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired("a process in the environment", timeout or 0.0)
            report = read_line(self._channel)
            if report is None:
                self._require_connection()
            self._code = KILLED if report is None else int(report["exit"])
            self._channel.close()
        return self._code

    def send_signal(self, signal: int, /) -> None:
        if self.poll() is None:
            self._channel.sendall(b"S" + bytes([signal]))

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        if self.poll() is None:
            self._channel.sendall(b"K\0")

    def close(self) -> None:
        self._channel.close()
        if self._code is None:
            self._code = KILLED
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()


def peer_process(control: socket.socket) -> int:
    """The guest's process id as this side's kernel tells it, with the guest's first byte."""
    size = struct.calcsize("3i")
    data, ancillary, _, _ = control.recvmsg(1, socket.CMSG_SPACE(size))
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and data:
            return int(struct.unpack("3i", content[:size])[0])
    raise ConnectionError("it ended at once")


def read_all(channel: socket.socket) -> bytes:
    """One line, however long; empty when the other side left without a word."""
    parts: list[bytes] = []
    while not parts or not parts[-1].endswith(b"\n"):
        part = channel.recv(1 << 20)
        if not part:
            return b""
        parts.append(part)
    return b"".join(parts)


def read_line(channel: socket.socket) -> dict[str, Any] | None:
    try:
        data = read_all(channel)
    except ConnectionError:
        return None
    return json.loads(data) if data else None


def check(data: bytes, path: str) -> dict[str, Any]:
    """The guest's report; its error is raised here as the `OSError` it was there."""
    if not data:
        raise EnvironmentFault("the environment's file server ended before it answered")
    report: dict[str, Any] = json.loads(data)
    if "errno" in report:
        raise OSError(report["errno"], report["error"], path)
    return report


def leave(channel: socket.socket, pipes: Sequence[int]) -> None:
    """Give the pipes that background processes still write to into the keeper's care."""
    try:
        socket.send_fds(channel, [b"D"], list(pipes))
    except OSError:
        return  # the keeper was killed: nobody to give them to


def end_launcher(launcher: subprocess.Popen[bytes]) -> None:
    try:
        launcher.wait(5)
    except subprocess.TimeoutExpired:
        launcher.kill()
        launcher.wait()
    if launcher.stderr is not None:
        launcher.stderr.close()
