"""Landlock: where there are no namespaces, what of the file system an answer can reach.

Every user may put it on himself. It also keeps the answer from tracing processes that do not wear
the same, the judge among them.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

CREATE_RULES, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on every kind of machine
ASK_VERSION = 1
BENEATH_PATH = 1
RUN, WRITE, READ, LIST = 1, 2, 4, 8
OF_FILES = RUN | WRITE | READ | 1 << 14  # and to cut short; the others are rights of directories
#: The rights that each version knows of.
KNOWN = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1}
#: Without /dev/zero: mapped, it is memory that no process need have resident.
DEVICES = ("/dev/null", "/dev/full", "/dev/random", "/dev/urandom")


def version(libc: ctypes.CDLL) -> int:
    """0 where the kernel has none, or it is switched off."""
    return max(0, int(libc.syscall(CREATE_RULES, None, 0, ASK_VERSION)))


def restrict(libc: ctypes.CDLL, readable: Iterable[str], scratch: str) -> None:
    """From now on this process reads only these trees and changes only its scratch."""
    every = KNOWN.get(version(libc), KNOWN[max(KNOWN)])
    handled = ctypes.create_string_buffer(struct.pack("Q", every))
    rules = checked(libc.syscall(CREATE_RULES, handled, 8, 0))
    try:
        for path in readable:
            allow(libc, rules, path, RUN | READ | LIST)
        for path in DEVICES:
            allow(libc, rules, path, READ | WRITE)
        allow(libc, rules, scratch, every)
        checked(libc.syscall(RESTRICT_SELF, rules, 0))
    finally:
        os.close(rules)


def allow(libc: ctypes.CDLL, rules: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= OF_FILES
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, place))
        checked(libc.syscall(ADD_RULE, rules, BENEATH_PATH, rule, 0))
    finally:
        os.close(place)


def checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return int(result)
