"""The program that runs inside a local or bubblewrap environment and serves the host.

It is one small single-threaded process, started with no third-party module, so that a command costs
a fork and an exec. The host talks to it over a socket that only it holds; each request brings a
socket of its own and is served by a fork of this process:

    R  run a command with the three streams that come along; the fork is its keeper
    F  open, write, list, pack or unpack files; open ones go back over the socket, to be read
    K  end every process that was started here (answered by the server itself)

A keeper is the "subreaper" of its command: what the command leaves behind stays below it, so a
time-out finds all of it. In a PID namespace the server is process 1, which nobody inside can kill,
stop or trace; when the host goes away, so does the server and with it everything else.
"""

# ruff: noqa: PTH112, PTH118, PTH123, PTH208
# pathlib would double what this process weighs.
from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import json
import os
import resource
import select
import signal
import socket
import stat
import sys
from typing import Any

PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
MAX_LISTED = 200_000
KILL_PASSES = 60


def prctl(option: int, value: int) -> None:
    """Linux only; elsewhere the promise it would make is not made."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def receive(channel: socket.socket, size: int = 1) -> tuple[bytes, list[int]]:
    """Bytes with the file descriptors that came along."""
    room = socket.CMSG_SPACE(8 * array.array("i").itemsize)
    data, ancillary, _, _ = channel.recvmsg(size, room)
    descriptors = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            whole = len(content) - len(content) % descriptors.itemsize
            descriptors.frombytes(content[:whole])
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return data, list(descriptors)


def receive_line(channel: socket.socket) -> dict[str, Any]:
    """The request's JSON, which ends with a newline."""
    parts: list[bytes] = []
    while not parts or not parts[-1].endswith(b"\n"):
        part = channel.recv(65536)
        if not part:
            raise EOFError
        parts.append(part)
    message: dict[str, Any] = json.loads(b"".join(parts))
    return message


def answer(channel: socket.socket, message: dict[str, Any], *descriptors: int) -> None:
    data = json.dumps(message).encode() + b"\n"
    if descriptors:
        sent = channel.sendmsg(
            [data],
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors).tobytes())],
        )
        data = data[sent:]
    if data:
        channel.sendall(data)


# --- processes -----------------------------------------------------------------------------------


def descendants(root: int) -> list[int]:
    """Every living process below `root`, by the table of processes."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except OSError:
            continue
        if state not in b"ZX":
            children.setdefault(int(parent), []).append(int(entry))
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def reap() -> dict[int, int]:
    """Collect children that ended: process → exit code, as shells count them."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        code = os.waitstatus_to_exitcode(status)
        ended[pid] = code if code >= 0 else 128 - code


def kill_descendants() -> tuple[bool, dict[int, int]]:
    """End everything below this process; False when it kept coming faster than it went."""
    ended: dict[int, int] = {}
    for _ in range(KILL_PASSES):
        try:
            alive = descendants(os.getpid())
        except OSError:  # no /proc: the callers' process groups are all there is
            return False, ended
        if not alive:
            ended.update(reap())
            return True, ended
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        select.select([], [], [], 0.002)
        ended.update(reap())
    return False, ended


def kill_everything() -> bool:
    """End all processes of this environment but the server itself."""
    if os.getpid() == 1:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)  # in a PID namespace: one stroke, no fork slips through
        return kill_descendants()[0]
    return kill_descendants()[0]


def spawn(job: dict[str, Any], streams: list[int]) -> int:
    """Start the command in a session of its own; its process id."""
    os.chdir(job["cwd"])
    command, variables = job["command"], job["variables"]
    if isinstance(command, str):
        shell = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"
        command = [shell, "-c", command]
    return os.posix_spawn(
        found(command[0], variables.get("PATH", os.defpath)),
        command,
        variables,
        file_actions=[(os.POSIX_SPAWN_DUP2, stream, n) for n, stream in enumerate(streams)],
        setsid=True,
        setsigdef=(signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD, signal.SIGXFSZ),
    )


def found(program: str, search: str) -> str:
    """Where a program is, as a shell would find it."""
    if "/" not in program:
        for directory in search.split(":"):
            path = os.path.join(directory or ".", program)
            if os.access(path, os.X_OK) and not os.path.isdir(path):
                return path
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    return program


