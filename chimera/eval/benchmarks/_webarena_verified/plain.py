"""Replies of plain types compared as the package webarena-verified compares them, without it.

What only the package can read (its transliteration of other scripts, long number words, durations,
currencies, dates) is a `GraderError`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from chimera.errors import GraderError
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
_WORDS = {word: value for value, word in enumerate(_SMALL)} | {
    word: 10 * value for value, word in enumerate(_TENS, 2)
}
_LARGE = frozenset(("hundred", "thousand", "million", "billion", "point"))
_TRUTHS = {
    **dict.fromkeys(("true", "yes", "y", "1", "t", "on"), True),
    **dict.fromkeys(("false", "no", "n", "0", "f", "off"), False),
}


def grade_reply(check: Mapping[str, Any], reply: str) -> Verdict:
    """Compare a reply with the expected one; only strings, numbers, truth values and objects."""
    metrics: dict[str, JSON] = {"grader": "chimera"}
    expected = check["expected"]
    found = _envelope(reply)
    if not isinstance(found, dict):
        return Verdict(False, "the reply is not a JSON object", metrics=metrics)
    operation = found.get("task_type", found.get("performed_operation"))
    for name, value in (("task_type", operation), ("status", found.get("status"))):
        if not isinstance(value, str) or not _same_text(expected[name], value):
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
    if _same_items(wanted, data, item, bool(check.get("ordered"))):
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


def _same_items(wanted: list[Any], data: list[Any], schema: Mapping[str, Any], order: bool) -> bool:
    if len(wanted) != len(data):
        return False
    if order:
        return all(_same(w, d, schema) for w, d in zip(wanted, data, strict=True))
    rest = list(data)
    for item in wanted:
        place = next((n for n, each in enumerate(rest) if _same(item, each, schema)), None)
        if place is None:
            return False
        del rest[place]
    return True


def _same(wanted: Any, data: Any, schema: Mapping[str, Any]) -> bool:
    if isinstance(wanted, list):
        return any(_same(alternative, data, schema) for alternative in wanted)
    if wanted is None:
        return data is None
    kind = schema.get("type", "string")
    if schema.get("format") or kind not in ("string", "number", "boolean", "object"):
        raise _needs_package(f"values of the kind {schema.get('format') or kind!r}")
    if kind == "object":
        if not isinstance(data, dict) or set(data) != set(wanted):
            return False
        fields = schema.get("properties", {})
        return all(_same(wanted[key], data[key], fields.get(key, {})) for key in wanted)
    if kind == "number":
        return _number(wanted) == _number(data) is not None
    if kind == "boolean":
        return _truth(wanted) == _truth(data) is not None
    return _same_text(str(wanted), data)


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
    """As word2number reads it, which passes over other words."""
    words = [word for word in text.replace("-", " ").split() if word in _WORDS.keys() | _LARGE]
    values = [_WORDS.get(word, 100) for word in words]
    match values:
        case []:
            return None
        case [value] if value < 100:
            return float(value)
        case [tens, unit] if 20 <= tens < 100 and unit < 10:
            return float(tens + unit)
    raise _needs_package("numbers in many words")


def _truth(value: Any) -> bool | None:
    """A truth value as the package reads it: any number is one, and so are these words."""
    if isinstance(value, bool | int | float):
        return bool(value)
    return _TRUTHS.get(_normalised(value)) if isinstance(value, str) else None


def _same_text(wanted: str, data: Any) -> bool:
    if isinstance(data, dict | list) or data is None:
        return False
    text = _normalised(str(data)) if data else ""
    if is_pattern(text):  # an answer is no pattern
        return False
    if is_pattern(wanted):
        return re.fullmatch(wanted, text, re.IGNORECASE) is not None
    plain = _normalised(wanted)
    return text == plain or text.strip(_AROUND) == plain.strip(_AROUND)


def is_pattern(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("^") and value.endswith("$")


def _normalised(text: str) -> str:
    """The package's common form of a text: ASCII, one blank, no case."""
    text = unicodedata.normalize("NFKC", text.translate(_MARKS))
    text = _HYPHENS.sub(" ", text)
    text = "".join(
        " " if sign in "\t\n\r" else sign
        for sign in text
        if sign in "\t\n\r" or not unicodedata.category(sign).startswith("C")
    )
    text = unicodedata.normalize("NFKD", text.translate(_SIGNS))
    text = "".join(sign for sign in text if not unicodedata.combining(sign))
    if not text.isascii():
        raise _needs_package("signs of other scripts")
    return " ".join(text.split()).casefold()


def _needs_package(what: str) -> GraderError:
    return GraderError(
        f"{what} are compared by the package webarena-verified\n"
        f"  Install it and set {PYTHON_VARIABLE} to its python."
    )
