"""The files of runs: where they are, how they are named, how one is found."""

from __future__ import annotations

import os
import time
from pathlib import Path

from chimera.errors import UsageError

SUFFIX = ".chi"


def runs_dir(configured: str | Path | None = None) -> Path:
    """Where runs are kept: the option, CHIMERA_RUNS_DIR, or ./runs."""
    return Path(configured or os.environ.get("CHIMERA_RUNS_DIR") or "runs")


def new_run_path(directory: Path, benchmark: str, model: str) -> Path:
    """A fresh file name that sorts by time and says what was run."""
    directory.mkdir(parents=True, exist_ok=True)
    label = "-".join(
        "".join(c if c.isalnum() else "-" for c in part).strip("-")[:40].lower()
        for part in (benchmark, model)
        if part
    )
    now = time.time()
    stamp = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{int(now % 1 * 1000):03}"
    for number in range(1000):
        suffix = f"-{number}" if number else ""
        path = directory / f"{stamp}-{label}{suffix}{SUFFIX}"
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            continue
        return path
    raise UsageError(f"{directory}: cannot make a file for the run")


def find_run(name: str, directory: Path) -> Path:
    """A run by path, by name, by the start of its name, or "latest"."""
    direct = Path(name)
    if direct.is_file():
        return direct
    found = sorted(directory.glob(f"*{SUFFIX}"))
    if name == "latest" and found:
        return found[-1]
    matching = [p for p in found if p.stem == name or p.name == name] or [
        p for p in found if p.stem.startswith(name)
    ]
    if len(matching) == 1:
        return matching[0]
    if matching:
        names = ", ".join(p.stem for p in matching[:5])
        raise UsageError(f"'{name}' fits several runs: {names}")
    raise UsageError(f"no run '{name}' in {directory}; `chimera runs list` shows those there are")
