"""DPAI Arena's second generation of data ("EE-Bench"): its folders, and the rule of its evaluator.

Written from a description of its behaviour. Each datapoint is a folder with `datapoint.json`,
`eval/test_patch.diff` and `verify/patch.diff`, or a record that holds the three.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from chimera.errors import DatasetError
from chimera.eval.data.rows import Row
from chimera.eval.kits.reports.report import FAILING, PASSING, Report

FILE = "datapoint.json"
LANGUAGES = ("java", "kotlin")


def datapoints(folder: Path) -> Iterator[Row]:
    """The records of all folders below this one."""
    for file in sorted(folder.glob(f"**/{FILE}")):
        try:
            row = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DatasetError(f"{file}: {error}") from None
        for field, name in (
            ("test_patch", "eval/test_patch.diff"),
            ("patch", "verify/patch.diff"),
        ):
            place = file.parent / name
            if place.exists():
                row[field] = place.read_text(encoding="utf-8")
        yield {"instance_id": file.parent.name, **row}


def first_generation(row: Row) -> Row:
    """A record in the names of the first generation; `expected` says that it is of the second."""
    name = str(row.get("instance_id") or "?")
    language = str(row.get("language") or "java").lower()
    if language not in LANGUAGES:
        raise DatasetError(f"{name}: {language} datapoints are not run; only Java ones are")
    if not row.get("problem_statement"):
        raise DatasetError(f"{name}: the datapoint has no problem_statement")
    expected = {
        key: [str(test) for test in row["expected"].get(key) or ()]
        for key in ("fail_to_pass", "pass_to_pass", "fail_to_fail")
    }
    return {
        **row,
        "expected": expected,
        "patch": row["patch"] if isinstance(row.get("patch"), str) else "",
        "FAIL_TO_PASS": expected["fail_to_pass"],
        "PASS_TO_PASS": expected["pass_to_pass"],
        "track": "issue-to-patch",
    }


def criteria(
    expected: Mapping[str, Sequence[str]], baseline: Report, after: Report, *, test_patch: bool
) -> dict[str, str]:
    """criterion → what speaks against it; "" where it holds or has nothing to hold."""
    f2f = expected.get("fail_to_fail", ())
    f2p = _expanded(expected.get("fail_to_pass", ()), after, f2f)
    p2p = _expanded(expected.get("pass_to_pass", ()), after, f2f)
    return {
        "fail_to_pass": _first(_not_passed(f2p, after))
        or (_first(_passed(f2p, baseline), "passed before") if test_patch else ""),
        "pass_to_pass": _first(_not_passed(p2p, after))
        or _first(_failed(p2p, baseline), "failed before"),
        "fail_to_fail": _first(_passed(f2f, baseline), "passed before")
        or _first(_passed(f2f, after), "passes"),
    }


def named(expected: str, report: Report) -> list[str]:
    """Tests that a name means: itself, or everything below a class."""
    wanted = _canonical(expected)
    found = [test for test in report.statuses if test == expected or _canonical(test) == wanted]
    return found or [test for test in report.statuses if _canonical(test).startswith(f"{wanted}.")]


def _canonical(name: str) -> str:
    return re.sub(r"\([^()]*\)$", "", name.strip()).replace("#", ".")


def _expanded(names: Sequence[str], after: Report, left_out: Sequence[str]) -> list[str]:
    """`["*"]` is every test that was found, less those that are to fail."""
    if list(names) != ["*"]:
        return list(names)
    excused = {test for name in left_out for test in named(name, after)}
    return [
        test
        for test, status in after.statuses.items()
        if status != "SKIPPED" and test not in excused
    ]


def _not_passed(names: Sequence[str], report: Report) -> list[str]:
    return [
        name
        for name in names
        if not (tests := named(name, report))
        or any(report.statuses[test] not in PASSING for test in tests)
    ]


def _passed(names: Sequence[str], report: Report) -> list[str]:
    return [n for n in names if any(report.statuses[t] in PASSING for t in named(n, report))]


def _failed(names: Sequence[str], report: Report) -> list[str]:
    return [n for n in names if any(report.statuses[t] in FAILING for t in named(n, report))]


def _first(names: Sequence[str], what: str = "not passed") -> str:
    return f"{what}: {', '.join(names[:3])}" if names else ""


def is_datapoint(row: Mapping[str, Any]) -> bool:
    return isinstance(row.get("expected"), Mapping)
