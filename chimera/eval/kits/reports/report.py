"""Which test of a run ended how: the value that every reader of reports returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

Status = Literal["PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL"]

PASSING: frozenset[str] = frozenset({"PASSED", "XFAIL"})
FAILING: frozenset[str] = frozenset({"FAILED", "ERROR"})


@dataclass(frozen=True, slots=True)
class Report:
    """What a runner reported. `complete` is False when the report was cut short or never ended.

    A test that is not in `statuses` did not run; an incomplete report never shows a pass.
    """

    statuses: Mapping[str, Status] = field(default_factory=dict)
    complete: bool = True

    @classmethod
    def of(cls, results: Iterable[tuple[str, Status]], *, complete: bool = True) -> Report:
        """The report of results in their order: a failure stands, else the last counts."""
        statuses: dict[str, Status] = {}
        for name, status in results:
            if statuses.get(name) not in FAILING:
                statuses[name] = status
        return cls(statuses, complete)

    def passed(self) -> list[str]:
        return [name for name, status in self.statuses.items() if status in PASSING]

    def failed(self) -> list[str]:
        return [name for name, status in self.statuses.items() if status in FAILING]


def merge(reports: list[Report]) -> Report:
    """One report out of several; where a test is in more than one, a failure wins."""
    results = chain.from_iterable(report.statuses.items() for report in reports)
    whole = bool(reports) and all(report.complete for report in reports)
    return Report.of(results, complete=whole)


def not_run(expected: Iterable[str], passed: Iterable[str]) -> str:
    """Which expected tests did not run to a pass; empty when none. Of a test with parameters as
    many count, since the code under test may take part in their ids."""
    lacks = Counter(map(_without_parameters, expected))
    lacks.subtract(map(_without_parameters, passed))
    missing = +lacks
    return f"{missing.total()} tests did not run, first {min(missing)}" if missing else ""


def _without_parameters(test: str) -> str:
    return test.partition("[")[0]
