"""Whether hostile answers left anything on the host: processes, files, mounts."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from chimera.eval.proof.attack.actions import MARKER
from chimera.sandbox.launch import OWNER


def own_processes() -> set[int]:
    """Processes in sandboxes that this process started, by the mark in their environment."""
    mark = f"{OWNER}={os.getpid()}".encode()
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                variables = (entry / "environ").read_bytes()
            except OSError:  # ended, or another user's
                continue
            if mark in variables.split(b"\0"):
                found.add(int(entry.name))
    return found


def processes_left() -> set[int]:
    """`own_processes` after the moment that the kernel takes to clear a namespace away."""
    for _ in range(50):
        if not own_processes():
            break
        time.sleep(0.1)
    return own_processes()


def marked_files() -> set[str]:
    """Files that attacks tried to leave, in the places they try."""
    places = {"/", "/usr", "/usr/lib", "/etc", "/var/tmp", "/home", "/root", "/dev", "/dev/shm"}
    places |= {"/opt", "/srv", "/tmp", tempfile.gettempdir(), str(Path.home()), str(Path.cwd())}
    places |= {str(Path(os.__file__).parent), str(Path.cwd().parent)}
    return {
        str(path)
        for place in places
        for path in (Path(place) / MARKER, Path(place) / "sitecustomize.py")
        if os.path.lexists(path)
    }


def scratch_directories() -> set[str]:
    """Scratch directories of sandboxes without namespaces."""
    return {path.name for path in Path(tempfile.gettempdir()).glob("chimera-answer-*")}


def mounts() -> set[str]:
    return set(Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines())


class HostWatch:
    """Remembers how the host was; `traces()` says what is new."""

    def __init__(self) -> None:
        self.files = marked_files()
        self.mounts = mounts()
        self.secret = f"secret-{os.urandom(8).hex()}"

    def traces(self) -> list[str]:
        """What was left behind, once every sandbox of this process is closed."""
        left = [f"process {pid}" for pid in sorted(processes_left())]
        left += [f"file {path}" for path in sorted(marked_files() - self.files)]
        left += [f"mount {line}" for line in sorted(mounts() - self.mounts) if "chimera" in line]
        return left
