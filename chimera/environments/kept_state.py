"""The files of a machine put back as they were: for runs that may leave nothing for each other."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from chimera.environments.base import Machine
from chimera.environments.wrapped import unwrapped

#: Where files can be left beside the working directory: all of that in bubblewrap, and what
#: everybody uses in containers, where a process that is root can write anywhere.
_WRITABLE = {
    "bubblewrap": ("/home/agent", "/tmp", "/dev/shm"),
    "docker": ("/tmp", "/dev/shm"),
}


class NotRestored(Exception):
    """What was left behind cannot be removed."""


@contextmanager
def kept_state(env: Machine) -> Iterator[Callable[[], None]]:
    """A call that ends all processes and puts back the files that were there at first."""
    further = _WRITABLE.get(unwrapped(env).name, ())
    places = [".", *(each for each in further if env.run_command(["test", "-d", each]).success)]
    with tempfile.TemporaryDirectory(prefix="chimera-state-") as directory:
        copies = {place: Path(directory, str(number)) for number, place in enumerate(places)}
        for place, copy in copies.items():
            env.copy_out(place, copy)

        def restore() -> None:
            env.stop_processes()
            find = f"find {shlex.join(places)} -mindepth 1"
            opened = f"{find} -type d ! -perm -700 -exec chmod u+rwx {{}} ';'"
            done = env.run_command(f'{opened}; {find} -delete; test -z "$({find} -print -quit)"')
            if not done.success:
                raise NotRestored(f"files cannot be removed: {done.output[-200:]}")
            for place, copy in copies.items():
                env.copy_in(copy, place)

        yield restore
