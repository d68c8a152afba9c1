"""Environments in sandboxes of Daytona: `--environment daytona://SNAPSHOT`."""

from __future__ import annotations

import math
import os
import queue
import re
import secrets
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
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

START_SECONDS = 60.0  # for a terminal, once its sandbox runs
WAIT_SECONDS = 600  # for an image to be pulled and a sandbox to run
GUEST_GIBIBYTES = 0.25  # for what serves an environment, beside the task's memory


class DaytonaSandbox(ServiceSandbox):
    """A sandbox of a snapshot, or of the task's image where it names one."""

    optional: ClassVar[tuple[str, ...]] = ("patience", "user")
    service, package = "Daytona", "daytona"
    keys: ClassVar[tuple[str, ...]] = ("DAYTONA_API_KEY",)
    keys_from = "https://app.daytona.io/dashboard/keys"
    unknown = "name a snapshot that this account has, or an image that Daytona can pull"

    @classmethod
    def check(cls, address: Address) -> None:
        super().check(address)
        if re.fullmatch(r"[A-Za-z0-9][\w./:-]*", address.place) is None:
            raise UsageError("name a snapshot: daytona://SNAPSHOT")

    @classmethod
    def create(cls, address: Address, spec: EnvironmentSpec, seconds: int) -> Self:
        refuse_what_no_service_has(spec, cls.service)
        minutes = math.ceil(seconds / 60)
        with cls.asking(f"start a sandbox of {spec.image or address.place}"):
            import daytona

            common = {
                "labels": labels(),
                "ephemeral": True,
                "ttl_minutes": minutes,
                "auto_stop_interval": minutes,  # of silence, where a server does not know the other
                "network_block_all": not spec.network,
                "os_user": "root" if "root" in spec.needs else address.settings.get("user"),
            }
            wanted: Any
            if spec.image is None:
                wanted = daytona.CreateSandboxFromSnapshotParams(snapshot=address.place, **common)
            else:
                wanted = daytona.CreateSandboxFromImageParams(
                    image=spec.image, resources=_resources(spec), **common
                )
            try:
                made = _client().create(wanted, timeout=WAIT_SECONDS)
            except daytona.DaytonaTimeoutError as error:
                if error.sandbox_id is not None:  # it may still come to run
                    cls.end(error.sandbox_id)
                raise
        found = cls(made.id, address)
        found.identity = [cls.package, spec.image or made.snapshot or address.place]
        return found

    @classmethod
    def line(cls, place: str, settings: dict[str, str], words: Sequence[str]) -> Line:
        with cls.asking(f"run a command in the sandbox {place}"):
            _be_patient()
            process = _client().get(place).process
            handle = process.create_pty_session(id=f"chimera-{secrets.token_hex(8)}")
            handle.send_input(f"exec {shlex.join(words)}; exit 127\n")
            return DaytonaLine(handle)

    @classmethod
    def end(cls, place: str) -> None:
        with cls.asking(f"end the sandbox {place}"):
            import daytona

            with suppress(daytona.DaytonaNotFoundError):
                _client().get(place).delete()

    @classmethod
    def runs(cls, place: str) -> bool:
        import daytona

        with suppress(daytona.DaytonaNotFoundError):
            return str(_client().get(place).state.value) == "started"
        return False

    @classmethod
    def reason(cls, error: Exception) -> Reason | None:
        import daytona

        if not isinstance(error, daytona.DaytonaError):
            return "unreachable" if isinstance(error, OSError) else None
        said = str(error).lower()
        status = error.status_code
        if "not found" in said or status == 404:
            return "unknown"
        if status == 429 or (status == 403 and ("limit" in said or "quota" in said)):
            return "quota"
        if status in (401, 403):
            return "key"
        if status is not None and status >= 500:
            return "busy"
        away = (daytona.DaytonaConnectionError, daytona.DaytonaTimeoutError)
        return "unreachable" if isinstance(error, away) else "other"


class DaytonaLine:
    """A terminal, which is what Daytona has with an input of bytes. What is told to it first is a
    shell's to read; our own program then makes it raw, and nothing is said to that before."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def send(self, data: bytes) -> None:
        self._handle.send_input(data)

    def __iter__(self) -> Iterator[bytes]:
        yield from self._handle


@cache
def _be_patient() -> None:
    """Let a terminal that is asked for begin within seconds: the package waits for a tenth of one,
    since it takes another exception than is raised for a sign that nothing has come yet."""
    from daytona.common.errors import DaytonaTimeoutError
    from daytona.handle.pty_handle import PtyHandle

    wait = PtyHandle.wait_for_connection

    def wait_for_connection(handle: Any, timeout: float = START_SECONDS) -> None:
        until = time.monotonic() + timeout
        while True:
            try:
                wait(handle, timeout)
                return
            except queue.Empty:
                if time.monotonic() > until:
                    raise DaytonaTimeoutError("the terminal did not begin") from None

    PtyHandle.wait_for_connection = wait_for_connection


def _client() -> Any:
    return _client_of(os.environ["DAYTONA_API_KEY"], os.environ.get("DAYTONA_API_URL"))


@cache
def _client_of(key: str, address: str | None) -> Any:
    import daytona

    return daytona.Daytona(daytona.DaytonaConfig(api_key=key, api_url=address))


def _resources(spec: EnvironmentSpec) -> Any:
    import daytona

    limits = spec.limits
    memory, disk = limits.memory_bytes, limits.disk_bytes
    return daytona.Resources(
        cpu=None if limits.cpus is None else math.ceil(limits.cpus),
        memory=None if memory is None else math.ceil(memory / 1024**3 + GUEST_GIBIBYTES),
        disk=None if disk is None else math.ceil(disk / 1024**3),
    )
