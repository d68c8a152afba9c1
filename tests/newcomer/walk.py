"""Walks a page of the documentation as a newcomer does: every block as it stands, in an empty home.

    python tests/newcomer/walk.py README.md docs/running.md

Shell blocks run line by line, Python blocks as files, in one new directory for each page. A block
whose first line is a comment with a file's name (`# my_bench.py`) is saved under it. A block that
cannot run here has `<!-- not run: why -->` above it and is checked as far as it can be: the shell's
and Python's syntax, and the options of every `chimera` command.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from chimera.cli.main import cli

ROOT = Path(__file__).parents[2]
BLOCK_SECONDS = 900
SHELL = {"sh", "bash", "shell", "console"}
#: How lines of indented blocks begin that are commands.
COMMAND = re.compile(
    r"(#\s*)?((chimera|pip|make|python|git|export|mkdir|cp|cd|cat|eval|docker|tb|harbor|source|echo)"
    r"(\s|$)|(scripts|tests)/|\w+=)"
)
NOT_RUN = re.compile(r"<!--\s*not run:\s*(.+?)\s*-->", re.S)
FILE = re.compile(r"#\s*([\w./-]+\.(?:py|toml|json|sh|yml|yaml))\b")


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str  # sh, python, toml, json, or "" for what is no code
    text: str
    not_run: str = ""  # why

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str | None:
        found = FILE.match(self.text)
        return found[1] if found else None


def pages() -> list[str]:
    docs = sorted((ROOT / "docs").rglob("*.md"))
    return ["README.md", "CONTRIBUTING.md", *(str(page.relative_to(ROOT)) for page in docs)]


def blocks(page: str) -> Iterator[Block]:
    """The code of a page: fenced blocks, and paragraphs indented by four blanks."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    number, reason, comment = 0, "", ""
    while number < len(lines):
        line, start = lines[number], number
        number += 1
        if line.lstrip().startswith("<!--") or comment:
            comment += f"{line}\n"
            if "-->" in line:
                found = NOT_RUN.search(comment)
                reason, comment = (found[1] if found else ""), ""
            continue
        if line.startswith("```"):
            end = next(i for i in range(number, len(lines)) if lines[i].startswith("```"))
            content, number = "\n".join(lines[number:end]), end + 1
            yield _block(page, start + 1, line.strip("` "), content, reason)
        elif line.startswith("    ") and _begins(lines[start - 1] if start else ""):
            end = start
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            content = "\n".join(text[4:] for text in lines[start:end]).rstrip()
            number = end
            yield _block(page, start + 1, "", content, reason)
        elif not line.strip():
            continue
        reason = ""


def _begins(before: str) -> bool:
    """Whether an indented line after this one begins a block."""
    return not before.strip() or before.endswith("-->")


def _block(page: str, line: int, language: str, text: str, reason: str) -> Block:
    first = next((each for each in text.splitlines() if each.strip()), "")
    name = FILE.match(first)
    if language in SHELL:
        language = "sh"
    elif not language and name and not name[1].endswith(".sh"):
        language = {"py": "python", "yml": "yaml"}.get(name[1].rpartition(".")[2], "toml")
    elif not language and re.match(r"(from|import|class|def) ", first):
        language = "python"
    elif not language and COMMAND.match(first):
        language = "sh"
    return Block(page, line, language, text + "\n", reason)


def commands(block: Block) -> Iterator[list[str]]:
    """The words of every `chimera` command of a shell block."""
    joined = block.text.replace("\\\n", " ")
    for line in joined.splitlines():
        for part in re.split(r"\s(?:\|\||&&|\|)\s", line):
            try:
                words = shlex.split(part, comments=True)
            except ValueError:
                words = part.split()
            if words[:1] == ["chimera"] and len(words) > 1:
                yield words[1:]


def check(block: Block) -> None:
    """What can be said of a block without running it; raises what is wrong."""
    if block.language == "python":
        compile(block.text, block.where, "exec")
    elif block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "sh":
        subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)
        for words in commands(block):
            check_options(words)


def check_options(words: Sequence[str]) -> None:
    """That there is such a command and that it has these options."""
    command: click.Command = cli
    context = click.Context(cli, info_name="chimera")
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        found = command.get_command(context, name)
        if found is None:
            raise ValueError(f"there is no command 'chimera {name}'")
        command, context = found, click.Context(found, parent=context, info_name=name)
    if rest[:1] not in (["--help"], ["--version"]):
        command.make_parser(context).parse_args([word for word in rest if word != "…"])


@dataclass(frozen=True)
class Newcomer:
    """Somebody with an empty home, a directory, and Chimera on the PATH."""

    home: Path
    here: Path
    programs: Path

    @classmethod
    def at(cls, place: Path) -> Newcomer:
        made = cls(place / "home", place / "here", place / "bin")
        for folder in (made.home, made.here, made.programs):
            folder.mkdir()
        for name, arguments in (("chimera", "-P -m chimera"), ("python", "")):
            program = made.programs / name
            program.write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
            program.chmod(0o755)
        return made

    def run(self, block: Block) -> None:
        """Do what the block says; a failure is raised with what was printed."""
        file = block.file or (f"block_{block.line}.py" if block.language == "python" else None)
        if file is not None:
            (self.here / file).parent.mkdir(parents=True, exist_ok=True)
            (self.here / file).write_text(block.text)
        if block.language == "python":
            self._execute([sys.executable, str(file)], block)
        elif block.language == "sh":
            self._execute(["bash", "-euo", "pipefail", "-c", block.text], block)
        else:
            check(block)

    def _execute(self, command: Sequence[str], block: Block) -> None:
        done = subprocess.run(
            command, cwd=self.here, env=self._variables(), stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=BLOCK_SECONDS, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(
                f"{block.where} ended with {done.returncode}:\n{block.text}\n{done.stdout[-3000:]}"
            )

    def _variables(self) -> dict[str, str]:
        kept = ("LANG", "LC_ALL", "CHIMERA_LOCAL_THREADS", "PYTHONPATH")
        return {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "HOME": str(self.home),
            "PATH": f"{self.programs}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "COLUMNS": "100",
            "CHIMERA_MAX_TOKENS": "24",  # of the embedded model's replies: nothing hangs on them
        }


def walk(page: str, place: Path) -> None:
    newcomer = Newcomer.at(place)
    for block in blocks(page):
        if block.not_run or not block.language:
            check(block)
        else:
            newcomer.run(block)


def main(arguments: Sequence[str]) -> int:
    failed = 0
    for page in arguments or pages():
        with tempfile.TemporaryDirectory() as folder:
            try:
                walk(page, Path(folder))
            except Exception as error:  # noqa: BLE001 - the next page is walked all the same
                failed += 1
                print(f"{page}: {type(error).__name__}: {error}")
            else:
                print(f"{page}: as it says")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
