"""Places on other machines where a relay of ours can run."""

from __future__ import annotations

import secrets
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, ClassVar, Self
from urllib.parse import parse_qsl

from chimera.environments.base import Capability, EnvironmentSpec
from chimera.errors import EnvironmentFault, UsageError
from chimera.types import JSON

UNPACK = (
    "mkdir -p {new} && tar -xf - -C {new} && mv -T {new} {place} || (rm -rf {new}; test -d {place})"
)


@dataclass(frozen=True, slots=True)
class Address:
    """What `KIND://PLACE[?KEY=VALUE&…]` says after its kind."""

    place: str
    settings: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str, known: Sequence[str]) -> Self:
        place, _, query = text.partition("://")[2].partition("?")
        settings = dict(parse_qsl(query))
        for key in settings:
            if key not in known:
                raise UsageError(
                    f"--environment {text}: no setting '{key}'\n  It has: {', '.join(known)}"
                )
        return cls(place, settings)


class Sandbox(ABC):
    """A place of one environment on another machine; `create`, `execute` and `kill` are all.

    The relay that `execute` starts there carries commands and files over its own two pipes.
    """

    #: What an address can say to this kind alone, as `?KEY=VALUE`.
    optional: ClassVar[Sequence[str]] = ()
    #: What runs a trial's commands in a place (`machine.INSIDE`); first what holds unsaid.
    inside: ClassVar[Sequence[str]] = ("bubblewrap", "local")
    #: What no place of this kind has, whatever runs commands in it.
    lacks: ClassVar[frozenset[Capability]] = frozenset()
    #: Where a relay's code and what tasks mount are kept there; below the home, unless absolute.
    kept: ClassVar[str] = ".cache/chimera/remote"
    #: Whether what was brought to one place is there in the next one too.
    lasting: ClassVar[bool] = False
    #: What a place is made of, where the kind knows it; another value is another environment.
    identity: JSON = None

    @classmethod  # noqa: B027 - most kinds take any
    def check(cls, address: Address) -> None:
        """Raise `UsageError` where an address can be none of this kind, before anything runs."""

    @classmethod
    def admits(cls, address: Address) -> bool:
        """Whether places can be had, where that can be asked; raises what is in the way. Where it
        is not known, one is made to see."""
        return False

    @classmethod
    @abstractmethod
    def create(cls, address: Address, spec: EnvironmentSpec, seconds: int) -> Self:
        """A place for what `spec` needs, which ends by itself after so many seconds."""

    @abstractmethod
    def execute(self, command: Sequence[str], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start a command there whose input and output are pipes here."""

    @abstractmethod
    def kill(self) -> None:
        """End the place and all that runs in it. Safe to call twice."""

    def run(self, command: Sequence[str], fill: Callable[[IO[bytes]], object] | None = None) -> str:
        """What a short command there says; `fill` writes its input."""
        with tempfile.TemporaryFile() as stderr:
            process = self.execute(command, stderr)
            assert process.stdin is not None
            assert process.stdout is not None
            with process:
                try:
                    if fill is not None:
                        fill(process.stdin)
                    process.stdin.close()
                except BrokenPipeError:
                    pass  # its exit code says why
                said = process.stdout.read()
            if process.returncode != 0:
                raise EnvironmentFault(
                    f"'{command[0]}' failed there ({process.returncode}): {last_words(stderr)}",
                    retryable=True,
                )
        return said.decode("utf-8", "replace")

    def keep(self, name: str, pack: Callable[[IO[bytes]], object]) -> str:
        """The directory there with the tree that `pack` writes, which is sent once."""
        go = f"mkdir -p {self.kept} && cd {self.kept} && pwd"
        unpack = UNPACK.format(new=f"{name}.{secrets.token_hex(8)}", place=name)
        if not self.lasting:  # nothing is there
            folder = self.run(["sh", "-c", f"{go} && ({unpack})"], pack)
            return f"{folder.strip()}/{name}"
        folder, *found = self.run(
            ["sh", "-c", f"{go} && if test -d {name}; then echo yes; fi"]
        ).split("\n")
        if found[0] != "yes":
            self.run(["sh", "-c", f"{go} && ({unpack})"], pack)
        return f"{folder}/{name}"


def last_words(file: IO[bytes], most: int = 2000) -> str:
    """The end of what a program said on its standard error, which went to this file."""
    file.seek(0, 2)
    file.seek(max(0, file.tell() - most))
    return file.read().decode("utf-8", "replace").strip() or "it said nothing"
