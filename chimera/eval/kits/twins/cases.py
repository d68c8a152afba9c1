"""A test by the places in its source, and the two forms that are made of it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

Other = Callable[[bytes, random.Random], bytes]


@dataclass(frozen=True, slots=True)
class Expectation:
    """A literal that something is compared with, and how to write another value of its kind."""

    start: int
    end: int
    other: Other


@dataclass(frozen=True, slots=True)
class Case:
    """One test: its expectations, and where and how a check can be added when there are none.

    `further` expectations are not changed beside the others: they would hide what equals all.
    """

    expectations: Sequence[Expectation] = ()
    place: int | None = None
    check: str = ""  # with {number} and {other}, the same in the true run
    further: Sequence[Expectation] = ()

    def chosen(self, choice: str | None) -> Sequence[Expectation]:
        """Those that a twin changes: all, or the one that a choice falls on."""
        if choice is None or not self.expectations:
            return self.expectations
        return [random.Random(choice).choice([*self.expectations, *self.further])]

    @property
    def twinned(self) -> bool:
        return bool(self.expectations) or self.place is not None


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A test file in one of its two forms, and how many of its tests differ between them."""

    content: bytes
    tests: int
    twinned: int


def rewrite(
    source: bytes,
    cases: Sequence[Case],
    comment: str,
    *,
    twin: bool,
    seed: random.Random,
    kept: int | None = None,
    choice: int | None = None,
) -> Rewritten:
    """One of the two forms; in a twin, the test of the number `kept` stays as it is in the true.

    With a choice, one expectation of each test changes, the same one for the same choice.
    """
    same = () if kept is None else cases[kept].expectations
    untouched = {(each.start, each.end) for each in same}
    edits: list[tuple[int, int, bytes]] = []
    for index, case in enumerate(cases):
        changed = twin and index != kept
        if changed:
            edits += [(e.start, e.end, e.other(source[e.start : e.end], seed))
                      for e in case.chosen(None if choice is None else f"{choice} {index}")
                      if (e.start, e.end) not in untouched]  # fmt: skip
        if not case.expectations and case.place is not None:
            number = seed.randrange(10**6, 10**9)
            other = number + seed.randrange(1, 10**6) if changed else number
            edits.append((case.place, case.place, _check(case.check, number, other)))
    nonce = f"\n{comment} {seed.getrandbits(64):016x}\n".encode()
    content = _edited(source, edits) + nonce
    return Rewritten(content, len(cases), sum(case.twinned for case in cases))


def _check(template: str, number: int, other: int) -> bytes:
    return template.replace("{number}", str(number)).replace("{other}", str(other)).encode()


def _edited(source: bytes, edits: Iterable[tuple[int, int, bytes]]) -> bytes:
    parts: list[bytes] = []
    position = 0
    for start, end, content in sorted(set(edits)):
        parts += [source[position:start], content]
        position = end
    return b"".join([*parts, source[position:]])


# Other values, written as their language writes them. A number stays one of its type: the smaller
# ones grow and the others shrink, so that none leaves the range of a byte.


def other_number(text: bytes, seed: random.Random) -> bytes:
    """Another number: its last digit changes in another base, else its last group before a point;
    whatever else it is written with stays."""
    based = re.match(rb"-?0(?:[xX][0-9a-fA-F_]+|[bBoO][0-7_]+)", text)
    if based is not None:
        last = len(based[0].rstrip(b"_")) - 1
        return text[:last] + (b"1" if text[last:].startswith(b"0") else b"0") + text[last + 1 :]
    digits = re.search(rb"((?:\d+['_])*)(\d+)", text)
    if digits is None:
        return text
    change, value = seed.randrange(1, 9), int(digits[2])
    changed = value + change if value < 50 else value - change
    width = len(digits[2]) if digits[1] else 0
    return text[: digits.start(2)] + str(changed).zfill(width).encode() + text[digits.end() :]


def other_text(text: bytes, seed: random.Random) -> bytes:
    """Another text: letters before the closing quote."""
    quotes = re.search(rb"[\"'`]#*$", text)
    if quotes is None:
        return text
    letters = "".join(seed.choices("abcdefghijklmnopqrstuvwxyz", k=5)).encode()
    return text[: quotes.start()] + letters + quotes[0]


def some_text(text: bytes, seed: random.Random) -> bytes:
    """A text, whatever stood there."""
    return b'"' + "".join(seed.choices("abcdefghijklmnopqrstuvwxyz", k=9)).encode() + b'"'


def instead(other: bytes) -> Other:
    """Always the same other text, for an assertion that becomes its opposite."""
    return lambda text, seed: other


def other_letter(text: bytes, seed: random.Random) -> bytes:
    """Another character literal."""
    letters = [letter for letter in "abcdefgh" if letter.encode() not in text]
    return f"'{seed.choice(letters)}'".encode()


def other_truth(text: bytes, seed: random.Random) -> bytes:
    """The opposite, in the same capitals."""
    words = {b"true": b"false", b"false": b"true", b"True": b"False", b"False": b"True"}
    return words.get(text, text)
