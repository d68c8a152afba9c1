"""Namespaces, limits and privileges, by the C library: what each forked process gives up.

With namespaces, the server lives in those that bubblewrap made. An answer gets a process namespace
of its own, sees no /proc, has one small file system for scratch that is made anew when it was
touched, and ends as a user without privileges who can gain none. Without namespaces there are
limits, Landlock's rules for files, and a filter that leaves it no network and no signals to others.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from collections.abc import Sequence
from typing import Any

from . import landlock, seccomp
from .trees import empty

NEW_MOUNTS = 0x00020000
NEW_IPC = 0x08000000
NEW_USER = 0x10000000
NEW_PROCESSES = 0x20000000
BIND = 4096
READ_ONLY, NO_SETUID, NO_DEVICES = 1, 2, 4
DETACH = 2
PRIVATE_RECURSIVE = (1 << 18) | 16384
SET_PARENT_DEATH_SIGNAL, SET_DUMPABLE, SET_SUBREAPER, SET_NO_NEW_PRIVILEGES = 1, 4, 36, 38
CAPABILITY_VERSION = 0x20080522
PLACES = ("/tmp", "/tmp/shm", "/tmp/work")


class Confinement:
    """How this server confines; `base_user` is set when it runs as root and can change users."""

    def __init__(
        self, namespaces: bool, base_user: int | None, scratch: str, readable: Sequence[str]
    ) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.namespaces = namespaces
        self.base_user = base_user
        self.scratch = scratch
        self.readable = readable
        self.own_processes = -1
        self.proc = -1  # a directory descriptor of /proc, which answers do not see
        self.number, self.session = "", b""  # the server's, as that directory has them
        self.filter = seccomp.Filter.for_this_machine()
        self.scratch_marks: list[Any] = []

    def call(self, function: str, *arguments: Any) -> None:
        if getattr(self.libc, function)(*arguments) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{function}: {os.strerror(number)}")

    def enter_server(self) -> None:
        """Become a process that can give its children namespaces of their own."""
        if not self.namespaces:
            self.call("prctl", SET_SUBREAPER, 1, 0, 0, 0)
            self.call("prctl", SET_DUMPABLE, 0, 0, 0, 0)
            return
        write("/proc/self/oom_score_adj", "900")  # when memory is short, one of ours goes first
        if self.base_user is None:
            self.enter_user_namespace()
        self.call("mount", b"none", b"/", None, PRIVATE_RECURSIVE, None)
        self.own_processes = os.pidfd_open(os.getpid())
        self.proc = os.open("/proc", os.O_RDONLY)
        self.number = os.readlink("/proc/self")
        self.session = read_stat(self.number, self.proc)[3]
        flags = NO_SETUID | NO_DEVICES | READ_ONLY
        self.call("mount", b"tmpfs", b"/proc", b"tmpfs", flags, b"size=4k")
        self.call("prctl", SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        if self.filter is not None:
            self.filter.install(self.libc)  # here, once, since every child inherits it

    def enter_user_namespace(self) -> None:
        """Bubblewrap's namespaces belong to a user namespace above ours: make our own."""
        user, group = os.getuid(), os.getgid()
        self.call("unshare", NEW_USER | NEW_MOUNTS | NEW_PROCESSES | NEW_IPC)
        write("/proc/self/uid_map", f"{user} {user} 1")
        write("/proc/self/setgroups", "deny")
        write("/proc/self/gid_map", f"{group} {group} 1")
        child = os.fork()
        if child:
            os.closerange(3, 256)
            _, status = os.waitpid(child, 0)
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)

    def fork_answer(self) -> int:
        """Fork; the child is the first process of a new process namespace."""
        if not self.namespaces:
            return os.fork()
        self.call("unshare", NEW_PROCESSES)
        pid = -1
        try:
            pid = os.fork()
            return pid
        finally:
            if pid != 0:  # later children belong to the server's own process namespace again
                self.call("setns", self.own_processes, NEW_PROCESSES)

    def clean_scratch(self, size: int) -> None:
        """An empty scratch of this size: a new file system, unless nobody touched the last one."""
        if not self.namespaces:
            empty(self.scratch)
        elif self.scratch_marks != [size, *map(touched, PLACES)]:
            if self.scratch_marks:
                self.call("umount2", b"/dev/shm", DETACH)
                self.call("umount2", b"/tmp", DETACH)
            owner = os.getuid() if self.base_user is None else self.base_user
            options = f"size={size},nr_inodes=4096,mode=0700,uid={owner}".encode()
            self.call("mount", b"tmpfs", b"/tmp", b"tmpfs", NO_SETUID | NO_DEVICES, options)
            for place in ("/tmp/shm", "/tmp/work"):
                os.mkdir(place)
                os.chown(place, owner, -1)
            self.call("mount", b"/tmp/shm", b"/dev/shm", None, BIND, None)
            os.chdir("/tmp/work")
            self.scratch_marks = [size, *map(touched, PLACES)]

    def enter_answer(self, limits: dict[str, Any]) -> None:
        """In the answer's process, before any of its code: limits, and no privileges."""
        os.setsid()  # signals to its group stay with it, and what it starts can be told from ours
        self.limit(limits)
        if not self.namespaces:
            os.chdir(self.scratch)
            self.call("prctl", SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
            self.call("prctl", SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
            if landlock.version(self.libc):
                landlock.restrict(self.libc, self.readable, self.scratch)
            if alone := seccomp.Filter.for_this_machine(os.getpid()):
                alone.install(self.libc)
            self.drop_privileges(None)
            return
        if self.filter is None:
            self.call("unshare", NEW_IPC)
        self.drop_privileges(self.base_user)

    def enter_judge(self, memory: int) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        if self.namespaces:
            os.chdir("/")
            self.drop_privileges(None if self.base_user is None else self.base_user + 1)
        self.call("prctl", SET_DUMPABLE, 0, 0, 0, 0)

    def limit(self, limits: dict[str, Any]) -> None:
        for kind, value in (
            (resource.RLIMIT_CPU, int(limits["cpu_seconds"]) + 2),
            (resource.RLIMIT_AS, limits["memory_bytes"]),
            (resource.RLIMIT_FSIZE, limits["file_bytes"]),
            (resource.RLIMIT_NPROC, limits["processes"] if self.namespaces else None),
        ):
            if value is not None:  # without namespaces the user's other processes count, too
                resource.setrlimit(kind, (value, value))

    def drop_privileges(self, user: int | None) -> None:
        if user is not None:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        else:
            header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
            self.call("capset", header, (ctypes.c_uint32 * 6)())


def read_stat(pid: int | str, proc: int | None = None) -> list[bytes]:
    """The fields of /proc/PID/stat after the name, which may hold anything."""
    path = f"/proc/{pid}/stat" if proc is None else f"{pid}/stat"
    descriptor = os.open(path, os.O_RDONLY, dir_fd=proc)
    try:
        return os.read(descriptor, 4096).rpartition(b")")[2].split()
    finally:
        os.close(descriptor)


def touched(place: str) -> Any:
    """What changes when anything is made, removed or altered in a directory."""
    try:
        found = os.stat(place)
    except FileNotFoundError:
        return None
    return found.st_ctime_ns, found.st_ino, found.st_dev


def write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
