"""pytest's printed results as FeatureBench reads them: the short summary, or verbose lines."""

from __future__ import annotations

import re
from collections import Counter
from typing import cast

from chimera.eval.kits.reports.report import Status

_ENTRY = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS|SUBFAILED)\b(?:\([^)]*\))? (.+)$")
_VERBOSE = re.compile(r"^(?=\S+?::.)(.+?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL) ")


def summary(log: str, *, subtests: bool = False) -> dict[str, Status]:
    """Entries between the summary's banner and the next `===` line; ids end at ` - `."""
    statuses: dict[str, Status] = {}
    seen: Counter[str] = Counter()
    inside = False
    for line in log.split("\n"):
        if not inside:
            inside = "short test summary info" in line.lower()
            continue
        if line.startswith("==="):
            break
        entry = _ENTRY.match(line)
        if entry is None:
            continue
        word, name = entry[1], entry[2].split(" - ")[0].strip()
        if word == "SUBFAILED":
            if subtests:
                seen[name] += 1
                statuses[f"{name}[{seen[name]}]"] = "FAILED"
        elif word != "XPASS":
            statuses[name] = cast(Status, word)
    return statuses


def verbose(log: str) -> dict[str, Status]:
    """`path::test STATUS …` lines up to the first banner that is not the session's."""
    statuses: dict[str, Status] = {}
    for line in log.split("\n"):
        if line.startswith("===") and "test session starts" not in line:
            break
        if entry := _VERBOSE.match(line):
            statuses[entry[1]] = cast(Status, entry[2])
    return statuses


def pass_rate(statuses: dict[str, Status]) -> float:
    """Passed of those that passed or failed; skipped tests are neither; none at all is 0."""
    passed = sum(status in ("PASSED", "XFAIL") for status in statuses.values())
    failed = sum(status in ("FAILED", "ERROR") for status in statuses.values())
    return round(passed / (passed + failed), 4) if passed + failed else 0.0
