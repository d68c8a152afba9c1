"""Namespaces, limits and privileges, by the C library: what each forked process gives up.

With namespaces, the server lives in those that bubblewrap made. An answer gets a process namespace
of its own, sees no /proc, has one small file system for scratch that is made anew when it was
touched, and ends as a user without privileges who can gain none. Without namespaces there are
limits, Landlock's rules for files, a filter that leaves it no network and nothing to do to others,
and a user of its own where the server is root and others may read the interpreter.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from . import landlock, seccomp
from .groups import Group
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
DESCRIPTORS = 256  # of each process
PAGE = os.sysconf("SC_PAGE_SIZE")
OTHERS = 256  # processes that the user may start elsewhere while an answer runs


class Confinement:
    """How this server confines; `base_user` is set when it runs as root and can change users,
    `answers` and `judges` where control groups are to be had."""

    def __init__(
        self,
        namespaces: bool,
        base_user: int | None,
        scratch: str,
        readable: Sequence[str],
        answers: Group | None = None,
        judges: Group | None = None,
    ) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.namespaces = namespaces
        self.base_user = base_user
        self.scratch = scratch
        self.readable = readable
        self.answers, self.judges = answers, judges
        self.own_processes = -1
        self.proc = os.open("/proc", os.O_RDONLY)  # which answers do not see
        self.take_place()
        self.filter = seccomp.Filter.for_this_machine(unaided=answers is None)
        self.scratch_marks: list[Any] = []
        self.counted = (0, -1.0)  # the user's processes, and when that was

    def call(self, function: str, *arguments: Any) -> None:
        if getattr(self.libc, function)(*arguments) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{function}: {os.strerror(number)}")

    def take_place(self) -> None:
        """Remember where this process is found in /proc."""
        self.number, self.session = os.readlink("/proc/self"), read_stat("self", self.proc)[3]

    def enter_server(self) -> None:
        """Become a process that can give its children namespaces of their own."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else nobody would account for children
        write("/proc/self/oom_score_adj", "500")  # when memory is short, one of ours goes first
        if self.answers is not None:
            self.answers.enter()
        if not self.namespaces:
            self.call("prctl", SET_SUBREAPER, 1, 0, 0, 0)
            self.call("prctl", SET_DUMPABLE, 0, 0, 0, 0)
            if self.base_user is not None and not self.may_become(self.base_user):
                self.base_user = None
            return
        if self.base_user is None:
            self.enter_user_namespace()
        self.call("mount", b"none", b"/", None, PRIVATE_RECURSIVE, None)
        self.own_processes = os.pidfd_open(os.getpid())
        if self.answers is None:  # mapped, it is memory that no process need have resident
            self.call("mount", b"/dev/null", b"/dev/zero", None, BIND, None)
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
        self.take_place()

    def may_become(self, user: int) -> bool:
        """Whether a child can become this user and still read what it needs."""
        places = [place for place in self.readable if os.path.exists(place)]
        os.chown(self.scratch, user, -1)
        child = os.fork()
        if child == 0:
            with suppress(OSError):
                self.drop_privileges(user)
                os.chdir(self.scratch)
                os._exit(not all(os.access(place, os.R_OK) for place in places))
            os._exit(1)
        able = os.waitpid(child, 0)[1] == 0
        if not able:
            os.chown(self.scratch, os.getuid(), -1)
        return able

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
        if not self.namespaces:
            self.call("prctl", SET_DUMPABLE, 1, 0, 0, 0)  # else the next file were not its own
        write("self/oom_score_adj", "1000", self.proc)  # it goes before the server
        self.limit(limits)
        if not self.namespaces:
            self.enter_without_namespaces()
            return
        if self.filter is None:
            self.call("unshare", NEW_IPC)
        self.drop_privileges(self.base_user)

    def enter_without_namespaces(self) -> None:
        os.chdir(self.scratch)
        self.call("prctl", SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        if landlock.version(self.libc):
            landlock.restrict(self.libc, self.readable, self.scratch)
        self.drop_privileges(self.base_user)
        self.call("prctl", SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        unaided = self.answers is None
        if alone := seccomp.Filter.for_this_machine(os.getpid(), unaided=unaided):
            alone.install(self.libc)

    def enter_judge(self, memory: int) -> None:
        if self.judges is not None:
            self.judges.enter()
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        if self.namespaces:
            os.chdir("/")
        if self.namespaces or self.base_user is not None:
            self.drop_privileges(None if self.base_user is None else self.base_user + 1)
        self.call("prctl", SET_DUMPABLE, 0, 0, 0, 0)

    def limit(self, limits: dict[str, Any]) -> None:
        processes = limits["processes"]
        if not self.namespaces and self.base_user is None:
            processes += self.counted[0] + OTHERS  # the user's other processes count, too
        for kind, value in (
            (resource.RLIMIT_CPU, int(limits["cpu_seconds"]) + 2),
            (resource.RLIMIT_AS, limits["memory_bytes"]),
            (resource.RLIMIT_FSIZE, limits["file_bytes"]),
            (resource.RLIMIT_NPROC, processes),
            (resource.RLIMIT_NOFILE, DESCRIPTORS),
        ):
            resource.setrlimit(kind, (value, value))

    def waits_of(self, child: int) -> int:
        """A descriptor of the kernel's account of how long a child waited for a processor."""
        found = os.pidfd_open(child)
        try:
            told = read(f"self/fdinfo/{found}", self.proc).partition(b"\nPid:")[2].split()
            return os.open(f"{int(told[0])}/schedstat", os.O_RDONLY, dir_fd=self.proc)
        except (OSError, IndexError):
            return os.open(os.devnull, os.O_RDONLY)  # a kernel that keeps no such account
        finally:
            os.close(found)

    def count_processes(self) -> None:
        """How many processes and threads there are, for a limit that a user's all count against."""
        if not self.namespaces and self.base_user is None:
            now = time.monotonic()
            if now - self.counted[1] > 1:
                self.counted = sum(int(fields[17]) for _, fields in self.processes()), now

    def processes(self) -> Iterator[tuple[str, list[bytes]]]:
        """Every process that can be seen, by its number, with the fields of its `stat`."""
        for number in filter(str.isdigit, os.listdir(self.proc)):
            with suppress(OSError):
                yield number, read_stat(number, self.proc)

    def waited(self, number: str) -> float:
        """Seconds that the thread of a process that waited longest had work and no processor."""
        longest = 0
        with suppress(OSError, IndexError, ValueError):
            tasks = os.open(f"{number}/task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.proc)
            try:
                for thread in os.listdir(tasks):
                    file = os.open(f"{thread}/schedstat", os.O_RDONLY, dir_fd=tasks)
                    try:
                        longest = max(longest, int(os.read(file, 64).split()[1]))
                    finally:
                        os.close(file)
            finally:
                os.close(tasks)
        return longest / 1e9

    # What is seen of processes where no control group counts them

    @property
    def must_look(self) -> bool:
        """Whether nothing but a look keeps an answer to its number of processes."""
        return not self.namespaces and self.answers is None

    def of_the_answer(self, fields: list[bytes], answer_pid: int) -> bool:
        """In namespaces what left the server's session; elsewhere nobody can leave the answer's."""
        session = fields[3]
        return session != self.session if self.namespaces else session == b"%d" % answer_pid

    def of_the_judge(self, number: str, fields: list[bytes], judge_pid: int) -> bool:
        if self.namespaces:
            return fields[3] == self.session and number != self.number
        return number == str(judge_pid)

    def judge_memory(self, judge_pid: int) -> int:
        if self.judges is not None:
            return self.judges.memory_bytes()
        return max(
            int(fields[21]) * PAGE
            for number, fields in self.processes()
            if self.of_the_judge(number, fields, judge_pid)
        )

    def sockets(self) -> int:
        """How many sockets there are in the network namespace."""
        return int(read("net/sockstat", self.proc).split()[2]) if self.namespaces else 0

    def descriptors(self, number: str) -> int:
        """How many descriptors a process has beyond a few, where its sockets cannot be counted."""
        with suppress(OSError):
            if self.must_look:
                return max(0, os.stat(f"{number}/fd", dir_fd=self.proc).st_size - 16)
        return 0

    def drop_privileges(self, user: int | None) -> None:
        if user is not None:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        else:
            header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
            self.call("capset", header, (ctypes.c_uint32 * 6)())


def read_stat(pid: int | str, proc: int) -> list[bytes]:
    """The fields of /proc/PID/stat after the name, which may hold anything."""
    return read(f"{pid}/stat", proc).rpartition(b")")[2].split()


def touched(place: str) -> Any:
    """What changes when anything is made, removed or altered in a directory."""
    try:
        found = os.stat(place)
    except FileNotFoundError:
        return None
    # the time alone may be that of one tick of a clock, in which an answer came right after us
    return found.st_ctime_ns, found.st_ino, found.st_dev, found.st_mode, found.st_size


def read(path: str, directory: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY, dir_fd=directory)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def write(path: str, text: str, directory: int | None = None) -> None:
    descriptor = os.open(path, os.O_WRONLY, dir_fd=directory)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
