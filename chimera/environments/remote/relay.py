"""What runs on the other machine: it starts an environment there and serves it over its own pipes.

    python3 -m chimera.environments.remote.relay SETTINGS

The first line it writes says what was started, or why nothing was; then its pipes are a tunnel. It
ends, and everything it started with it, when they close or when its time to live is over.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from typing import Any, NoReturn

from chimera.environments import backend_class
from chimera.environments.base import EnvironmentSpec, ResourceLimits
from chimera.environments.remote.tunnel import Tunnel
from chimera.environments.supervised import SupervisedEnvironment
from chimera.errors import ChimeraError, EnvironmentFault


def main() -> None:
    settings = json.loads(sys.argv[1])
    output = os.dup(1)
    os.dup2(2, 1)  # whatever prints must not speak into the tunnel
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    signal.alarm(settings["seconds"])
    try:
        env, said = _started(settings)
    except ChimeraError as error:
        env, said = None, {"error": str(error)}
    os.write(output, json.dumps(said).encode() + b"\n")
    if env is not None:
        try:
            Tunnel(0, output, Served(env)).run()
        finally:
            env.close()


def _leave(*_: object) -> NoReturn:
    raise SystemExit(1)


def _started(settings: dict[str, Any]) -> tuple[SupervisedEnvironment | None, dict[str, Any]]:
    """The environment and what the other side must know of it; None where only that was asked."""
    kind = backend_class(settings["backend"])
    spec = specification(settings["spec"])
    said: dict[str, Any] = {"identity": kind.identity(spec)}
    if reason := kind.availability():
        raise EnvironmentFault(reason)
    if not settings["start"]:
        return None, said
    if not issubclass(kind, SupervisedEnvironment):
        raise EnvironmentFault(f"the environment '{kind.name}' cannot be served from afar")
    env = kind.start(spec)
    return env, said | {
        "root": env.root, "workdir": env.workdir, "variables": env.variables,
    }  # fmt: skip


def specification(data: dict[str, Any]) -> EnvironmentSpec:
    limits = ResourceLimits(**data.pop("limits"))
    return EnvironmentSpec(limits=limits, **data)


class Served:
    """Answers the requests that come through the tunnel with what the environment answers."""

    def __init__(self, env: SupervisedEnvironment) -> None:
        self._env = env

    def __call__(self, order: bytes, descriptors: list[int]) -> socket.socket:
        try:
            if order == b"K":
                return self._stopped()
            return self._env.request(order, None, descriptors)
        except EnvironmentFault:
            mine, theirs = socket.socketpair()
            theirs.close()  # whoever asked reads that nobody answers
            return mine
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _stopped(self) -> socket.socket:
        """Ending processes takes its time, and other requests go on meanwhile."""
        mine, theirs = socket.socketpair()

        def stop() -> None:
            with theirs:
                try:
                    self._env.stop_processes()
                    gone = True
                except EnvironmentFault:
                    gone = False
                theirs.sendall(json.dumps({"gone": gone}).encode() + b"\n")

        threading.Thread(target=stop, daemon=True).start()
        return mine


if __name__ == "__main__":
    main()
