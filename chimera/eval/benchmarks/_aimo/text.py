"""Answers that are plain text or whole numbers: strict readings, no guessing."""

from __future__ import annotations

import re
import unicodedata

_SEPARATORS = re.compile(r"\{,\}|\\[,!;: ]|\\(?:thinspace|quad)\b|[ \u00a0\u2009\u202f]")
_NAMED = re.compile(r"^[A-Za-z](?:[A-Za-z0-9_{}+\-*/ ]|\\cdot|\\times)*=")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.0*)?")
_WHOLE = re.compile(r"[+-]?\d{1,400}(?:\.0*)?")  # no answer is longer, and long ones cost time
_MARKUP = re.compile(r"\\(?:text|textbf|mathbf|mathrm|boxed)\{([^{}]*)\}")


def whole_number(answer: str) -> int | None:
    """The integer an answer states: `204`, `0204`, `1,204`, `12{,}345`, `204.0`, `m+n = 204`.

    A fraction, a power, a factorial, several numbers or a unit is not a whole number.
    """
    text = answer.strip().strip("$").strip()
    while (plain := _MARKUP.sub(r"\1", text)) != text:
        text = plain
    text = _SEPARATORS.sub("", text.replace("\u2212", "-"))
    text = text.strip("*`_").strip("$").strip(".") if not text.endswith(".0") else text
    if text.count("=") == 1:
        text = _NAMED.sub("", text)
    if not text.isascii():
        return None
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    return int(text.partition(".")[0]) if _WHOLE.fullmatch(text) else None


def same_text(given: str, gold: str) -> bool:
    """Equality but for case, Unicode form and the amount of white space."""
    return _plain(given) == _plain(gold)


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
