"""Machines whose tests may start containers of their own, of named images alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from chimera.environments.base import EnvironmentSpec, Machine
from chimera.environments.docker import DockerEnvironment
from chimera.environments.engine import Engine
from chimera.environments.engine_door import VARIABLES, EngineDoor
from chimera.environments.wrapped import WrappedMachine, unwrapped
from chimera.errors import UsageError

#: An image as Docker's own clients write it, with a tag or a digest or neither.
IMAGE = re.compile(r"[a-z0-9][\w.:/@-]*", re.ASCII)
#: What Testcontainers says without an engine, and the door of an image that it was not told of.
_LACKING = re.compile(
    r"Could not find a valid Docker environment|not let through: the image (?P<image>[\w.:/@-]+)"
)


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


def checked(images: Sequence[str]) -> Sequence[str]:
    """Them, where all are names of images."""
    if wrong := [name for name in images if not IMAGE.fullmatch(name)]:
        raise UsageError(
            f"test_images: {wrong[0]!r} is no name of an image; "
            "write them apart by commas: test_images=postgres:17,redis:7"
        )
    return images


def lacking(output: str) -> str:
    """Why tests could not start a container, by what they printed; "" where nothing says so."""
    found = _LACKING.search(output)
    if found is None:
        return ""
    which = f"an image that is not in test_images: {found['image']}" if found["image"] else "one"
    return (
        f"the tests start containers and did not get {which}; "
        "see --environment docker --option test_images=IMAGE,…"
    )


def identity(images: Sequence[str]) -> list[str]:
    """The ids of what the names stand for now."""
    found = Engine.find() if images else None
    return [
        found.image_id(found.image_for(EnvironmentSpec(image=name))) for name in images if found
    ]
