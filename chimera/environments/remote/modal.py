"""Environments in sandboxes of Modal: `--environment modal://APP?image=IMAGE`."""

from __future__ import annotations

import os
import re
import sys
import threading
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

MEBIBYTE = 1024**2
GUEST_MEBIBYTES = 256  # for what serves an environment, beside the task's memory


class ModalSandbox(ServiceSandbox):
    """A sandbox of the task's image, or of the address's for tasks that name none."""

    optional: ClassVar[tuple[str, ...]] = ("patience", "image")
    service, package = "Modal", "modal"
    keys: ClassVar[tuple[str, ...]] = ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")
    keys_from = "https://modal.com/settings/tokens"
    unknown = "name an image that Modal can pull, and see that its environment exists"

    @classmethod
    def check(cls, address: Address) -> None:
        super().check(address)
        if re.fullmatch(r"[A-Za-z0-9_.-]{1,63}", address.place) is None:
            raise UsageError("name an app, which is made if it is missing: modal://APP?image=IMAGE")

    @classmethod
    def admits(cls, address: Address) -> bool:
        if "image" in address.settings:
            return False  # a sandbox of it is made to see
        cls._app(address)
        return True

    @classmethod
    def _app(cls, address: Address) -> Any:
        with cls.asking(f"open the app {address.place}"):
            import modal

            return modal.App.lookup(address.place, create_if_missing=True, client=_client())

    @classmethod
    def create(cls, address: Address, spec: EnvironmentSpec, seconds: int) -> Self:
        refuse_what_no_service_has(spec, cls.service)
        tag = spec.image or address.settings.get("image")
        if tag is None:
            raise UsageError(
                "the sandbox's image is not named by the task: name one with ?image=IMAGE"
            )
        app = cls._app(address)
        memory = spec.limits.memory_bytes
        most = None if memory is None else memory // MEBIBYTE + GUEST_MEBIBYTES
        cpus = spec.limits.cpus
        with cls.asking(f"start a sandbox of {tag}"):
            import modal

            image = modal.Image.from_registry(tag).entrypoint([])
            made = modal.Sandbox.create(
                "sleep",
                str(seconds),
                app=app,
                image=image,
                timeout=seconds,
                block_network=not spec.network,
                memory=None if most is None else (most, most),
                cpu=None if cpus is None else (cpus, cpus),
                tags=labels(),
                client=_client(),
            )
        found = cls(made.object_id, address)
        found.identity = [cls.package, image.object_id]
        return found

    @classmethod
    def line(cls, place: str, settings: dict[str, str], words: Sequence[str]) -> Line:
        with cls.asking(f"run a command in the sandbox {place}"):
            import modal

            sandbox = modal.Sandbox.from_id(place, client=_client())
            return ModalLine(sandbox.exec(*words, text=False))

    @classmethod
    def end(cls, place: str) -> None:
        with cls.asking(f"end the sandbox {place}"):
            import modal

            modal.Sandbox.from_id(place, client=_client()).terminate()

    @classmethod
    def runs(cls, place: str) -> bool:
        import modal

        return modal.Sandbox.from_id(place, client=_client()).poll() is None

    @classmethod
    def reason(cls, error: Exception) -> Reason | None:
        from modal import exception

        if isinstance(error, exception.InvalidError) and "timeout" in str(error).lower():
            return "time"
        kinds: list[tuple[type[Exception], Reason]] = [
            (exception.AuthError, "key"),
            (exception.PermissionDeniedError, "key"),
            (exception.ResourceExhaustedError, "quota"),
            (exception.NotFoundError, "unknown"),
            (exception.RemoteError, "unknown"),  # an image that cannot be built
            (exception.ServiceError, "busy"),
            (exception.InternalError, "busy"),
            (exception.ConnectionError, "unreachable"),
            (exception.TimeoutError, "unreachable"),
            (exception.Error, "other"),
            (OSError, "unreachable"),
        ]
        return next((reason for kind, reason in kinds if isinstance(error, kind)), None)


def _client() -> Any:
    names = ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET", "MODAL_SERVER_URL")
    return _client_of(*(os.environ.get(name) for name in names))


@cache
def _client_of(name: str, secret: str, _address: str | None) -> Any:
    """One for all calls with these, which the package reads itself but for the key."""
    import modal

    return modal.Client.from_credentials(name, secret)


class ModalLine:
    def __init__(self, process: Any) -> None:
        self._process = process
        threading.Thread(target=self._aside, daemon=True).start()

    def send(self, data: bytes) -> None:
        self._process.stdin.write(data)
        self._process.stdin.drain()

    def __iter__(self) -> Iterator[bytes]:
        yield from self._process.stdout

    def _aside(self) -> None:
        """What an interpreter says that does not start: the command's own is in its lines."""
        with suppress(Exception):  # how it ends is told by its output
            for data in self._process.stderr:
                print(data.decode("utf-8", "replace"), end="", file=sys.stderr)
