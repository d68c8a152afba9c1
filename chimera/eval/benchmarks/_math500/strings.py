"""The string rules of two published MATH graders: hendrycks/math and PRM800K.

Both compare normalised text. They are kept apart and exact, quirks included, because published
numbers rest on them. Only text is handled here; nothing is evaluated.
"""

from __future__ import annotations

import re

_WHOLE_TEXT = re.compile(r"^\\text\{(?P<text>.+?)\}$")
_UNITS = (
    "degree",
    "cm",
    "centimeter",
    "meter",
    "mile",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "year",
    "foot",
    "feet",
    "inch",
    "yard",
)
_POWERS = {"million": "*10^6", "billion": "*10^9", "trillion": "*10^12"}
_SYMBOLS = {"√": "sqrt", "π": "pi", "∞": "inf", "∪": "U", "·": "*", "×": "*"}
_TUPLE_SIGNS = "()[]"


class Unreadable(ValueError):
    """A rule met text it cannot handle; the published graders then compare raw strings."""


def hendrycks_equal(given: str, gold: str) -> bool:
    """hendrycks/math `is_equiv`: equal after normalising, or raw where that is impossible."""
    try:
        return hendrycks_normalised(given) == hendrycks_normalised(gold)
    except Unreadable:
        return given == gold


def hendrycks_normalised(text: str) -> str:
    for old, new in (
        ("\n", ""),
        ("\\!", ""),
        ("\\\\", "\\"),
        ("tfrac", "frac"),
        ("dfrac", "frac"),
        ("\\left", ""),
        ("\\right", ""),
        ("^{\\circ}", ""),
        ("^\\circ", ""),
        ("\\$", ""),
    ):
        text = text.replace(old, new)
    text = _without_units(text).replace("\\%", "")
    text = text.replace(" .", " 0.").replace("{.", "{0.")
    if not text:
        return text
    if text.startswith("."):
        text = "0" + text
    sides = text.split("=")
    if len(sides) == 2 and len(sides[0]) <= 2:
        text = sides[1]
    text = _braced_roots(text).replace(" ", "")
    text = _braced_fractions(text)
    if text == "0.5":
        text = "\\frac{1}{2}"
    return _slash_as_fraction(text)


def _without_units(text: str) -> str:
    """Cut at a unit written as `\\text{ …`; two of them are more than the rule foresees."""
    parts = text.split("\\text{ ")
    if len(parts) > 2:
        raise Unreadable(text)
    return parts[0]


def _braced_roots(text: str) -> str:
    first, *rest = text.split("\\sqrt")
    for part in rest:
        if not part:
            raise Unreadable(text)
        first += "\\sqrt" + (part if part[0] == "{" else "{" + part[0] + "}" + part[1:])
    return first


def _braced_fractions(text: str) -> str:
    first, *rest = text.split("\\frac")
    for part in rest:
        if not part:
            raise Unreadable(text)
        if part[0] == "{":
            first += "\\frac" + part
            continue
        if len(part) < 2:
            return text
        denominator = part[1] if part[1] == "{" else "{" + part[1] + "}"
        first += "\\frac{" + part[0] + "}" + denominator + part[2:]
    return first


def _slash_as_fraction(text: str) -> str:
    parts = text.split("/")
    if len(parts) != 2:
        return text
    try:
        numerator, denominator = int(parts[0]), int(parts[1])
    except ValueError:
        return text
    if text != f"{numerator}/{denominator}":
        return text
    return f"\\frac{{{numerator}}}{{{denominator}}}"


def prm800k_first_normalised(text: str) -> str:
    """The first of PRM800K's normalisers: hendrycks after unwrapping a whole `\\text{}`."""
    text = text.strip()
    try:
        return hendrycks_normalised(_unwrapped(text))
    except Unreadable:
        return text


def prm800k_normalised(text: str) -> str:
    """PRM800K's second normaliser: units, words, LaTeX and thousands commas taken away."""
    text = _unwrapped(text)
    for sign in ("\\%", "\\$", "$", "%"):
        text = text.replace(sign, "")
    text = text.replace(" or ", " , ").replace(" and ", " , ")
    for word, power in _POWERS.items():
        text = text.replace(word, power)
    for unit in _UNITS:
        text = re.sub(rf"{unit}(es)?(s)? *(\^[0-9]+)?", "", text)
    text = re.sub(r"\^ *\\circ", "", text)
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1]
    text = re.sub(r",\\! *", "", text)
    if (number := _float(text)) is not None and _is_whole(number):
        text = str(round(number))
    if "\\" in text:
        text = _latex_as_text(text)
    text = re.sub("- *", "-", text)
    text = re.sub("([0-9]) +([0-9])", r"\1+\2", text)
    text = text.replace(" ", "").replace("{", "").replace("}", "").lower()
    if is_integer(text):
        text = str(int(float(text.replace(",", ""))))
    return text


def _unwrapped(text: str) -> str:
    match = _WHOLE_TEXT.search(text)
    return match["text"] if match else text


def _latex_as_text(text: str) -> str:
    from pylatexenc import latex2text

    plain = text.replace("\\tfrac", "\\frac").replace("\\dfrac", "\\frac")
    plain = plain.replace("\\frac", " \\frac")  # keeps the whole part of a mixed number apart
    try:
        plain = str(latex2text.LatexNodes2Text().latex_to_text(plain))
    except Exception:  # noqa: BLE001 - the rule keeps the text whatever the converter dislikes
        return text
    for symbol, name in _SYMBOLS.items():
        plain = plain.replace(symbol, name)
    return plain.strip()


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_whole(number: float) -> bool:
    try:
        return abs(number - round(number)) <= 1e-7
    except (ValueError, OverflowError):  # not finite
        return False


def without_thousands_commas(text: str) -> str:
    while True:
        shorter = re.sub(r"(\d)(,)(\d\d\d)($|\D)", r"\1\3\4", text)
        if shorter == text:
            return text
        text = shorter


def is_integer(text: str) -> bool:
    number = _float(without_thousands_commas(text))
    return number is not None and _is_whole(number)


def is_fraction(text: str) -> bool:
    return re.search(r"^-?[0-9]+.?/0*[1-9][0-9]*.?$", text) is not None


def tuple_elements(text: str) -> list[str]:
    """The elements of a flat tuple or interval; anything else is one element."""
    text = without_thousands_commas(text)
    if not text:
        return []
    inner = text[1:-1]
    if (
        len(text) > 2
        and text[0] in _TUPLE_SIGNS
        and text[-1] in _TUPLE_SIGNS
        and not any(sign in inner for sign in _TUPLE_SIGNS)
    ):
        return [element.strip() for element in inner.split(",")]
    return [text]
