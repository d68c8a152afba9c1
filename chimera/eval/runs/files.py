"""The files of runs: where they are, how they are named, how one is found."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from chimera.errors import StoreError, UsageError
from chimera.eval.runs.lock import held
from chimera.eval.runs.store import RunStore
from chimera.text import did_you_mean

SUFFIX = ".chi"
#: Bytes of a disk that are left for the trials under way when a run stops because it gets full.
LEAST_ROOM = 16 * 1024**2


def runs_dir(configured: str | Path | None = None) -> Path:
    """Where runs are kept: the option, CHIMERA_RUNS_DIR, or ./runs."""
    return Path(configured or os.environ.get("CHIMERA_RUNS_DIR") or "runs")


def no_room_for(run: Path | str) -> str | None:
    """Why a run cannot be written any longer although its disk is not yet full; None if it can."""
    if str(run) == ":memory:":
        return None
    folder = Path(run).parent
    disk = shutil.disk_usage(folder)
    if not disk.total or disk.free >= LEAST_ROOM:
        return None
    left = f"{disk.free / 1e6:.1f} MB are left"
    return f"the disk of {folder} is full: {left}, {LEAST_ROOM / 1e6:.0f} MB are needed"


def new_run_path(directory: Path, benchmark: str, model: str) -> Path:
    """A fresh file name that sorts by time and says what was run."""
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
            directory.mkdir(parents=True, exist_ok=True)
            path.touch(exist_ok=False)
        except FileExistsError:
            if not directory.is_dir():
                raise StoreError(f"runs cannot be kept in {directory}: it is a file") from None
            continue
        except OSError as error:
            raise StoreError(
                f"runs cannot be kept in {directory}: {error.strerror}\n"
                "  Choose another directory with --runs-dir or CHIMERA_RUNS_DIR."
            ) from None
        return path
    raise StoreError(f"{directory}: cannot make a file for the run")


def remove_run(path: Path) -> None:
    """Remove a run's file with what lies beside it, unless it is being run."""
    with held(path):
        for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
            file.unlink(missing_ok=True)


def discard_if_empty(store: RunStore) -> None:
    """Close a run, and remove it if it came to nothing: no trial stored and nothing spent."""
    empty = store.is_new() and not store.spent()
    store.close()
    if empty and str(store.path) != ":memory:":
        remove_run(Path(store.path))


def run_files(directory: Path) -> list[Path]:
    """The runs of a directory, oldest first; a file without content is none."""
    return sorted(p for p in directory.glob(f"*{SUFFIX}") if p.is_file() and p.stat().st_size)


def find_run(name: str, directory: Path) -> Path:
    """A run by path, by name, by the start of its name, or "latest"."""
    direct = Path(name)
    if direct.is_file():
        return direct
    found = run_files(directory)
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
    near = did_you_mean(name, ["latest", *(p.stem for p in found)]) if name != "latest" else ""
    raise UsageError(
        f"no run '{name}' in {directory}{near}\n  `chimera runs list` shows those there are"
    )
