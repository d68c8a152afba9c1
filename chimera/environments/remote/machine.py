"""A machine whose guest runs elsewhere: commands and files go through a tunnel."""

from __future__ import annotations

import hashlib
import json
import os
import select
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from typing import IO, Any, ClassVar, Self

from chimera.activity import doing
from chimera.environments import tar_streams
from chimera.environments.base import Environment, EnvironmentSpec
from chimera.environments.identity import mounted
from chimera.environments.provision import provisioned
from chimera.environments.remote.sandboxes import Address, Sandbox, last_words
from chimera.environments.remote.tunnel import Tunnel
from chimera.environments.supervised import SupervisedEnvironment
from chimera.errors import EnvironmentFault, UsageError
from chimera.types import JSON

LIFE_SECONDS = 24 * 3600
START_SECONDS = 120
FACTS_SECONDS = 60  # for so long what another machine said of itself is believed
PACKAGE = Path(__file__).parents[2]
#: What the relay needs of this package; it needs no other.
SHIPPED = ("*.py", "confinement/**/*", "environments/**/*", "sandbox/**/*")
RELAY = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from chimera.environments.remote.relay import main; main()"
)
#: What runs commands in a place, by its word in an address.
INSIDE = {
    "bubblewrap": "bubblewrap",
    "local": "local",
    "container": "chimera.environments.remote.contained:ContainedEnvironment",
}
#: What is told of a spec; files and set-up commands follow through the tunnel.
TOLD = ("workdir", "network", "variables")


class RemoteMachine(SupervisedEnvironment):
    """Our guest in a place on another machine, in one of the backends that there are there."""

    kind: ClassVar[type[Sandbox]]
    address: ClassVar[Address]
    #: What the address can say, with what holds otherwise.
    known: ClassVar[Mapping[str, str]] = {
        "inside": "", "python": "python3", "most": "16", "seconds": str(LIFE_SECONDS),
    }  # fmt: skip
    _places: ClassVar[threading.BoundedSemaphore]
    _facts: ClassVar[dict[str, tuple[float, JSON]]]
    _there: ClassVar[dict[str, str]]  # what was brought there, with its place

    @classmethod
    def at(cls, text: str, kind: type[Sandbox]) -> type[Self]:
        """This backend in places of a kind, by their address."""
        address = Address.read(text, (*cls.known, *kind.optional))
        kind.check(address)
        settings = {**cls.known, "inside": kind.inside[0], **address.settings}
        if settings["inside"] not in kind.inside:
            raise UsageError(f"--environment {text}: inside is {' or '.join(kind.inside)}")
        for key in ("most", "seconds"):
            if not settings[key].isdecimal() or int(settings[key]) < 1:
                raise UsageError(f"--environment {text}: {key} is a number above 0")
        inner: type[Environment] = _backend(INSIDE[settings["inside"]])
        return type(
            cls.__name__,
            (cls,),
            {
                "name": text,
                "kind": kind,
                "address": replace(address, settings=settings),
                "capabilities": inner.capabilities - kind.lacks,
                "_places": threading.BoundedSemaphore(int(settings["most"])),
                "_facts": {},
                "_there": {},
            },
        )

    def __init__(self, spec: EnvironmentSpec) -> None:
        self._ends = ExitStack()
        super().__init__(spec, {})
        try:
            with doing(f"waiting for a place at {self.name}"):
                self._places.acquire()
            self._ends.callback(self._places.release)
            with doing(f"starting at {self.name}"):
                self._connect(spec)
        except BaseException:
            self.close()
            raise

    @classmethod
    def start(cls, spec: EnvironmentSpec) -> Self:
        return provisioned(cls(spec), spec)

    @classmethod
    def availability(cls) -> str | None:
        try:
            if not cls.kind.admits(cls.address):
                cls._said(EnvironmentSpec())
        except (EnvironmentFault, UsageError) as error:
            return str(error)
        return None

    @classmethod
    def identity(cls, spec: EnvironmentSpec) -> JSON:
        return [cls._said(replace(spec, mounts={})), mounted(spec.mounts)]

    @classmethod
    def _said(cls, spec: EnvironmentSpec) -> JSON:
        """What the other machine says of an environment for `spec`, without starting one."""
        key = json.dumps([_told(spec), spec.image, sorted(spec.needs)], sort_keys=True)
        when, said = cls._facts.get(key, (float("-inf"), None))
        if time.monotonic() - when > FACTS_SECONDS:
            with ExitStack() as ends:
                _, hello, _ = _relay(cls, ends, spec, start=False)
                said = hello["identity"]
            cls._facts[key] = (time.monotonic(), said)
        return said

    def _connect(self, spec: EnvironmentSpec) -> None:
        self._process, hello, self._stderr = _relay(type(self), self._ends, spec, start=True)
        self.root, self.workdir = hello["root"], hello["workdir"]
        self.variables = hello["variables"]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._tunnel = Tunnel(self._process.stdout.fileno(), self._process.stdin.fileno())
        carry = threading.Thread(target=self._tunnel.run, daemon=True, name="chimera-tunnel")
        carry.start()
        self._ends.callback(carry.join)
        self._ends.callback(self._tunnel.close)

    def request(
        self,
        order: bytes,
        payload: Mapping[str, Any] | None = None,
        descriptors: Sequence[int] = (),
    ) -> socket.socket:
        if self._closed:
            raise EnvironmentFault(f"the environment {self.name} is closed")
        self.require_connection()
        mine, theirs = socket.socketpair()
        self._tunnel.request(order, theirs, [os.dup(descriptor) for descriptor in descriptors])
        if payload is not None:
            try:
                mine.sendall(json.dumps(payload).encode() + b"\n")
            except OSError:
                mine.close()
                self.require_connection()
                raise
        return mine

    def require_connection(self) -> None:
        if self._tunnel.lost:
            raise EnvironmentFault(
                f"the connection to {self.name} is lost: {last_words(self._stderr)}", retryable=True
            )

    def read_file(self, path: str) -> bytes:
        content = super().read_file(path)
        self.require_connection()  # otherwise it may have been cut short
        return content

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            for process in self._processes:
                process.close()
            self._ends.close()


