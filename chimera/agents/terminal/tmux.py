"""A tmux session somewhere else: keys go in, what is new on the screen comes out."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol, Self

from chimera.environments.base import Machine
from chimera.errors import EnvironmentFault
from chimera.texts import shortened

WIDTH, HEIGHT, HISTORY_LINES = 160, 40, 50_000
#: More new output than this is cut in the middle before the model sees it.
SHOWN_CHARACTERS = 10_000
POLL_SECONDS = 0.25
#: A prompt that has stood this long is taken for one that waits.
SETTLED_SECONDS = 0.5
#: A command that has printed nothing for this long is not waited for any longer.
QUIET_SECONDS = 8.0

#: What a shell, an interpreter or a database shows when it waits for a command.
PROMPT = re.compile(r"(?:^|[\w\])~/ ])(?:[$#]|(?<!\d)%)\s?$|^(?:>>>|\.\.\.|[\w ()-]+[=-]?>)\s?$")


class Terminal(Protocol):
    """What the loop needs of a terminal."""

    def send(self, keys: str) -> None:
        """Type `keys`; a line break is the Enter key, `C-c` and the like are control keys."""

    def text(self) -> str:
        """Everything in the scroll-back and on the screen."""

    def screen(self) -> str:
        """What is visible."""


#: Runs a command where the session is and returns (exit code, output).
Run = Callable[[Sequence[str]], tuple[int, str]]

_CONTROL = re.compile(
    r"(?:C|M)-[a-zA-Z\[\]\\]|Escape|Tab|BSpace|Up|Down|Left|Right|PageUp|PageDown"
)


def key_arguments(keys: str) -> list[list[str]]:
    """The argument lists of `tmux send-keys` that type `keys`: text verbatim, lines with Enter."""
    if _CONTROL.fullmatch(keys.strip()):
        return [[keys.strip()]]
    calls: list[list[str]] = []
    lines = keys.split("\n")
    for number, line in enumerate(lines):
        for start in range(0, len(line), 2000):
            calls.append(["-l", "--", line[start : start + 2000]])
        if number < len(lines) - 1:
            calls.append(["Enter"])
    return calls


class TmuxTerminal:
    """A session of its own in an environment that has tmux; it ends with this object."""

    def __init__(self, run: Run, *, name: str | None = None) -> None:
        self.run = run
        self.name = name or f"chimera-{secrets.token_hex(4)}"

    @classmethod
    def inside(cls, env: Machine) -> Self:
        """A session inside one of Chimera's own environments."""

        def run(command: Sequence[str]) -> tuple[int, str]:
            done = env.run_command(list(command), timeout=30.0)
            if done.timed_out:
                env.require_time(1.0)  # cut off by the trial's limit: no fault of the terminal's
            return done.exit_code, done.stdout.decode("utf-8", "replace") or done.output

        return cls(run)

    def start(self) -> None:
        code, said = self.run(["tmux", "-V"])
        if code != 0:
            raise EnvironmentFault(f"there is no tmux in the environment: {said.strip()}")
        code, said = self.run(
            ["tmux", "new-session", "-d", "-s", self.name, "-x", str(WIDTH), "-y", str(HEIGHT)]
        )
        if code == 0:  # takes effect for panes made after it, so the session gets a new one
            limit = ["set-option", "-t", self.name, "history-limit", str(HISTORY_LINES)]
            code, said = self.run(["tmux", *limit, ";", "respawn-pane", "-k", "-t", self.name])
        if code != 0:
            raise EnvironmentFault(f"tmux did not start: {said.strip()}")

    def stop(self) -> None:
        self.run(["tmux", "kill-session", "-t", self.name])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def send(self, keys: str) -> None:
        for arguments in key_arguments(keys):
            self._tmux("send-keys", "-t", self.name, *arguments)

    def text(self) -> str:
        return self._tmux("capture-pane", "-p", "-J", "-S", "-", "-t", self.name)

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", self.name)

    def _tmux(self, *arguments: str) -> str:
        code, said = self.run(["tmux", *arguments])
        if code != 0:
            raise EnvironmentFault(f"tmux {arguments[0]} failed: {said.strip()[:300]}")
        return said


def settle(
    terminal: Terminal,
    seconds: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Wait until the prompt is back, output has been quiet for long, or `seconds` are over.

    Returns "prompt", "quiet" or "time".
    """
    started = changed = clock()
    seen = terminal.screen()
    while True:
        now = clock()
        if now - changed >= SETTLED_SECONDS and at_prompt(seen):
            return "prompt"
        if now - started >= seconds:
            return "time"
        if now - changed >= QUIET_SECONDS:
            return "quiet"
        sleep(POLL_SECONDS)
        latest = terminal.screen()
        if latest != seen:
            seen, changed = latest, clock()


def at_prompt(screen: str) -> bool:
    lines = [line for line in screen.splitlines() if line.strip()]
    return bool(lines) and PROMPT.search(lines[-1]) is not None


def new_text(before: str, after: str) -> str | None:
    """What was printed since `before`; None when the screen was cleared or redrawn."""
    known = before.rstrip()
    if not after.startswith(known):
        return None
    line = known.rfind("\n") + 1  # the prompt's line again: the command was typed behind it
    return after[line:].strip("\n")


def shown(text: str) -> str:
    return shortened(text, SHOWN_CHARACTERS)
