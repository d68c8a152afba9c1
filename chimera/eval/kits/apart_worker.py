"""The processes of `apart`: one that has loaded what calls need, and workers forked from it.

The first one never sees foreign text. It is sent words of eight bytes over standard input, which is
a socket: with a descriptor, to fork a worker that answers calls on it (the reply is its process
id); without one, to end the worker of that process id (the reply is how it ended).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import logging
import os
import resource
import signal
import socket
import sys

WORD = 8


def main(memory_bytes: int, modules: list[str]) -> None:
    logging.disable(logging.CRITICAL)
    for name in modules:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is loaded stays shared with the workers
    control = socket.socket(fileno=os.dup(0))
    control.sendall(word(0))
    workers: set[int] = set()
    while True:
        message, handed, _, _ = socket.recv_fds(control, WORD, 1)
        if len(message) < WORD:
            break
        if handed:
            process = os.fork()
            if process == 0:
                control.close()
                return work(socket.socket(fileno=handed[0]), memory_bytes)
            os.close(handed[0])
            workers.add(process)
            control.sendall(word(process))
        else:
            process = number(message)
            workers.discard(process)
            control.sendall(word(end(process)))
    for process in workers:  # whoever asked for them is gone
        end(process)


def work(channel: socket.socket, memory_bytes: int) -> None:
    """One call a line comes in, its value goes out, until a limit ends it."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    with channel.makefile("rwb") as stream:
        for line in stream:
            request = json.loads(line)
            module, name = request["function"]
            function = getattr(importlib.import_module(module), name)
            usage = resource.getrusage(resource.RUSAGE_SELF)
            spent = int(usage.ru_utime + usage.ru_stime) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (spent + request["seconds"], hard))
            value = function(*request["arguments"])
            stream.write(json.dumps([value]).encode() + b"\n")
            stream.flush()


def end(process: int) -> int:
    """End a worker; the signal that had ended it before, or the negative of its exit code."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    return -os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def word(value: int) -> bytes:
    return value.to_bytes(WORD, "big", signed=True)


def number(message: bytes) -> int:
    return int.from_bytes(message, "big", signed=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
