"""What a run will cost and take, and how sharp its number will be."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from chimera.errors import UsageError
from chimera.eval.runs import stats
from chimera.eval.runs.result import benchmark_of
from chimera.eval.runs.store import Money, RunStore, Seconds, StoredStatus
from chimera.eval.values import TrialRecord
from chimera.types import JSON

#: From this share of its trials on, a run forecasts itself; and never from fewer than so many.
ENOUGH = 0.1
LEAST_TRIALS = 5


class _Trial(NamedTuple):
    status: StoredStatus
    cost: Money | None
    duration: Seconds


@dataclass(frozen=True, slots=True)
class Forecast:
    """The whole run, with what it has behind it; None is not known."""

    cost: float | None
    cost_range: stats.Interval | None  # 19 times out of 20, if the rest is like what was seen
    seconds: float | None
    width: float  # half of the interval of the pass rate, at the most
    basis: str

    @property
    def text(self) -> str:
        parts = []
        if self.cost is not None:
            low, high = self.cost_range or (self.cost, self.cost)
            spread = f" ({_money(low)} to {_money(high)})" if high - low > 0.05 * self.cost else ""
            parts.append(f"cost {_money(self.cost)}{spread}")
        else:
            parts.append("cost unknown")
        parts.append(f"time {_clock(self.seconds)}" if self.seconds is not None else "time unknown")
        parts.append(f"pass rate within ±{self.width:.1%}")
        return f"{', '.join(parts)}; {self.basis}"


class Tally:
    """Trials seen so far, as sums."""

    def __init__(self) -> None:
        self.trials = self.passed = self.judged = self.priced = 0
        self.seconds = self.cost = self._squares = 0.0

    def add(self, status: str, cost: float | None, seconds: float) -> None:
        self.trials += 1
        self.passed += status == "passed"
        self.judged += status in ("passed", "failed")
        self.seconds += seconds
        if cost is not None:
            self.priced += 1
            self.cost += cost
            self._squares += cost * cost

    def cost_of(self, trials: int) -> tuple[float, float] | None:
        """What so many further trials will cost, and the standard error of that."""
        if self.priced < self.trials or not self.trials:
            return None
        mean = self.cost / self.trials
        variance = max(0.0, self._squares / self.trials - mean * mean)
        variance *= self.trials / max(1, self.trials - 1)
        return trials * mean, math.sqrt(variance * (trials + trials * trials / self.trials))

    def width(self, tasks: int) -> float:
        """Half of Wilson's interval of so many tasks at the rate so far; the widest if none."""
        rate = self.passed / self.judged if self.judged else 0.5
        low, high = stats.wilson(rate * tasks, tasks)
        return (high - low) / 2


def forecast_before(
    like: Tally | None, *, trials: int, tasks: int, at_once: int, basis: str
) -> Forecast:
    """Before a run: from the trials of a like one, if there is any."""
    seen = like or Tally()
    if not seen.trials:
        return Forecast(None, None, None, seen.width(tasks), "no earlier run to go by")
    cost = seen.cost_of(trials)
    seconds = seen.seconds / seen.trials * trials / max(1, min(at_once, trials))
    return _forecast(seen, cost, 0.0, seconds, tasks, basis)


def _forecast(
    seen: Tally,
    ahead: tuple[float, float] | None,
    spent: float,
    seconds: float,
    tasks: int,
    basis: str,
) -> Forecast:
    if ahead is None:
        return Forecast(None, None, seconds, seen.width(tasks), basis)
    cost, error = ahead
    low, high = max(0.0, cost - 1.96 * error), cost + 1.96 * error
    return Forecast(spent + cost, (spent + low, spent + high), seconds, seen.width(tasks), basis)


class RunningForecast:
    """A run's forecast of itself, once a tenth of the trials of this sitting are done."""

    def __init__(self, samples: int = 1) -> None:
        self._seen, self._samples = Tally(), samples
        self._total = self._here = 0
        self._began = time.monotonic()
        self._told = False

    def planned(self, total: int, done: int) -> None:
        self._total, self._here = total, total - done
        self._began = time.monotonic()

    def finished(self, record: TrialRecord) -> Forecast | None:
        """The forecast at the first trial after which there is one."""
        self._seen.add(record.status, record.cost, record.duration)
        if self._told or (found := self.now()) is None:
            return None
        self._told = True
        return found

    def now(self) -> Forecast | None:
        """What is to be expected of the trials of this sitting."""
        seen = self._seen.trials
        if seen < max(LEAST_TRIALS, ENOUGH * self._here) or not self._seen.judged:
            return None
        seconds = (time.monotonic() - self._began) / seen * self._here
        ahead = self._seen.cost_of(max(0, self._here - seen))
        tasks = max(1, self._total // self._samples)
        basis = f"by {seen} of {self._here} trials"
        return _forecast(self._seen, ahead, self._seen.cost, seconds, tasks, basis)


def tally_of(store: RunStore) -> Tally:
    """All trials of a stored run."""
    tally = Tally()
    query = "SELECT status, cost, duration FROM trials"
    for trial in store.rows(_Trial, query):
        tally.add(trial.status, trial.cost, trial.duration)
    return tally


def newest_like(
    paths: Iterable[Path], *, benchmark: str, model: str | None, agent: str
) -> tuple[str, Tally] | None:
    """The newest run of that benchmark, model and agent that has trials, and these."""
    for path in sorted(paths, reverse=True):
        try:
            with RunStore(path) as store:
                manifest = store.manifest()
                if _names(manifest) == (benchmark, model, agent):
                    tally = tally_of(store)
                    if tally.trials:
                        return path.stem, tally
        except UsageError:
            continue  # what is no run is none to go by
    return None


def _names(manifest: dict[str, JSON]) -> tuple[str, JSON, JSON]:
    return benchmark_of(manifest), manifest.get("model"), manifest.get("agent")


def _money(amount: float) -> str:
    return f"${amount:.2f}" if amount >= 1 else f"${amount:.4f}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
