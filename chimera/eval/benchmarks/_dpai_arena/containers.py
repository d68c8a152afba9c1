"""Machines whose tests may start containers of their own, of named images alone."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from chimera.environments.base import Environment, EnvironmentSpec, Machine
from chimera.environments.docker import DockerEnvironment
from chimera.environments.engine import Engine
from chimera.environments.engine_door import DOOR, VARIABLES, EngineDoor
from chimera.environments.wrapped import WrappedMachine, unwrapped
from chimera.errors import UsageError

#: An image as Docker's own clients write it, with a tag or a digest or neither.
IMAGE = re.compile(r"[a-z0-9][\w.:/@-]*", re.ASCII)
#: What Testcontainers says without an engine, and the door of what it does not let through though
#: nothing is wrong with it.
_LACKING = re.compile(
    r"Could not find a valid Docker environment|not let through: "
    r"(?:the image (?P<image>[\w.:/@-]+)|(?P<more>more than \d+ containers at once))"
)


class MachineWithDoor(WrappedMachine):
    """A container with a place for a door to the engine, which is there while tests run."""

    def __init__(self, inner: Machine, images: Sequence[str], place: Path, container: str) -> None:
        super().__init__(inner)
        self._images, self._place, self._container = images, place, container

    def door(self) -> EngineDoor:
        return EngineDoor(self._images, self._place, self._container)

    def close(self) -> None:
        self.inner.close()
        shutil.rmtree(self._place, ignore_errors=True)


def opened(
    images: Sequence[str], start: Callable[[Mapping[str, str], Mapping[str, str]], Machine]
) -> Machine:
    """What `start` gives for these mounts and variables, with a place for a door."""
    place = Path(tempfile.mkdtemp(prefix="chimera-door-"))
    place.chmod(0o755)
    try:
        env = start({str(place): DOOR}, VARIABLES)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    inside = unwrapped(env)
    if not isinstance(inside, DockerEnvironment):
        env.close()
        shutil.rmtree(place, ignore_errors=True)
        raise UsageError("tests can start containers in Docker alone: --environment docker")
    # without a network nobody else says where the name of the machine leads
    env.run_command('echo "127.0.0.1 $(hostname)" >> /etc/hosts')
    return MachineWithDoor(env, images, place, inside.container)


@contextmanager
def engine_for(env: Environment) -> Iterator[None]:
    """The door of this machine, if it has one, open until its tests are over.

    An agent never finds it open, and what one run of the tests left is gone before the next.
    """
    while isinstance(env, WrappedMachine) and not isinstance(env, MachineWithDoor):
        env = env.inner
    with env.door() if isinstance(env, MachineWithDoor) else nullcontext():
        yield


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
    if found["more"]:
        return f"the tests start {found['more']}, which no door to the engine lets through"
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
