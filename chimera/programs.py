"""Programs of this machine: one that is there and does not run is missing."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache

#: How programs are asked for a sign of life, where it is not `--version`.
_QUESTIONS = {"go": "version", "tmux": "-V"}
PATIENCE_SECONDS = 30.0


@cache
def usable(program: str) -> str | None:
    """The path of a program that answers when it is asked for its version, or None.

    A proxy that a version manager left on the PATH and that has no toolchain to start is none.
    """
    path = shutil.which(program)
    if path is None:
        return None
    question = _QUESTIONS.get(program, "--version")
    try:
        done = subprocess.run(
            [path, question], capture_output=True, timeout=PATIENCE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return path if done.returncode == 0 else None
