"""Whether a reply gives the expected name or number, where words around it do not matter.

Every rule either decides or says nothing. A right answer is what the last sentence states in words
of the question and a few others ("The answer is …", "… has the most pets"). Whatever else is said
about it ("the brother of …", "… billion") is left to a judge, and so is every reply that names
several candidates, or where the expected answer is neither a number nor a known name. A wrong one
is failed where all that it says can be read, and is something else: a number in a form that is not
known here (`138 439.16`, `2**7`) may be the right one, and so may what has no number at all.
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
    r"\b(?:hundred|thousand|[mb]illion|trillion|dozen)s?\b|\b\d{1,3}(?:\s\d{3})+\b|\d\s*[-+*/x]\s*\d"
    rf"|\b(?:{'|'.join(_TENS.split())})[- ][a-z]"
)
_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(NUMBER_WORDS)})\b")
#: "one" that stands for a thing, and counts nothing.
_PRONOUN = re.compile(
    r"\b(?:any|each|every|no|only|other|some|that|the|this|which)\s+ones?\b|\bone of\b"
)
_DIGITS = r"[-+]?\$?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)"
#: A number that stands alone, in the only way of writing one that is sure.
_NUMBER = re.compile(rf"(?<![^\s\"'(\[:=]){_DIGITS}(?=[.,;:!?)\]\"'=]*(?:\s|$))")
_THOUSANDS = re.compile(r"[-+]?\$?\d{1,3}\.\d{3}")  # or thousandths: nobody knows
#: Signs that no reply in English needs. What holds others is not read well enough to be failed.
_FOREIGN = re.compile(r"[^\x00-\x7f‐-…]")
_DENIAL = r"(?:\bnot|n't|\bnor|\bneither|\bnever|\brather than|\binstead of|\bunlike)"
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


#: Words that a statement may have beside those of the question, and those of them (or a colon) that
#: stand before what it states.
_OTHER_WORDS = (
    "a all an and answer are based by count data exactly final found had has have he in is it it's "
    "its my name number of on owner person records she so that that's the their there therefore "
    "they this thus to total was were with"
)
_FRAME = frozenset(_OTHER_WORDS.split())
_STATING = re.compile(
    r"(?:^|[:=]|\b(?:is|are|was|were|it's|that's|has|have|had|owns?|answer|exactly))\s*$"
)
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
#: Signs between words that change nothing.
_PLAIN_SIGNS = re.compile(r"[\s.,;:=()\"']*")
_RECORD = re.compile(r"^ \((?:id:? )?[a-z]+-\d+\)")
_RECORD_ID = re.compile(r"\b[a-z]{3,4}-\d{4}\b")
_ANSWER = re.compile(r".*\banswer\b(?:\s*[:=]|\s+is\b)*\s*", re.DOTALL)
#: Marks around words or sentences, and none inside of a word or between numbers.
_MARKS = re.compile(
    r"(?<![^\s\"'(\[:=])[*_`]++(?=\S)|(?<=[^\s*_`])[*_`]++(?=[.,;:!?)\]\"']*(?:\s|$))"
)


@dataclass(frozen=True, slots=True)
class Decision:
    correct: bool
    how: How
    why: str


def decide(
    reply: str, expected: str, known_names: Collection[str] = (), question: str = ""
) -> Decision | None:
    """Decide by exact equality, then by the rules for numbers and names; None leaves it open."""
    text, truth = normalised(reply), normalised(expected)
    if not truth:
        return Decision(False, "exact", "there is no expected answer")
    if not text:
        return Decision(False, "exact", "the reply is empty")
    if text == truth:
        return Decision(True, "exact", "the reply is the expected answer")
    wanted = _number_of(truth)
    words = _FRAME.union(_WORD.findall(normalised(question)), _WORD.findall(truth))
    if wanted is not None:
        asked = set(map(_bare, normalised(question).split()))
        if any(_bare(word) not in asked for word in _unread(text, wanted)):
            return None
        return _decide_number(text, wanted, words)
    names = {normalised(name) for name in known_names}
    return _decide_name(text, truth, names, words) if truth in names else None


def has_rule(expected: str, known_names: Collection[str] = ()) -> bool:
    """Whether a rule can decide replies to this expected answer: a number, or a known name."""
    truth = normalised(expected)
    return _number_of(truth) is not None or truth in map(normalised, known_names)


def normalised(text: str) -> str:
    """Case, markdown, spaces and closing points taken away."""
    text = _MARKS.sub("", text.casefold().replace("’", "'"))
    text = " ".join(text.split()).rstrip(" .")
    if text[:1] in ("'", '"') and text.count(text[0]) == 2 and text.endswith(text[0]):
        text = text[1:-1].strip().rstrip(" .")
    return re.sub(r"(?<=[^\d!])!+$", "", text)


def _number_of(truth: str) -> float | None:
    """The number an expected answer is, a unit aside: '18 records' is 18."""
    found = re.fullmatch(rf"({_DIGITS})\s*[a-z%]*", truth)
    return None if found is None else _value(found[1])


def _value(text: str) -> float:
    return float(text.replace("$", "").replace(",", ""))


def _final(text: str) -> str:
    """The last sentence, or what follows the last 'answer' or 'answer is'."""
    before = _ANSWER.match(text)
    if before is not None and before.end() < len(text):
        return text[before.end() :]
    sentences = [part for part in re.split(r"(?<=[.!?])\s+(?=\S)", text) if part.strip()]
    return sentences[-1] if sentences else text


def _numbers(text: str) -> set[float]:
    found = {_value(match.group()) for match in _NUMBER.finditer(text)}
    words = re.findall(r"[a-z]+", _PRONOUN.sub(" ", text))
    return found | {float(NUMBER_WORDS[word]) for word in words if word in NUMBER_WORDS}


def _unread(text: str, wanted: float) -> list[str]:
    """Words with digits that may be this number, in a form that is not sure or not known."""
    alone = [found[0] for found in _NUMBER.finditer(text) if _THOUSANDS.fullmatch(found[0])]
    others = _NUMBER.sub(" ", _RECORD_ID.sub(" ", text)).split()
    digits = _significant(repr(wanted))
    return [
        word
        for word in (*alone, *others)
        if re.search(r"\d", word)
        and (_significant(word) == digits or not re.fullmatch(r"[-+$\d.,']+", _bare(word)))
    ]


def _significant(number: str) -> str:
    return re.sub(r"\D", "", number).strip("0")


def _bare(word: str) -> str:
    return word.strip("\"'(),.?")


def _decide_number(text: str, wanted: float, words: Collection[str]) -> Decision | None:
    if _LARGE.search(text):
        return None
    numbers = _numbers(text)
    final = _final(text)
    stated = [*_NUMBER.finditer(final), *_NUMBER_WORD.finditer(final)]
    clear = len(_numbers(final)) == 1 and any(
        _states(final, *found.span(), words) for found in stated[-20:]
    )
    if wanted not in numbers:
        if _FOREIGN.search(text) or not (re.search(r"\d", text) or _DOUBT.search(text)):
            return None
        if wanted in (0, 1, 2) and not clear:  # "none", "a cat", "both"
            return None
        return Decision(False, "rule", f"the reply does not name {wanted:g}")
    places = [found.start() for found in _NUMBER.finditer(text) if _value(found[0]) == wanted]
    if numbers == {wanted} and _denies(text, places):
        return Decision(False, "rule", f"the reply denies {wanted:g}")
    if _DOUBT.search(text) or _BOUNDS.search(text) or (_numbers(final) or numbers) != {wanted}:
        return None
    if not clear:
        return None
    return Decision(True, "rule", f"the final number is {wanted:g}")


def _decide_name(text: str, truth: str, names: set[str], words: Collection[str]) -> Decision | None:
    if not _places(text, truth):
        if _FOREIGN.search(text) or _may_mean(text, truth, names):
            return None
        return Decision(False, "rule", f"the reply does not name {truth!r}")
    if _denies(text, _places(text, truth)):
        return Decision(False, "rule", "the reply denies the expected name")
    final = _final(text) if _places(_final(text), truth) else text
    named = {name for name in names | {truth} if _places(final, name)}
    affirmed = {
        name for name in named if any(not _negated(final, place) for place in _places(final, name))
    }
    if truth not in affirmed:
        return None
    alone = re.sub(rf"\bor {re.escape(truth)}(?!\w)|(?<!\w){re.escape(truth)},? or\b", "", final)
    if len(affirmed) > 1 and not _places(alone, truth):
        return Decision(False, "rule", "the reply leaves open which of several names it means")
    for name in named - affirmed:  # a denial of another name is no doubt
        text = re.sub(rf"{_DENIAL}\s+{re.escape(name)}(?!\w)", "", text)
    if len(affirmed) > 1 or _DOUBT.search(text):
        return None
    final = _final(text)
    if not any(_states(final, at, at + len(truth), words) for at in _places(final, truth)[-20:]):
        return None
    return Decision(True, "rule", "the expected name is the only one affirmed")


def _may_mean(text: str, truth: str, names: set[str]) -> bool:
    """Whether it may be meant without its name: by its parts, or by a record where no name is."""
    named = [name for name in names if _places(text, name)]
    for name in named:
        text = text.replace(name, " ")
    parts = truth.split()
    in_parts = len(parts) > 1 and all(part in text for part in parts)
    return in_parts or (not named and _RECORD_ID.search(text) is not None)


def _denies(text: str, places: list[int]) -> bool:
    """Whether it is a plain denial, without anything that may turn it around."""
    return (
        bool(places)
        and all(_negated(text, place) for place in places)
        and len(_DOUBT.findall(text)) == 1
        and "?" not in text
    )


def _states(sentence: str, start: int, end: int, words: Collection[str]) -> bool:
    """Whether a sentence gives what stands there as the answer, and says nothing else of it."""
    before, after = sentence[:start], _RECORD.sub("", sentence[end:])
    if not _STATING.search(before.rstrip("\"'( ")) or after.startswith("-"):
        return False
    if after.startswith("'") and not (before.endswith("'") and re.fullmatch(r"'\W*", after)):
        return False  # a genitive
    around = f"{before} {after}"
    return (
        all(_known(word, words) for word in _WORD.findall(around))
        and _PLAIN_SIGNS.fullmatch(_WORD.sub("", around)) is not None
    )


def _known(word: str, words: Collection[str]) -> bool:
    """Whether it is one of these, also as a plural, a genitive, or a verb of another person."""
    stem = word.removesuffix("'s").removesuffix("s")
    return not {word, stem, f"{stem}s"}.isdisjoint(words)


def _negated(text: str, place: int) -> bool:
    """Whether what comes right before a place denies it; no phrase for that is longer."""
    return _NEGATED.search(text, max(0, place - 80), place) is not None


def _places(text: str, name: str) -> list[int]:
    return [found.start() for found in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", text)]
