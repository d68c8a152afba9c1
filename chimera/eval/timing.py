"""Verdicts that a machine's speed may have decided: those are marked, for another may differ."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from chimera.eval.benchmark import Benchmark
from chimera.eval.values import Verdict

Timed = Literal["limit", "clock", "slow"]
#: A reference that takes longer is marked: limits of time may decide such tasks.
SLOW_SECONDS = 60.0
_CODE = frozenset({".py", ".sh", ".js", ".ts", ".java", ".go", ".rs", ".cpp", ".h"})
_CLOCKS = re.compile(
    r"perf_counter|process_time|\btimeit\b|\btime\.time\(|\bmonotonic\(|nanoTime|currentTimeMillis"
    r"|performance\.now|Instant::now|steady_clock|high_resolution_clock"
)


def timed(
    benchmark: Benchmark[Any], task: Any, verdict: Verdict, reference_seconds: float = 0.0
) -> Verdict:
    """A fail with the mark `timed`, where speed may have decided it: a limit of time did, the
    tests look at a clock, or the reference itself takes long."""
    if verdict.passed:
        return verdict
    mark: Timed
    if _at_a_limit(verdict.metrics):
        mark = "limit"
    elif tests_speed(benchmark, task):
        mark = "clock"
    elif reference_seconds > SLOW_SECONDS:
        mark = "slow"
    else:
        return verdict
    return replace(verdict, metrics={**verdict.metrics, "timed": mark})


def tests_speed(benchmark: Benchmark[Any], task: Any) -> bool:
    """Whether what the task has for tests looks at a clock."""
    texts = chain(_tests(task, inside=False), _test_files(benchmark.files_beside(task)))
    return any(_CLOCKS.search(text) for text in texts)


def _test_files(places: Iterable[Path]) -> Iterator[str]:
    for place in places:
        for path in place.rglob("*test*") if place.is_dir() else ():
            found = path.rglob("*") if path.is_dir() else [path]
            for file in (each for each in found if each.suffix in _CODE and each.is_file()):
                yield file.read_text("utf-8", "replace")


def _at_a_limit(metrics: Mapping[str, Any]) -> bool:
    limit = metrics.get("limit")
    stopped = metrics.get("timed_out") or metrics.get("test_timeouts")
    return bool(stopped) or (isinstance(limit, str) and "time" in limit)


def _tests(value: Any, *, inside: bool) -> Iterator[str]:
    """All texts below a name that speaks of tests."""
    if isinstance(value, str):
        if inside:
            yield value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _tests(each, inside=inside or "test" in str(name))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tests(each, inside=inside)
    elif hasattr(value, "__dataclass_fields__"):
        named = {name: getattr(value, name) for name in value.__dataclass_fields__}
        yield from _tests(named, inside=inside)
