"""Unified diffs as values: their files and their hunks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

_FILE_START = re.compile(r"(?m)^diff --git ")
_PLAIN_START = re.compile(r"(?m)^--- (?=.*\n\+\+\+ )")
_HUNK_START = re.compile(r"(?m)^@@ -(\d{1,18})(?:,(\d{1,18}))? \+(\d{1,18})(?:,(\d{1,18}))? @@")
_REPOSITORY_INSIDES = re.compile(
    r"(?mi)^(?:---|\+\+\+|\*\*\*|Index:|rename (?:from|to)|copy (?:from|to)|diff --git)"
    r"[^\n]*[ /\"]\.git(?:/|[\"\s]|$)"
)


@dataclass(frozen=True, slots=True)
class Hunk:
    """One `@@` block: its text and the line numbers it removes (old) and adds (new)."""

    text: str
    removed: tuple[int, ...]
    added: tuple[int, ...]

    @property
    def lines(self) -> list[str]:
        return self.text.removesuffix("\n").split("\n")[1:]

    def with_lines(self, lines: Sequence[str]) -> Hunk:
        """The hunk with another body, counted anew."""
        head = _HUNK_START.match(self.text)
        assert head is not None
        old, new = (
            sum(line[:1] in signs for line in lines) for signs in (("", " ", "-"), ("", " ", "+"))
        )
        title = self.text[head.end() :].partition("\n")[0]
        text = f"@@ -{head[1]},{old} +{head[3]},{new} @@{title}\n"
        return _hunk(text + "".join(f"{line}\n" for line in lines))


@dataclass(frozen=True, slots=True)
class FilePatch:
    """The part of a diff about one file. A path is None where the file does not exist."""

    old: str | None
    new: str | None
    header: str
    hunks: tuple[Hunk, ...]

    @property
    def path(self) -> str:
        return self.new or self.old or ""

    @property
    def text(self) -> str:
        return self.header + "".join(hunk.text for hunk in self.hunks)


def parse(diff: str) -> tuple[FilePatch, ...]:
    """The files of a diff; text outside of file blocks is left out."""
    if diff and not diff.endswith("\n"):
        diff += "\n"
    starts = [match.start() for match in _FILE_START.finditer(diff)]
    if not starts:
        starts = [match.start() for match in _PLAIN_START.finditer(diff)]
    bounds = [*starts, len(diff)]
    return tuple(_file(diff[start:end]) for start, end in pairwise(bounds))


def join(files: Iterable[FilePatch]) -> str:
    return "".join(file.text for file in files)


def paths(diff: str) -> frozenset[str]:
    """Every path a diff reads or writes."""
    return frozenset(p for file in parse(diff) for p in (file.old, file.new) if p)


def without_hunk(diff: str, index: int) -> str:
    """The diff less its `index`-th hunk (counted over all files); a file left empty goes too."""
    kept: list[FilePatch] = []
    count = 0
    for file in parse(diff):
        hunks = []
        for hunk in file.hunks:
            if count != index:
                hunks.append(hunk)
            count += 1
        if hunks or not file.hunks:
            kept.append(replace(file, hunks=tuple(hunks)))
    return join(kept)


def is_code(path: str) -> bool:
    return path.endswith((".py", ".js", ".ts", ".java")) and "doc" not in path


def is_idle(line: str, path: str) -> bool:
    """Whether a line does nothing by itself: blank, a comment, an import. Python's are not told."""
    text = line.strip()
    return not path.endswith(".py") and (not text or text.startswith(("//", "*", "/*", "import ")))


def largest_hunk(patch: str) -> int:
    """The number of the hunk that changes most lines of program code."""
    best, best_size, number = 0, -1, 0
    for file in parse(patch):
        for hunk in file.hunks:
            changed = [line[1:] for line in hunk.lines if line[:1] in ("+", "-")]
            acting = [line for line in changed if not is_idle(line, file.path)]
            size = len(acting) if is_code(file.path) else 0
            if size > best_size:
                best, best_size = number, size
            number += 1
    return best


