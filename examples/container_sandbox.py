"""A kind of remote environment in three calls: a container is created, entered and removed.

    chimera doctor -e 'examples/container_sandbox.py:Container://IMAGE?inside=local'
    chimera eval … -e 'examples/container_sandbox.py:Container://IMAGE?inside=local'

The image needs Python 3.11 and tar. A service whose program can start a place, run a command in it
with two pipes and remove it is made the same way.
"""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Sequence
from typing import IO, Self

from chimera.environments.base import EnvironmentSpec
from chimera.environments.remote.sandboxes import Address, Sandbox
from chimera.errors import EnvironmentFault, UsageError


class Container(Sandbox):
    """A container of an image, without a network unless the task has one."""

    def __init__(self, name: str) -> None:
        self._name = name

    @classmethod
    def check(cls, address: Address) -> None:
        if not address.place or address.place.startswith("-"):
            raise UsageError("name an image: container_sandbox.py:Container://IMAGE")

    @classmethod
    def create(cls, address: Address, spec: EnvironmentSpec, seconds: int) -> Self:
        name = f"chimera-sandbox-{secrets.token_hex(8)}"
        network = "bridge" if spec.network else "none"
        made = subprocess.run(
            ["docker", "run", "--detach", "--rm", "--init", f"--network={network}", "--name", name,
             f"--memory={spec.limits.memory_bytes}", address.place, "sleep", str(seconds)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if made.returncode:
            raise EnvironmentFault(f"no container of {address.place}: {made.stderr.strip()}")
        return cls(name)

    def execute(self, command: Sequence[str], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["docker", "exec", "--interactive", self._name, *command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True,
        )  # fmt: skip

    def kill(self) -> None:
        subprocess.run(["docker", "rm", "--force", self._name], capture_output=True, check=False)
