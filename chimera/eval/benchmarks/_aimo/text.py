"""Answers that are whole numbers: a strict reading, no guessing."""

from __future__ import annotations

import re

_SEPARATORS = re.compile(r"(?:\{,\}|\\[,!;: ]|\\(?:thinspace|quad)\b|[ \u00a0\u2009\u202f])++")
_NAMED = re.compile(r"^[A-Za-z](?:[A-Za-z0-9_{}+\-*/ ]|\\cdot|\\times)*=")
#: A term that is a number alone: `n-1=204` says that n is 205, but where n-1 is asked for.
_CONSTANT = re.compile(r"[+-] *\d+ *(?=[+\-=])")
_ASKED = re.compile(
    r"\b(?:answer|calculate|compute|determine|evaluate|find|give|report|submit|value|what)\b[^.?]*+",
    re.IGNORECASE,
)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.0*)?")
_WHOLE = re.compile(r"[+-]?\d{1,400}(?:\.0*)?")  # no answer is longer, and long ones cost time
#: No answer is longer, whatever is written around its digits.
_LONGEST = 2000
#: Delimiters of mathematics and emphasis around a whole answer.
_OPENING = re.compile(r"^(?:[\s$*`_]|\\[(\[])+")
_CLOSING = re.compile(r"(?:[\s$*`_.]|\\[)\]])+$")
_MARKUP = re.compile(r"\\(?:text|textbf|mathbf|mathrm|boxed)\{([^{}]*)\}")


def whole_number(answer: str, problem: str = "") -> int | None:
    """The integer an answer states: `204`, `0204`, `1,204`, `12{,}345`, `204.0`, `m+n = 204`.

    A fraction, a power, a factorial, several numbers or a unit is not a whole number;
    nor is `n-1 = 204`, unless the problem asks for n-1.
    """
    text = answer.strip()
    if len(text) > _LONGEST:
        return None
    text = _undelimited(text)
    if text.startswith("<") and text.endswith(">"):
        text = text[1:-1]
    while (plain := _MARKUP.sub(r"\1", text)) != text:
        text = plain
    text = _SEPARATORS.sub(_joined, text.replace("\u2212", "-"))
    text = _undelimited(text)
    if text.count("=") == 1 and (not _CONSTANT.search(text) or _asks(problem, text)):
        text = _NAMED.sub("", text)
    if not text.isascii():
        return None
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    return int(text.partition(".")[0]) if _WHOLE.fullmatch(text) else None


def _asks(problem: str, equation: str) -> bool:
    """Whether the problem asks for just what the equation gives the value of."""
    left = re.escape(equation.partition("=")[0])
    just = re.compile(rf"(?<![\w+\-*/^}}])\$?\s*+{left}(?![\w+\-*/^{{=])")
    clauses = [
        re.split(r"\b(?:for|given|if|so that|such that|where)\b", clause)[0]
        for clause in _ASKED.findall(problem.replace("\u2212", "-"))
    ]
    return any(just.search(re.sub(r"\s*([+\-*/^=])\s*", r"\1", clause)) for clause in clauses)


def _joined(separator: re.Match[str]) -> str:
    """A comma between groups of three digits; other digits apart are several numbers."""
    before, after = separator.string[: separator.start()], separator.string[separator.end() :]
    if not before[-1:].isdecimal() or not after[:1].isdecimal():
        return ""
    grouped = re.match(r"\d{3}(?!\d)", after) and "quad" not in separator[0]
    return "," if grouped else " "


def _undelimited(text: str) -> str:
    return _CLOSING.sub("", _OPENING.sub("", text))
