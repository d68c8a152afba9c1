"""A test by the places in its source, and the two forms that are made of it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    """A statement that can fail by itself: its place, what is put around and into it, and its
    expectations.

    In both forms a failure is passed over: whatever an answer throws, it meets the same either way.
    What holds adds {held} to the test's count and what fails {failed}, of which one is zero, and
    the account of it at the test's end is all that a runner sees.
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


#: What is put into a file in place of a span, whichever form is made; with {name}, the same random
#: one throughout, and {letters} and {shift}, from which other values are made while tests run.
Insertion = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Case:
    """One test: its expectations, and where and how a check can be added."""

    expectations: Sequence[Expectation] = ()
    place: int | None = None
    check: str = ""  # with {number} and {other}, the same in the true run, and {reach}
    assertions: Sequence[Assertion] = ()
    count: tuple[int, str] = (0, "")  # where and how the counting of assertions begins
    account: str = ""  # instead of a check: fails if anything was counted, in a twin if nothing
    name: str = ""
    outer: int | None = None  # where the check stands once more
    within: str = ""  # what the one inside has instead of {within}
    wild: bool = False  # whether it expects what equals all
    helped: bool = False  # whether such functions assert for it
    helper: bool = False  # a function that asserts for tests
    once: Sequence[Insertion] = ()  # what ends it at once where it is entered again

    def changes(self, choice: str | None) -> tuple[Sequence[Expectation], bool]:
        """Those that a twin changes, and whether each assertion has to fail by itself.

        Without a choice that is all of them. A choice falls on the assertions that can fail by
        themselves, all at once, or on one of the other expectations.
        """
        if choice is None or not self.expectations:
            return self.expectations, False
        number = random.Random(choice).randrange(len(self.single) + bool(self.assertions))
        return (self.single[number:][:1], False) if number < len(self.single) else ((), True)

    @property
    def single(self) -> Sequence[Expectation]:
        """Those outside of assertions that can fail by themselves."""
        return [
            each
            for each in self.expectations
            if not any(one.covers(each) for one in self.assertions)
        ]

    @property
    def twinned(self) -> bool:
        return bool(self.expectations) or self.place is not None


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A test file in one of its two forms, and how many of its tests differ between them."""

    content: bytes
    names: tuple[str, ...]
    twinned: int
    at_end: int = 0  # tests that fail in a twin by the check at their end alone

    @property
    def tests(self) -> int:
        return len(self.names)


@dataclass(frozen=True, slots=True)
class Half:
    """One of the two halves into which a number parts tests and assertions.

    What a twin of the one half leaves as it was, that of the other changes. Code that forges some
    tests and honestly passes the rest may see from these that it is in a twin, but not what becomes
    of any other test: what it forges is right in both by one chance in four, for each test anew.
    """

    number: int
    second: bool = False

    def of(self, count: int, whose: str) -> list[bool]:
        """Which of so many it has; of an odd number one more or less."""
        chance = random.Random(f"{self.number} {whose}")
        first = chance.getrandbits(1) + self.second
        parts = [(first + each) % 2 == 0 for each in range(count)]
        chance.shuffle(parts)
        return parts


def rewrite(
    path: str,
    source: bytes,
    cases: Sequence[Case],
    comment: str,
    *,
    twin: bool,
    seed: random.Random,
    half: Half | None = None,
    choice: int | None = None,
    values: int | None = None,
    insertions: Sequence[Insertion] = (),
    reach: Reach = FULL_REACH,
    once: bool = False,
) -> Rewritten:
    """One of the two forms; a twin of a half leaves its tests as they are in the true form, but for
    the assertions that can fail by themselves, of which it leaves a half in every test.

    The same choice falls on the same expectations, and other values drawn from the same number are
    the same. With `once`, a test that is entered again ends at once: run with one answer after the
    other, it would tell which of them it wants, and so its form.
    """
    name = f"x{seed.getrandbits(64):016x}"
    drawn = random.Random(values) if twin and values is not None else seed
    letters = "".join(drawn.choices("abcdefghijklmnopqrstuvwxyz", k=9))
    words = {"{name}": name, "{letters}": letters, "{shift}": str(drawn.randrange(10**5, 10**6))}
    kept = half.of(len(cases), path) if twin and half is not None else [False] * len(cases)
    others = _Others(source)
    for case, stays in zip(cases, kept, strict=True):
        others.decide(case.single if stays else (), changed=False, seed=seed)
    insertions = [*insertions, *(each for case in cases if once for each in case.once)]
    edits: list[Edit] = [(start, end, _filled(text, words)) for start, end, text in insertions]
    for index, case in enumerate(cases):
        words["{reach}"] = str(reach.of(case.name, wild=case.wild))
        drawn = seed if values is None else random.Random(f"{values} {index}")
        chosen: Sequence[Expectation] = ()
        each = kept[index]
        if twin and not each:
            chosen, each = case.changes(None if choice is None else f"{choice} {index}")
        for expectation in chosen:
            others.decide([expectation], changed=True, seed=drawn)
        count = len(case.assertions)
        held = [not each] * count if half is None or not each else half.of(count, f"{path} {index}")
        for one, holds in zip(case.assertions, held, strict=True):
            if each:
                holds = not others.decide(one.expectations, changed=not holds, seed=drawn)
            edits += _counted(one, seed, words, holds=holds)
        fails = twin and not kept[index] and (each or not case.expectations)
        edits += _checked(case, seed, words, fails=fails)
    nonce = f"\n{comment} {seed.getrandbits(64):016x}\n".encode()
    content = edited(source, [*edits, *others.edits]) + nonce
    tests = [case for case in cases if not case.helper]
    at_end = sum(case.twinned and not case.expectations and not case.helped for case in tests)
    names = tuple(case.name for case in tests)
    return Rewritten(content, names, sum(case.twinned for case in tests), at_end)


Edit = tuple[int, int, bytes]


@dataclass(frozen=True, slots=True)
class _Others:
    """What is expected otherwise than in the source; tests may share it, and the first decides."""

    source: bytes
    decided: dict[tuple[int, int], bytes | None] = field(default_factory=dict)

    def decide(
        self, expectations: Sequence[Expectation], *, changed: bool, seed: random.Random
    ) -> bool:
        """Whether any of them is changed after all."""
        spans = [(each.start, each.end) for each in expectations]
        known = [self.decided[span] is not None for span in spans if span in self.decided]
        changed = any(known) if known else changed
        for (start, end), each in zip(spans, expectations, strict=True):
            other = each.other(self.source[start:end], seed) if changed else None
            self.decided.setdefault((start, end), other)
        return changed

    @property
    def edits(self) -> list[Edit]:
        return [(*span, other) for span, other in self.decided.items() if other is not None]


def _counted(
    one: Assertion, seed: random.Random, words: Mapping[str, str], *, holds: bool
) -> Iterator[Edit]:
    """What is put around an assertion that must hold, or must fail."""
    counts = [0, seed.randrange(10**3, 10**4)]
    held, failed = map(str, counts if holds else reversed(counts))
    for start, stop, template in one.edits:
        yield start, stop, _filled(template, {**words, "{held}": held, "{failed}": failed})


def _checked(
    case: Case, seed: random.Random, words: Mapping[str, str], *, fails: bool
) -> Iterator[Edit]:
    """The check at a test's end, or the account of its assertions."""
    if case.assertions:
        start, template = case.count
        yield start, start, _filled(template, words)
    if case.place is not None and (case.assertions or not case.expectations):
        template = case.account if case.assertions else case.check
        words = {**words, **_numbers(seed, differ=fails)}
        for place, within in ((case.outer, ""), (case.place, case.within)):
            if place is not None:
                yield place, place, _filled(template, {**words, "{within}": within})


def _numbers(seed: random.Random, *, differ: bool) -> dict[str, str]:
    number = seed.randrange(10**6, 10**9)
    other = number + seed.randrange(1, 10**6) if differ else number
    return {"{number}": str(number), "{other}": str(other)}


def _filled(template: str, words: Mapping[str, str]) -> bytes:
    for word, text in words.items():
        template = template.replace(word, text)
    return template.encode()


def edited(source: bytes, edits: Iterable[Edit]) -> bytes:
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