def _relay(
    cls: type[RemoteMachine], ends: ExitStack, spec: EnvironmentSpec, *, start: bool
) -> tuple[subprocess.Popen[bytes], dict[str, Any], IO[bytes]]:
    """A relay there, what it said first, and the file with its errors; `ends` ends all of it."""
    settings = cls.address.settings
    seconds = int(settings["seconds"])
    sandbox = cls.kind.create(cls.address, spec, seconds)
    ends.callback(sandbox.kill)
    code = _kept(cls, sandbox, f"code-{_code_digest()}", _pack_code)
    job = {
        "backend": INSIDE[settings["inside"]],
        "start": start,
        "seconds": seconds,
        "spec": _told(spec) | {"mounts": _mounts(cls, sandbox, spec)},
    }
    stderr = tempfile.TemporaryFile()  # noqa: SIM115 (`ends` closes it)
    ends.callback(stderr.close)
    command = [settings["python"], "-I", "-c", RELAY, code, json.dumps(job)]
    process = sandbox.execute(command, stderr)
    ends.callback(_end, process)
    hello = _first_line(process, stderr, cls.name)
    if "error" in hello:
        raise EnvironmentFault(f"{cls.name}: {hello['error']}")
    if sandbox.identity is not None:
        hello["identity"] = [hello["identity"], sandbox.identity]
    return process, hello, stderr


def _told(spec: EnvironmentSpec) -> dict[str, Any]:
    data = {name: getattr(spec, name) for name in TOLD}
    return {**data, "variables": dict(spec.variables), "limits": asdict(spec.limits)}


def _mounts(cls: type[RemoteMachine], sandbox: Sandbox, spec: EnvironmentSpec) -> dict[str, str]:
    """The spec's mounts with the places there that their content was brought to."""
    found = {}
    for source, target in spec.mounts.items():
        path = Path(source)
        name = f"mount-{hashlib.sha256(json.dumps(mounted([source])).encode()).hexdigest()[:24]}"
        place = _kept(cls, sandbox, name, partial(_pack_mount, path))
        found[place if path.is_dir() else f"{place}/{path.name}"] = target
    return found


def _kept(
    cls: type[RemoteMachine], sandbox: Sandbox, name: str, pack: Callable[[IO[bytes]], None]
) -> str:
    there = cls._there.get(name)
    if there is None or not sandbox.lasting:
        with doing(f"bringing what is needed to {cls.name}"):
            there = cls._there[name] = sandbox.keep(name, pack)
    return there


def _pack_mount(path: Path, stream: IO[bytes]) -> None:
    if path.is_dir():
        tar_streams.pack(path, stream)
        return
    with tarfile.open(fileobj=stream, mode="w|") as archive:
        archive.add(path, arcname=path.name)


def _code_files() -> list[Path]:
    found = {file for pattern in SHIPPED for file in PACKAGE.glob(pattern) if file.is_file()}
    return sorted(file for file in found if file.suffix not in (".pyc", ".pyo"))


@cache
def _code_digest() -> str:
    total = hashlib.sha256()
    for file in _code_files():
        total.update(str(file.relative_to(PACKAGE)).encode() + b"\0" + file.read_bytes() + b"\0")
    return total.hexdigest()[:24]


def _pack_code(stream: IO[bytes]) -> None:
    with tarfile.open(fileobj=stream, mode="w|") as archive:
        for file in _code_files():
            archive.add(file, arcname=f"chimera/{file.relative_to(PACKAGE)}")


def _first_line(process: subprocess.Popen[bytes], stderr: IO[bytes], name: str) -> dict[str, Any]:
    """What a relay says of itself, byte by byte: what follows belongs to the tunnel."""
    assert process.stdout is not None
    descriptor, line = process.stdout.fileno(), bytearray()
    until = time.monotonic() + START_SECONDS
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([descriptor], [], [], max(0.0, until - time.monotonic()))
        byte = os.read(descriptor, 1) if ready else b""
        if not byte:
            why = last_words(stderr) if ready else f"no answer within {START_SECONDS} s"
            raise EnvironmentFault(f"{name} cannot be reached: {why}", retryable=True)
        line += byte
    said: dict[str, Any] = json.loads(line)
    return said


def _end(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _backend(name: str) -> type[Environment]:
    from chimera.environments import backend_class

    return backend_class(name)
