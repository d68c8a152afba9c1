"""Environments on a host that `ssh` reaches: `--environment ssh://[USER@]HOST[:PORT]`."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import IO, Self
from urllib.parse import urlsplit

from chimera.environments.base import EnvironmentSpec
from chimera.environments.remote.sandboxes import Address, Sandbox
from chimera.errors import UsageError

#: Keys, jump hosts and the like come from the user's own settings of ssh. Nothing is asked, a dead
#: connection is noticed within a minute, and those to one host share one.
OPTIONS = {
    "BatchMode": "yes",
    "ConnectTimeout": "20",
    "ServerAliveInterval": "15",
    "ServerAliveCountMax": "4",
    "ControlMaster": "auto",
    "ControlPersist": "30",
    "ForwardAgent": "no",
    "ForwardX11": "no",
}


class SSHSandbox(Sandbox):
    """A user's account on a host with Python 3.11 or later; every command is one of `ssh`."""

    optional = ("config",)
    lasting = True

    def __init__(self, address: Address) -> None:
        user, host, port = _target(address)
        settings = {**OPTIONS, "ControlPath": f"{_sockets()}/%C"}
        options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        own = address.settings.get("config")
        config = () if own is None else ("-F", own)
        at_port = () if port is None else ("-p", str(port))
        target = f"{user}@{host}" if user else host
        self._ssh = ("ssh", "-T", *config, *options, *at_port, "--", target)

    @classmethod
    def check(cls, address: Address) -> None:
        _target(address)

    @classmethod
    def create(cls, address: Address, spec: EnvironmentSpec, seconds: int) -> Self:
        if shutil.which("ssh") is None:
            raise UsageError("the program 'ssh' is missing: apt install openssh-client")
        return cls(address)

    def execute(self, command: Sequence[str], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*self._ssh, shlex.join(command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )

    def kill(self) -> None:
        """The relay ends with its connection."""


def _target(address: Address) -> tuple[str | None, str, int | None]:
    """User, host and port of `[USER@]HOST[:PORT]`."""
    try:
        parts = urlsplit(f"//{address.place}")
        user, host, port = parts.username, parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"--environment ssh://{address.place}: {error}") from error
    if not host or host.startswith("-") or (user or "").startswith("-"):
        raise UsageError(f"--environment ssh://{address.place}: no host is named")
    return user, host, port


@cache
def _sockets() -> Path:
    return Path(tempfile.mkdtemp(prefix="chimera-ssh-"))
