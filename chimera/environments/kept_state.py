"""The files of a machine put back as they were: for runs that may leave nothing for each other."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import IO

from chimera.environments.base import Machine
from chimera.environments.tar_streams import COPY_BYTES, COPY_SECONDS
from chimera.environments.wrapped import unwrapped
from chimera.errors import EnvironmentFault

#: Where files can be left beside the working directory: all of that in bubblewrap, and what
#: everybody uses in containers, where a process that is root can write anywhere.
_WRITABLE = {
    "bubblewrap": ("/home/agent", "/tmp", "/dev/shm"),
    "docker": ("/tmp", "/dev/shm"),
}


#: With modes and links of all kinds; holes of files take no room. The host only keeps what they
#: say, and makes nothing of it.
_PACK = ("sh", "-c", 'exec tar -c -S -f - --ignore-failed-read -C "$0" . 2> /dev/null')
_UNPACK = ("sh", "-c", 'exec tar -x -f - -p --no-same-owner -C "$0" > /dev/null 2>&1')


class NotRestored(Exception):
    """What was left behind cannot be kept, or cannot be removed."""


@contextmanager
def kept_state(env: Machine) -> Iterator[Callable[[], None]]:
    """A call that ends all processes and puts back the files that were there at first."""
    further = _WRITABLE.get(unwrapped(env).name, ())
    places = [".", *(each for each in further if env.run_command(["test", "-d", each]).success)]
    as_they_are = "GNU tar" in env.run_command(["tar", "--version"]).output
    with tempfile.TemporaryDirectory(prefix="chimera-state-") as directory:
        copies = {place: Path(directory, str(number)) for number, place in enumerate(places)}
        size = 0
        for place, copy in copies.items():
            if as_they_are:
                size += _pack(env, place, copy, COPY_BYTES - size)
            else:
                env.copy_out(place, copy)

        def restore() -> None:
            env.stop_processes()
            find = f"find {shlex.join(places)} -mindepth 1"
            opened = f"{find} -type d ! -perm -700 -exec chmod u+rwx {{}} ';'"
            done = env.run_command(f'{opened}; {find} -delete; test -z "$({find} -print -quit)"')
            if not done.success:
                raise NotRestored(f"files cannot be removed: {done.output[-200:]}")
            for place, copy in copies.items():
                if as_they_are:
                    _unpack(env, copy, place)
                else:
                    env.copy_in(copy, place)

        yield restore


def _pack(env: Machine, place: str, copy: Path, most: int) -> int:
    """Keep what is in a place; returns how many bytes that is."""

    def keep(given: IO[bytes], taken: IO[bytes]) -> None:
        given.close()
        with taken, copy.open("wb") as file:
            size = 0
            while chunk := taken.read(1 << 20):
                size += len(chunk)
                if size > most:
                    raise NotRestored(f"there are more than {COPY_BYTES} bytes up to {place}")
                try:
                    file.write(chunk)
                except OSError as error:
                    raise EnvironmentFault(f"files cannot be kept here: {error}") from error

    _piped(env, (*_PACK, place), keep, f"the files in {place} cannot be read")
    return copy.stat().st_size


def _unpack(env: Machine, copy: Path, place: str) -> None:
    def give(given: IO[bytes], taken: IO[bytes]) -> None:
        with taken, suppress(BrokenPipeError), given, copy.open("rb") as file:
            shutil.copyfileobj(file, given, 1 << 20)

    _piped(env, (*_UNPACK, place), give, f"the files in {place} cannot be put back")


def _piped(
    env: Machine, command: Sequence[str], carry: Callable[[IO[bytes], IO[bytes]], None], why: str
) -> None:
    """Run a command inside while `carry` has its input and output; what it ends with decides."""
    process = env.open_process(command)
    assert process.stdin is not None
    assert process.stdout is not None
    limit = Timer(COPY_SECONDS, process.kill)
    limit.start()
    try:
        carry(process.stdin, process.stdout)
        code = process.wait(COPY_SECONDS)
    except BaseException:
        process.kill()
        raise
    finally:
        limit.cancel()
    if code != 0:
        raise NotRestored(why)
