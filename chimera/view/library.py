"""Which runs there are, and what is known of each: counted in the background, kept up to date."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillCounting
from dataclasses import dataclass
from pathlib import Path

from chimera.errors import ChimeraError, UsageError
from chimera.eval.runs import stats
from chimera.eval.runs.files import SUFFIX
from chimera.eval.runs.result import benchmark_of
from chimera.eval.runs.store import Count, RunStore
from chimera.types import JSON
from chimera.view.index import Index
from chimera.view.summary import summarise

#: How long a page waits for a run to be counted; a longer count is shown as it goes on.
PATIENCE = 0.1
#: A run under way is counted again when this many times the time has passed that counting takes.
REST = 10.0

State = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a run now. `summary` may be older than the file, or not there yet."""

    manifest: Mapping[str, JSON]
    summary: Mapping[str, JSON] | None
    fresh: bool
    counted: float  # share of the trials that were read, while they are
    fault: str | None = None


class Run:
    """One run file, under the name that its pages have."""

    def __init__(self, name: str, path: Path, workers: ThreadPoolExecutor) -> None:
        self.name, self.path = name, path
        self._workers, self._lock = workers, threading.Lock()
        self._store: tuple[State, RunStore] | None = None
        self._index: Index | None = None
        self._update: Future[None] | None = None
        self._fault: tuple[State, str] | None = None
        self._benchmark: str | None = None
        self._done, self._last_trial, self._rested_at = 0, 1, 0.0

    @property
    def state(self) -> State:
        """Changes whenever the file does."""
        return tuple(_states(self.path))

    @property
    def store(self) -> RunStore:
        """The run, opened for reading; anew when its file has changed."""
        state = self.state
        with self._lock:
            if self._store is None or self._store[0] != state:
                self._store = (state, RunStore(self.path, lasting=True))
            return self._store[1]

    @property
    def benchmark(self) -> str | None:
        """What it is a run of; None where the file cannot be read."""
        if self._benchmark is None:
            try:
                self._benchmark = benchmark_of(self.store.manifest())
            except ChimeraError:
                return None
        return self._benchmark

    @property
    def index(self) -> Index:
        with self._lock:
            if self._index is None:
                self._index = Index(self.path)
            return self._index

    def known(self, patience: float | None = PATIENCE) -> Known:
        """Everything that is counted; where the file has changed, counting is begun."""
        state = self.state
        if self._fault and self._fault[0] == state:
            return Known({}, None, fresh=False, counted=0.0, fault=self._fault[1])
        try:
            manifest = self.store.manifest()
            fresh = self._is_fresh(state) or self._counted(patience)
            summary = self.index.fact("summary")
        except (ChimeraError, sqlite3.Error, ArithmeticError) as error:
            self._fault = (state, str(error))  # whatever a file holds, it hides no other run
            return Known({}, None, fresh=False, counted=0.0, fault=str(error))
        share = min(1.0, self._done / max(1, self._last_trial))
        return Known(manifest, summary, fresh=fresh, counted=share)

    def _is_fresh(self, state: State) -> bool:
        return bool(self.index.fact("state") == list(state))

    def _counted(self, patience: float | None) -> bool:
        """Whether counting ended in time; a fault of the file is raised."""
        with self._lock:
            if self._update is None and time.monotonic() >= self._rested_at:
                self._update = self._workers.submit(self._count)
            update = self._update
        if update is None:
            return False
        try:
            update.result(patience)
        except StillCounting:
            return False
        finally:
            if update.done():
                self._update = None
        return True

    def _count(self) -> None:
        state, began = self.state, time.monotonic()
        with RunStore(self.path, lasting=True) as store:
            store.check_trials()
            last = next(iter(store.rows(tuple[Count | None], "SELECT max(id) FROM trials")))[0]
            self._done, self._last_trial = 0, last or 1
            self.index.update(store, list(state), summarise, self._told)
        self._rested_at = time.monotonic() + REST * (time.monotonic() - began)

    def _told(self, done: int) -> None:
        self._done = done

    def close(self) -> None:
        """Let go of files; they are opened again when somebody asks."""
        with self._lock:
            self._store = None
            if self._index is not None:
                self._index.close()


class Library:
    """The runs of directories and single files; new ones appear by themselves."""

    def __init__(self, places: Iterable[Path]) -> None:
        self._places = tuple(places)
        self._workers = ThreadPoolExecutor(1, thread_name_prefix="counting")
        self._runs: dict[Path, Run] = {}
        self._lock = threading.Lock()

    def runs(self) -> list[Run]:
        """All runs, the newest name first."""
        with self._lock:
            found = list(dict.fromkeys(self._files()))
            names = {run.name for path, run in self._runs.items() if path in found}
            for path in found:
                if path not in self._runs:
                    self._runs[path] = Run(_name(path, names), path, self._workers)
                    names.add(self._runs[path].name)
            return sorted((self._runs[p] for p in found), key=lambda run: run.name, reverse=True)

    def run(self, name: str) -> Run:
        for run in self.runs():
            if run.name == name:
                return run
        raise UsageError(f"there is no run '{name}' here")

    def _files(self) -> Iterator[Path]:
        for place in self._places:
            if place.is_dir():
                yield from sorted(place.glob(f"*{SUFFIX}"))
            elif place.is_file():
                yield place

    def close(self) -> None:
        self._workers.shutdown(cancel_futures=True)
        for run in self._runs.values():
            run.close()


def _name(path: Path, taken: set[str]) -> str:
    names = [path.stem, *(f"{path.stem}~{number}" for number in range(2, 10_000))]
    return next(name for name in names if name not in taken)


def _states(path: Path) -> Iterator[int]:
    for file in (path, path.with_name(path.name + "-wal")):
        try:
            found = file.stat()
        except FileNotFoundError:
            yield 0
        else:
            yield from (found.st_size, found.st_mtime_ns)


def headline(run: Run, known: Known) -> dict[str, JSON]:
    """A run in a line: who ran what, and what came of it."""
    manifest, summary = known.manifest, known.summary or {}
    total, planned = summary.get("total", 0), manifest.get("planned")
    errored = summary.get("error", 0) + summary.get("submitted", 0)
    not_run = max(0, (planned if planned is not None else total) - total)
    passed = summary.get("passed", 0)
    first, last = summary.get("first"), summary.get("last")
    return {
        "run": run.name,
        "file": str(run.path),
        "benchmark": benchmark_of(manifest),
        "model": _text(manifest.get("model")),
        "agent": _text(manifest.get("agent")),
        "environment": _text(manifest.get("environment")),
        "started": manifest.get("started"),
        "planned": planned,
        "samples": manifest.get("samples", 1),
        "total": total,
        "passed": passed,
        "failed": summary.get("failed", 0),
        "errored": errored,
        "not_run": not_run,
        "pass_rate": passed / total if passed + summary.get("failed", 0) else None,
        "interval": summary.get("interval"),
        "bounds": list(stats.coverage_bounds(passed, total + not_run, errored + not_run)),
        "corrected_pass_rate": summary.get("corrected_rate"),
        "total_cost": summary.get("cost"),
        "usage": summary.get("tokens"),
        "wall": last - first if first and last else None,
        "seconds": summary.get("seconds"),
        "complete": known.fresh,
        "counted": known.counted,
        "fault": known.fault,
    }


def _text(value: JSON) -> str | None:
    return None if value is None else str(value)[:200]
