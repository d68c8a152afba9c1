"""The exchange of an exercise: files in replies, and one more attempt after the tests were seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from chimera.environments.base import Environment, Process
from chimera.errors import EnvironmentFault
from chimera.tools.base import Tool
from chimera.types import CommandResult, TestResult

#: More test output than this is cut in the middle before a model sees it.
SHOWN_CHARACTERS = 30_000

_FENCE = re.compile(
    r"^(?P<fence>`{3,})[^\n`]*\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL
)
_DURATION = re.compile(r"\bin \d+(?:\.\d+)?s\b")


def reply_files(reply: str, editable: Sequence[str]) -> dict[str, str]:
    """Whole files in a reply: the name stands on the line before the fence, or in its first line.

    One block without a name is taken for the one editable file. Of two blocks for a file the later
    one counts. Names of other files are ignored.
    """
    found: dict[str, str] = {}
    unnamed: list[str] = []
    for block in _FENCE.finditer(reply):
        before = reply[: block.start()].rstrip().rsplit("\n", 1)[-1]
        name = _named_file(before, editable)
        if name is None:
            unnamed.append(block["body"])
        else:
            found[name] = block["body"]
    if not found and len(editable) == 1 and len(unnamed) == 1:
        found[editable[0]] = unnamed[0]
    return found


def _named_file(line: str, editable: Sequence[str]) -> str | None:
    """The editable file a heading line names, by its whole path or, if that is clear, its name."""
    words: list[str] = re.findall(r"[\w./+-]+", line)
    for word in words:
        if word in editable:
            return word
    for word in words:
        same = [name for name in editable if Path(name).name == word]
        if len(same) == 1:
            return same[0]
    return None


def second_message(output: str, editable: Sequence[str]) -> str:
    """What the model is told after a failed attempt."""
    text = _DURATION.sub("", output).strip()
    if len(text) > SHOWN_CHARACTERS:
        half = SHOWN_CHARACTERS // 2
        cut = len(text) - 2 * half
        text = f"{text[:half]}\n… {cut} characters left out …\n{text[-half:]}"
    names = ", ".join(f"`{name}`" for name in editable)
    return (
        f"{text}\n\nThe tests above were run on your code and did not all pass. The tests are "
        f"right. Find what is wrong in {names} and hand in the corrected code as before."
    )


class TwoAttempts(Environment):
    """An agent's environment whose other side runs the tests and, once, tells what they printed.

    `judge` is given the solution files and returns the message for the model, or None when the
    tests pass. The tests run elsewhere: nothing of them enters this environment.
    """

    name = "two-attempts"

    def __init__(
        self,
        inner: Environment,
        judge: Callable[[Mapping[str, bytes]], str | None],
        editable: Sequence[str],
        attempts: int,
    ) -> None:
        self.inner = inner
        self.judge = judge
        self.editable = tuple(editable)
        self.attempts = attempts
        self.workdir = inner.workdir
        self.used = 0
        self.malformed = 0
        self._seen = self.solution()
        self._applied: str | None = None

    def reply(self, text: str) -> str | None:
        self.apply(text)
        self.used += 1
        if self.used >= self.attempts:
            return None
        return self.judge(self.solution())

    def apply(self, text: str) -> None:
        """Write the files of a reply; a reply that changes nothing at all is malformed."""
        if text == self._applied:
            return
        self._applied = text
        for name, content in reply_files(text, self.editable).items():
            self.inner.write_file(name, content)
        now = self.solution()
        if now == self._seen:
            self.malformed += 1
        self._seen = now

    def solution(self) -> dict[str, bytes]:
        """The editable files as they are; one that was deleted is left out."""
        files: dict[str, bytes] = {}
        for name in self.editable:
            try:
                files[name] = self.inner.read_file(name)
            except (OSError, EnvironmentFault):
                continue
        return files

    @property
    def deadline(self) -> float | None:
        return self.inner.deadline

    @deadline.setter
    def deadline(self, value: float | None) -> None:
        self.inner.deadline = value

    def run_command(
        self,
        command: str | Sequence[str],
        *,
        timeout: float = 120.0,
        cwd: str | None = None,
        variables: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        output_bytes: int | None = None,
    ) -> CommandResult:
        return self.inner.run_command(
            command,
            timeout=timeout,
            cwd=cwd,
            variables=variables,
            stdin=stdin,
            output_bytes=output_bytes,
        )

    def open_process(
        self,
        command: Sequence[str],
        *,
        cwd: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Process:
        return self.inner.open_process(command, cwd=cwd, variables=variables)

    def read_file(self, path: str) -> bytes:
        return self.inner.read_file(path)

    def write_file(self, path: str, content: bytes | str) -> None:
        self.inner.write_file(path, content)

    def list_files(self, pattern: str = "**/*") -> list[str]:
        return self.inner.list_files(pattern)

    def run_tests(self, command: str, *, timeout: float = 600.0) -> TestResult:
        return self.inner.run_tests(command, timeout=timeout)

    def copy_in(self, source: Path, target: str) -> None:
        self.inner.copy_in(source, target)

    def copy_out(self, source: str, target: Path) -> None:
        self.inner.copy_out(source, target)

    def stop_processes(self) -> None:
        self.inner.stop_processes()

    def close(self) -> None:
        self.inner.close()

    def tools(self) -> Sequence[Tool]:
        return self.inner.tools()
