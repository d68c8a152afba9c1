"""What a run came to: counts, rates and the results themselves, read from the run store."""

from __future__ import annotations

import html
import importlib
import math
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from chimera.errors import UsageError
from chimera.eval.filed import Coded, Counts
from chimera.eval.runs import stats
from chimera.eval.runs.store import Count, Money, RunStore, Seconds, StoredStatus
from chimera.eval.values import ControlStatus, Status, TrialControls, TrialRecord
from chimera.text import first_line
from chimera.types import JSON, Usage

#: Where a list is to stand in a JSON text: no text of a run is this one.
LISTED = secrets.token_hex(16)
#: How many trials a notebook is shown at once.
SHOWN_TRIALS = 20


class _Costs(NamedTuple):
    status: StoredStatus
    cost: Money | None
    input_tokens: Count
    output_tokens: Count
    cached_tokens: Count
    positive: ControlStatus | None
    negative: ControlStatus | None

    @property
    def uncontrolled(self) -> bool:
        needed = {"passed": self.negative, "failed": self.positive}
        return self.status in needed and needed[self.status] in (None, "none", "off")


@dataclass(frozen=True, slots=True)
class TaskEvalResult:
    """One trial, as users' code reads it."""

    task_id: str
    sample: int
    status: Status
    passed: bool
    score: float
    why: str
    output: str
    cost: float | None
    input_tokens: int
    output_tokens: int
    steps: int
    duration: float
    metrics: dict[str, JSON]
    uninformative: bool = False
    uncontrolled: bool = False
    control: TrialControls | None = None

    @classmethod
    def of(cls, record: TrialRecord) -> TaskEvalResult:
        verdict = record.verdict
        return cls(
            task_id=record.task_id,
            sample=record.sample,
            status=record.status,
            passed=record.passed,
            score=verdict.value if verdict else 0.0,
            why=record.why,
            output=record.output,
            cost=record.cost,
            input_tokens=record.usage.input_tokens,
            output_tokens=record.usage.output_tokens,
            steps=record.steps,
            duration=round(record.duration, 6),
            metrics=dict(verdict.metrics) if verdict else {},
            uninformative=record.uninformative,
            uncontrolled=record.uncontrolled,
            control=record.control,
        )


