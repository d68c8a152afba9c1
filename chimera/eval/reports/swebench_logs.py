"""Test logs read as swebench 5.0 reads them, quirks and all: its ids are what the data sets list.

The names are those of the data's `log_parser` column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import cast

from chimera.errors import GraderError
from chimera.eval.reports.types import Status

VERSION = "5.0.2"

_WORDS: tuple[Status, ...] = ("FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL")
_SKIP_COUNT = re.compile(r"\[\d+\]")
_COLOUR = re.compile(r"\[\d+m")
_CONTROL = dict.fromkeys(range(1, 32))
_PARAMETERS = re.compile(r"(.*?)\[(.*)\]")

LogParser = Callable[[str], dict[str, Status]]


def parser(name: str) -> LogParser:
    """The parser a data set's `log_parser` names; those of other languages need swebench itself."""
    found = PARSERS.get(name.removeprefix("parse_log_")) or _installed(name)
    if found is None:
        known = ", ".join(sorted(PARSERS))
        raise GraderError(
            f"no log parser is named {name!r}; known: {known}, and with "
            "pip install 'chimera[swebench]' those of swebench"
        )
    return found


def _installed(name: str) -> LogParser | None:
    """A parser of the swebench package, where that is installed."""
    if find_spec("swebench") is None:
        return None
    from swebench.harness.log_parsers import PARSER_REGISTRY

    official = PARSER_REGISTRY.get(name)
    return None if official is None else lambda log: dict(official(log, None))


def pytest_lines(log: str) -> dict[str, Status]:
    """`STATUS id …` lines of the short summary; an id ends at the first blank."""
    statuses: dict[str, Status] = {}
    for line in log.split("\n"):
        if entry := _summary_entry(line):
            statuses[entry[1]] = entry[0]
    return statuses


def pytest_options(log: str) -> dict[str, Status]:
    """As `pytest_lines`, with an absolute path in brackets cut to its last part."""
    statuses: dict[str, Status] = {}
    for line in log.split("\n"):
        if entry := _summary_entry(line):
            statuses[_short_parameter(entry[1])] = entry[0]
    return statuses


def pytest_whole_ids(log: str) -> dict[str, Status]:
    """Colour-proof, keeps blanks in ids, and knows the `id STATUS` form of old verbose output."""
    statuses: dict[str, Status] = {}
    for raw in log.split("\n"):
        line = _COLOUR.sub("", raw).translate(_CONTROL)
        if line.startswith(_WORDS):
            if line.startswith("FAILED"):
                line = line.split(" - ", 1)[0]
            words = line.split()
            if len(words) >= 2 and not _counts_skips(words):
                statuses[" ".join(words[1:])] = cast(Status, words[0])
        elif line.endswith(_WORDS):
            words = line.split()
            if len(words) >= 2:
                statuses[" ".join(words[:-1])] = cast(Status, words[-1])
    return statuses


def matplotlib_lines(log: str) -> dict[str, Status]:
    """pytest's summary; enumeration members in ids are listed by value in the data set."""
    return pytest_lines(log.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3"))


def seaborn_lines(log: str) -> dict[str, Status]:
    """Passes and failures only, in either word order."""
    statuses: dict[str, Status] = {}
    for line in log.split("\n"):
        words = line.split()
        if len(words) < 2:
            continue
        if line.startswith("FAILED"):
            statuses[words[1]] = "FAILED"
        elif " PASSED " in line:
            if words[1] == "PASSED":
                statuses[words[0]] = "PASSED"
        elif line.startswith("PASSED"):
            statuses[words[1]] = "PASSED"
    return statuses


_DJANGO_PASS = (" ... ok", " ... OK", " ...  OK")
_DJANGO_SPREAD = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^(.*?)\s\.\.\.\sTesting against Django installed in (?s:.*?) silenced\)\.\nok$",
        r"^(.*?)\s\.\.\.\sInternal Server Error: /.*/\nok$",
        r"^(.*?)\s\.\.\.\sSystem check identified no issues \(0 silenced\)\nok$",
    )
)


