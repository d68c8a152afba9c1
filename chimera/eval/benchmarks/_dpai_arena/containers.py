"""Machines whose tests may start containers of their own, of named images alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from chimera.environments.base import EnvironmentSpec, Machine
from chimera.environments.docker import DockerEnvironment
from chimera.environments.engine import Engine
from chimera.environments.engine_door import VARIABLES, EngineDoor
from chimera.environments.wrapped import WrappedMachine, unwrapped
from chimera.errors import UsageError


class MachineWithDoor(WrappedMachine):
    """A container with a door to the engine; both end together."""

    def __init__(self, inner: Machine, door: EngineDoor) -> None:
        super().__init__(inner)
        self._door = door

    def close(self) -> None:
        self._door.close()
        self.inner.close()


def opened(
    images: Sequence[str], start: Callable[[Mapping[str, str], Mapping[str, str]], Machine]
) -> Machine:
    """What `start` gives for these mounts and variables, its door open for these images."""
    door = EngineDoor(images).open()
    try:
        env = start(door.mounts(), VARIABLES)
    except BaseException:
        door.close()
        raise
    inside = unwrapped(env)
    if not isinstance(inside, DockerEnvironment):
        door.close()
        env.close()
        raise UsageError("tests can start containers in Docker alone: --environment docker")
    door.container = inside.container
    # without a network nobody else says where the name of the machine leads
    env.run_command('echo "127.0.0.1 $(hostname)" >> /etc/hosts')
    return MachineWithDoor(env, door)


def identity(images: Sequence[str]) -> list[str]:
    """The ids of what the names stand for now."""
    found = Engine.find() if images else None
    return [
        found.image_id(found.image_for(EnvironmentSpec(image=name))) for name in images if found
    ]
