"""The program bubblewrap: where it is, whether it can make namespaces here, its first options."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache

from chimera.errors import EnvironmentFault

NAMESPACES = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
PROBE_SECONDS = 120


def bwrap(*options: str, network: bool = False) -> list[str]:
    """A bwrap command line so far: namespaces of its own, and no way to this terminal."""
    alone = () if network else ("--unshare-net",)
    return [shutil.which("bwrap") or "bwrap", *NAMESPACES, *alone, "--new-session", *options]


@cache
def privileged() -> bool:
    """Whether root can do without a user namespace: then the agent is another user outside too,
    to whom nothing of root's belongs."""
    return os.geteuid() == 0 and _refused() is None


@cache
def namespaces_refused() -> str | None:
    """None when namespaces can be made here, else what stands in the way and what to do."""
    if sys.platform != "linux":
        return f"namespaces are a feature of Linux, and this is {sys.platform}"
    if shutil.which("bwrap") is None:
        return "the program 'bwrap' is missing: apt install bubblewrap (or dnf, pacman, apk)"
    return None if privileged() else _refused("--unshare-user")


def _refused(*options: str) -> str | None:
    mounts = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    command = bwrap(*options, *mounts, "true")
    try:
        tried = subprocess.run(command, capture_output=True, timeout=PROBE_SECONDS, check=False)
    except subprocess.TimeoutExpired:  # no reason to run anything with less confinement
        raise EnvironmentFault("bubblewrap did not start in time", retryable=True) from None
    except OSError as error:
        return f"bwrap cannot be run: {error}"
    if tried.returncode == 0:
        return None
    said = tried.stderr.decode("utf-8", "replace").strip()
    return f"bwrap cannot make namespaces here ({said}): sysctl kernel.unprivileged_userns_clone=1"
