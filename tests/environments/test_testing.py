"""Test reports: what they say, and which are none."""

from __future__ import annotations

import pytest

from chimera.environments.testing import outcomes


@pytest.mark.parametrize(
    ("report", "found"),
    [
        ("<testsuite/>", {}),
        ('<testsuites><testsuite><testcase classname="m" name="t"/></testsuite></testsuites>',
         {"m::t": "passed"}),
        ('<testsuite><testcase name="t"/><testcase name="t"><failure/></testcase></testsuite>',
         {"t": "failed"}),
        ('<testsuite><testcase name="t"><failure/></testcase><testcase name="t"/></testsuite>',
         {"t": "failed"}),
        ('<testsuite><testcase name="t"><skipped/></testcase></testsuite>', {"t": "skipped"}),
        ('<testsuite><testcase name="t"><failure/><error/></testcase></testsuite>', {"t": "error"}),
    ],
)  # fmt: skip
def test_reports_are_read(report: str, found: dict[str, str]) -> None:
    assert outcomes(report.encode()) == found


def test_reports_that_grow_when_read_are_refused() -> None:
    bomb = '<!DOCTYPE a [<!ENTITY b "x">]><testsuite><testcase name="&b;"/></testsuite>'

    with pytest.raises(ValueError, match="entities"):
        outcomes(bomb.encode())
