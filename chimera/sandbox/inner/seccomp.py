"""A filter of system calls: what no answer needs, and what would reach past its confinement.

Denied are new user namespaces, tracing, kernel keys, memory that outlives its processes, sockets of
other families than Unix ones, larger socket buffers, and whatever tells of other processes' use of
a file: locks, leases and notices. A lock is granted without being taken, since an answer that locks
a file of its own (SQLite does) is alone with it. Mounting and other namespaces need a privilege
that answers do not have.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Mapping
from typing import NamedTuple

LOAD, AND, EQUAL, AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
ALLOW, KILL, PRETEND = 0x7FFF0000, 0x80000000, 0x00050000
REFUSE, ABSENT = PRETEND | errno.EPERM, PRETEND | errno.ENOSYS
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
SET_FILTER, FILTER_MODE = 22, 2
NEW_USER = 0x10000000  # other namespaces need a privilege that answers do not have
UNIX = 1
SHARED_ANONYMOUS = 0x21
PAGE_OUT = 21
CHILD_ENDED = 17
#: Commands of fcntl: to lock; to ask for locks, leases and notices, and to have others signalled.
LOCKS, TELLTALES = (6, 7, 37, 38), (5, 36, 1024, 1026, 8, 10, 15)
OWNERS_BY_IOCTL = (0x8901, 0x8902)
BUFFER_SIZES = (7, 8, 32, 33)


class Calls(NamedTuple):
    """The numbers of system calls on one kind of machine, and the kernel's name for that kind."""

    architecture: int
    clone: int
    unshare: int
    socket: int
    socketpair: int
    setsockopt: int
    fcntl: int
    flock: int
    ioctl: int
    mmap: int
    madvise: int
    sigaction: int
    denied: tuple[int, ...]
    of_a_process: tuple[int, ...]  # a process is the first argument, and 0 the caller
    reaching_others: tuple[int, ...]


MACHINES = {
    "x86_64": Calls(
        0xC000003E, 56, 272, 41, 53, 54, 72, 73, 16, 9, 28, 13,
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
            253, 294, 300,          # inotify_init, inotify_init1, fanotify_init
            278,                    # vmsplice: pages that only a pipe holds are nobody's
        ),
        of_a_process=(
            62, 200, 234,           # kill, tkill, tgkill
            302, 142, 144, 203, 314,  # prlimit64, sched_set: param, scheduler, affinity, attr
        ),
        reaching_others=(
            129, 297, 424,          # rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal
            141, 251, 256, 279,     # setpriority, ioprio_set, migrate_pages, move_pages
            312, 438, 440, 448,     # kcmp, pidfd_getfd, process_madvise, process_mrelease
            112, 109,               # setsid, setpgid: all it starts must stay in its group
        ),
    ),
    "aarch64": Calls(
        0xC00000B7, 220, 97, 198, 199, 208, 25, 32, 29, 222, 233, 134,
        denied=(
            194, 190, 186, 180, 117, 270, 271, 217, 218, 219, 241, 280, 282, 279, 447, 425, 426,
            427, 92, 89, 224, 225, 142, 161, 162, 60, 105, 106, 104, 273, 294, 170, 112, 266, 264,
            265, 26, 262, 75,
        ),
        of_a_process=(129, 130, 131, 261, 118, 119, 122, 274),
        reaching_others=(138, 240, 424, 140, 30, 238, 239, 272, 438, 440, 448, 157, 154),
    ),
}  # fmt: skip
CLONE3 = 435  # its flags are in memory, out of a filter's reach: say it does not exist


def instruction(code: int, value: int, when_true: int = 0, when_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, when_true, when_false, value)


def always(number: int, action: int) -> list[bytes]:
    return [instruction(EQUAL, number, 0, 1), instruction(RETURN, action)]


def by_argument(
    number: int, position: int, actions: Mapping[int, int], otherwise: int, bits: int = 0xFFFFFFFF
) -> list[bytes]:
    """What to do with a call by these bits of one of its arguments."""
    body = [instruction(LOAD, ARGUMENTS + 8 * position), instruction(AND, bits)]
    for value, action in actions.items():
        body += always(value, action)
    body.append(instruction(RETURN, otherwise))
    return [instruction(EQUAL, number, 0, len(body)), *body]


def program(own_process: int | None = None, *, unaided: bool = False) -> bytes | None:
    """The filter for this machine, or None for one whose call numbers are not listed.

    `own_process` is for an answer without namespaces: no network, and nothing done to others.
    `unaided` is for one without a control group: then what escapes other accounts is refused,
    shared memory that nobody has resident, and children that end unaccounted for.
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
        instruction(RETURN, REFUSE),
        *always(CLONE3, ABSENT),
        *always(calls.flock, PRETEND),
    ]
    denied = calls.denied
    if own_process is not None:
        denied += (calls.socket, *calls.reaching_others)
        for number in calls.of_a_process:
            ours = {own_process: ALLOW} if number in calls.of_a_process[:3] else {0: ALLOW}
            parts += by_argument(number, 0, ours, REFUSE)
    for number in denied:
        parts += always(number, REFUSE)
    for number in (calls.clone, calls.unshare):
        parts += by_argument(number, 0, {0: ALLOW}, REFUSE, NEW_USER)
    for number in (calls.socket, calls.socketpair):
        parts += by_argument(number, 0, {UNIX: ALLOW}, REFUSE)
    commands = dict.fromkeys(LOCKS, PRETEND) | dict.fromkeys(TELLTALES, REFUSE)
    parts += by_argument(calls.fcntl, 1, commands, ALLOW)
    parts += by_argument(calls.ioctl, 1, dict.fromkeys(OWNERS_BY_IOCTL, REFUSE), ALLOW)
    parts += by_argument(calls.setsockopt, 2, dict.fromkeys(BUFFER_SIZES, REFUSE), ALLOW)
    if unaided:
        shared = {SHARED_ANONYMOUS: REFUSE}
        parts += by_argument(calls.mmap, 3, shared, ALLOW, SHARED_ANONYMOUS)
        parts += by_argument(calls.madvise, 2, {PAGE_OUT: REFUSE}, ALLOW)
        parts += by_argument(calls.sigaction, 0, {CHILD_ENDED: REFUSE}, ALLOW)
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
    def for_this_machine(
        cls, own_process: int | None = None, *, unaided: bool = False
    ) -> Filter | None:
        compiled = program(own_process, unaided=unaided)
        return None if compiled is None else cls(compiled)

    def install(self, libc: ctypes.CDLL) -> None:
        """Put it on this process for good; that needs no privilege once none can be gained."""
        if libc.prctl(SET_FILTER, FILTER_MODE, self.reference, 0, 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"seccomp: {os.strerror(number)}")
