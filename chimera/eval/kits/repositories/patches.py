"""Unified diffs as values: their files, their hunks, and the files that steer a test run."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePosixPath

_FILE_START = re.compile(r"(?m)^diff --git ")
_PLAIN_START = re.compile(r"(?m)^--- (?=.*\n\+\+\+ )")
_HUNK_START = re.compile(r"(?m)^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True)
class Hunk:
    """One `@@` block: its text and the line numbers it removes (old) and adds (new)."""

    text: str
    removed: tuple[int, ...]
    added: tuple[int, ...]


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


def largest_hunk(patch: str) -> int:
    """The number of the hunk that changes most lines of program code."""
    best, best_size, number = 0, -1, 0
    for file in parse(patch):
        is_code = file.path.endswith((".py", ".js", ".ts", ".java")) and "doc" not in file.path
        for hunk in file.hunks:
            size = (len(hunk.added) + len(hunk.removed)) if is_code else 0
            if size > best_size:
                best, best_size = number, size
            number += 1
    return best


def hunk_count(diff: str) -> int:
    return sum(len(file.hunks) for file in parse(diff))


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
        parts = shlex.split(rest)
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
        return name[1:-1].encode("latin-1", "backslashreplace").decode("unicode_escape")
    return name


#: Names that a test runner reads before it runs a test.
STEERING_NAMES = frozenset(
    {
        "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", "tox.ini", "setup.cfg",
        "setup.py", "pyproject.toml", "sitecustomize.py", "usercustomize.py", "noxfile.py",
        ".coveragerc", "runtests.py", "pytestdebug.py",
        "jest.config.js", "jest.config.ts", "jest.config.cjs", "jest.config.mjs",
        "jest.config.json", ".mocharc.js", ".mocharc.cjs", ".mocharc.json", ".mocharc.jsonc",
        ".mocharc.yml", ".mocharc.yaml", "mocha.opts", "karma.conf.js", "vitest.config.js",
        "vitest.config.ts", "vitest.config.mjs", "vitest.config.mts", "vitest.workspace.ts",
        ".babelrc", ".babelrc.js", ".babelrc.json", "babel.config.js", "babel.config.cjs",
        "babel.config.json", ".swcrc", ".nycrc", ".taprc", ".npmrc", ".yarnrc", ".yarnrc.yml",
        "pom.xml", "mvnw", "gradlew", "build.gradle", "build.gradle.kts", "settings.gradle",
        "settings.gradle.kts", "gradle.properties", "testng.xml", "junit-platform.properties",
        "surefire.properties", ".mvn", "CTestTestfile.cmake",
    }
)  # fmt: skip
_STEERING_SUFFIXES = (".pth", ".egg-link", ".pyc")
_STEERING_PATHS = (
    re.compile(r"^bin/(test|doctest|test_.*)$"),
    re.compile(r"^sympy/(testing|utilities)/(py)?(runtests|tests?|randtest|benchmarking)\w*\.py$"),
    re.compile(r"^tests/test_sqlite\.py$"),
    re.compile(r"(^|/)(\.mvn|node_modules|site-packages|__pycache__|\.chimera-metadata)/"),
    re.compile(r"(^|/)[^/]+\.(dist|egg)-info/"),
    # what a build left: classes that win over the sources, and reports of runs that never were
    re.compile(r"(^|/)target/((test-)?classes|[\w-]+-reports)/"),
    re.compile(r"(^|/)build/(classes|test-results|reports)/"),
    re.compile(r"^(gradle|buildSrc)/"),
    re.compile(r"(^|/)(META-INF/services/(org\.junit|org\.testng|org\.apache\.maven)|mockito-ext)"),
)
#: Packages of Java's test libraries below a folder of sources; a project's own class wins.
_JAVA_LIBRARIES = re.compile(
    r"(?:^|(?:^|/)(?:src|main|test|java|kotlin|groovy|resources)/)"
    r"(?:org/(?:junit|hamcrest|assertj|mockito|testng|opentest4j|easymock|powermock|spockframework"
    r"|apache/maven/surefire)|junit/(?:framework|runner|textui)|com/google/common/truth)"
    r"/[\w/$]+\.(?:java|kt|groovy|class)$"
)
_RUNNER_MODULES = frozenset(
    {
        "pytest", "_pytest", "pluggy", "py", "xdist", "execnet", "coverage", "tblib", "iniconfig",
        "packaging", "attr", "exceptiongroup", "tomli", "hypothesis", "nose", "chimera_watch",
    }
)  # fmt: skip
_ROOTS = ((), ("src",), ("lib",), ("bin",))


def steering_files(diff: str, *, expected: Sequence[str] = ()) -> frozenset[str]:
    """Paths of a diff that could change how tests are run rather than what they test.

    `expected` are diffs (gold patch, test patch) whose own files are part of the task.
    """
    ordinary = frozenset().union(*(paths(other) for other in expected))
    found: set[str] = set()
    for file in parse(diff):
        names = {p for p in (file.old, file.new) if p}
        if any(steers(p, new=file.old is None) for p in names) and not names <= ordinary:
            found |= names
    return frozenset(found)


def steers(path: str, *, new: bool) -> bool:
    """Whether a file at this path is read by a test runner, or shadows a module it imports."""
    pure = PurePosixPath(path)
    if pure.name in STEERING_NAMES or pure.name.endswith(_STEERING_SUFFIXES):
        return True
    if any(pattern.search(path) for pattern in _STEERING_PATHS):
        return True
    return new and (_shadows(pure) or _JAVA_LIBRARIES.search(path) is not None)


def _shadows(path: PurePosixPath) -> bool:
    """A new file that `import unittest` (or pytest, …) would find before the real one.

    Such a file must lie where a runner looks first: at the root of the code, or among the tests.
    """
    if path.suffix not in (".py", ".so", ".pyc"):
        return False
    is_package = path.name == "__init__.py"
    module = path.parent.name if is_package else path.name.split(".")[0]
    folders = path.parts[:-2] if is_package else path.parts[:-1]
    if module not in _RUNNER_MODULES | sys.stdlib_module_names:
        return False
    return folders in _ROOTS or any(folder.startswith("test") for folder in folders)


def drop_files(diff: str, unwanted: frozenset[str]) -> str:
    """The diff less every file block that reads or writes one of these paths."""
    return join(file for file in parse(diff) if not ({file.old, file.new} & unwanted))


_REPOSITORY_INSIDES = re.compile(
    r"(?m)^(?:---|\+\+\+|\*\*\*|Index:|rename (?:from|to)|copy (?:from|to)|diff --git)"
    r"[^\n]*[ /\"]\.git(?:/|[\"\s]|$)"
)


def reaches_into_git(diff: str) -> bool:
    """Whether a header names a file inside `.git`, which no honest diff does."""
    return _REPOSITORY_INSIDES.search(diff) is not None
