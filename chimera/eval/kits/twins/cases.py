"""A test by the places in its source, and the two forms that are made of it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from chimera.eval.kits.twins.reach import FULL_REACH, Reach

Other = Callable[[bytes, random.Random], bytes]


@dataclass(frozen=True, slots=True)
class Expectation:
    """A literal that something is compared with, and how to write another value of its kind."""

    start: int
    end: int
    other: Other


@dataclass(frozen=True, slots=True)
class Assertion:
    """A statement that can be made to fail by itself: its place, what is put around and into it,
    and its expectations.

    The texts have {number} and {other}. While they are the same, a failure ends the test as ever.
    While they are not, a failure is passed over, and the lack of one ends the test with success.
    """

    start: int
    end: int
    edits: Sequence[tuple[int, int, str]]
    expectations: Sequence[Expectation]

    def covers(self, one: Expectation) -> bool:
        """Whether an expectation is changed with this assertion, also where it is the value of a
        variable, or has no place in a twin beside it."""
        inside = self.start <= one.start and one.end <= self.end
        return inside or (one.start, one.end) in [(e.start, e.end) for e in self.expectations]


def around(
    start: int, end: int, before: str, after: str, expectations: Sequence[Expectation]
) -> Assertion:
    """An assertion with something before and after it."""
    return Assertion(start, end, ((start, start, before), (end, end, after)), expectations)


@dataclass(frozen=True, slots=True)
class Case:
    """One test: its expectations, and where and how a check can be added."""

    expectations: Sequence[Expectation] = ()
    place: int | None = None
    check: str = ""  # with {number} and {other}, the same in the true run, and {reach}
    assertions: Sequence[Assertion] = ()
    name: str = ""
    outer: int | None = None  # where the check stands once more
    wild: bool = False  # whether it expects what equals all

    def changes(self, choice: str | None) -> tuple[Sequence[Expectation], bool]:
        """Those that a twin changes, and whether each assertion has to fail by itself.

        Without a choice that is all of them. A choice falls on the assertions that can fail by
        themselves, all at once, or on one of the other expectations.
        """
        if choice is None or not self.expectations:
            return self.expectations, False
        single = [
            each
            for each in self.expectations
            if not any(one.covers(each) for one in self.assertions)
        ]
        number = random.Random(choice).randrange(len(single) + bool(self.assertions))
        if number < len(single):
            return [single[number]], False
        return [each for one in self.assertions for each in one.expectations], True

    @property
    def twinned(self) -> bool:
        return bool(self.expectations) or self.place is not None


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A test file in one of its two forms, and how many of its tests differ between them."""

    content: bytes
    names: tuple[str, ...]
    twinned: int

    @property
    def tests(self) -> int:
        return len(self.names)


Keeps = Callable[[int, str], bool]
#: What is put into a file in place of a span, whichever form is made; with {name}, the same random
#: one throughout, and {letters} and {shift}, from which other values are made while tests run.
Insertion = tuple[int, int, str]


def rewrite(
    source: bytes,
    cases: Sequence[Case],
    comment: str,
    *,
    twin: bool,
    seed: random.Random,
    keeps: Keeps,
    choice: int | None = None,
    values: int | None = None,
    insertions: Sequence[Insertion] = (),
    reach: Reach = FULL_REACH,
) -> Rewritten:
    """One of the two forms; in a twin, tests that are kept stay as they are in the true.

    The same choice falls on the same expectations, and other values drawn from the same number are
    the same.
    """
    name = f"x{seed.getrandbits(64):016x}"
    drawn = random.Random(values) if twin and values is not None else seed
    letters = "".join(drawn.choices("abcdefghijklmnopqrstuvwxyz", k=9))
    words = {"{name}": name, "{letters}": letters, "{shift}": str(drawn.randrange(10**5, 10**6))}
    kept = [twin and keeps(index, case.name) for index, case in enumerate(cases)]
    untouched = {
        (each.start, each.end)
        for case, stays in zip(cases, kept, strict=True)
        if stays
        for each in case.expectations
    }
    edits: list[Edit] = [(start, end, _filled(text, words)) for start, end, text in insertions]
    for index, case in enumerate(cases):
        words["{reach}"] = str(reach.of(case.name, wild=case.wild))
        if not twin or kept[index]:
            edits += _around(case, seed, words, each=False, end=False)
            continue
        changed, each = case.changes(None if choice is None else f"{choice} {index}")
        drawn = seed if values is None else random.Random(f"{values} {index}")
        for e in changed:
            if (e.start, e.end) not in untouched:
                untouched.add((e.start, e.end))  # tests may share what they expect
                edits.append((e.start, e.end, e.other(source[e.start : e.end], drawn)))
        edits += _around(case, seed, words, each=each, end=each or not case.expectations)
    nonce = f"\n{comment} {seed.getrandbits(64):016x}\n".encode()
    content = _edited(source, edits) + nonce
    names = tuple(case.name for case in cases)
    return Rewritten(content, names, sum(case.twinned for case in cases))


Edit = tuple[int, int, bytes]


def _around(
    case: Case, seed: random.Random, words: Mapping[str, str], *, each: bool, end: bool
) -> Iterator[Edit]:
    """What is added to a test: around its assertions, and a check at its end, which fails."""
    for one in case.assertions:
        numbers = _numbers(seed, differ=each)
        for start, stop, template in one.edits:
            yield start, stop, _filled(template, {**words, **numbers})
    if case.place is not None and (case.assertions or not case.expectations):
        check = _filled(case.check, {**words, **_numbers(seed, differ=end)})
        for place in (case.outer, case.place):
            if place is not None:
                yield place, place, check


def _numbers(seed: random.Random, *, differ: bool) -> dict[str, str]:
    number = seed.randrange(10**6, 10**9)
    other = number + seed.randrange(1, 10**6) if differ else number
    return {"{number}": str(number), "{other}": str(other)}


def _filled(template: str, words: Mapping[str, str]) -> bytes:
    for word, text in words.items():
        template = template.replace(word, text)
    return template.encode()


def _edited(source: bytes, edits: Iterable[Edit]) -> bytes:
    """The source with its edits; those at one place in the order they were made."""
    parts: list[bytes] = []
    position = 0
    for start, end, content in sorted(edits, key=itemgetter(0, 1)):
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