@dataclass(frozen=True, slots=True)
class EvalResult:
    """Counts of a run; `results` and everything per task are read from the store when asked for.

    `pass_rate` is passed / total, so that an error never raises it; the interval is over verdicts,
    and the outer one has room for what the others could have been. Without a verdict there is
    neither. `spent` is what the run paid, with what was paid for trials
    that were killed, of which nothing else is stored.
    """

    benchmark: str
    total: int
    passed: int
    failed: int
    errored: int
    planned: int
    total_cost: float | None
    usage: Usage
    spent: float
    interval: stats.Interval | None
    stopped: str | None
    store: RunStore
    #: Passes that an agent which does nothing gets too, and trials of the tasks where it does.
    uninformative: int = 0
    rewarding_nothing: int = 0
    #: Verdicts that no known answer stands behind.
    uncontrolled: int = 0
    #: From where the interval begins if all trials without a verdict failed to where it ends if all
    #: passed: the one to be shown beside `pass_rate`.
    outer_interval: stats.Interval | None = None
    #: The least and the most trials that a task has, and the rate with each task counted the same.
    trials_a_task: tuple[int, int] = (0, 0)
    task_rate: float | None = None

    @classmethod
    def of(
        cls,
        store: RunStore,
        *,
        benchmark: str | None = None,
        planned: int | None = None,
        stopped: str | None = None,
    ) -> EvalResult:
        query = (
            "SELECT status, cost, input_tokens, output_tokens, cached_tokens, positive, negative "
            f"FROM {store.trials_with_grounds}"
        )
        counts: Counter[str] = Counter()
        rewarded: Counter[str] = Counter()
        read = written = cached = 0
        cost, unknown = 0.0, False
        for trial in store.rows(_Costs, query):
            counts[trial.status] += 1
            counts["uncontrolled"] += trial.uncontrolled
            rewarded[trial.status] += trial.negative == "passed"
            read, written = read + trial.input_tokens, written + trial.output_tokens
            cached += trial.cached_tokens
            cost, unknown = cost + (trial.cost or 0.0), unknown or trial.cost is None
        usage = Usage(read, written, cached, *store.tokens_apart())
        uncontrolled = counts.pop("uncontrolled", 0)
        total = counts.total()
        manifest = store.manifest()
        counted = Coded.of((trials, passed, none) for _, trials, passed, none in _by_task(store))
        interval, outer_interval = _intervals(counted)
        sizes = [trials for trials, _, _ in counted.values] or [0]
        return cls(
            benchmark=benchmark or benchmark_of(manifest),
            total=total,
            passed=counts["passed"],
            failed=counts["failed"],
            errored=counts["error"] + counts["submitted"],
            planned=planned if planned is not None else manifest.get("planned", total),
            total_cost=None if unknown else cost,
            usage=usage,
            spent=store.spent(),
            interval=interval,
            outer_interval=outer_interval,
            trials_a_task=(min(sizes), max(sizes)),
            task_rate=_mean_rate(counted) if interval else None,
            uninformative=rewarded["passed"],
            rewarding_nothing=rewarded.total(),
            uncontrolled=uncontrolled,
            stopped=stopped,
            store=store,
        )

    @property
    def pass_rate(self) -> float | None:
        return self.passed / self.total if self.judged else None

    @property
    def uneven(self) -> bool:
        """Whether tasks have different numbers of trials: `pass_rate` is then that of the tasks
        which were tried most, and `task_rate` that of the run."""
        return self.trials_a_task[0] != self.trials_a_task[1]

    @property
    def unanswered(self) -> int:
        """Tasks that a prediction file has no answer to."""
        return int(self.store.manifest().get("unanswered") or 0)

    @property
    def judged(self) -> int:
        """Trials that have a verdict."""
        return self.passed + self.failed

    @property
    def informative_pass_rate(self) -> float | None:
        """The rate over the trials of tasks that want something done; None where all do."""
        left = self.total - self.rewarding_nothing
        return (
            (self.passed - self.uninformative) / left if self.rewarding_nothing and left else None
        )

    @property
    def inexact(self) -> int:
        """Verdicts on files that are not known to be the base commit's."""
        return sum(bool(metrics.get("inexact")) for _, metrics in self._metrics("inexact"))

    @property
    def timed(self) -> int:
        """Fails that the speed of a machine may have decided."""
        return sum(bool(metrics.get("timed")) for _, metrics in self._metrics("timed"))

    @property
    def not_run(self) -> int:
        return max(0, self.planned - self.total)

    @property
    def bounds(self) -> stats.Interval:
        """The pass rate if all trials without a verdict failed, and if all of them passed."""
        return stats.coverage_bounds(
            self.passed, self.total + self.not_run, self.errored + self.not_run
        )

    @property
    def results(self) -> list[TaskEvalResult]:
        return list(self.iter_results())

    def iter_results(self) -> Iterator[TaskEvalResult]:
        return (TaskEvalResult.of(record) for record in self.store.records())

    def __iter__(self) -> Iterator[TaskEvalResult]:
        return self.iter_results()

    def __len__(self) -> int:
        return self.total

    def filter(
        self,
        where: Callable[[TaskEvalResult], bool] | None = None,
        *,
        status: Status | None = None,
        task: str = "*",
    ) -> list[TaskEvalResult]:
        """The trials of a status, of tasks whose id fits a glob, for which `where` is true."""
        if status not in (None, "passed", "failed", "error"):
            raise UsageError(f"status is {status!r}: expected 'passed', 'failed' or 'error'")
        return [
            trial
            for trial in self
            if (status is None or trial.status == status)
            and fnmatchcase(trial.task_id, task)
            and (where is None or where(trial))
        ]

    def to_pandas(self) -> Any:
        """A pandas DataFrame, a row for each trial."""
        return _frames("pandas").DataFrame(self._rows(), columns=_columns())

    def to_polars(self) -> Any:
        """A polars DataFrame, a row for each trial; metrics are JSON texts."""
        rows = [{**r, "metrics": msgspec.json.encode(r["metrics"]).decode()} for r in self._rows()]
        return _frames("polars").DataFrame(rows, schema=_columns(), infer_schema_length=None)

    def _rows(self) -> list[dict[str, JSON]]:
        return [{name: getattr(trial, name) for name in _columns()} for trial in self]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.benchmark}: {self._counts()}>"

    def _counts(self) -> str:
        """The rate and its interval, where there is a verdict, and how many trials came to what."""
        counts = f"{self.passed} passed, {self.failed} failed, {self.errored} without a verdict"
        if self.not_run:
            counts += f", {self.not_run} not run"
        if self.pass_rate is None or self.outer_interval is None:
            return f"no verdicts ({counts})"
        low, high = self.outer_interval
        return f"{self.pass_rate:.1%} passed ({counts}; 95% interval {low:.1%} to {high:.1%})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the summary and the first trials, all of it as text."""
        head = f"<b>{html.escape(self.benchmark)}</b>: {self._counts()}"
        names = ("task_id", "sample", "status", "why", "cost", "duration")
        cells = ("".join(f"<td>{html.escape(str(getattr(trial, name))[:200])}</td>"
                 for name in names) for trial in islice(self, SHOWN_TRIALS))  # fmt: skip
        rows = "".join(f"<tr>{row}</tr>" for row in cells)
        titles = "".join(f"<th>{name}</th>" for name in names)
        return f"<p>{head}</p><table><tr>{titles}</tr>{rows}</table>"

    def task_count(self) -> int:
        query = "SELECT count(DISTINCT task_id) FROM trials"
        ((count,),) = self.store.rows(tuple[Count], query)
        return count

    def samples_by_task(self) -> dict[str, tuple[int, int]]:
        """task → (trials, trials passed); a trial without a verdict has not passed."""
        return {task: (count, passed) for task, count, passed, _ in _by_task(self.store)}

    def pass_at(self, k: int) -> float | None:
        """Mean pass@k over tasks, errors as not passed; None unless every task has k trials."""
        return self._over_tasks(k, stats.pass_at_k)

    def pass_hat(self, k: int) -> float | None:
        """Mean pass^k over tasks, errors as not passed; None unless every task has k trials."""
        return self._over_tasks(k, stats.pass_hat_k)

    def _over_tasks(self, k: int, function: Any) -> float | None:
        total, tasks = 0.0, 0
        for _, trials, passed, _ in _by_task(self.store):
            if trials < k:
                return None
            total, tasks = total + function(trials, passed, k), tasks + 1
        return total / tasks if tasks else None

    def durations(self) -> tuple[float, float]:
        """p50 and p95 of the seconds a trial took."""
        count = self.store.trial_count()
        return self._duration(0.5 * (count - 1)), self._duration(0.95 * (count - 1))

    def _duration(self, place: float) -> float:
        """What stands at a place of the durations in their order, which may lie between two."""
        query = "SELECT duration FROM trials ORDER BY duration LIMIT 2 OFFSET ?"
        found = self.store.rows(tuple[Seconds], query, (max(0, math.floor(place)),))
        values = [seconds for (seconds,) in found]
        return stats.percentile(values, place % 1) if values else 0.0

    def reasons(self, most: int = 8) -> list[tuple[str, int]]:
        """The most frequent reasons of trials that did not pass, errors first by kind."""
        query = "SELECT status, error_boundary, why FROM trials"
        counts = Counts()
        for status, boundary, why in self.store.rows(tuple[str, str | None, str], query):
            if status != "passed":
                line = first_line(why) or status
                counts.add(line if boundary is None else f"[error] {line}")
        return counts.most_common(most)

    def rates_of(self, metric: str) -> float | None:
        """Mean of a boolean or numeric verdict metric over all trials; None where none has it."""
        found = (metrics.get(metric) for _, metrics in self._metrics(metric))
        values = [float(value) for value in found if isinstance(value, (bool, int, float))]
        return sum(values) / self.total if values and self.total else None

    def _metrics(self, having: str) -> Iterator[tuple[bool, dict[str, JSON]]]:
        """The verdicts that have a metric: whether they passed, and all their metrics."""
        name = f'"{having}"'
        query = "SELECT passed, metrics FROM verdicts"
        for passed, text in self.store.rows(tuple[int, str], query):
            if name in text:
                yield bool(passed), self.store.decode(text)

    def summary(self) -> dict[str, JSON]:
        """The plain summary, without the results."""
        manifest = self.store.manifest()
        dataset = manifest.get("dataset")
        return {
            "benchmark": self.benchmark,
            "dataset": dataset,
            "model": manifest.get("model"),
            "agent": manifest.get("agent"),
            "total": self.total,
            "passed": self.passed,
            "failed": self.failed,
            "errored": self.errored,
            "not_run": self.not_run,
            "uninformative": self.uninformative,
            "informative_pass_rate": self.informative_pass_rate,
            "uncontrolled": self.uncontrolled,
            "inexact": self.inexact,
            "timed": self.timed,
            "unanswered": self.unanswered,
            "pass_rate": self.pass_rate,
            "task_rate": self.task_rate,
            "interval": None if self.interval is None else list(self.interval),
            "outer_interval": None if self.outer_interval is None else list(self.outer_interval),
            "bounds": list(self.bounds),
            "corrected_pass_rate": self.corrected_pass_rate,
            "total_cost": self.total_cost,
            "spent": self.spent,
            "usage": {
                "input_tokens": self.usage.input_tokens,
                "output_tokens": self.usage.output_tokens,
                "cached_tokens": self.usage.cached_tokens,
                "cache_write_tokens": self.usage.cache_write_tokens,
                "reasoning_tokens": self.usage.reasoning_tokens,
            },
            "run": str(Path(self.store.path)),
        }

    def document(self) -> Iterator[str]:
        """The summary with all results as one JSON text, by line."""
        document = {**self.summary(), "results": [LISTED]}
        if self.stopped:
            document["stopped"] = self.stopped
        return json_lines(document, self.iter_results())

    @property
    def corrected_pass_rate(self) -> float | None:
        """The rate by the corrected verdicts, where a grader gave one; None when none differs."""
        pairs = [
            (passed, bool(metrics["corrected"]))
            for passed, metrics in self._metrics("corrected")
            if metrics.get("corrected") is not None
        ]
        official, corrected = (
            (sum(column) for column in zip(*pairs, strict=True)) if pairs else (0, 0)
        )
        if corrected == official:
            return None
        return float((self.passed - official + corrected) / self.total)


