"""What sandboxes of services have in common: a key, refusals, and a bridge to a command there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import IO, ClassVar, Literal, Protocol

from chimera.environments.base import EnvironmentSpec
from chimera.environments.engine import own_labels
from chimera.environments.remote.sandboxes import Address, Sandbox
from chimera.errors import EnvironmentFault, UsageError

PATIENCE = "60"
#: What a refusal is about.
Reason = Literal["key", "quota", "time", "unknown", "busy", "unreachable", "other"]
PASSES = ("quota", "busy", "unreachable")


class Line(Protocol):
    """A command in a sandbox, as its service carries it: text in order, both ways."""

    def send(self, data: bytes) -> None:
        """Give it input; may take its time."""

    def __iter__(self) -> Iterator[bytes]:
        """What it says on its standard output, until its end."""


class ServiceSandbox(Sandbox):
    """A sandbox that a service rents, by its own package and the key in its own variable."""

    inside = ("container", "bubblewrap")
    kept = "/var/tmp/chimera"
    optional: ClassVar[Sequence[str]] = ("patience",)
    service: ClassVar[str]
    package: ClassVar[str]
    #: Without these there is no key; where to get one.
    keys: ClassVar[tuple[str, ...]]
    keys_from: ClassVar[str]
    #: What to do where the service does not have what a place is to be made of.
    unknown: ClassVar[str]

    def __init__(self, place: str, address: Address) -> None:
        self.place = place
        self._address = address

    # --- what each service does its own way

    @classmethod
    @abstractmethod
    def line(cls, place: str, settings: dict[str, str], words: Sequence[str]) -> Line:
        """Start a command in a sandbox, given as its words."""

    @classmethod
    @abstractmethod
    def end(cls, place: str) -> None:
        """End a sandbox, if it is still there."""

    @classmethod
    @abstractmethod
    def runs(cls, place: str) -> bool:
        """Whether a sandbox is still there."""

    @classmethod
    @abstractmethod
    def reason(cls, error: Exception) -> Reason | None:
        """What an exception is about; None where it is none of the service's."""

    # --- what is the same

    @classmethod
    def check(cls, address: Address) -> None:
        patience = address.settings.get("patience", PATIENCE)
        if not patience.isdecimal() or int(patience) < 1:
            raise UsageError(f"{cls.service}: patience is a number of seconds above 0")

    @classmethod
    def require(cls) -> None:
        """The package and the key, or what is missing, before anything is asked of the service."""
        if not find_spec(cls.package):
            install = f"pip install 'chimera-eval[{cls.package}]'"
            raise UsageError(f"{cls.service} needs a package: {install}")
        lacking = [name for name in cls.keys if not os.environ.get(name)]
        if lacking:
            raise UsageError(
                f"{cls.service} needs a key: set {' and '.join(lacking)} (from {cls.keys_from})"
            )

    @classmethod
    @contextmanager
    def asking(cls, what: str) -> Iterator[None]:
        """Turn a refusal into a fault that says what to do."""
        cls.require()
        try:
            yield
        except Exception as error:
            reason = cls.reason(error)
            if reason is None:
                raise
            said = cls.scrubbed(f"{cls.service} did not {what}: {error or type(error).__name__}")
            advice = cls.advice(reason)
            fault = EnvironmentFault(
                f"{said}\n  {advice}" if advice else said, retryable=reason in PASSES
            )
            fault.everywhere = reason == "key"
            raise fault from None  # the service's own may hold what was sent

    @classmethod
    def advice(cls, reason: Reason) -> str:
        keys = " and ".join(cls.keys)
        return {
            "key": f"the key is wrong or has expired: set {keys} anew (from {cls.keys_from})",
            "quota": "the account's limit is reached: free some of it, or have fewer at once with "
            "most=NUMBER",
            "time": "the account has shorter ones: ask for less with seconds=NUMBER",
            "unknown": cls.unknown,
            "busy": "try again later",
            "unreachable": "look at the network, and whether the service is up",
            "other": "",
        }[reason]

    @classmethod
    def scrubbed(cls, text: str) -> str:
        """Without the keys, which no message is to have."""
        for name in cls.keys:
            if secret := os.environ.get(name):
                text = text.replace(secret, f"[{name}]")
        return text

    @classmethod
    def fate(cls, place: str) -> str:
        """What became of a sandbox whose connection ended."""
        try:
            with cls.asking(f"tell of the sandbox {place}"):
                still = cls.runs(place)
        except (EnvironmentFault, UsageError) as error:
            return str(error)
        return f"the sandbox {place} " + ("still runs" if still else "has ended")

    def execute(self, command: Sequence[str], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
        kind = type(self)
        job = {
            "kind": f"{kind.__module__}:{kind.__qualname__}",
            "place": self.place,
            "settings": {"patience": PATIENCE, **self._address.settings},
            "command": list(command),
        }
        with tempfile.TemporaryFile() as file:  # arguments can be read by all of this machine
            file.write(json.dumps(job).encode())
            file.seek(0)
            program = [sys.executable, "-P", "-m", "chimera.environments.remote.bridge"]
            return subprocess.Popen(
                [*program, str(file.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                pass_fds=[file.fileno()],
                start_new_session=True,
            )

    def keep(self, name: str, pack: Callable[[IO[bytes]], object]) -> str:
        """A place is new, so that nothing can be there before."""
        place = f"{self.kept}/{name}"
        self.run(["sh", "-c", f"mkdir -p {place} && tar -xf - -C {place}"], pack)
        return place

    def kill(self) -> None:
        with suppress(EnvironmentFault, UsageError):  # then its time to live ends it
            self.end(self.place)


def labels() -> dict[str, str]:
    """Whose a sandbox is, as on containers."""
    pairs = (label.removeprefix("--label=").partition("=") for label in own_labels())
    return {key: text for key, _, text in pairs}


def refuse_what_no_service_has(spec: EnvironmentSpec, service: str) -> None:
    if spec.services or spec.volumes:
        raise UsageError(f"{service} has no services beside a sandbox: choose --environment docker")
    if spec.build_context is not None and spec.image is None:
        raise UsageError(f"{service} builds no image for a task: choose --environment docker")


__all__ = ["Line", "Reason", "ServiceSandbox", "labels", "refuse_what_no_service_has"]
