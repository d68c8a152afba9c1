"""What a person, a log file or a program sees of a run while it goes on, and its summary."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import msgspec

from chimera.cli.terminal import echo
from chimera.eval.runs.forecast import RunningForecast
from chimera.eval.runs.lock import holder
from chimera.eval.runs.result import EvalResult, TaskEvalResult
from chimera.eval.values import TrialRecord
from chimera.text import counted, first_line, one_line

if TYPE_CHECKING:
    from rich.console import RenderableType


#: A wait that is worth a line, and how long it is quiet after one.
NOTABLE_SECONDS = 1.0
QUIET_SECONDS = 10.0


class Display(Protocol):
    """An observer of a run that is a context manager."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    def planned(self, total: int, done: int) -> None: ...
    def started(self, task_id: str, sample: int) -> None: ...
    def doing(self, task_id: str, sample: int, what: str, seconds: float) -> None: ...
    def finished(self, record: TrialRecord) -> None: ...
    def noticed(self, what: str) -> None: ...


def create_display(*, as_json: bool, samples: int = 1) -> Display:
    if as_json:
        return JsonLines(samples)
    return LiveDisplay(samples) if sys.stderr.isatty() else PlainLines(samples)


class _Base:
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...
    def planned(self, total: int, done: int) -> None: ...
    def started(self, task_id: str, sample: int) -> None: ...
    def doing(self, task_id: str, sample: int, what: str, seconds: float) -> None: ...


class JsonLines(_Base):
    """One JSON object a line on standard output."""

    def __init__(self, samples: int = 1) -> None:
        self._forecast = RunningForecast(samples)

    def planned(self, total: int, done: int) -> None:
        self._forecast.planned(total, done)
        self._write({"event": "planned", "total": total, "done": done})

    def finished(self, record: TrialRecord) -> None:
        result = msgspec.to_builtins(TaskEvalResult.of(record))
        del result["output"]  # a model's words are in the run, not in its monitor
        self._write({"event": "trial", **result})
        if (forecast := self._forecast.finished(record)) is not None:
            self._write({"event": "forecast", **msgspec.to_builtins(forecast)})

    def doing(self, task_id: str, sample: int, what: str, seconds: float) -> None:
        if seconds >= NOTABLE_SECONDS:
            trial = {"task_id": task_id, "sample": sample}
            self._write({"event": "waiting", **trial, "what": what, "seconds": round(seconds, 3)})

    def noticed(self, what: str) -> None:
        self._write({"event": "notice", "what": what})

    def _write(self, event: object) -> None:
        echo(msgspec.json.encode(event).decode())