def json_lines(document: Mapping[str, JSON], listed: Iterable[object]) -> Iterator[str]:
    """The lines of a JSON text in which the values of `listed` stand in the place of `LISTED`; of
    however many, one is held at a time."""
    text = msgspec.json.format(msgspec.json.encode(document)).decode()
    before, after = text.split(f'"{LISTED}"')
    head, _, indent = before.rpartition("\n")
    last: str | None = None
    for value in listed:
        yield head if last is None else f"{last},"
        told = msgspec.json.format(msgspec.json.encode(value)).decode()
        last = indent + told.replace("\n", f"\n{indent}")
    yield f"{head}{after.lstrip()}" if last is None else f"{last}{after}"


def _columns() -> list[str]:
    return [each.name for each in fields(TaskEvalResult)]


def _frames(name: str) -> Any:
    """A library of data frames, or the line that installs it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UsageError(
            f"this needs {name}, which is not installed: pip install 'chimera-eval[{name}]'"
        ) from None


def benchmark_of(manifest: Mapping[str, JSON]) -> str:
    """The name of a run's benchmark."""
    return str(manifest.get("identity", {}).get("benchmark", "?"))


def _by_task(store: RunStore) -> Iterator[tuple[str, int, int, int]]:
    """Each task with its trials, how many of them passed, and how many have no verdict."""
    rows = store.rows(tuple[str, str], "SELECT task_id, status FROM trials ORDER BY task_id")
    for task, trials in groupby(rows, key=itemgetter(0)):
        found = Counter(status for _, status in trials)
        yield task, found.total(), found["passed"], found["error"] + found["submitted"]


def _mean_rate(counts: Coded[tuple[int, int, int]]) -> float:
    rates = [passed / trials for trials, passed, _ in counts.values]
    return math.fsum(rates[place] * n for place, n in Counter(counts.places).items()) / len(counts)


def _intervals(
    counts: Coded[tuple[int, int, int]],
) -> tuple[stats.Interval | None, stats.Interval | None]:
    """Over verdicts; and over all trials, whatever those without a verdict were."""
    inner = stats.rate_interval((n - none, passed) for n, passed, none in counts if n > none)
    if inner is None or not any(none for _, _, none in counts.values):
        return inner, inner
    return inner, stats.outer_interval(counts)
