"""The value that every report parser returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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

    def passed(self) -> Iterator[str]:
        return (name for name, status in self.statuses.items() if status in PASSING)

    def failed(self) -> Iterator[str]:
        return (name for name, status in self.statuses.items() if status in FAILING)


def merge(reports: list[Report]) -> Report:
    """One report out of several; where a test is in more than one, a failure wins."""
    statuses: dict[str, Status] = {}
    for report in reports:
        for name, status in report.statuses.items():
            if statuses.get(name) not in FAILING:
                statuses[name] = status
    return Report(statuses, bool(reports) and all(report.complete for report in reports))
