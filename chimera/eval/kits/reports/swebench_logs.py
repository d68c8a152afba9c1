"""Test logs read as swebench reads them, quirks and all: its ids are what the data sets list.

The names are those of the data's `log_parser` column. Version 5.0 is the default; 4.1 decided most
published scores, and reads a few lines otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Literal, cast

from chimera.errors import GraderError
from chimera.eval.kits.apart import SHORT, Ended, apart
from chimera.eval.kits.reports.report import Status

Version = Literal["5.0", "4.1"]
#: The release of each that was compared with.
RELEASES: Mapping[Version, str] = {"5.0": "5.0.2", "4.1": "4.1.0"}

#: CPU time for one log: what was printed by the code under test may be made to be read for ever.
SECONDS = 20
_WORDS: tuple[Status, ...] = ("FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL")
_SKIP_COUNT = re.compile(r"\[\d+\]")
_COLOUR = re.compile(r"\[\d+m")
_CONTROL = dict.fromkeys(range(1, 32))
_PARAMETERS = re.compile(r"(.*?)\[(.*)\]")

LogParser = Callable[[str], dict[str, Status]]


class UnreadableLog(ValueError):
    """A log on which the official parser breaks off: it has no verdict there."""


def parser(name: str, version: Version = "5.0") -> LogParser:
    """The parser a data set's `log_parser` names; those of other languages need swebench itself.

    Long logs are read in a process of their own. `UnreadableLog`: that takes too long.
    """
    _parser(name, version)  # if there is none, that is said at once
    return partial(_bounded, name, version)


def _bounded(name: str, version: Version, log: str) -> dict[str, Status]:
    if len(log) <= SHORT:
        return _parser(name, version)(log)
    try:
        found = apart(statuses_or_fault, name, version, log, seconds=SECONDS)
    except Ended as end:
        raise UnreadableLog(f"the log cannot be read within {end}") from None
    if isinstance(found, str):
        raise UnreadableLog(found)
    return cast("dict[str, Status]", found)


def statuses_or_fault(name: str, version: Version, log: str) -> dict[str, Status] | str:
    """What a log says, or why it cannot be read; for a worker."""
    try:
        return _parser(name, version)(log)
    except UnreadableLog as error:
        return str(error)


def _parser(name: str, version: Version) -> LogParser:
    found = PARSERS.get(name.removeprefix("parse_log_"))
    if version == "4.1" and found is not None:
        found = _AS_IN_4_1.get(found, found)
    found = found or _installed(name)
    if found is None:
        known = ", ".join(sorted(PARSERS))
        raise GraderError(
            f"no log parser is named {name!r}; known: {known}, and with "
            "pip install 'chimera-eval[swebench]' those of swebench"
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
    return {name: status for status, name in _entries(log) if not _counts_skips(status, name)}


def pytest_options(log: str) -> dict[str, Status]:
    """As `pytest_lines`, with an absolute path in brackets cut to its last part."""
    return {
        _short_parameter(name): status
        for status, name in _entries(log)
        if not _counts_skips(status, name)
    }


def pytest_whole_ids(log: str) -> dict[str, Status]:
    """Colour-proof, keeps blanks in ids, and knows the `id STATUS` form of old verbose output."""
    statuses: dict[str, Status] = {}
    for raw in log.split("\n"):
        line = _COLOUR.sub("", raw).translate(_CONTROL)
        if line.startswith(_WORDS):
            if line.startswith("FAILED"):
                line = line.split(" - ", 1)[0]
            words = line.split()
            if len(words) >= 2 and not _counts_skips(words[0], words[1]):
                statuses[" ".join(words[1:])] = cast(Status, words[0])
        elif line.endswith(_WORDS):
            words = line.split()
            if len(words) >= 2:
                statuses[" ".join(words[:-1])] = cast(Status, words[-1])
    return statuses


def _first_words(log: str) -> dict[str, Status]:
    """What 4.1 makes of such logs: an id ends at the first blank, in either order."""
    statuses: dict[str, Status] = {}
    for raw in log.split("\n"):
        line = _COLOUR.sub("", raw).translate(_CONTROL)
        if line.startswith(_WORDS):
            words = line.replace(" - ", " ").split() if line.startswith("FAILED") else line.split()
            if len(words) >= 2:
                statuses[words[1]] = cast(Status, words[0])
        elif line.endswith(_WORDS):
            words = line.split()
            if len(words) >= 2:
                statuses[words[0]] = cast(Status, words[1])
    return statuses


def matplotlib_lines(log: str) -> dict[str, Status]:
    """pytest's summary; enumeration members in ids are listed by value in the data set."""
    return pytest_lines(_mouse_buttons(log))


def _mouse_buttons(log: str) -> str:
    return log.replace("MouseButton.LEFT", "1").replace("MouseButton.RIGHT", "3")


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


def _seaborn_4_1(log: str) -> dict[str, Status]:
    for line in log.split("\n"):
        named = line.startswith(("FAILED", "PASSED")) or " PASSED " in line
        if named and len(line.split()) < 2:
            raise UnreadableLog(f"the log has a line {line!r} that names no test")
    return seaborn_lines(log)


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
            if len(words) == 1:
                raise UnreadableLog(f"the log has a line {header!r} that names no test")
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


def _entries(log: str) -> Iterator[tuple[Status, str]]:
    for line in log.split("\n"):
        if line.startswith(_WORDS):
            words = line.replace(" - ", " ").split() if line.startswith("FAILED") else line.split()
            if len(words) > 1:
                yield cast(Status, words[0]), words[1]


def _counts_skips(status: str, name: str) -> bool:
    """`SKIPPED [2] file:line: reason` counts skips and names no test."""
    return status == "SKIPPED" and _SKIP_COUNT.fullmatch(name) is not None


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

#: 4.1 takes the counts of skips for tests, and cuts the ids of "v2" logs at the first blank.
_AS_IN_4_1: Mapping[LogParser, LogParser] = {
    pytest_lines: lambda log: {name: status for status, name in _entries(log)},
    pytest_options: lambda log: {_short_parameter(name): status for status, name in _entries(log)},
    pytest_whole_ids: _first_words,
    seaborn_lines: _seaborn_4_1,
    matplotlib_lines: lambda log: {n: status for status, n in _entries(_mouse_buttons(log))},
}
