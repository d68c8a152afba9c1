"""Text files behind two tools, open and grep, for agents that must find their way through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatch

from chimera.environments.base import Environment
from chimera.eval.kits.searching import PatternError, match_counts
from chimera.tools.base import Tool
from chimera.types import JSON, ToolResult

WINDOW_CHARS = 8000
MOST_FILES = 10
MATCHES_A_PAGE = 50
LINE_CHARS = 500


class FilesEnvironment(Environment):
    """Files that can be read and searched, not changed."""

    name = "files"

    def __init__(self, files: Mapping[str, str], system_prompt: str = "") -> None:
        self.system_prompt = system_prompt
        self.lines = {name: files[name].splitlines() for name in sorted(files)}

    def tools(self) -> Sequence[Tool]:
        return [OpenFiles(), GrepFiles()]


def _files_of(env: Environment) -> FilesEnvironment:
    if not isinstance(env, FilesEnvironment):
        raise TypeError("these tools belong to an environment of files")
    return env


class OpenFiles:
    """Shows windows of files."""

    name = "open_files"
    description = (
        f"Open up to {MOST_FILES} files and see a part of each, at most {WINDOW_CHARS} characters, "
        "beginning at a line. Without arguments it lists the files."
    )

    def __init__(self) -> None:
        request = {
            "type": "object",
            "properties": {
                "file_name": {"type": "string", "description": "e.g. 'people.txt'"},
                "offset": {"type": "integer", "description": "first line to show, from 1"},
            },
            "required": ["file_name"],
        }
        self.parameters: Mapping[str, JSON] = {
            "type": "object",
            "properties": {"file_requests": {"type": "array", "items": request}},
            "required": [],
        }

    def execute(self, arguments: Mapping[str, JSON], env: Environment) -> ToolResult:
        files = _files_of(env)
        requests = arguments.get("file_requests") or []
        if not requests:
            listed = [f"{name} ({len(lines)} lines)" for name, lines in files.lines.items()]
            return ToolResult("\n".join(listed))
        if not isinstance(requests, list) or len(requests) > MOST_FILES:
            return ToolResult("", error=f"file_requests is a list of at most {MOST_FILES} files")
        return ToolResult("\n\n".join(_window(files, request) for request in requests))


def _window(files: FilesEnvironment, request: JSON) -> str:
    name = request.get("file_name") if isinstance(request, Mapping) else request
    if name not in files.lines:
        return f"Error: no file '{name}'; there are: {', '.join(files.lines)}"
    lines = files.lines[name]
    offset = request.get("offset") if isinstance(request, Mapping) else None
    first = max(1, offset) if isinstance(offset, int) else 1
    shown: list[str] = []
    size = 0
    for number, line in enumerate(lines[first - 1 :], first):
        entry = f"{number}: {line}"
        if size + len(entry) > WINDOW_CHARS:
            break
        shown.append(entry)
        size += len(entry) + 1
    last = first + len(shown) - 1
    return f"[{name}, lines {first} to {last} of {len(lines)}]\n" + "\n".join(shown)


class GrepFiles:
    """Finds lines by a regular expression."""

    name = "grep_files"
    description = (
        "Find lines that match a regular expression (capitals do not count), with file and line "
        f"number, {MATCHES_A_PAGE} at a time."
    )

    def __init__(self) -> None:
        properties = {
            "pattern": {"type": "string", "description": "a regular expression"},
            "include": {"type": "string", "description": "only files like this, e.g. 'pets.txt'"},
            "context_lines": {
                "type": "integer",
                "description": "lines around each match, up to 10",
            },
            "offset": {"type": "integer", "description": "how many matches to pass over"},
        }
        self.parameters: Mapping[str, JSON] = {
            "type": "object",
            "properties": properties,
            "required": ["pattern"],
        }

    def execute(self, arguments: Mapping[str, JSON], env: Environment) -> ToolResult:
        files = _files_of(env)
        include = str(arguments.get("include") or "*")
        around = _bounded(arguments.get("context_lines"), 10)
        passed_over = _bounded(arguments.get("offset"), 1_000_000)
        names = [name for name in files.lines if fnmatch(name, include)]
        places = [(name, number) for name in names for number in range(len(files.lines[name]))]
        texts = [files.lines[name][number][:LINE_CHARS] for name, number in places]
        try:
            counts = match_counts(str(arguments.get("pattern") or ""), texts)
        except PatternError as error:
            return ToolResult("", error=str(error))
        matches = [place for place, count in zip(places, counts, strict=True) if count]
        page = matches[passed_over : passed_over + MATCHES_A_PAGE]
        shown = [_excerpt(files.lines[name], name, number, around) for name, number in page]
        seen = f"{passed_over + 1} to {passed_over + len(page)} of " if page else ""
        return ToolResult("\n".join([f"[matches: {seen}{len(matches)}]", *shown]))


def _bounded(value: JSON, most: int) -> int:
    return min(max(value, 0), most) if isinstance(value, int) else 0


def _excerpt(lines: Sequence[str], name: str, number: int, around: int) -> str:
    first, last = max(0, number - around), min(len(lines), number + around + 1)
    return "\n".join(f"{name}:{n + 1}: {lines[n][:LINE_CHARS]}" for n in range(first, last))
