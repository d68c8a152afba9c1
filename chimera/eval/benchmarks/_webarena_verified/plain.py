"""Replies of plain types compared as the package webarena-verified compares them, without it.

Tasks whose values only the package can read (durations, currencies, dates) are a `GraderError`.
Signs of other scripts, which it transliterates, equal nothing here; where a reply would pass if
they stood for what it lacks, it is not judged: a fault of what is installed, not the answer's.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from chimera.errors import EnvironmentFault, GraderError
from chimera.eval.values import Verdict
from chimera.types import JSON

PYTHON_VARIABLE = "CHIMERA_WEBARENA_VERIFIED_PYTHON"
_CODE_BLOCK = re.compile(r"```(?:json)?\s*\n?(.*?)\n?```", re.DOTALL)
_HYPHEN = "[-\u2010-\u2015\u2212\u00ad]"
_HYPHENS = re.compile(rf"(?<=[a-zA-Z]){_HYPHEN}|{_HYPHEN}(?=[a-zA-Z])")
_MARKS = dict.fromkeys(map(ord, "\u2122\u00ae\u2120\u00a9"))
#: Signs that NFKC leaves as they are, and what they are in ASCII.
_SIGNS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201b\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201f\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"),
        "\u201a": ",",
        "\u201e": ",,",
        "\u2014": "--",
        "\u00d7": "x",
    }
)
_AROUND = "'\"`.,;:!?"
_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES = {"billion": 10**9, "million": 10**6, "thousand": 1000}
_WORDS = {
    **{word: value for value, word in enumerate(_SMALL)},
    **{word: 10 * value for value, word in enumerate(_TENS, 2)},
    **{"hundred": 100, **_SCALES},
}
_OTHER_SCRIPTS = re.compile("[^\x00-\x7f]+")
_TRUTHS = {
    **dict.fromkeys(("true", "yes", "y", "1", "t", "on"), True),
    **dict.fromkeys(("false", "no", "n", "0", "f", "off"), False),
}


def grade_reply(check: Mapping[str, Any], reply: str) -> Verdict:
    """Compare a reply with the expected one; only strings, numbers, truth values and objects."""
    verdict = _compared(check, reply, doubt=False)
    if not verdict.passed and _compared(check, reply, doubt=True).passed:
        raise EnvironmentFault(_needed("signs of other scripts"))
    return verdict


def _compared(check: Mapping[str, Any], reply: str, *, doubt: bool) -> Verdict:
    """`doubt`: what may be equal by the package's transliteration counts as equal."""
    metrics: dict[str, JSON] = {"grader": "chimera"}
    expected = check["expected"]
    found = _envelope(reply)
    if not isinstance(found, dict):
        return Verdict(False, "the reply is not a JSON object", metrics=metrics)
    operation = found.get("task_type", found.get("performed_operation"))
    for name, value in (("task_type", operation), ("status", found.get("status"))):
        if not isinstance(value, str) or not _same_text(expected[name], value, doubt):
            return Verdict(False, f"{name} is {value!r}, not {expected[name]!r}", metrics=metrics)
    if expected["task_type"].lower() != "retrieve":
        return Verdict(True, metrics=metrics)
    wanted, data = expected.get("retrieved_data"), found.get("retrieved_data")
    if not data and not isinstance(data, int | float):
        data = None
    elif not isinstance(data, list):
        data = [data]
    if not wanted or data is None:
        return Verdict(not wanted and data is None, _difference(wanted, data), metrics=metrics)
    item = (check.get("results_schema") or {}).get("items") or {}
    if _same_items(wanted, data, item, bool(check.get("ordered")), doubt):
        return Verdict(True, metrics=metrics)
    return Verdict(False, _difference(wanted, data), metrics=metrics)


def _envelope(reply: str) -> Any:
    """The first code block, or the whole reply, if that is JSON."""
    block = _CODE_BLOCK.search(reply)
    try:
        return json.loads(block[1].strip() if block else reply.strip())
    except (ValueError, RecursionError):
        return None


def _difference(wanted: JSON, data: JSON) -> str:
    if not wanted and data is None:
        return ""
    return f"retrieved_data is {json.dumps(data)[:200]}, not {json.dumps(wanted)[:200]}"


def _same_items(
    wanted: list[Any], data: list[Any], schema: Mapping[str, Any], order: bool, doubt: bool
) -> bool:
    if len(wanted) != len(data):
        return False
    if order:
        return all(_same(w, d, schema, doubt) for w, d in zip(wanted, data, strict=True))
    rest = list(data)
    for item in wanted:
        place = next((n for n, each in enumerate(rest) if _same(item, each, schema, doubt)), None)
        if place is None:
            return False
        del rest[place]
    return True


