"""A command inside an environment that is watched while it runs, and ended once it may not go on"""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO

from chimera.environments.base import Machine, Process
from chimera.environments.streams import Kept, collect, command_result
from chimera.types import CommandResult

#: What a program that was told to stop may still take, and how often it is looked at.
GRACE_SECONDS = 20.0
LOOK_SECONDS = 0.25
ENDED = 137  # the exit code of one that did not stop by itself
#: The better of the two shells runs the command line that is its argument.
SHELL = ("sh", "-c", 'command -v bash >/dev/null && exec bash -c "$0"; exec sh -c "$0"')


def run_attended(
    env: Machine,
    command: str | Sequence[str],
    *,
    timeout: float,
    output_bytes: int,
    variables: Mapping[str, str],
    stdin: bytes = b"",
    stopped: threading.Event | None = None,
) -> CommandResult:
    """Run a command to its end, its time limit, or shortly after `stopped` was set."""
    started = time.monotonic()
    deadline = started + env.require_time(timeout)
    words = [*SHELL, command] if isinstance(command, str) else list(command)
    process = env.open_process(words, variables=variables)
    try:
        kept, code = _watched(process, stdin, deadline, output_bytes, stopped)
    finally:
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
    return command_result(*kept, code, started)


def _watched(
    process: Process,
    stdin: bytes,
    deadline: float,
    output_bytes: int,
    stopped: threading.Event | None,
) -> tuple[tuple[Kept, Kept], int | None]:
    """What it wrote and its exit code, which is None when its time was up."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    kept = (Kept(output_bytes), Kept(output_bytes))
    streams = dict(zip((process.stdout.fileno(), process.stderr.fileno()), kept, strict=True))
    threading.Thread(target=_write, args=(process.stdin, stdin), daemon=True).start()
    end = deadline
    while True:
        silent, _ = collect(streams, deadline=min(end, time.monotonic() + LOOK_SECONDS))
        code = _exit_code(process, LOOK_SECONDS if silent else 0.0)
        if code is not None:
            collect(streams, deadline=time.monotonic() + LOOK_SECONDS)
            return kept, code
        if stopped is not None and stopped.is_set() and end == deadline:
            end = min(deadline, time.monotonic() + GRACE_SECONDS)
        if time.monotonic() >= end:
            process.kill()
            return kept, None if end == deadline else ENDED


def _exit_code(process: Process, wait: float) -> int | None:
    try:
        return process.wait(wait)
    except subprocess.TimeoutExpired:
        return None


def _write(stream: IO[bytes], content: bytes) -> None:
    rest = memoryview(content)
    with contextlib.suppress(OSError, ValueError), stream:
        while rest:
            rest = rest[stream.write(rest) or 0 :]
