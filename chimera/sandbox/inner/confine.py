"""Namespaces, limits and privileges, by the C library: what each forked process gives up.

With namespaces, the server lives in those that bubblewrap made. An answer gets process, mount and
IPC namespaces of its own, sees no /proc, owns one small file system for scratch, and ends as a user
without privileges who can gain none. Without namespaces only limits are left.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from typing import Any

from . import seccomp

NEW_MOUNTS = 0x00020000
NEW_IPC = 0x08000000
NEW_USER = 0x10000000
NEW_PROCESSES = 0x20000000
BIND = 4096
READ_ONLY, NO_SETUID, NO_DEVICES = 1, 2, 4
PRIVATE_RECURSIVE = (1 << 18) | 16384
SET_PARENT_DEATH_SIGNAL, SET_DUMPABLE, SET_SUBREAPER, SET_NO_NEW_PRIVILEGES = 1, 4, 36, 38
CAPABILITY_VERSION = 0x20080522


class Confinement:
    """How this server confines; `base_user` is set when it runs as root and can change users."""

    def __init__(self, namespaces: bool, base_user: int | None, scratch: str) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.namespaces = namespaces
        self.base_user = base_user
        self.scratch = scratch
        self.own_processes = -1
        self.session = b""
        self.filter = seccomp.program()

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
        with open("/proc/self/stat", "rb") as file:
            self.session = file.read().rpartition(b")")[2].split()[3]

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

    def enter_answer(self, limits: dict[str, Any]) -> None:
        """In the answer's process, before its code: private scratch, limits, no privileges."""
        os.setsid()  # signals to its group stay with it, and what it starts can be told from ours
        if self.namespaces:
            self.own_file_system(limits["file_bytes"])
        else:
            os.chdir(self.scratch)
            self.call("prctl", SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        self.limit(limits)
        self.drop_privileges(self.base_user)
        if self.filter is not None and self.namespaces:
            seccomp.install(self.libc, self.filter)

    def own_file_system(self, size: int) -> None:
        self.call("unshare", NEW_MOUNTS | NEW_IPC)
        owner = os.getuid() if self.base_user is None else self.base_user
        options = f"size={size},nr_inodes=4096,mode=0700,uid={owner}".encode()
        flags = NO_SETUID | NO_DEVICES
        self.call("mount", b"tmpfs", b"/proc", b"tmpfs", flags | READ_ONLY, b"size=4k")
        self.call("mount", b"tmpfs", b"/tmp", b"tmpfs", flags, options)
        for place in ("/tmp/shm", "/tmp/work"):
            os.mkdir(place)
            os.chown(place, owner, -1)
        self.call("mount", b"/tmp/shm", b"/dev/shm", None, BIND, None)
        os.chdir("/tmp/work")

    def enter_judge(self, limits: dict[str, Any]) -> None:
        self.limit({**limits, "processes": None, "file_bytes": None})
        self.drop_privileges(None if self.base_user is None else self.base_user + 1)
        self.call("prctl", SET_DUMPABLE, 0, 0, 0, 0)

    def limit(self, limits: dict[str, Any]) -> None:
        for kind, value in (
            (resource.RLIMIT_CPU, int(limits["cpu_seconds"]) + 2),
            (resource.RLIMIT_AS, limits["memory_bytes"]),
            (resource.RLIMIT_FSIZE, limits["file_bytes"]),
            (resource.RLIMIT_NPROC, limits["processes"] if self.namespaces else None),
        ):
            if value is not None:
                resource.setrlimit(kind, (value, value))

    def drop_privileges(self, user: int | None) -> None:
        if user is not None:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        elif self.namespaces:
            header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
            self.call("capset", header, (ctypes.c_uint32 * 6)())
        self.call("prctl", SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
