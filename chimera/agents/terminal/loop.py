"""The loop of a terminal agent: the model says what to type, and sees what came of it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from chimera.agents.terminal.tmux import Terminal, new_text, settle, shown
from chimera.errors import LimitReached
from chimera.providers.base import ContextOverflow, Provider
from chimera.types import AgentResult, Message, Response, Step, Usage

MAX_TURNS = 50
#: Replies in a row that could not be read, after which the model is given up.
MAX_MALFORMED = 5
#: Braces of a reply at which its JSON object is looked for.
MAX_STARTS = 50
DEFAULT_WAIT, LONGEST_WAIT = 30.0, 180.0

StopReason = Literal["done", "turns", "malformed", "context", "length", "time", "tokens", "cost"]

SYSTEM_PROMPT = """You work in a Linux terminal, a tmux pane with a shell, and solve the user's
task with it. Nobody answers questions; nobody else works there.

Each of your replies is one JSON object and nothing else:

{
  "analysis": "what the screen shows and what follows from it",
  "plan": "what you will do next and why",
  "commands": [
    {"keys": "ls -la /app\\n", "wait": 5}
  ],
  "done": false
}

- "keys" is typed exactly as it stands. End a shell command with \\n, or it is not executed. Control
  keys stand alone: "C-c", "C-d", "C-z", "Escape", "Up". Empty keys only wait.
- "wait" is the longest time in seconds to wait for the command (at most 180). You get the screen as
  soon as the prompt is back or nothing more is printed, so be generous with builds and downloads.
- Commands of one reply are typed one after another. Put several in one reply only when you need not
  see one's output before you type the next.
- Look before you act: read the files the task names, see which tools there are, find out how the
  result will be used. Then work in small steps and check each.
- Programs that take over the screen (editors, pagers) cost turns. Prefer heredocs, sed and
  `| cat`. Answer prompts in advance (`-y`, DEBIAN_FRONTEND=noninteractive).
- When a command fails, read the message and change something; do not repeat it as it was. If the
  terminal hangs, send "C-c". If a server must stay up, start it in the background with its output
  in a file.
- Before you end, prove that the task is solved: run the program, look at the file, call the
  server, against every sentence of the task. Names, paths and formats count to the letter.
- Set "done" to true only then, with no commands. You will be asked once to confirm it.
"""

CONFIRM = """This is the terminal now:

{screen}

You said that the task is done. Once you confirm, your work is graded and you cannot change it.
If every part of the task holds, answer again with "done": true and no commands. If anything is \
missing, go on."""


class MalformedReply(ValueError):
    """A reply that is not the JSON object that was asked for; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Command:
    keys: str
    wait: float = DEFAULT_WAIT


@dataclass(frozen=True, slots=True)
class Turn:
    commands: tuple[Command, ...]
    done: bool


def read_turn(reply: str) -> Turn:
    """The turn in a model's reply, with small damage to the JSON repaired."""
    content = _object(reply)
    commands = content.get("commands", [])
    if not isinstance(commands, list):
        raise MalformedReply('"commands" must be a list of {"keys": …, "wait": …}')
    done = content.get("done", False)
    if not isinstance(done, bool):
        raise MalformedReply('"done" must be true or false')
    if not commands and not done and "commands" not in content:
        raise MalformedReply('the object has neither "commands" nor "done"')
    return Turn(tuple(_command(entry) for entry in commands), done)


def _command(entry: Any) -> Command:
    if isinstance(entry, str):
        return Command(entry if entry.endswith("\n") else entry + "\n")
    if not isinstance(entry, Mapping):
        raise MalformedReply('each command must be an object {"keys": …, "wait": …}')
    keys = entry.get("keys", entry.get("keystrokes"))
    if not isinstance(keys, str):
        raise MalformedReply('a command has no "keys"')
    wait = entry.get("wait", entry.get("duration", DEFAULT_WAIT))
    if isinstance(wait, bool) or not isinstance(wait, int | float):
        raise MalformedReply('"wait" must be a number of seconds')
    return Command(keys, max(0.0, min(float(wait), LONGEST_WAIT)))


def _object(reply: str) -> Mapping[str, Any]:
    """The first JSON object that is a turn; line breaks and a cut end inside it are forgiven."""
    if not reply.strip():
        raise MalformedReply("the reply was empty")
    decoder = json.JSONDecoder(strict=False)
    failure = "there is no JSON object in the reply"
    for match in islice(re.finditer(r"\{", reply), MAX_STARTS):
        text = reply[match.start() :]
        for candidate in (text, _without_trailing_commas(text), text + "}", text + "]}"):
            try:
                content, _ = decoder.raw_decode(candidate)
            except (json.JSONDecodeError, RecursionError) as error:
                if match.start() == reply.find("{") and candidate is text:
                    failure = f"the JSON cannot be read: {error}"
                continue
            if isinstance(content, dict) and ({"commands", "done"} & content.keys()):
                return content
            break
    raise MalformedReply(failure)


def _without_trailing_commas(text: str) -> str:
    return re.sub(r",(\s*[}\]])", r"\1", text)


