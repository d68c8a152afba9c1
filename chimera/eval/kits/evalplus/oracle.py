"""EvalPlus's comparison of a result with the expected one, as source for the judge's process.

Self-contained on purpose: the sandbox gets this file's text, with the settings appended, and calls
`matches` for each input in turn. The tolerance is sticky, as it is there: once an expected value is
a float, later inputs of the same answer are compared with a tolerance too.
"""

from __future__ import annotations

import math
from typing import Any

DATASET = ""
ENTRY_POINT = ""
TOLERANCE: float = 0

SET_TASKS = frozenset(
    {
        "similar_elements",
        "find_char_long",
        "common_in_nested_lists",
        "extract_singly",
        "larg_nnum",
        "intersection_array",
        "find_dissimilar",
        "Diff",
    }
)
NOT_NONE_TASKS = frozenset({"check_str", "text_match_three", "text_starta_endb"})
RELATIVE = 1e-07


def matches(inputs: list[Any], expected: Any, actual: Any) -> bool:
    """Whether one result is right; raises where EvalPlus's own comparison would."""
    global TOLERANCE
    if DATASET == "humaneval" and ENTRY_POINT == "find_zero":
        return abs(_polynomial(inputs[0], actual)) <= TOLERANCE
    exact = actual == expected
    if DATASET != "humaneval":
        exact = _mbpp(exact, inputs, expected, actual)
    if TOLERANCE == 0 and _is_floats(expected):
        TOLERANCE = 1e-6
    if exact or TOLERANCE == 0:
        return bool(exact)
    if type(actual) is not type(expected):
        return False
    if isinstance(expected, list | tuple) and len(actual) != len(expected):
        return False
    return _close(actual, expected)


def _mbpp(exact: Any, inputs: list[Any], expected: Any, actual: Any) -> Any:
    if ENTRY_POINT == "are_equivalent":
        return True
    if ENTRY_POINT == "sum_div":
        return exact or actual == 0
    if ENTRY_POINT == "surface_Area":
        return exact or abs(actual - _upright_surface(*inputs)) <= TOLERANCE
    if ENTRY_POINT == "digit_distance_nums":
        return exact or actual == _padded_distance(*inputs)
    if ENTRY_POINT in SET_TASKS:
        return set(actual) == set(expected)
    if ENTRY_POINT in NOT_NONE_TASKS:
        return actual == expected if isinstance(actual, bool) else expected == (actual is not None)
    return exact


def _polynomial(coefficients: list[float], x: Any) -> float:
    return sum(each * math.pow(x, power) for power, each in enumerate(coefficients))


def _upright_surface(edge: float, height: float) -> int:
    """A square pyramid's surface when the second number is read as its height."""
    return round(edge**2 + 2 * edge * math.sqrt((edge / 2) ** 2 + height**2))


def _padded_distance(first: int, second: int) -> int:
    """The digits' differences when the shorter number is filled up with zeros."""
    left, right = str(first), str(second)
    width = max(len(left), len(right))
    pairs = zip(left.zfill(width), right.zfill(width), strict=True)
    return sum(abs(int(a) - int(b)) for a, b in pairs)


def _is_floats(value: Any) -> bool:
    if isinstance(value, float):
        return True
    if isinstance(value, list | tuple) and value:
        return all(isinstance(each, float) for each in value)
    kind = getattr(getattr(value, "dtype", None), "str", "")
    return kind in ("<f8", "<f4") and hasattr(value, "shape") and value.shape != ()


def _close(actual: Any, expected: Any) -> bool:
    """numpy's allclose over nested lists of numbers; anything else is not close."""
    if isinstance(expected, list | tuple):
        return (
            isinstance(actual, list | tuple)
            and len(actual) == len(expected)
            and all(map(_close, actual, expected))
        )
    if not isinstance(actual, int | float | complex):
        return False
    if not isinstance(expected, int | float | complex):
        return False
    if actual == expected:
        return True
    return bool(abs(actual - expected) <= TOLERANCE + RELATIVE * abs(expected) < math.inf)
