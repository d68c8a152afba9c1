"""JUnit XML, as pytest, Maven's surefire and failsafe, Gradle, ctest and many others write it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree

from chimera.eval.kits.reports.types import Report, Status, merge

_SUITE = re.compile(rb"<testsuite[\s>].*?</testsuite>|<testsuite[^>]*/>", re.DOTALL)
_ENTITY = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)


def read(content: bytes) -> Report:
    """One report file. A file that is cut, or that declares entities, reports nothing."""
    if _ENTITY.search(content):
        return Report(complete=False)
    try:
        root = ElementTree.fromstring(content)
    except ElementTree.ParseError:
        return Report(complete=False)
    if root.tag not in ("testsuite", "testsuites"):
        return Report(complete=False)
    statuses: dict[str, Status] = {}
    for case in root.iter("testcase"):
        name = case_name(case)
        status = case_status(case)
        if statuses.get(name) not in ("FAILED", "ERROR"):
            statuses[name] = status
    return Report(statuses)


def read_all(contents: Iterable[bytes]) -> Report:
    """Many report files of one run; one that is damaged makes the whole incomplete."""
    return merge([read(content) for content in contents])


def suites_in(log: bytes) -> list[bytes]:
    """Whole `<testsuite>` blocks that a log carries; one that was cut is not among them."""
    return [match.group() for match in _SUITE.finditer(log)]


def case_name(case: ElementTree.Element) -> str:
    name, group = case.get("name", ""), case.get("classname", "")
    return f"{group}.{name}" if group else name


def case_status(case: ElementTree.Element) -> Status:
    if case.find("error") is not None:
        return "ERROR"
    if case.find("failure") is not None:
        return "FAILED"
    if case.find("skipped") is not None:
        return "SKIPPED"
    return "PASSED"
