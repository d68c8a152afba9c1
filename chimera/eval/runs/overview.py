"""Runs by what they came to: the rows of lists, and models × benchmarks as a table."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from chimera.errors import UsageError
from chimera.eval.runs import stats
from chimera.eval.runs.comparison import basis_of
from chimera.eval.runs.result import EvalResult
from chimera.eval.runs.store import RunStore
from chimera.eval.values import content_digest
from chimera.types import JSON


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in a list; `rate` is over all its trials, one without a verdict as not passed, and None
    where none has one."""

    run: str
    benchmark: str
    model: str | None
    agent: str | None
    started: float
    passed: int
    failed: int
    errored: int
    not_run: int
    planned: int
    rate: float | None
    interval: stats.Interval | None
    bounds: stats.Interval
    cost: float | None
    #: What must be the same for rates to be comparable: tasks, data set, grader, options.
    basis: str = ""

    @classmethod
    def of(cls, store: RunStore) -> RunSummary:
        result, manifest = EvalResult.of(store), store.manifest()
        model, agent = manifest.get("model"), manifest.get("agent")
        return cls(
            run=Path(store.path).stem,
            benchmark=result.benchmark,
            model=None if model is None else str(model),
            agent=None if agent is None else str(agent),
            started=manifest.get("started", 0.0),
            passed=result.passed,
            failed=result.failed,
            errored=result.errored,
            not_run=result.not_run,
            planned=result.planned,
            rate=result.pass_rate,
            interval=result.outer_interval,
            bounds=result.bounds,
            cost=result.total_cost,
            basis=_basis(store, manifest),
        )

    @property
    def who(self) -> str:
        """The model, with the agent where that is not the plain one."""
        if self.model is None:
            return self.agent or "?"
        plain = self.agent in (None, "direct")
        return self.model if plain else f"{self.model} ({self.agent})"


def _basis(store: RunStore, manifest: Mapping[str, JSON]) -> str:
    """A digest of what the run was judged by and of its tasks, without a list of these."""
    total = hashlib.sha256(content_digest(basis_of(manifest)).encode())
    for (task_id,) in store.rows(
        tuple[str], "SELECT DISTINCT task_id FROM trials ORDER BY task_id"
    ):
        total.update(msgspec.json.encode(task_id))  # whose end is known by its quote
    return total.hexdigest()


def read_summaries(paths: Iterable[Path]) -> Iterator[RunSummary | UsageError]:
    """The runs at these paths; in the place of one that cannot be read, why."""
    for path in paths:
        try:
            with RunStore(path) as store:
                yield RunSummary.of(store)
        except UsageError as error:
            yield error


def chosen(
    runs: Iterable[RunSummary],
    *,
    benchmark: str = "*",
    model: str = "*",
    agent: str = "*",
    since: str | None = None,
    errors: bool = False,
) -> list[RunSummary]:
    """The runs whose names fit the globs, that began on the day `since` or later, with errors."""
    first = _day(since) if since is not None else 0.0
    return [
        run
        for run in runs
        if fnmatchcase(run.benchmark, benchmark)
        and fnmatchcase(run.model or "", model)
        and fnmatchcase(run.agent or "", agent)
        and run.started >= first
        and (not errors or run.errored or run.not_run)
    ]


def _day(text: str) -> float:
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%d"))
    except (ValueError, OverflowError):
        raise UsageError(f"--since {text}: expected a day, as in 2026-11-16") from None


@dataclass(frozen=True, slots=True)
class Table:
    """Models by benchmarks; of several runs of one cell, the newest."""

    benchmarks: tuple[str, ...]
    rows: tuple[tuple[str, tuple[RunSummary | None, ...]], ...]
    #: Runs that were not judged as the first one of their column was.
    unlike: tuple[str, ...] = ()
    #: Runs that a newer one stands for.
    older: tuple[str, ...] = ()


def table_of(runs: Sequence[RunSummary]) -> Table:
    """The best of the first column first; who has no run there comes last."""
    cells: dict[tuple[str, str], RunSummary] = {}
    for run in sorted(runs, key=lambda run: run.started):
        cells[run.who, run.benchmark] = run
    benchmarks = tuple(dict.fromkeys(run.benchmark for run in runs))
    people = list(dict.fromkeys(run.who for run in runs))
    rows = [(who, tuple(cells.get((who, name)) for name in benchmarks)) for who in people]
    rows.sort(key=lambda row: [-(run.rate or 0.0) if run else 1.0 for run in row[1]])
    first: dict[str, str] = {}
    unlike = [
        run.run
        for _, runs_of_one in rows
        for run in runs_of_one
        if run is not None and first.setdefault(run.benchmark, run.basis) != run.basis
    ]
    shown = set(map(id, cells.values()))
    older = [run.run for run in runs if id(run) not in shown]
    return Table(benchmarks, tuple(rows), tuple(unlike), tuple(older))
