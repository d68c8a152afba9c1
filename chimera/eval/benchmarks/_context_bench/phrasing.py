"""Whether a reply gives the expected name or number, where words around it do not matter.

Every rule either decides or says nothing: a reply that names several candidates and does not say
which one it means is left to a judge, and so is every reply where the expected answer is neither a
number nor a known name (a sentence, a category, a list).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

How = Literal["exact", "rule"]

_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty"
)
NUMBER_WORDS = {word: value for value, word in enumerate(_WORDS.split())}
_NUMBER = re.compile(r"(?<![\w.#/-])[-+]?\$?\d[\d,]*(?:\.\d+)?(?![\w/-])")
_NEGATED = re.compile(
    r"(?:\bnot|n't|\bnor|\bneither|\bnever|\brather than|\binstead of|\bexcept|\bunlike)"
    r"\s+(?:is\s+|was\s+|be\s+|the\s+|by\s+|to\s+)*$"
)


@dataclass(frozen=True, slots=True)
class Decision:
    correct: bool
    how: How
    why: str


def decide(reply: str, expected: str, known_names: Collection[str] = ()) -> Decision | None:
    """Decide by exact equality, then by the rules for numbers and names; None leaves it open."""
    text, truth = normalised(reply), normalised(expected)
    if not truth:
        return Decision(False, "exact", "there is no expected answer")
    if not text:
        return Decision(False, "exact", "the reply is empty")
    if text == truth:
        return Decision(True, "exact", "the reply is the expected answer")
    wanted = _number_of(truth)
    if wanted is not None:
        return _decide_number(text, wanted)
    names = {normalised(name) for name in known_names}
    return _decide_name(text, truth, names) if truth in names else None


def has_rule(expected: str, known_names: Collection[str] = ()) -> bool:
    """Whether a rule can decide replies to this expected answer: a number, or a known name."""
    truth = normalised(expected)
    return _number_of(truth) is not None or truth in map(normalised, known_names)


def normalised(text: str) -> str:
    """Case, markdown, spaces and closing points taken away."""
    text = re.sub(r"[*_`]+", "", text.casefold().replace("’", "'"))
    return " ".join(text.split()).strip(" .!\"'")


def _number_of(truth: str) -> float | None:
    """The number an expected answer is, a unit aside: '18 records' is 18."""
    found = _NUMBER.match(truth)
    if found is None or not re.fullmatch(r"\s*[a-z%]*", truth[found.end() :]):
        return None
    return _value(found.group())


def _value(text: str) -> float:
    return float(text.replace("$", "").replace(",", ""))


def _final(text: str) -> str:
    """The last sentence, or what follows the last 'answer' or 'answer is'."""
    after = text.rpartition("answer")[2].lstrip(" :is") if "answer" in text else ""
    if after:
        return after
    sentences = [part for part in re.split(r"(?<=[.!?])\s+(?=\S)", text) if part.strip()]
    return sentences[-1] if sentences else text


def _numbers(text: str) -> set[float]:
    found = {_value(match.group()) for match in _NUMBER.finditer(text)}
    words = re.findall(r"[a-z]+", text)
    return found | {float(NUMBER_WORDS[word]) for word in words if word in NUMBER_WORDS}


def _decide_number(text: str, wanted: float) -> Decision | None:
    final = _final(text)
    numbers = _numbers(final) or _numbers(text)
    if len(numbers) == 1:
        value = numbers.pop()
        if any(_negated(final, found.start()) for found in _NUMBER.finditer(final)):
            return Decision(False, "rule", f"the reply denies {value:g}")
        return Decision(value == wanted, "rule", f"the final number is {value:g}")
    if not numbers:
        return Decision(False, "rule", "the reply has no number")
    return None


def _decide_name(text: str, truth: str, names: set[str]) -> Decision | None:
    if not _places(text, truth):
        return Decision(False, "rule", f"the reply does not name {truth!r}")
    final = _final(text) if _places(_final(text), truth) else text
    affirmed = {
        name
        for name in names | {truth}
        if any(not _negated(final, place) for place in _places(final, name))
    }
    if affirmed == {truth}:
        return Decision(True, "rule", "the expected name is the only one affirmed")
    if truth not in affirmed:
        return Decision(False, "rule", "the reply denies the expected name")
    if re.search(r"\bor\b", final):
        return Decision(False, "rule", "the reply leaves open which of several names it means")
    return None


def _negated(text: str, place: int) -> bool:
    """Whether what comes right before a place denies it; no phrase for that is longer."""
    return _NEGATED.search(text, max(0, place - 80), place) is not None


def _places(text: str, name: str) -> list[int]:
    return [found.start() for found in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text)]
