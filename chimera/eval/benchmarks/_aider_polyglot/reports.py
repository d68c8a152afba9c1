"""What only exercises print: `go test -json` and `cargo test`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

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


def cargo(results: str, printed: str) -> Report | None:
    """`cargo test`: what each binary's own log says, into which no test prints, and what is printed
    of examples in comments. None if a binary did not come to its end."""
    lines = results.splitlines()
    ends = [line for line in lines if line.startswith("end ")]
    if not ends or lines[-1] != ends[-1] or not _ENDED.issuperset(ends):
        return None
    found = [*_logged(lines), *_examples(printed)]
    if "end 101" in ends and not any(status == "FAILED" for _, status in found):
        found.append(("a test", "FAILED"))  # a failure that nobody names
    return Report.of(found)


#: By a binary's exit status: its tests held, or some did not.
_ENDED = frozenset({"end 0", "end 101"})


def _logged(lines: Iterable[str]) -> Iterator[tuple[str, Status]]:
    for line in lines:
        name = line.rpartition(" ")[2]  # before it, why one failed may be said
        if line == f"ok {name}":
            yield name, "PASSED"
        elif line.startswith("failed"):
            yield name, "FAILED"


def _examples(printed: str) -> Iterator[tuple[str, Status]]:
    """Each has a process of its own, which does not print here."""
    for line in printed.splitlines():
        name, _, word = line.removeprefix("test ").rpartition(" ... ")
        named = line.startswith("test ") and " - " in name and " (line " in name
        if named and word in ("ok", "FAILED"):
            yield name.removesuffix(" - should panic"), "PASSED" if word == "ok" else "FAILED"


#: Go cuts what tests print into shorter lines; a list can take fifty times the memory of its text.
EVENT_CHARACTERS = 2**16


def _event(line: str) -> dict[str, object] | None:
    if len(line) > EVENT_CHARACTERS:
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None