class PlainLines(_Base):
    """A line a trial on standard error, for logs; all of them up to 50, then every 2 %.

    Of long waits one line now and then, for whoever wonders why nothing happens.
    """

    def __init__(self, samples: int = 1) -> None:
        self._forecast = RunningForecast(samples)
        self._total, self._done, self._passed = 0, 0, 0
        self._lock = threading.Lock()
        self._quiet_until = 0.0

    def planned(self, total: int, done: int) -> None:
        self._total, self._done = total, done
        self._forecast.planned(total, done)
        resumed = f", {done} done already" if done else ""
        echo(f"{counted(total, 'trial')}{resumed}", err=True)

    def doing(self, task_id: str, sample: int, what: str, seconds: float) -> None:
        with self._lock:
            now = time.monotonic()
            if seconds < NOTABLE_SECONDS or now < self._quiet_until:
                return
            self._quiet_until = now + QUIET_SECONDS
        echo(f"{one_line(task_id)}#{sample} {first_line(what, 160)}", err=True)

    def finished(self, record: TrialRecord) -> None:
        self._done += 1
        self._passed += record.passed
        if (forecast := self._forecast.finished(record)) is not None and self._done < self._total:
            echo(f"expected: {forecast.text}", err=True)
        every = max(1, self._total // 50)
        if self._done % every and self._done != self._total and record.status != "error":
            return
        why = f"  {first_line(record.why, 120)}" if record.why else ""
        mark = {"passed": "pass ", "failed": "fail ", "error": "ERROR"}[record.status]
        echo(
            f"[{self._done}/{self._total}] {mark} {one_line(record.task_id)}#{record.sample} "
            f"{record.duration:.1f}s{why}",
            err=True,
        )

    def noticed(self, what: str) -> None:
        echo(first_line(what, 400), err=True)


class LiveDisplay(_Base):
    """Progress, rate so far, cost, running trials and errors by kind, on a terminal."""

    def __init__(self, samples: int = 1) -> None:
        from rich.console import Console
        from rich.live import Live

        self._forecast = RunningForecast(samples)
        self._lock = threading.Lock()
        self._running: dict[tuple[str, int], float] = {}
        self._doing: dict[tuple[str, int], str] = {}
        self._counts: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._total, self._resumed, self._cost = 0, 0, 0.0
        self._began = time.monotonic()
        self._live = Live(
            get_renderable=self._render,
            console=Console(stderr=True),
            refresh_per_second=4,
            transient=True,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def planned(self, total: int, done: int) -> None:
        self._total, self._resumed = total, done
        self._forecast.planned(total, done)

    def started(self, task_id: str, sample: int) -> None:
        with self._lock:
            self._running[task_id, sample] = time.monotonic()

    def doing(self, task_id: str, sample: int, what: str, seconds: float) -> None:
        with self._lock:
            self._doing[task_id, sample] = what

    def finished(self, record: TrialRecord) -> None:
        with self._lock:
            self._running.pop((record.task_id, record.sample), None)
            self._doing.pop((record.task_id, record.sample), None)
            self._counts[record.status] += 1
            self._cost += record.cost or 0.0
            self._forecast.finished(record)
            if record.error is not None:
                self._errors[record.error.boundary] += 1

    def noticed(self, what: str) -> None:
        self._live.console.print(first_line(what, 400), markup=False, highlight=False)

    def _render(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        with self._lock:
            running = sorted(self._running.items(), key=lambda item: item[1])[:8]
            counts, errors, doing = dict(self._counts), dict(self._errors), dict(self._doing)
            forecast = self._forecast.now()
        judged = counts.get("passed", 0) + counts.get("failed", 0)
        done = self._resumed + sum(counts.values())
        rate = f"{counts.get('passed', 0) / judged:.1%}" if judged else "–"
        elapsed = time.monotonic() - self._began
        fresh = sum(counts.values())
        left = (self._total - done) * elapsed / fresh if fresh else 0.0
        head = Table.grid(padding=(0, 2))
        head.add_row(
            ProgressBar(total=max(1, self._total), completed=done, width=30),
            f"{done}/{self._total}",
            f"passed {rate}",
            f"${self._cost:.4f}",
            f"{_clock(elapsed)} gone, {_clock(left)} left" if fresh else _clock(elapsed),
        )
        lines: list[RenderableType] = [head]
        if forecast is not None:
            lines.append(Text(f"expected: {forecast.text}"))
        if errors:
            kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(errors.items()))
            lines.append(Text(f"errors: {kinds}", style="yellow"))
        now = time.monotonic()
        for (task_id, sample), since in running:
            line = f"  {now - since:6.1f}s  {one_line(task_id)}#{sample}"
            what = first_line(doing.get((task_id, sample), ""), 100)
            lines.append(Text(f"{line}  {what}", style="dim", overflow="ellipsis", no_wrap=True))
        return Group(*lines)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def money(cost: float | None) -> str:
    return "unknown" if cost is None else f"${cost:.4f}"


def _worth(result: EvalResult) -> Iterator[str]:
    """What the verdicts are worth: those that say nothing, and those that nothing stands behind."""
    if result.uninformative:
        rate = result.informative_pass_rate
        others = "" if rate is None else f"; {rate:.1%} of the others passed"
        yield (
            f"  uninformative: {result.uninformative} of the {result.passed} that passed (doing "
            f"nothing passes these tasks too){others}"
        )
    if result.uncontrolled:
        yield (
            f"  uncontrolled: {counted(result.uncontrolled, 'verdict')} (no known answer was "
            "graded, or there is none)"
        )
    if result.inexact:
        yield (
            f"  inexact: {counted(result.inexact, 'verdict')} (reached on files other than the "
            "base commit's)"
        )
    if result.timed:
        yield (
            f"  timed: {counted(result.timed, 'fail')} (a limit of time decided, tests look at a "
            "clock, or the reference is slow)"
        )


def without_verdict(errored: int, not_run: int) -> str:
    """ "2 errors, 3 not run": the trials that have no verdict, or nothing."""
    errors = [counted(errored, "error")] if errored else []
    return ", ".join([*errors, *([f"{not_run:,} not run"] if not_run else [])])


def headline(result: EvalResult) -> str:
    """A rate with its interval; bounds where verdicts are missing; neither without a verdict."""
    name = one_line(result.benchmark)
    missing = without_verdict(result.errored, result.not_run)
    if result.interval is None:
        return f"{name}: no verdicts: {missing}"
    low, high = result.interval
    share = f"{result.passed} of {result.judged}; 95% interval {low:.1%} to {high:.1%}"
    if not (result.errored or result.not_run):
        return f"{name}: {result.pass_rate:.1%} passed ({share})"
    worst, best = result.bounds
    return (
        f"{name}: between {worst:.1%} and {best:.1%} passed (no verdict: {missing})\n"
        f"  of those with a verdict {result.passed / result.judged:.1%} passed ({share})"
    )


def _costs(result: EvalResult) -> str:
    """What the stored trials cost, and what was paid beside them."""
    beside = result.spent - (result.total_cost or 0.0)
    if result.total_cost is None or beside < 1e-9:
        return money(result.total_cost)
    whose = "trials under way" if holder(result.store.path) else "trials that were cut off"
    return f"{money(result.total_cost)} (and at most {money(beside)} for {whose})"


def print_summary(result: EvalResult, *, samples: int = 1, elapsed: float | None = None) -> None:
    """The end of a run, as `summary_lines` has it."""
    echo("")
    for line in summary_lines(result, samples=samples, elapsed=elapsed):
        echo(line)


def summary_lines(
    result: EvalResult, *, samples: int = 1, elapsed: float | None = None
) -> Iterator[str]:
    """Rate with interval, errors apart, cost, times, reasons, next commands."""
    yield headline(result)
    if result.uneven and result.task_rate is not None:
        least, most = result.trials_a_task
        alike = f"{result.task_rate:.1%} with each task counted the same"
        yield f"  {alike}: they have {least} to {most} trials"
    if result.unanswered:
        yield f"  {result.unanswered} tasks of the benchmark have no prediction in the file"
    if samples > 1:
        at, hat = result.pass_at(samples), result.pass_hat(samples)
        if at is not None and hat is not None:
            yield (f"  pass@{samples} {at:.1%}   pass^{samples} {hat:.1%}")
    if (corrected := result.corrected_pass_rate) is not None:
        yield (f"  {corrected:.1%} by the corrected verdicts (see metrics.corrected)")
    yield from _worth(result)
    usage = result.usage
    p50, p95 = result.durations()
    wall = f"   wall {_clock(elapsed)}" if elapsed is not None else ""
    yield (
        f"  cost {_costs(result)}   tokens {usage.input_tokens:,} in, "
        f"{usage.output_tokens:,} out   seconds a trial p50 {p50:.2f}, p95 {p95:.2f}{wall}"
    )
    reasons = result.reasons()
    if reasons:
        yield ("  why not:")
        for why, count in reasons:
            yield (f"    {count:>5} × {why}")
    if result.stopped:
        yield (f"  stopped early: {first_line(result.stopped, 300)}")
    if str(result.store.path) != ":memory:":
        running = holder(result.store.path)
        yield (f"  run: {result.store.path}" + (f", being run {running}" if running else ""))
        name = Path(result.store.path).stem
        yield (f"  next: chimera runs show {name}   chimera compare {name} OTHER")
        if (result.errored or result.not_run) and not running:
            yield (f"        chimera eval --resume {name}   (runs what has no verdict)")
