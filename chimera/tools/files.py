"""Viewing and editing files as tools."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from chimera.environments.base import Environment, Machine, machine
from chimera.types import JSON, Image, ToolResult

VIEWED_LINES = 400
VIEWED_CHARS = 60_000
LISTED = 500
PICTURE_BYTES = 5 * 1024**2
PICTURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def _view_parameters() -> Mapping[str, JSON]:
    return {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "A file or a directory"},
            "start": {"type": "integer", "description": "First line (from 1)"},
            "end": {"type": "integer", "description": "Last line"},
        },
        "required": ["path"],
    }


def _edit_parameters() -> Mapping[str, JSON]:
    return {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "old": {
                "type": "string",
                "description": "The exact text to replace; empty to write a new file",
            },
            "new": {"type": "string", "description": "What takes its place"},
            "replace_all": {"type": "boolean", "description": "Replace every occurrence"},
        },
        "required": ["path", "new"],
    }


@dataclass(frozen=True, slots=True)
class ViewTool:
    """Shows a file with line numbers, or what a directory holds."""

    name: str = "view"
    description: str = "Show a text file with line numbers, or list a directory two levels deep."
    parameters: Mapping[str, JSON] = field(default_factory=_view_parameters)
    parallel: bool = True  # it changes nothing

    def execute(self, arguments: Mapping[str, JSON], env: Environment) -> ToolResult:
        path, inside = str(arguments["path"]), machine(env)
        try:
            content = inside.read_file(path)
        except IsADirectoryError:
            return listing(path, inside)
        except OSError as error:
            return ToolResult("", str(error))
        media_type = picture_type(content)
        if media_type is not None and len(content) <= PICTURE_BYTES:
            image = Image(media_type, base64.b64encode(content).decode())
            return ToolResult(f"{path} is a picture ({media_type})", images=(image,))
        if b"\0" in content[:8192]:
            return ToolResult("", f"{path} is a binary file of {len(content)} bytes")
        lines = content.decode("utf-8", "replace").splitlines()
        start = max(1, int(arguments.get("start") or 1))
        end = min(len(lines), int(arguments.get("end") or len(lines)), start + VIEWED_LINES - 1)
        if lines and start > len(lines):
            return ToolResult("", f"{path} has {len(lines)} lines, none numbered {start}")
        shown = "\n".join(
            f"{number:6d}\t{line}" for number, line in enumerate(lines[start - 1 : end], start)
        )
        rest = len(lines) - end
        more = f"\n[{rest} more lines; view from {end + 1}]" if rest > 0 else ""
        return ToolResult((shown[:VIEWED_CHARS] or "[the file is empty]") + more)


def picture_type(content: bytes) -> str | None:
    """The media type of a picture that models take, by its first bytes."""
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in PICTURES.items() if content.startswith(start)), None)


def listing(path: str, env: Machine) -> ToolResult:
    """Names below a directory, directories with a slash."""
    command = (
        f"cd {shlex.quote(path)} && "
        "find . -maxdepth 2 -name .git -prune -o -type d -print -o -print | sort"
    )
    result = env.run_command(command, timeout=30, output_bytes=VIEWED_CHARS)
    if not result.success:
        return ToolResult("", result.output.strip() or f"{path} cannot be listed")
    names = [line.removeprefix("./") for line in result.output.splitlines() if line != "."]
    more = f"\n[{len(names) - LISTED} more]" if len(names) > LISTED else ""
    return ToolResult(("\n".join(names[:LISTED]) or "[the directory is empty]") + more)


@dataclass(frozen=True, slots=True)
class EditTool:
    """Replaces a piece of text that occurs exactly once, or writes a new file."""

    name: str = "edit"
    description: str = (
        "Change a text file: `old` must occur exactly once (or set replace_all) and is replaced "
        "by `new`. With `old` empty, a new file with the content `new` is written."
    )
    parameters: Mapping[str, JSON] = field(default_factory=_edit_parameters)

    def execute(self, arguments: Mapping[str, JSON], env: Environment) -> ToolResult:
        path, old, new = (str(arguments.get(name) or "") for name in ("path", "old", "new"))
        try:
            return self._edited(path, old, new, bool(arguments.get("replace_all")), machine(env))
        except OSError as error:
            return ToolResult("", str(error))

    def _edited(self, path: str, old: str, new: str, replace_all: bool, env: Machine) -> ToolResult:
        try:
            # bytes, so that what is not touched stays as it is, whatever its encoding
            content = env.read_file(path)
        except FileNotFoundError:
            if old:
                return ToolResult("", f"{path} does not exist; leave `old` empty to write it")
            env.write_file(path, new)
            return ToolResult(f"{path} was written")
        if not old:
            if content:
                return ToolResult("", f"{path} already has content; say in `old` what to replace")
            env.write_file(path, new)
            return ToolResult(f"{path} was written")
        found = content.count(old.encode())
        if found == 0:
            return ToolResult("", f"`old` does not occur in {path}; view it and copy it exactly")
        if found > 1 and not replace_all:
            return ToolResult("", f"`old` occurs {found} times in {path}; give more around it")
        env.write_file(path, content.replace(old.encode(), new.encode()))
        places = "1 place" if found == 1 else f"{found} places"
        return ToolResult(f"{path} was changed in {places}")
