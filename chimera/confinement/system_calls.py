"""A filter of system calls for environments: what would tell one of them of another.

An agent's machine may do far more than an answer in the sandbox, which has a filter of its own. But
runs of the same code in several environments must not hear of each other: a pass rests on what code
does in a second one that knows nothing of the first (see `chimera.eval.kits.twins`). So kernel
keys, which outlive an environment, are refused, and whatever tells which pages of a file that
environments share somebody has read before.
"""

from __future__ import annotations

import errno
import os
import struct
from typing import NamedTuple

LOAD, AND, EQUAL, AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
ALLOW, KILL, ANSWER = 0x7FFF0000, 0x80000000, 0x00050000
OTHER_NUMBERS = 0x40000000  # x32's, of the same calls
WITHOUT_WAITING = 8  # a flag of preadv2


class Calls(NamedTuple):
    """Numbers of system calls on one kind of machine, and the kernel's name for that kind."""

    architecture: int
    refused: tuple[int, ...]
    absent: tuple[int, ...]
    idle: tuple[int, ...]  # succeed without effect
    preadv2: int


#: io_uring does what the others do, out of a filter's sight.
MACHINES = {
    "x86_64": Calls(
        0xC000003E,
        refused=(248, 249, 250),  # add_key, request_key, keyctl
        absent=(27, 451, 425, 426, 427),  # mincore, cachestat, io_uring
        idle=(221, 187),  # fadvise64, readahead
        preadv2=327,
    ),
    "aarch64": Calls(
        0xC00000B7,
        refused=(217, 218, 219),
        absent=(232, 451, 425, 426, 427),
        idle=(223, 213),
        preadv2=286,
    ),
}


def environment_filter() -> bytes | None:
    """The filter for this machine, or None for one whose call numbers are not listed."""
    calls = MACHINES.get(os.uname().machine)
    if calls is None:
        return None
    answers = {
        **dict.fromkeys(calls.refused, ANSWER | errno.EPERM),
        **dict.fromkeys(calls.absent, ANSWER | errno.ENOSYS),
        **dict.fromkeys(calls.idle, ANSWER),
    }
    parts = [
        (LOAD, ARCHITECTURE),
        (EQUAL, calls.architecture, 1, 0),
        (RETURN, KILL),
        (LOAD, NUMBER),
        (AT_LEAST, OTHER_NUMBERS, 0, 1),
        (RETURN, ANSWER | errno.EPERM),
    ]
    for number, answer in answers.items():
        parts += [(EQUAL, number, 0, 1), (RETURN, answer)]
    parts += [
        (EQUAL, calls.preadv2, 0, 4),
        (LOAD, ARGUMENTS + 8 * 5),
        (AND, WITHOUT_WAITING),
        (EQUAL, WITHOUT_WAITING, 0, 1),
        (RETURN, ANSWER | errno.EOPNOTSUPP),
        (RETURN, ALLOW),
    ]
    return b"".join(_instruction(*part) for part in parts)


def _instruction(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, when_true, when_false, value)
