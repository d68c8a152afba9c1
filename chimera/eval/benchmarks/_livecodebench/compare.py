"""LiveCodeBench's comparison of outputs, as source for the judge's process.

Self-contained on purpose: the sandbox gets this file's text and calls `matches` for each test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, DecimalException
from itertools import zip_longest
from typing import Any

MODE = "stdin"
_WORD = re.compile(r"\S+")


def matches(inputs: list[Any], expected: Any, actual: Any) -> bool:
    if MODE == "functional":
        return bool(actual == expected)
    return isinstance(actual, str) and same_output(actual, expected)


def same_output(written: str, expected: str) -> bool:
    """Line by line, ends stripped; a line of numbers may write them in another way.

    Linear in both texts, and whatever was written, it says yes or no.
    """
    left, right = written.strip(), expected.strip()
    if left.count("\n") != right.count("\n"):
        return False
    return all(map(_same_line, _lines(left), _lines(right)))


def _lines(text: str) -> Iterator[str]:
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end].strip()
        start = end + 1
    yield text[start:].strip()


def _same_line(written: str, expected: str) -> bool:
    if written == expected:
        return True
    pairs = zip_longest(_WORD.finditer(written), _WORD.finditer(expected))
    return all(one and other and _same_number(one[0], other[0]) for one, other in pairs)


def _same_number(written: str, expected: str) -> bool:
    try:
        return Decimal(written) == Decimal(expected)
    except (DecimalException, ValueError):  # no number, or one that compares with nothing
        return False