def django_lines(log: str) -> dict[str, Status]:
    """unittest's verbose output: the text before ` ... ` is the id, even if it is a docstring."""
    statuses: dict[str, Status] = {}
    latest: str | None = None
    for raw in log.split("\n"):
        line = raw.strip()
        if "--version is equivalent to version" in line:
            statuses["--version is equivalent to version"] = "PASSED"
        if " ... " in line:
            latest = line.split(" ... ")[0]
        for suffix in _DJANGO_PASS:
            if line.endswith(suffix):
                if line.startswith("Applying sites.0002_alter_domain_unique...test_no_migrations"):
                    line = line.split("...", 1)[-1].strip()
                statuses[line.rsplit(suffix, 1)[0]] = "PASSED"
                break
        _django_other(line, statuses)
        if line.startswith("ok") and latest is not None:
            statuses[latest] = "PASSED"  # output of the test stood between its name and the result
    for pattern in _DJANGO_SPREAD:
        for match in pattern.finditer(log):
            statuses[match[1]] = "PASSED"
    return statuses


def _django_other(line: str, statuses: dict[str, Status]) -> None:
    if " ... skipped" in line:
        statuses[line.split(" ... skipped")[0]] = "SKIPPED"
    for word, header, status in (("FAIL", "FAIL:", "FAILED"), ("ERROR", "ERROR:", "ERROR")):
        if line.endswith(f" ... {word}"):
            statuses[line.split(f" ... {word}")[0]] = cast(Status, status)
        if line.startswith(header):
            words = line.split()
            if len(words) > 1:  # a log cut right after the colon
                statuses[words[1]] = cast(Status, status)


_SYMPY_HEADER = re.compile(r"(_*) (.*)\.py:(.*) (_*)")
_SYMPY_MARKS: Mapping[str, Status] = {" E": "ERROR", " F": "FAILED", " ok": "PASSED"}


def sympy_lines(log: str) -> dict[str, Status]:
    """`test_name ok|F|E` lines, and the headers of failures."""
    statuses: dict[str, Status] = {}
    for _, file, name, _ in _SYMPY_HEADER.findall(log):
        statuses[f"{file}.py:{name}"] = "FAILED"
    for raw in log.split("\n"):
        line = raw.strip()
        if line.startswith("test_"):
            for mark, status in _SYMPY_MARKS.items():
                if line.endswith(mark):
                    statuses[line.split()[0]] = status
    return statuses


def _summary_entry(line: str) -> tuple[Status, str] | None:
    if not line.startswith(_WORDS):
        return None
    if line.startswith("FAILED"):
        line = line.replace(" - ", " ")
    words = line.split()
    if len(words) <= 1 or _counts_skips(words):
        return None
    return cast(Status, words[0]), words[1]


def _counts_skips(words: list[str]) -> bool:
    """`SKIPPED [2] file:line: reason` counts skips and names no test."""
    return words[0] == "SKIPPED" and _SKIP_COUNT.fullmatch(words[1]) is not None


def _short_parameter(name: str) -> str:
    match = _PARAMETERS.search(name)
    if match is None:
        return name
    stem, option = match.groups()
    if option.startswith("/") and not option.startswith("//") and "*" not in option:
        option = "/" + option.rsplit("/", 1)[-1]
    return f"{stem}[{option}]"


PARSERS: Mapping[str, LogParser] = {
    **dict.fromkeys(
        ("pytest", "astroid", "flask", "marshmallow", "pvlib", "pyvista", "sqlfluff", "xarray"),
        pytest_lines,
    ),
    **dict.fromkeys(("pytest_options", "pydicom", "requests", "pylint"), pytest_options),
    **dict.fromkeys(("pytest_v2", "astropy", "scikit", "sphinx"), pytest_whole_ids),
    "matplotlib": matplotlib_lines,
    "seaborn": seaborn_lines,
    "django": django_lines,
    "sympy": sympy_lines,
}
