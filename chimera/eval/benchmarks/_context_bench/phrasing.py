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
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
NUMBER_WORDS = {word: value for value, word in enumerate(_WORDS.split())} | {
    word: 10 * value for value, word in enumerate(_TENS.split(), 2)
}
#: Numbers that words alone make, which are not worked out here.
_LARGE = re.compile(
    rf"\b(?:hundred|thousand|million|dozen)s?\b|\b(?:{'|'.join(_TENS.split())})[- ][a-z]"
)
#: "one" that stands for a thing, and counts nothing.
_PRONOUN = re.compile(
    r"\b(?:any|each|every|no|only|other|some|that|the|this|which)\s+ones?\b|\bone of\b"
)
_NUMBER = re.compile(r"(?<![\w.#/-])[-+]?\$?\d[\d,]*(?:\.\d+)?(?![\w/-])")
_DENIAL = r"(?:\bnot|n't|\bnor|\bneither|\bnever|\brather than|\binstead of|\bexcept|\bunlike)"
_NEGATED = re.compile(rf"{_DENIAL}\s+(?:is\s+|was\s+|be\s+|the\s+|by\s+|to\s+)*$")
#: What leaves open whether a reply means what it names. A reply that denies without such a word, or
#: says that it gives up, is not told from one that answers.
_DOUBT = re.compile(
    r"n't\b|\b(?:no|not|nor|none|neither|never|nobody|nothing|cannot|or|either|whether|if|unless|but|"
    r"except|excluding|without|anyone|anybody|someone|somebody|instead|rather|than|unlike|opposite|"
    r"could|would|should|might|may|maybe|perhaps|possibly|probably|likely|unlikely|apparently|seems?|"
    r"appears?|suppose|suspect|assum\w*|guess\w*|bet|doubt\w*|unsure|uncertain|unclear|unknown|unable|"
    r"impossible|hard\w*|wrong|incorrect|false|untrue|mistake\w*|deny|denie[ds]|refus\w*|reject\w*|"
    r"fail\w*|ruled?|exclude[ds]?|eliminate[ds]?|disqualif\w*|sorry|everyone|everybody|all|both|among|"
    r"candidates?)\b"
)
#: What makes another number of the one that is named.
_BOUNDS = re.compile(
    r"\b(?:more|less|fewer|over|under|above|below|least|most|up to|exceed\w*|about|around|roughly|"
    r"approximately|approx|almost|nearly|between|plus|minus|times|half|twice|percent of)\b"
    r"|\bdouble\s"
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
    words = re.findall(r"[a-z]+", _PRONOUN.sub(" ", text))
    return found | {float(NUMBER_WORDS[word]) for word in words if word in NUMBER_WORDS}


def _decide_number(text: str, wanted: float) -> Decision | None:
    if _LARGE.search(text):
        return None
    numbers = _numbers(text)
    if wanted not in numbers:
        return Decision(False, "rule", f"the reply does not name {wanted:g}")
    final = _final(text)
    places = [found.start() for found in _NUMBER.finditer(final) if _value(found[0]) == wanted]
    if numbers == {wanted} and any(_negated(final, place) for place in places):
        return Decision(False, "rule", f"the reply denies {wanted:g}")
    if _DOUBT.search(text) or _BOUNDS.search(text) or (_numbers(final) or numbers) != {wanted}:
        return None
    return Decision(True, "rule", f"the final number is {wanted:g}")


def _decide_name(text: str, truth: str, names: set[str]) -> Decision | None:
    if not _places(text, truth):
        return Decision(False, "rule", f"the reply does not name {truth!r}")
    final = _final(text) if _places(_final(text), truth) else text
    named = {name for name in names | {truth} if _places(final, name)}
    affirmed = {
        name for name in named if any(not _negated(final, place) for place in _places(final, name))
    }
    if truth not in affirmed:
        return Decision(False, "rule", "the reply denies the expected name")
    if len(affirmed) > 1 and re.search(r"\bor\b", final):
        return Decision(False, "rule", "the reply leaves open which of several names it means")
    for name in named - affirmed:  # a denial of another name is no doubt
        text = re.sub(rf"{_DENIAL}\s+{re.escape(name)}(?!\w)", "", text)
    if len(affirmed) > 1 or _DOUBT.search(text):
        return None
    return Decision(True, "rule", "the expected name is the only one affirmed")


def _negated(text: str, place: int) -> bool:
    """Whether what comes right before a place denies it; no phrase for that is longer."""
    return _NEGATED.search(text, max(0, place - 80), place) is not None


def _places(text: str, name: str) -> list[int]:
    return [found.start() for found in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text)]
