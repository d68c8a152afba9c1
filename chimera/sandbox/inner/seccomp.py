"""A filter of system calls: what no answer needs, and what would reach past its namespaces.

Denied are new namespaces and mounts, tracing, kernel keys, memory that outlives its processes, and
sockets of other families than Unix and Internet ones (a virtual machine's host answers on some).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

LOAD, AND, EQUAL, AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
SET_FILTER, FILTER_MODE = 22, 2
NEW_NAMESPACES = 0x7E020080
SOCKET_FAMILIES = (1, 2, 10)  # Unix, IPv4, IPv6

#: machine → (kernel's name for it, numbers of clone, socket, socketpair, denied calls)
MACHINES: dict[str, tuple[int, int, int, int, tuple[int, ...]]] = {
    "x86_64": (
        0xC000003E, 56, 41, 53,
        (
            29, 64, 68,                                # shmget, semget, msgget
            101, 310, 311,                             # ptrace, process_vm_readv, _writev
            135, 155, 161, 163, 164, 165, 166, 167, 168, 169, 170, 171, 179,  # personality, mounts…
            175, 176, 246, 313, 320,                   # kernel modules, kexec
            227, 248, 249, 250, 272, 298, 303, 304, 305, 308, 319, 321, 323,
            425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 447,
        ),
    ),
    "aarch64": (
        0xC00000B7, 220, 198, 199,
        (
            194, 190, 186, 117, 270, 271, 92, 41, 51, 89, 170, 40, 39, 224, 225, 142, 161, 162, 60,
            105, 106, 104, 273, 294, 112, 217, 218, 219, 97, 241, 264, 265, 266, 268, 279, 280, 282,
            425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 447,
        ),
    ),
}  # fmt: skip
CLONE3 = 435  # its flags are in memory, out of a filter's reach: say it does not exist


def instruction(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, when_true, when_false, value)


def program() -> bytes | None:
    """The filter for this machine, or None for one whose call numbers are not listed."""
    if platform.machine() not in MACHINES:
        return None
    architecture, clone, socket, socketpair, denied = MACHINES[platform.machine()]
    refuse = instruction(RETURN, REFUSE | errno.EPERM)
    parts = [
        instruction(LOAD, ARCHITECTURE),
        instruction(EQUAL, architecture, 1, 0),
        instruction(RETURN, KILL),
        instruction(LOAD, NUMBER),
        instruction(AT_LEAST, 0x40000000, 0, 1),  # the x32 numbering of the same calls
        refuse,
        instruction(EQUAL, CLONE3, 0, 1),
        instruction(RETURN, REFUSE | errno.ENOSYS),
    ]
    for number in denied:
        parts += [instruction(EQUAL, number, 0, 1), refuse]
    parts += [
        instruction(EQUAL, clone, 0, 5),
        instruction(LOAD, FIRST_ARGUMENT),
        instruction(AND, NEW_NAMESPACES),
        instruction(EQUAL, 0, 1, 0),
        refuse,
        instruction(RETURN, ALLOW),
    ]
    families = len(SOCKET_FAMILIES)
    for number in (socket, socketpair):
        parts += [instruction(EQUAL, number, 0, families + 3), instruction(LOAD, FIRST_ARGUMENT)]
        for index, family in enumerate(SOCKET_FAMILIES):
            parts.append(instruction(EQUAL, family, families - index, 0))
        parts += [refuse, instruction(RETURN, ALLOW)]
    return b"".join([*parts, instruction(RETURN, ALLOW)])


class Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def install(libc: ctypes.CDLL, compiled: bytes) -> None:
    """Put the filter on this process for good; it needs no privilege once none can be gained."""
    filter_ = Filter(len(compiled) // 8, compiled)
    if libc.prctl(SET_FILTER, FILTER_MODE, ctypes.byref(filter_), 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")
