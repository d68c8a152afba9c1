"""Changes of a source by the places of its syntax tree; everything else stays as it was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """Bytes from `start` to `end` become `content`; an insertion has both the same."""

    start: int
    end: int
    content: bytes


def edited(source: bytes, edits: Iterable[Edit]) -> bytes:
    """The source with all edits, which must not overlap."""
    parts: list[bytes] = []
    position = 0
    for edit in sorted(edits, key=lambda each: (each.start, each.end)):
        parts += [source[position : edit.start], edit.content]
        position = edit.end
    return b"".join([*parts, source[position:]])


class Lines:
    """Where the lines of a source begin, to turn line and column (of bytes) into a place."""

    def __init__(self, source: bytes) -> None:
        self.starts = [0]
        for line in source.split(b"\n")[:-1]:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self._length = len(source)

    def place(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def end_of(self, line: int) -> int:
        """The place just after a line's end, behind its line break."""
        return self.starts[line] if line < len(self.starts) else self._length
