"""JUnit XML, as pytest, Maven's surefire and failsafe, Gradle, ctest and many others write it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import cast

from chimera.environments.testing import junit_cases
from chimera.eval.kits.reports.report import Report, Status, merge

_SUITE = re.compile(rb"<testsuite[\s>].*?</testsuite>|<testsuite[^>]*/>", re.DOTALL)


def read(content: bytes, *, classes: bool = True) -> Report:
    """One report file, by `class.test` or by test. A file that is cut reports nothing."""
    try:
        cases = junit_cases(content)
    except ValueError:
        return Report(complete=False)
    return Report.of(
        (f"{group}.{test}" if group and classes else test, cast(Status, outcome.upper()))
        for group, test, outcome in cases
    )


def read_all(contents: Iterable[bytes]) -> Report:
    """Many report files of one run; one that is damaged makes the whole incomplete."""
    return merge([read(content) for content in contents])


def suites_in(log: bytes) -> list[bytes]:
    """Whole `<testsuite>` blocks that a log carries; one that was cut is not among them."""
    return [match.group() for match in _SUITE.finditer(log)]
