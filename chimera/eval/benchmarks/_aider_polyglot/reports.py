"""What only exercises print: `go test -json` and `cargo test`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from chimera.eval.kits.reports.report import Report, Status


def go_events(content: bytes) -> tuple[Report | None, str]:
    """`go test -json`: the results, and the text that plain `go test` would have printed."""
    results: list[tuple[str, Status]] = []
    text: list[str] = []
    ended = False
    for line in content.decode("utf-8", "replace").splitlines():
        event = _event(line)
        if event is None:
            text.append(line + "\n")
            continue
        text.append(str(event.get("Output", "")))
        action, test = event.get("Action"), event.get("Test")
        if action in ("pass", "fail"):
            status: Status = "PASSED" if action == "pass" else "FAILED"
            if test is not None:
                results.append((str(test), status))
            elif status == "FAILED":
                results.append((str(event.get("Package", "package")), status))
            ended = ended or test is None
    return (Report.of(results) if ended else None), "".join(text)


_CARGO_TEST = re.compile(r"^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED)", re.MULTILINE)
_CARGO_SUMMARY = re.compile(r"^test result: (?:ok|FAILED)\. \d+ passed; (\d+) failed", re.MULTILINE)


def cargo(text: str) -> Report | None:
    """`cargo test`, whose only stable form is text: each binary's summary must be there."""
    failures = [int(count) for count in _CARGO_SUMMARY.findall(text)]
    if not failures:
        return None
    report = Report.of(_cargo_results(text))
    if sum(failures) > len(report.failed()):  # counted, but not named
        return Report.of([*report.statuses.items(), ("a test", "FAILED")])
    return report


def _cargo_results(text: str) -> Iterator[tuple[str, Status]]:
    for name, word in _CARGO_TEST.findall(text):
        yield name, "PASSED" if word == "ok" else "FAILED"


def _event(line: str) -> dict[str, object] | None:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None
