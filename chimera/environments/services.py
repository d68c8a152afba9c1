"""Containers beside a task's own: a network that only they share, started in order, ended whole."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from chimera.environments import engine
from chimera.environments.base import EnvironmentSpec, Service
from chimera.environments.engine import Engine
from chimera.errors import EnvironmentFault

#: How long a service may take until it is ready.
READY_SECONDS = 300.0
ASK_SECONDS = 0.5


@dataclass(slots=True)
class ServiceNetwork:
    """A network without a way out, the services in it, and the volumes that they share."""

    name: str
    containers: dict[str, str] = field(default_factory=dict)  # service → container

    @classmethod
    def start(cls, spec: EnvironmentSpec) -> ServiceNetwork | None:
        """All services of a spec, each ready before the next; None where it has none."""
        if not spec.services:
            return None
        network = cls(f"chimera-{secrets.token_hex(8)}")
        Engine.find().must("network", "create", "--internal", *engine.own_labels(), network.name)
        try:
            for service in spec.services:
                network._start(service, spec)
        except BaseException:
            network.close()
            raise
        return network

    def _start(self, service: Service, spec: EnvironmentSpec) -> None:
        found = Engine.find()
        image = found.image_for(image_spec(service, spec))
        # what an agent may use of the machine, the services may; capabilities are the image's
        allowed = replace(spec, needs=frozenset({"root"}), network=True, mounts=service.mounts)
        options = [
            *(each for each in engine.run_options(allowed, "/") if each != engine.NO_LOG),
            "--log-opt=max-size=1m",
            *self.options(service.volumes, alias=service.name),
            *(f"--env={name}={value}" for name, value in service.variables.items()),
        ]
        words = list(service.command or ())
        if service.entrypoint is not None:
            first, *rest = service.entrypoint or ("",)
            options.append(f"--entrypoint={first}")
            words = [*rest, *words]
        if service.user:
            options.append(f"--user={service.user}")
        if service.workdir:
            options.append(f"--workdir={service.workdir}")
        container = found.must("run", "-d", *options, image, *words).decode().split()[-1]
        self.containers[service.name] = container
        if spec.network:
            found.must("network", "connect", "bridge", container)
        self._wait(service, container)

    def options(self, volumes: Mapping[str, str], *, alias: str = "") -> list[str]:
        """What puts another container into the network and gives it the shared volumes."""
        aliases = [f"--network-alias={alias}"] if alias else []
        shared = [f"--volume={self.name}-{name}:{target}" for target, name in volumes.items()]
        return [f"--network={self.name}", *aliases, *shared]

    def _wait(self, service: Service, container: str) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            status, code, health = self._state(container)
            if status == "exited" and (code != "0" or not service.once):
                log = Engine.find().call("logs", "--tail=20", container)
                said = (log.stdout + log.stderr).decode("utf-8", "replace")
                raise EnvironmentFault(f"the service '{service.name}' ended ({code}): {said}")
            if status == "exited" or (not service.once and self._healthy(service, health)):
                return
            time.sleep(ASK_SECONDS)
        raise EnvironmentFault(f"the service '{service.name}' was not ready in {READY_SECONDS:g} s")

    def _healthy(self, service: Service, health: str) -> bool:
        if service.health is None:
            return health in ("", "healthy")
        container = self.containers[service.name]
        return Engine.find().call("exec", container, *service.health, timeout=60).returncode == 0

    @staticmethod
    def _state(container: str) -> Sequence[str]:
        form = "{{.State.Status}}|{{.State.ExitCode}}|{{with .State.Health}}{{.Status}}{{end}}"
        said = Engine.find().must("inspect", "--format", form, container)
        return said.decode().strip().split("|")

    def close(self) -> None:
        found = Engine.find()
        for container in self.containers.values():
            found.remove(container)
        named = found.call("volume", "ls", "-q", "--filter", f"name=^{self.name}-").stdout.split()
        for name in named:
            found.call("volume", "rm", "--force", name.decode())
        with contextlib.suppress(EnvironmentFault):
            found.must("network", "rm", self.name)


def image_spec(service: Service, spec: EnvironmentSpec) -> EnvironmentSpec:
    """What a service's image is had from."""
    return EnvironmentSpec(
        image=service.image, build_context=service.build_context, clones=spec.clones
    )