def wakeup_pipe() -> int:
    """A descriptor that becomes readable whenever a child ends."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def keep(channel: socket.socket, streams: list[int]) -> None:
    """Run one command, pass on the host's signals, report its end, then drain what it left."""
    job = receive_line(channel)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    ended_pipe = wakeup_pipe()
    try:
        command = spawn(job, streams)
    except OSError as error:
        command = None
        said = f"cannot start the command: {error.filename}: {error.strerror}\n"
        os.write(streams[2], said.encode())
    for stream in streams:
        os.close(stream)
    code = 127 if command is None else watch(channel, ended_pipe, command)
    if code is None:
        kill_descendants()
        return
    with contextlib.suppress(OSError):
        answer(channel, {"exit": code})
        _, leftovers = receive(channel)
        channel.close()
        drain(leftovers)


def watch(channel: socket.socket, ended_pipe: int, command: int) -> int | None:
    """The exit code of `command`; None when the host went away before."""
    orders = channel.fileno()
    while True:
        ready, _, _ = select.select([orders, ended_pipe], [], [])
        if ended_pipe in ready:
            os.read(ended_pipe, 4096)
            ended = reap()
            if command in ended:
                return ended[command]
        if orders in ready:
            order = channel.recv(2)
            if not order:
                return None
            if order[0:1] == b"K":
                gone, ended = kill_descendants()
                return ended.get(command, 137) if gone else None
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(command, order[1])


def drain(pipes: list[int]) -> None:
    """Read and forget what background processes still write, so that they do not break on it."""
    while pipes:
        for pipe in select.select(pipes, [], [])[0]:
            if not os.read(pipe, 65536):
                pipes.remove(pipe)


# --- files ---------------------------------------------------------------------------------------


def enter(root: str, path: str, create: bool = False) -> tuple[int, str]:
    """An open directory and a name in it that together are `path`, links resolved below `root`.

    Every part is opened relative to its directory without following links, so a link put in place
    meanwhile is seen, whatever it was a moment ago; one that leads out of the root is refused.
    """
    parts = relative_parts(root, path)
    trail = [os.open(root, os.O_RDONLY | os.O_DIRECTORY)]
    links = 0
    try:
        while parts:
            part = parts.pop(0)
            if part == "..":
                if len(trail) == 1 and root != "/":
                    raise PermissionError(errno.EACCES, "leads out of the environment", path)
                if len(trail) > 1:
                    os.close(trail.pop())
                continue
            target = link_target(part, trail[-1])
            if target is not None:
                links += 1
                if links > 40:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                if target.startswith("/"):
                    while len(trail) > 1:
                        os.close(trail.pop())
                parts = relative_parts(root, target) + parts
            elif parts:
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=trail[-1])
                trail.append(os.open(part, DIRECTORY, dir_fd=trail[-1]))
            else:
                return trail.pop(), part
        return trail.pop(), "."
    finally:
        for directory in trail:
            os.close(directory)


def link_target(name: str, directory: int) -> str | None:
    """Where a link leads; None for what is no link, or not there: opening it tells."""
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError:
        return None


def relative_parts(root: str, path: str) -> list[str]:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not path.startswith("/"):
        return parts
    above = [part for part in root.split("/") if part]
    if parts[: len(above)] != above:
        raise PermissionError(errno.EACCES, "leads out of the environment", path)
    return parts[len(above) :]


def open_scoped(root: str, path: str, flags: int, mode: int = 0o666) -> int:
    directory, name = enter(root, path, bool(flags & os.O_CREAT))
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=directory)
    finally:
        os.close(directory)


def open_directory(root: str, path: str) -> int:
    """A directory, which is made when it is not there."""
    directory, name = enter(root, path, True)
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=directory)
        return os.open(name, DIRECTORY, dir_fd=directory)
    finally:
        os.close(directory)


