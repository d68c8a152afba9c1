"""Whether a patch meets the files it was made from, on a tree that is not the base commit's own.

A diff names the blobs it was made from (`index OLD..NEW`). In a tree that was rebuilt from a
release other lines may stand around the place of a change, and a patch may go where nobody meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chimera.errors import EnvironmentFault
from chimera.eval.kits.patches import diffs
from chimera.eval.kits.patches.diffs import FilePatch, Hunk
from chimera.foreign_trees import read_inside
from chimera.types import JSON

_INDEX = re.compile(r"(?m)^index ([0-9a-f]{7,40})\.\.[0-9a-f]{7,40}")
_HEADING = re.compile(r"^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@ ?(.*)$")
_FUNCTION = re.compile(r"\s*(?:class|def|async def)\s|[A-Za-z_$]")


def old_blobs(*patches: str) -> dict[str, str]:
    """Path → the blob (perhaps cut) that patches were made from; new files have none."""
    found = {}
    for patch in patches:
        for file in diffs.parse(patch):
            index = _INDEX.search(file.header)
            if file.old and index and set(index[1]) != {"0"}:
                found[file.old] = index[1]
    return found


@dataclass(frozen=True, slots=True)
class Comparison:
    """The files of a patch, by whether they are those that it was made from."""

    exact: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()  # nothing says what they were
    moved: tuple[str, ...] = ()  # of those that are not exact: a hunk goes in at an offset

    @property
    def doubtful(self) -> tuple[str, ...]:
        return (*self.other, *self.unknown)

    def metrics(self) -> dict[str, JSON]:
        """What a verdict says of them; nothing where all are exact."""
        if not self.doubtful:
            return {}
        lists = {"other": self.other, "unknown": self.unknown, "moved": self.moved}
        named: dict[str, JSON] = {name: list(paths) for name, paths in lists.items() if paths}
        return {"inexact": True, "tree": {"exact": len(self.exact), **named}}


@dataclass(frozen=True, slots=True)
class RebuiltTree:
    """A tree that was not taken from the base commit: where it lies, and its files' blobs."""

    path: Path
    blobs: Mapping[str, str]

    def compared(self, patch: str, known: Sequence[str]) -> Comparison:
        """`known` are the row's own patches, which name the base commit's blobs."""
        of_row, claimed = old_blobs(*known), old_blobs(patch)
        groups: dict[str, list[str]] = {"exact": [], "other": [], "unknown": [], "moved": []}
        for file in diffs.parse(patch):
            if not file.old:
                continue
            blob = claimed.get(file.old) or of_row.get(file.old)
            kind = self._kind(file.old, blob)
            groups[kind].append(file.old)
            if kind != "exact" and any(place.moved for place in self.places(file)):
                groups["moved"].append(file.old)
        return Comparison(**{name: tuple(paths) for name, paths in groups.items()})

    def known_files(self, *patches: str) -> tuple[int, int]:
        """Of the files that a row's patches change: how many are the base commit's, of how many."""
        named = old_blobs(*patches)
        return sum(self._kind(path, blob) == "exact" for path, blob in named.items()), len(named)

    def refuse_misplaced(self, patch: str, compared: Comparison) -> None:
        """Raise where a hunk may go elsewhere than into what it was made from."""
        for file in diffs.parse(patch):
            if file.old in compared.moved and any(place.doubtful for place in self.places(file)):
                raise differs(file.old)

    def places(self, file: FilePatch) -> Iterator[Place]:
        """Where the hunks of a file would go."""
        if file.old is None:
            return
        try:
            content = read_inside(self.path, file.old)
        except OSError:
            return
        if content is None:
            return
        for hunk in file.hunks:
            yield _place(hunk, content.split("\n"))

    def _kind(self, path: str, blob: str | None) -> str:
        here = self.blobs.get(path)
        if here is not None and blob is None:
            return "unknown"
        return "exact" if here is not None and blob and here.startswith(blob) else "other"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a hunk's lines stand in a file, and where the diff has them."""

    expected: int
    found: tuple[int, ...]
    heading_fits: bool

    @property
    def moved(self) -> bool:
        return self.expected not in self.found

    @property
    def doubtful(self) -> bool:
        """Whether it may go to a place that only looks like its own."""
        return self.moved and (len(self.found) != 1 or not self.heading_fits)


def differs(path: str) -> EnvironmentFault:
    return EnvironmentFault(
        f"the rebuilt tree differs from the base commit here: {path}\n"
        "  Give a clone of the repository (--option repositories=DIRECTORY) for a verdict."
    )


def _place(hunk: Hunk, content: Sequence[str]) -> Place:
    head, _, body = hunk.text.partition("\n")
    match = _HEADING.match(head)
    assert match is not None
    lines = [line[1:] for line in body.split("\n") if line[:1] in (" ", "-")]
    size = len(lines)
    if not size:
        return Place(0, (0,), heading_fits=True)
    last = len(content) - size
    found = tuple(n for n in range(last + 1) if content[n] == lines[0]
                  and content[n : n + size] == lines)  # fmt: skip
    fits = not found or _fits(match[2].strip(), content[: found[0]])
    return Place(int(match[1]) - 1, found, fits)


def _fits(heading: str, before: Sequence[str]) -> bool:
    """Whether the function that a hunk says it is in is the one above its place."""
    if not heading:
        return True
    above = (line.strip() for line in reversed(before) if _FUNCTION.match(line))
    indented = next(above, "")
    outer = next((line for line in reversed(before) if re.match(r"[A-Za-z_$]", line)), "")
    return indented.startswith(heading) or outer.startswith(heading)
