"""Environments in sandboxes of E2B: `--environment e2b://TEMPLATE`."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Self

from chimera.environments.base import EnvironmentSpec
from chimera.environments.remote.sandboxes import Address
from chimera.environments.remote.services import (
    Line,
    Reason,
    ServiceSandbox,
    labels,
    refuse_what_no_service_has,
)
from chimera.errors import UsageError


class E2BSandbox(ServiceSandbox):
    """A sandbox of a template, which alone decides on its image, processors and memory."""

    optional: ClassVar[tuple[str, ...]] = ("patience", "user")
    lacks = frozenset({"image"})
    service, package = "E2B", "e2b"
    unknown = "name a template that this account has"
    keys = ("E2B_API_KEY",)
    keys_from = "https://e2b.dev/dashboard?tab=keys"

    @classmethod
    def check(cls, address: Address) -> None:
        super().check(address)
        if re.fullmatch(r"[A-Za-z0-9][\w./:-]*", address.place) is None:
            raise UsageError("name a template: e2b://TEMPLATE (e2b://base is E2B's own)")

    @classmethod
    def create(cls, address: Address, spec: EnvironmentSpec, seconds: int) -> Self:
        refuse_what_no_service_has(spec, cls.service)
        if spec.image is not None:
            raise UsageError("E2B runs templates and no task's image: choose --environment docker")
        with cls.asking(f"start a sandbox of {address.place}"):
            from e2b import Sandbox

            made = Sandbox.create(
                address.place,
                timeout=seconds,
                metadata=labels(),
                allow_internet_access=spec.network,
                lifecycle={"on_timeout": "kill"},
            )
        settings = dict(address.settings)
        if "root" in spec.needs:
            settings["user"] = "root"
        found = cls(made.sandbox_id, Address(address.place, settings))
        found.identity = [cls.package, address.place]
        return found

    @classmethod
    def line(cls, place: str, settings: dict[str, str], words: Sequence[str]) -> Line:
        with cls.asking(f"run a command in the sandbox {place}"):
            from e2b import Sandbox

            # what a sandbox has left of its time is only ever made longer by this, never shorter
            sandbox = Sandbox.connect(place, timeout=int(settings["seconds"]))
            return E2BLine(
                sandbox.commands.run(
                    f"exec {shlex.join(words)}",
                    background=True,
                    stdin=True,
                    timeout=0,
                    user=settings.get("user"),
                    retain_output=False,
                )
            )

    @classmethod
    def end(cls, place: str) -> None:
        with cls.asking(f"end the sandbox {place}"):
            from e2b import Sandbox

            Sandbox.kill(place)

    @classmethod
    def runs(cls, place: str) -> bool:
        from e2b import Sandbox
        from e2b.exceptions import NotFoundException

        with suppress(NotFoundException):
            Sandbox.get_info(place)
            return True
        return False

    @classmethod
    def reason(cls, error: Exception) -> Reason | None:
        import httpx
        from e2b import exceptions

        if isinstance(error, exceptions.AuthenticationException):
            return "key"
        if isinstance(error, exceptions.RateLimitException):
            return "quota"
        if isinstance(error, exceptions.ServiceBusyException):
            return "busy"
        if isinstance(error, exceptions.TimeoutException | httpx.TransportError | OSError):
            return "unreachable"
        if not isinstance(error, exceptions.SandboxException):
            return None
        by_status: dict[int | None, Reason] = {403: "key", 404: "unknown", 429: "quota"}
        status = error.status_code
        if status == 400 and "timeout" in str(error).lower():
            return "time"
        return by_status.get(status, "busy" if status is not None and status >= 500 else "other")


class E2BLine:
    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def send(self, data: bytes) -> None:
        self._handle.send_stdin(data)

    def __iter__(self) -> Iterator[bytes]:
        for said, aside, _ in self._handle:
            if said is not None:
                yield said.encode()
            elif aside is not None:  # a shell's or an interpreter's: the command's is in its lines
                print(aside, end="", file=sys.stderr)
