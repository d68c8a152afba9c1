"""Places for stand-ins of services: bubblewraps here, which commands enter by `nsenter`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import sleep

WORKDIR = "/srv/task"
PATH = "/usr/local/bin:/usr/bin:/bin"
FOLDERS = ("etc", "root", "tmp", WORKDIR[1:], "chimera", "var/tmp")


class Box:
    """Processes, files and, where it has none, network of its own."""

    def __init__(self, root: Path, command: Sequence[str], *, network: bool) -> None:
        self.root = root
        for name in FOLDERS:
            (root / name).mkdir(parents=True)
            (root / name).chmod(0o755 if name in ("etc", "root") else 0o1777)
        (root / sys.base_prefix[1:]).mkdir(parents=True, exist_ok=True)
        reader, writer = os.pipe()
        arguments = ["bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--as-pid-1"]
        arguments += [] if network else ["--unshare-net"]
        arguments += ["--bind", str(root), "/", "--ro-bind", "/usr", "/usr"]
        for name in ("bin", "sbin", "lib", "lib64"):
            if Path("/", name).is_symlink():
                arguments += ["--symlink", f"usr/{name}", f"/{name}"]
        for name in ("passwd", "group", "alternatives", "ld.so.cache", "ssl"):
            arguments += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        if not Path(sys.base_prefix).is_relative_to("/usr"):
            arguments += ["--ro-bind", sys.base_prefix, sys.base_prefix]
        arguments += ["--proc", "/proc", "--dev", "/dev", "--clearenv", "--setenv", "PATH", PATH]
        arguments += ["--die-with-parent", "--info-fd", str(writer), "--"]
        self.process = subprocess.Popen(
            [*arguments, *command], pass_fds=[writer], stdin=subprocess.DEVNULL
        )
        os.close(writer)
        with os.fdopen(reader) as told:
            #: The process id, seen from here, of its first process.
            self.first = int(json.load(told)["child-pid"])
        program = Path(f"/proc/{self.first}/comm")
        while program.read_text().strip() == "bwrap":  # it still makes the root
            sleep(0.01)

    def entering(self, command: Sequence[str], becoming: Sequence[str] = ()) -> list[str]:
        """The command line that runs `command` in it."""
        spaces = ["--mount", "--pid", "--net", "--ipc", "--uts"]
        inside = ["env", "-i", f"PATH={PATH}", "HOME=/tmp", "OF_IMAGE=yes", "sh", "-c",
                  'cd "$0" && exec "$@"', WORKDIR, *command]  # fmt: skip
        return ["nsenter", "--target", str(self.first), *spaces, "--", "setpriv", *becoming,
                *inside]  # fmt: skip

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.first, signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.root, ignore_errors=True)


def lacking() -> str | None:
    """What this machine lacks for it."""
    for program in ("bwrap", "nsenter", "setpriv"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    return None if os.geteuid() == 0 else "entering a box's namespaces needs root"
