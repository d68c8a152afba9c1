"""LiveCodeBench's comparison of outputs, as source for the judge's process.

Self-contained on purpose: the sandbox gets this file's text and calls `matches` for each test.
"""

from __future__ import annotations

from decimal import Decimal, DecimalException
from typing import Any

MODE = "stdin"


def matches(inputs: list[Any], expected: Any, actual: Any) -> bool:
    if MODE == "functional":
        return bool(actual == expected)
    return isinstance(actual, str) and same_output(actual, expected)


def same_output(written: str, expected: str) -> bool:
    """Line by line, ends stripped; a line of numbers may write them in another way."""
    left, right = _lines(written), _lines(expected)
    return len(left) == len(right) and all(map(_same_line, left, right))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_line(written: str, expected: str) -> bool:
    if written == expected:
        return True
    left, right = _numbers(written), _numbers(expected)
    return left is not None and right is not None and left == right


def _numbers(line: str) -> list[Decimal] | None:
    try:
        return [Decimal(word) for word in line.split()]
    except (DecimalException, ValueError):
        return None
