"""The exchange of an exercise: files in replies, and one more attempt after the tests were seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from chimera.environments.base import Machine
from chimera.environments.wrapped import WrappedMachine
from chimera.errors import EnvironmentFault
from chimera.text import shortened

#: More test output than this is cut in the middle before a model sees it.
SHOWN_CHARACTERS = 30_000

_FENCE = re.compile(r"(?P<ticks>`{3,})(?P<info>[^`]*)")
_DURATION = re.compile(r"\bin \d+(?:\.\d+)?s\b")


def reply_files(reply: str, editable: Sequence[str]) -> dict[str, str]:
    """Whole files in a reply: the name stands on the line before the fence, or in its first line.

    One block without a name is taken for the one editable file. Of two blocks for a file the later
    one counts. Names of other files are ignored.
    """
    found: dict[str, str] = {}
    unnamed: list[str] = []
    for before, body in _fenced(reply):
        name = _named_file(before, editable)
        if name is None:
            unnamed.append(body)
        else:
            found[name] = body
    if not found and len(editable) == 1 and len(unnamed) == 1:
        found[editable[0]] = unnamed[0]
    return found


def _fenced(reply: str) -> Iterator[tuple[str, str]]:
    """The last line that is not blank before each closed fence, and what the fence is around."""
    lines = reply.split("\n")
    fences = [_FENCE.fullmatch(line) for line in lines]
    closings = [
        fence["ticks"] if fence and not fence["info"].strip(" \t") else "" for fence in fences
    ]
    last = {ticks: index for index, ticks in enumerate(closings)}
    before, end = "", -1
    for index, fence in enumerate(fences):
        if index <= end:
            continue
        if fence and last.get(fence["ticks"], -1) > index:
            end = closings.index(fence["ticks"], index + 1)
            yield before, "".join(f"{line}\n" for line in lines[index + 1 : end])
            before = lines[end]
        elif lines[index].strip():
            before = lines[index].rstrip()


def _named_file(line: str, editable: Sequence[str]) -> str | None:
    """The editable file a heading line names, by its whole path or, if that is clear, its name."""
    words: list[str] = [word.rstrip(".") for word in re.findall(r"[\w./+-]+", line)]
    for word in words:
        if word in editable:
            return word
    for word in words:
        same = [name for name in editable if Path(name).name == Path(word).name]
        if len(same) == 1:
            return same[0]
    return None


def second_message(output: str, editable: Sequence[str]) -> str:
    """What the model is told after a failed attempt."""
    text = shortened(_DURATION.sub("", output).strip(), SHOWN_CHARACTERS)
    names = ", ".join(f"`{name}`" for name in editable)
    return (
        f"{text}\n\nThe tests above were run on your code and did not all pass. The tests are "
        f"right. Find what is wrong in {names} and hand in the corrected code as before."
    )


class TwoAttempts(WrappedMachine):
    """An agent's environment whose other side runs the tests and, once, tells what they printed.

    `judge` is given the solution files and returns the message for the model, or None when the
    tests pass. The tests run elsewhere: nothing of them enters this environment.
    """

    name = "two-attempts"

    def __init__(
        self,
        inner: Machine,
        judge: Callable[[Mapping[str, bytes]], str | None],
        editable: Sequence[str],
        attempts: int,
    ) -> None:
        super().__init__(inner)
        self.judge = judge
        self.editable = tuple(editable)
        self.attempts = attempts
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