def new_file(path: str, content: str) -> str:
    """A diff that creates one file."""
    lines = content.split("\n")[:-1] if content.endswith("\n") else content.split("\n")
    body = "".join(f"+{line}\n" for line in lines)
    return (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
        f"@@ -0,0 +1,{len(lines)} @@\n{body}"
    )


def reaches_into_git(diff: str) -> bool:
    """Whether a header names a file inside `.git`, in whatever case, which no honest diff does."""
    parts = (part for path in paths(diff) for part in path.lower().split("/"))
    return ".git" in parts or _REPOSITORY_INSIDES.search(_outside_of_hunks(diff)) is not None


def _outside_of_hunks(diff: str) -> str:
    """The lines that whoever applies a diff can take for headers: all but those that a hunk below
    a header, or below another hunk, counts as its own."""
    found = [""]
    old = new = 0
    header = False
    for line in diff.split("\n"):
        start = _HUNK_START.match(line) if header and not (old or new) else None
        removes, adds = line[:1] in ("", " ", "-"), line[:1] in ("", " ", "+")
        if start:
            old, new = int(start[2] or 1), int(start[4] or 1)
        elif (removes or adds) and old >= removes and new >= adds:
            old, new = old - removes, new - adds
        elif not line.startswith("\\"):
            old = new = 0
            header = line.startswith("+++ ") and found[-1].startswith("--- ")
            found.append(line)
    return "\n".join(found)


def _file(text: str) -> FilePatch:
    first = _HUNK_START.search(text)
    header = text[: first.start()] if first else text
    old, new = _header_paths(header)
    hunks: list[Hunk] = []
    if first:
        starts = [match.start() for match in _HUNK_START.finditer(text)]
        hunks += [_hunk(text[start:end]) for start, end in pairwise([*starts, len(text)])]
    return FilePatch(old, new, header, tuple(hunks))


def _hunk(text: str) -> Hunk:
    match = _HUNK_START.match(text)
    assert match is not None
    old, new = int(match[1]), int(match[3])
    removed: list[int] = []
    added: list[int] = []
    for line in text.split("\n")[1:]:
        if line.startswith("-"):
            removed.append(old)
            old += 1
        elif line.startswith("+"):
            added.append(new)
            new += 1
        elif line.startswith(" ") or line == "":
            old += 1
            new += 1
    return Hunk(text, tuple(removed), tuple(added))


def _header_paths(header: str) -> tuple[str | None, str | None]:
    old: str | None = None
    new: str | None = None
    seen_old = seen_new = False
    for line in header.split("\n"):
        if line.startswith("--- "):
            old, seen_old = _strip(line[4:]), True
        elif line.startswith("+++ "):
            new, seen_new = _strip(line[4:]), True
        elif line.startswith("rename from "):
            old, seen_old = _unquote(line[12:]), True
        elif line.startswith("rename to "):
            new, seen_new = _unquote(line[10:]), True
    if not (seen_old and seen_new):
        named = _git_line_paths(header.split("\n", 1)[0])
        old = old if seen_old else named[0]
        new = new if seen_new else named[1]
    if "\nnew file mode" in header:
        old = None
    if "\ndeleted file mode" in header:
        new = None
    return old, new


def _git_line_paths(line: str) -> tuple[str | None, str | None]:
    rest = line.removeprefix("diff --git ")
    if rest.startswith('"'):
        try:
            parts = shlex.split(rest)
        except ValueError:  # a quotation without an end
            return None, None
        return (_strip(parts[0]), _strip(parts[1])) if len(parts) == 2 else (None, None)
    # without renames both names are equal, so the line splits in its middle
    half = len(rest) // 2
    left, right = rest[:half], rest[half + 1 :]
    if left[2:] == right[2:]:
        return _strip(left), _strip(right)
    left, _, right = rest.partition(" ")
    return _strip(left), _strip(right)


def _strip(name: str) -> str | None:
    name = _unquote(name.split("\t")[0].rstrip("\r"))
    if name == "/dev/null":
        return None
    return name[2:] if name[:2] in ("a/", "b/") else name


def _unquote(name: str) -> str:
    if len(name) > 1 and name[0] == name[-1] == '"':
        with suppress(UnicodeDecodeError):  # escapes that are none
            return name[1:-1].encode("latin-1", "backslashreplace").decode("unicode_escape")
    return name
