"""Namespaces, limits and privileges, by the C library: what each forked process gives up.

With namespaces, the server lives in those that bubblewrap made, without any /proc. An answer gets
process and IPC namespaces of its own and a private file system for scratch, and ends as a user without
privileges who can gain none. Without namespaces only the limits are left.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from typing import Any

NEW_MOUNTS = 0x00020000
NEW_IPC = 0x08000000
NEW_USER = 0x10000000
NEW_PROCESSES = 0x20000000
NO_SETUID, NO_DEVICES = 2, 4
BIND = 4096
PRIVATE_RECURSIVE = (1 << 18) | 16384
SET_PARENT_DEATH_SIGNAL, SET_DUMPABLE, SET_SUBREAPER, SET_NO_NEW_PRIVILEGES = 1, 4, 36, 38
SCRATCH = "/tmp"  # noqa: S108 - the sandbox's own, a mount of the answer's own


class Confinement:
    """How this server confines; `base_user` is set when it runs as root and can change users."""

    def __init__(self, namespaces: bool, base_user: int | None, scratch: str) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.namespaces = namespaces
        self.base_user = base_user
        self.scratch = scratch
        self.own_processes = -1

    def call(self, function: str, *arguments: Any) -> None:
        if getattr(self.libc, function)(*arguments) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{function}: {os.strerror(number)}")

    def enter_server(self) -> None:
        """Become the first process of namespaces in which answers can be given their own."""
        if not self.namespaces:
            self.call("prctl", SET_SUBREAPER, 1, 0, 0, 0)
            self.call("prctl", SET_DUMPABLE, 0, 0, 0, 0)
            return
        write("/proc/self/oom_score_adj", "900")
        if self.base_user is None:
            self.enter_user_namespace()
        self.call("mount", b"none", b"/", None, PRIVATE_RECURSIVE, None)
        self.call(
            "mount", b"none", b"/proc", b"tmpfs", NO_SETUID | NO_DEVICES, b"size=4k,mode=0555"
        )
        self.own_processes = os.pidfd_open(os.getpid())

    def enter_user_namespace(self) -> None:
        """Bubblewrap's namespaces belong to a user namespace above ours: make some that are ours."""
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
        """In the answer's process, before any of its code: private scratch, limits, no privileges."""
        if self.namespaces:
            self.call("unshare", NEW_MOUNTS | NEW_IPC)
            owner = self.base_user if self.base_user is not None else os.getuid()
            size = limits["file_bytes"]
            options = f"size={size},nr_inodes=4096,mode=0700,uid={owner}".encode()
            self.call("mount", b"tmpfs", b"/tmp", b"tmpfs", NO_SETUID | NO_DEVICES, options)
            os.mkdir("/tmp/shm")
            os.mkdir("/tmp/work")
            self.call("mount", b"/tmp/shm", b"/dev/shm", None, BIND, None)
            if self.base_user is not None:
                os.chown("/tmp/shm", owner, owner)
                os.chown("/tmp/work", owner, owner)
            os.chdir("/tmp/work")
        else:
            os.setsid()
            os.chdir(self.scratch)
            self.call("prctl", SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        self.limit(limits)
        self.drop(self.base_user)

    def enter_judge(self, limits: dict[str, Any]) -> None:
        self.limit({**limits, "processes": None})
        self.drop(None if self.base_user is None else self.base_user + 1)
        self.call("prctl", SET_DUMPABLE, 0, 0, 0, 0)

    def limit(self, limits: dict[str, Any]) -> None:
        seconds = int(limits["cpu_seconds"]) + 2
        for kind, value in (
            (resource.RLIMIT_CPU, seconds),
            (resource.RLIMIT_AS, limits["memory_bytes"]),
            (resource.RLIMIT_FSIZE, limits["file_bytes"]),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_NPROC, limits["processes"]),
        ):
            if value is not None and (kind != resource.RLIMIT_NPROC or self.namespaces):
                resource.setrlimit(kind, (value, value))

    def drop(self, user: int | None) -> None:
        if user is not None:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        elif self.namespaces:
            header = (ctypes.c_uint32 * 2)(0x20080522, 0)
            self.call("capset", header, (ctypes.c_uint32 * 6)())
        self.call("prctl", SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