@dataclass(slots=True)
class Progress:
    """What is known of a run at any moment, so that a time-out loses nothing."""

    usage: Usage = Usage()
    cost: float | None = 0.0
    turns: int = 0
    malformed: int = 0
    stop_reason: StopReason = "turns"
    trajectory: list[Step] = field(default_factory=list)

    def stopped_by(self, limit: LimitReached) -> None:
        self.stop_reason = limit.limit if limit.limit in _STOP_REASONS else "turns"  # type: ignore[assignment]

    def result(self) -> AgentResult:
        last = next((s.message.content for s in reversed(self.trajectory)), "")
        return AgentResult(
            output=last,
            usage=self.usage,
            cost=self.cost,
            steps=self.turns,
            trajectory=tuple(self.trajectory),
            stop_reason=_STOP_REASONS.get(self.stop_reason, self.stop_reason),
            metadata={"malformed_replies": self.malformed},
        )


_STOP_REASONS: Mapping[str, str] = {
    "turns": "limit:steps",
    "time": "limit:time",
    "tokens": "limit:tokens",
    "cost": "limit:cost",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalLoop:
    """Drives a terminal with a model until it says twice in a row that it is done."""

    provider: Provider
    max_turns: int = MAX_TURNS
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    system_prompt: str = SYSTEM_PROMPT

    def run(
        self,
        instruction: str,
        terminal: Terminal,
        *,
        progress: Progress | None = None,
        out_of_time: Callable[[], bool] = lambda: False,
        marker: Callable[[str], None] = lambda text: None,
    ) -> Progress:
        """Work on `instruction`. Faults of the provider and the environment are raised."""
        progress = progress or Progress()
        settle(terminal, 5.0)
        before = terminal.text()
        task = f"{instruction}\n\nThis is the terminal now:\n\n{shown(terminal.screen().strip())}"
        messages = [Message.system(self.system_prompt), Message.user(task)]
        progress.trajectory += [Step(message, timestamp=time.time()) for message in messages]
        in_a_row, confirming = 0, False
        while progress.turns < self.max_turns:
            if out_of_time():
                progress.stop_reason = "time"
                return progress
            response = self._ask(messages, progress)
            if response is None:
                return progress
            progress.turns += 1
            try:
                turn = read_turn(response.content)
            except MalformedReply as error:
                progress.malformed += 1
                in_a_row += 1
                cut = response.stop_reason == "length"
                if in_a_row >= MAX_MALFORMED:
                    progress.stop_reason = "length" if cut else "malformed"
                    return progress
                confirming = False
                said = "it was cut off at the limit of its length; be brief" if cut else str(error)
                self._tell(messages, progress, f"Your reply was not understood: {said}.\n\n{FORM}")
                continue
            in_a_row = 0
            if turn.done and not turn.commands:
                if confirming:
                    progress.stop_reason = "done"
                    return progress
                confirming = True
                screen = shown(terminal.screen().strip())
                self._tell(messages, progress, CONFIRM.format(screen=screen))
                continue
            confirming = False
            marker(f"turn {progress.turns}")
            observation, before = type_commands(terminal, turn.commands, before)
            self._tell(messages, progress, observation)
        progress.stop_reason = "turns"
        return progress

    def _ask(self, messages: list[Message], progress: Progress) -> Response | None:
        """The next reply; None when a limit ended the work (`stop_reason` says which)."""
        try:
            response = self.provider.complete(
                shortened(messages),
                temperature=self.temperature,
                max_tokens=self.max_tokens,
                seed=self.seed,
            )
        except ContextOverflow:
            progress.stop_reason = "context"
            return None
        except LimitReached as limit:
            progress.stopped_by(limit)
            return None
        progress.usage = progress.usage + response.usage
        known = response.cost is not None and progress.cost is not None
        progress.cost = (progress.cost or 0.0) + (response.cost or 0.0) if known else None
        message = response.message()
        messages.append(message)
        progress.trajectory.append(
            Step(message, usage=response.usage, cost=response.cost, timestamp=time.time())
        )
        return response

    @staticmethod
    def _tell(messages: list[Message], progress: Progress, text: str) -> None:
        message = Message.user(text)
        messages.append(message)
        progress.trajectory.append(Step(message, timestamp=time.time()))


FORM = (
    'Answer with one JSON object: {"analysis": "…", "plan": "…", '
    '"commands": [{"keys": "ls\\n", "wait": 5}], "done": false}'
)

#: The conversation is kept under this many characters by dropping old screens.
KEPT_CHARACTERS = 240_000


def shortened(messages: list[Message]) -> list[Message]:
    """The conversation with the oldest screens left out once it grows long."""
    size = sum(len(message.content) for message in messages)
    kept = list(messages)
    for index in range(2, len(kept) - 10):
        if size <= KEPT_CHARACTERS:
            break
        message = kept[index]
        if message.role == "user" and len(message.content) > 200:
            size -= len(message.content)
            kept[index] = Message.user("[an older screen, left out]")
    return kept


def type_commands(
    terminal: Terminal, commands: tuple[Command, ...], before: str
) -> tuple[str, str]:
    """Type, wait, and tell what is new: (the observation, the text to compare with next time)."""
    state = "prompt"
    for command in commands or (Command("", 5.0),):
        terminal.send(command.keys)
        state = settle(terminal, command.wait)
    after = terminal.text()
    new = new_text(before, after)
    if new is None or not new.strip():
        body = f"Nothing new; the screen:\n\n{terminal.screen().rstrip()}"
    else:
        body = f"New output:\n\n{new}"
    note = {
        "prompt": "",
        "quiet": "\n\n[nothing more was printed for a while; a program may still be running]",
        "time": "\n\n[the time to wait is over; a program is still running]",
    }[state]
    return shown(body) + note, after