def _same(wanted: Any, data: Any, schema: Mapping[str, Any], doubt: bool) -> bool:
    if isinstance(wanted, list):
        return any(_same(alternative, data, schema, doubt) for alternative in wanted)
    if wanted is None:
        return data is None
    kind = schema.get("type", "string")
    if schema.get("format") or kind not in ("string", "number", "boolean", "object"):
        raise GraderError(_needed(f"values of the kind {schema.get('format') or kind!r}"))
    if kind == "object":
        if not isinstance(data, dict) or set(data) != set(wanted):
            return False
        fields = schema.get("properties", {})
        return all(_same(wanted[key], data[key], fields.get(key, {}), doubt) for key in wanted)
    if doubt and kind in ("number", "boolean") and isinstance(data, str):
        data = _OTHER_SCRIPTS.sub("", _normalised(data))  # some signs are nothing to the package
    if kind == "number":
        return _number(wanted) == _number(data) is not None
    if kind == "boolean":
        return _truth(wanted) == _truth(data) is not None
    return _same_text(str(wanted), data, doubt)


def _number(value: Any) -> float | None:
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return None
    if not isinstance(value, str):
        return None
    text = _normalised(value)
    try:
        return float(text.replace(",", "").replace(" ", ""))
    except ValueError:
        return _number_in_words(text)


def _number_in_words(text: str) -> float | None:
    """As word2number 1.1 reads it, which passes over other words."""
    words = [word for word in text.replace("-", " ").split() if word in _WORDS or word == "point"]
    if not words or any(words.count(word) > 1 for word in (*_SCALES, "point")):
        return None
    point = words.index("point") if "point" in words else len(words)
    whole, digits = words[:point], [_WORDS.get(word, 10) for word in words[point + 1 :]]
    places = [whole.index(scale) for scale in _SCALES if scale in whole]
    if places != sorted(places):
        return None
    try:
        total = float(_WORDS[whole[0]] if len(whole) == 1 else _sum_of(whole, places))
    except IndexError:  # a scale without a number before it, on which the package breaks
        return None
    if digits and max(digits) < 10:
        total += float("0." + "".join(map(str, digits)))
    return total


def _sum_of(words: list[str], places: list[int]) -> int:
    """Of several words; `places` are those of the scales among them."""
    if not words:
        return 0
    total, start = 0, 0
    for place in places:
        total += _formed(words[start:place]) * _WORDS[words[place]]
        start = place + 1
    # a scale that ends the number leaves what follows the one before, again
    before = [place for place in places if place != len(words) - 1]
    if before or not places:
        total += _formed(words[before[-1] + 1 if before else 0 :])
    return total


def _formed(words: list[str]) -> int:
    match [_WORDS[word] for word in words]:
        case [a, b, c, d]:
            return a * b + c + d
        case [a, b, c]:
            return a * b + c
        case [a, b]:
            return a * b if 100 in (a, b) else a + b
        case numbers:
            return numbers[0]


def _truth(value: Any) -> bool | None:
    """A truth value as the package reads it: any number is one, and so are these words."""
    if isinstance(value, bool | int | float):
        return bool(value)
    return _TRUTHS.get(_normalised(value)) if isinstance(value, str) else None


def _same_text(wanted: str, data: Any, doubt: bool) -> bool:
    if isinstance(data, dict | list) or data is None:
        return False
    text = _normalised(str(data)) if data else ""
    if is_pattern(text):  # an answer is no pattern
        return False
    if is_pattern(wanted):
        known = doubt or text.isascii()
        return known and re.fullmatch(wanted, text, re.IGNORECASE) is not None
    plain = _normalised(wanted)
    if not plain.isascii():
        raise GraderError(_needed("signs of other scripts"))
    if doubt and not text.isascii() and _may_be(plain, text):
        return True
    return text == plain or text.strip(_AROUND) == plain.strip(_AROUND)


def _may_be(plain: str, text: str) -> bool:
    """Whether a text may be another one, whatever its signs of other scripts stand for.

    It must have half of the other's letters and digits itself: who knows no answer cannot choose
    that there is no verdict.
    """
    plain, text = (each.strip(_AROUND + " ") for each in (plain, text))
    first, *inner, last = (part.strip() for part in _OTHER_SCRIPTS.split(text))
    known = sum(sign.isalnum() for part in (first, *inner, last) for sign in part)
    if 2 * known < sum(map(str.isalnum, plain)) or not known:
        return False
    if not (plain.startswith(first) and plain[len(first) :].endswith(last)):
        return False
    place, end = len(first), len(plain) - len(last)
    for part in inner:
        if (found := plain.find(part, place, end)) < 0:
            return False
        place = found + len(part)
    return True


def is_pattern(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("^") and value.endswith("$")


def _normalised(text: str) -> str:
    """The package's common form of a text: ASCII but for other scripts, one blank, no case."""
    text = unicodedata.normalize("NFKC", text.translate(_MARKS))
    text = _HYPHENS.sub(" ", text)
    text = "".join(
        " " if sign in "\t\n\r" else sign
        for sign in text
        if sign in "\t\n\r" or not unicodedata.category(sign).startswith("C")
    )
    text = unicodedata.normalize("NFKD", text.translate(_SIGNS))
    text = "".join(sign for sign in text if not unicodedata.combining(sign))
    return " ".join(text.split()).casefold()


def _needed(what: str) -> str:
    return (
        f"{what} are compared by the package webarena-verified\n"
        f"  Install it and set {PYTHON_VARIABLE} to its python."
    )
