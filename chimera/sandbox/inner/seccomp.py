"""A filter of system calls: what no answer needs, and what would reach past its namespaces.

Denied are new user namespaces, tracing, kernel keys, memory that outlives its processes, and
sockets of other families than Unix and Internet ones (a virtual machine's host answers on some).
Mounting and other namespaces need a privilege that answers do not have.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Sequence
from typing import NamedTuple

LOAD, AND, EQUAL, AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
SET_FILTER, FILTER_MODE = 22, 2
NEW_USER = 0x10000000  # other namespaces need a privilege that answers do not have
SOCKET_FAMILIES = (1, 2, 10)  # Unix, IPv4, IPv6


class Calls(NamedTuple):
    """The numbers of system calls on one kind of machine, and the kernel's name for that kind."""

    architecture: int
    clone: int
    unshare: int
    socket: int
    socketpair: int
    signals: tuple[int, ...]  # kill, tkill, tgkill: a process is the first argument
    signals_by_other_means: tuple[int, ...]
    denied: tuple[int, ...]


MACHINES = {
    "x86_64": Calls(
        0xC000003E, 56, 272, 41, 53, (62, 200, 234), (129, 297, 424),
        denied=(
            29, 64, 68, 240,        # shmget, semget, msgget, mq_open
            101, 310, 311,          # ptrace, process_vm_readv, process_vm_writev
            248, 249, 250,          # add_key, request_key, keyctl
            298, 321, 323,          # perf_event_open, bpf, userfaultfd
            319, 447,               # memfd_create, memfd_secret
            425, 426, 427,          # io_uring
            135, 163, 167, 168, 169, 170, 171, 179,  # personality, acct, swap, reboot, names, quota
            175, 176, 246, 313, 320,                 # kernel modules, kexec
            164, 227, 305,          # clocks
            303, 304,               # file handles
        ),
    ),
    "aarch64": Calls(
        0xC00000B7, 220, 97, 198, 199, (129, 130, 131), (138, 240, 424),
        denied=(
            194, 190, 186, 180, 117, 270, 271, 217, 218, 219, 241, 280, 282, 279, 447, 425, 426,
            427, 92, 89, 224, 225, 142, 161, 162, 60, 105, 106, 104, 273, 294, 170, 112, 266, 264,
            265,
        ),
    ),
}  # fmt: skip
CLONE3 = 435  # its flags are in memory, out of a filter's reach: say it does not exist


def instruction(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, when_true, when_false, value)


REFUSAL = instruction(RETURN, REFUSE | errno.EPERM)


def only_with(number: int, values: Sequence[int]) -> list[bytes]:
    """Allow a call when its first argument is one of these."""
    tests = [instruction(EQUAL, each, len(values) - at, 0) for at, each in enumerate(values)]
    body = [instruction(LOAD, FIRST_ARGUMENT), *tests, REFUSAL, instruction(RETURN, ALLOW)]
    return [instruction(EQUAL, number, 0, len(body)), *body]


def never_with(number: int, bits: int) -> list[bytes]:
    """Refuse a call when its first argument has any of these bits."""
    body = [instruction(LOAD, FIRST_ARGUMENT), instruction(AND, bits), instruction(EQUAL, 0, 1, 0)]
    body += [REFUSAL, instruction(RETURN, ALLOW)]
    return [instruction(EQUAL, number, 0, len(body)), *body]


def program(own_process: int | None = None) -> bytes | None:
    """The filter for this machine, or None for one whose call numbers are not listed.

    `own_process` is for an answer without namespaces: no network, and signals to itself alone.
    """
    calls = MACHINES.get(os.uname().machine)
    if calls is None:
        return None
    parts = [
        instruction(LOAD, ARCHITECTURE),
        instruction(EQUAL, calls.architecture, 1, 0),
        instruction(RETURN, KILL),
        instruction(LOAD, NUMBER),
        instruction(AT_LEAST, 0x40000000, 0, 1),  # the x32 numbering of the same calls
        REFUSAL,
        instruction(EQUAL, CLONE3, 0, 1),
        instruction(RETURN, REFUSE | errno.ENOSYS),
    ]
    denied = calls.denied
    if own_process is not None:
        denied += (calls.socket, *calls.signals_by_other_means)
        for number in calls.signals:
            parts += only_with(number, (own_process,))
    for number in denied:
        parts += [instruction(EQUAL, number, 0, 1), REFUSAL]
    parts += never_with(calls.clone, NEW_USER) + never_with(calls.unshare, NEW_USER)
    parts += only_with(calls.socket, SOCKET_FAMILIES)
    parts += only_with(calls.socketpair, SOCKET_FAMILIES)
    return b"".join([*parts, instruction(RETURN, ALLOW)])


class Instructions(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


class Filter:
    """A filter made ready, so that putting it on takes one call."""

    def __init__(self, compiled: bytes) -> None:
        self.compiled = compiled
        self.instructions = Instructions(len(compiled) // 8, compiled)
        self.reference = ctypes.byref(self.instructions)

    @classmethod
    def for_this_machine(cls, own_process: int | None = None) -> Filter | None:
        compiled = program(own_process)
        return None if compiled is None else cls(compiled)

    def install(self, libc: ctypes.CDLL) -> None:
        """Put it on this process for good; that needs no privilege once none can be gained."""
        if libc.prctl(SET_FILTER, FILTER_MODE, self.reference, 0, 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"seccomp: {os.strerror(number)}")