def open_file(root: str, path: str, flags: int) -> int:
    """A descriptor of a regular file: nothing that could block or talk back."""
    descriptor = open_scoped(root, path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(kind):
        raise PermissionError(errno.EACCES, "is not a regular file", path)
    os.set_blocking(descriptor, True)
    return descriptor


def listed(top: str) -> list[str]:
    """Regular files below `top`; links are neither followed nor listed."""
    found: list[str] = []
    queue = [""]
    while queue:
        below = queue.pop()
        try:
            entries = list(os.scandir(os.path.join(top, below)))
        except PermissionError:
            continue
        for entry in entries:
            name = below + entry.name
            if entry.is_dir(follow_symlinks=False):
                queue.append(name + "/")
            elif entry.is_file(follow_symlinks=False):
                found.append(name)
        if len(found) > MAX_LISTED:
            raise OSError(errno.E2BIG, f"more than {MAX_LISTED} files", top)
    return sorted(found)


def serve_files(channel: socket.socket, descriptors: list[int]) -> None:
    job = receive_line(channel)
    root, path = job["root"], os.path.join(job["workdir"], job["path"])
    try:
        if job["do"] == "read":
            answer(channel, {}, open_file(root, path, os.O_RDONLY))
        elif job["do"] == "write":
            write(root, path, descriptors[0], job["mode"])
            answer(channel, {})
        elif job["do"] == "list":
            answer(channel, {"files": listed(path)})
        elif job["do"] == "pack":
            pack(root, path, descriptors[0])
            answer(channel, {})
        elif job["do"] == "unpack":
            unpack(root, path, descriptors[0])
            answer(channel, {})
    except OSError as error:
        number = error.errno or errno.EIO
        answer(channel, {"errno": number, "error": error.strerror or str(error)})


def write(root: str, path: str, source: int, mode: int | None) -> None:
    """Write what comes. Nobody else holds the file meanwhile: it could not be run until closed."""
    target = open_file(root, path, NEW)
    while data := memoryview(os.read(source, 1 << 16)):
        while data:
            data = data[os.write(target, data) :]
    if mode is not None:
        os.fchmod(target, mode & 0o777)
    os.close(target)


def pack(root: str, path: str, target: int) -> None:
    """Write a tar archive of a file or directory; links go in as links."""
    import tarfile

    head, _, tail = path.rstrip("/").rpartition("/")
    directory = open_scoped(root, head or "/", DIRECTORY)
    source = f"/proc/self/fd/{directory}/{tail or '.'}"
    os.lstat(source)
    with os.fdopen(target, "wb") as file, tarfile.open(fileobj=file, mode="w|") as archive:
        archive.add(source, arcname="content")


def unpack(root: str, path: str, source: int) -> None:
    """Unpack the host's archive of files, directories and links below a directory."""
    import shutil
    import tarfile

    os.close(open_directory(root, path))
    with os.fdopen(source, "rb") as file, tarfile.open(fileobj=file, mode="r|") as archive:
        for member in archive:
            place = f"{path}/{member.name}"
            if member.isdir():
                os.close(open_directory(root, place))
            elif member.issym():
                make_link(root, place, member.linkname)
            elif member.isreg() or member.islnk():
                if member.isreg():
                    content = archive.extractfile(member)
                else:
                    content = os.fdopen(
                        open_file(root, f"{path}/{member.linkname}", os.O_RDONLY), "rb"
                    )
                with os.fdopen(open_file(root, place, NEW), "wb") as target:
                    if content is not None:
                        shutil.copyfileobj(content, target)
                        content.close()
                    os.fchmod(target.fileno(), member.mode & 0o777)
                    os.utime(target.fileno(), (member.mtime, member.mtime))


def make_link(root: str, path: str, linkname: str) -> None:
    head, _, tail = path.rpartition("/")
    directory = open_directory(root, head)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(tail, dir_fd=directory)
    os.symlink(linkname, tail, dir_fd=directory)
    os.close(directory)


# --- the server ----------------------------------------------------------------------------------


def limit(kind: int, bound: int | None) -> None:
    if bound is not None:
        hard = resource.getrlimit(kind)[1]
        bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(kind, (bound, bound))


def serve(control: socket.socket) -> None:
    ended_pipe = wakeup_pipe()
    while True:
        ready, _, _ = select.select([control.fileno(), ended_pipe], [], [])
        if ended_pipe in ready:
            os.read(ended_pipe, 4096)
            reap()
        if control.fileno() not in ready:
            continue
        order, descriptors = receive(control)
        if not order:
            return
        with socket.socket(fileno=descriptors.pop(0)) as channel:
            if order == b"K":
                answer(channel, {"gone": kill_everything()})
            elif os.fork() == 0:
                control.close()
                os.close(ended_pipe)
                with contextlib.suppress(BrokenPipeError, ConnectionError, EOFError):
                    (keep if order == b"R" else serve_files)(channel, descriptors)
                os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


def become_user(user: int, directories: list[str]) -> None:
    """From root to somebody who owns `directories` and nothing else."""
    for directory in directories:
        os.chown(directory, user, user)
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)


def main() -> None:
    settings = json.loads(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(0o022)
    if settings["become"] is not None:
        become_user(*settings["become"])
    prctl(PR_SET_DUMPABLE, 0)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, settings["file_bytes"])
    limit(resource.RLIMIT_DATA, settings["data_bytes"])
    limit(resource.RLIMIT_NPROC, settings["processes"])
    control = socket.socket(fileno=settings["control"])
    os.set_inheritable(control.fileno(), False)
    control.sendall(b"!")  # with it the kernel tells the host this process's id
    if control.recv(1):  # the host has set the limits that are set from outside
        serve(control)
    kill_everything()


if __name__ == "__main__":
    main()
