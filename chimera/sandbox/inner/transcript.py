"""The record of a conversation: lines that say what was asked (>), answered (<), or ended it (!).

The record is plain text and all that a verdict rests on: held against it, the same tests come to
the same end, with no answer anywhere near.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any, NoReturn

from .codec import Decoder, parsed, to_text
from .link import AnswerEnded, Deadline, Link

STORED_CHARACTERS = 1 << 16
CUT = "…"
SHOWN = 200


class Diverged(AnswerEnded):
    """The tests asked something else than they did before."""


class Replay(Link):
    """The answer's part read from a record; whatever the tests say must be in it, in its order."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__(-1, trusting=False)
        self.lines = iter(lines)

    def put(self, text: str) -> None:
        if next(self.lines, "") != ">" + text:
            self.diverge()

    def take(self, deadline: Deadline | None) -> str:
        line = next(self.lines, "")
        if line.startswith("!"):
            why, limit = parsed(line[1:])
            self.end(str(why), limit if limit is None else str(limit))
        if not line.startswith("<"):
            self.diverge()
        return line[1:]

    def deadline(self) -> Deadline | None:
        return None

    def diverge(self) -> NoReturn:
        self.broken = Diverged("the tests did not ask the same of the same answers")
        raise self.broken


class Neutral(Link):
    """The control: an answer whose every name is a function that returns None."""

    def __init__(self) -> None:
        super().__init__(-1, trusting=False)
        self.said = '["loaded",null]'

    def put(self, text: str) -> None:
        _, number, operation, *payload = parsed(text)
        value: Any = None
        if operation == "names":
            value = {"d": [[name, {"object": [0, "function"]}] for name in payload[0]]}
        self.said = to_text(["done", number, value, None, []])

    def take(self, deadline: Deadline | None) -> str:
        return self.said


def bounded(lines: Sequence[str]) -> list[str]:
    """The lines of a record as far as it is stored; one that was cut ends with `…`."""
    room, kept = STORED_CHARACTERS, list[str]()
    for line in lines:
        room -= len(line)
        if room < 0:
            return [*kept, CUT]
        kept.append(line)
    return kept


class Shown(reprlib.Repr):
    """Values as text of bounded length, made in bounded time."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = 20
        self.maxdeque = self.maxarray = 20
        self.maxstring = self.maxother = self.maxlong = 100


def shown(value: Any) -> str:
    try:
        text = Shown().repr(value)
    except Exception:  # noqa: BLE001 - a value of the answer need not let itself be shown
        text = f"a value of type {type(value).__name__}"
    return cut(text)


def cut(text: str, most: int = SHOWN) -> str:
    """At most so many characters, without the middle: the end says as much as the beginning."""
    half = most // 2
    return text if len(text) <= most else f"{text[: most - half]}…{text[-half:]}"


def last_call(lines: Sequence[str]) -> str:
    """`called f(1, 2) → got 3`, of the last call in a good record; "" where there is none."""
    for place in range(len(lines) - 1, -1, -1):
        message = parsed(lines[place][1:]) if lines[place][0] == "<" else [""]
        if message[0] != "done" or message[3] is not None:
            continue
        start = f'>["ask",{message[1]},"call",'
        question = next((line for line in lines[place::-1] if line.startswith(start)), None)
        if question is not None:
            return told(parsed(question[1:]), message, names_in(lines))
    return ""


def told(question: list[Any], reply: list[Any], names: dict[int, str]) -> str:
    _, _, _, handle, *arguments = question
    decoder = Decoder([], Handle)
    given = [shown(each) for each in decoder.decode(arguments[0])]
    named = decoder.decode(arguments[1]) if len(arguments) > 1 else {}
    given += [f"{name}={shown(each)}" for name, each in named.items()]
    call = f"{names.get(handle, 'it')}({', '.join(given)})"
    return f"called {cut(call)} → got {shown(decoder.decode(reply[2]))}"


def names_in(lines: Sequence[str]) -> dict[int, str]:
    """The names of handles: after the greeting, the first thing that tests ask for."""
    (pairs,) = parsed(lines[2][1:])[2].values()
    return {each["object"][0]: name for name, each in pairs if is_handle(each)}


def is_handle(encoded: Any) -> bool:
    return type(encoded) is dict and "object" in encoded


class Handle:
    """What stands for an object where a record is shown."""

    def __init__(self, tag: str, payload: Any) -> None:
        self.text = f"<{payload[1]}>" if tag == "object" else f"<{tag} {payload}>"

    def __repr__(self) -> str:
        return self.text
