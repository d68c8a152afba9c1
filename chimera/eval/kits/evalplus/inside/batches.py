"""The comparison of many results at once, in the judge's process behind the text of `oracle.py`."""

from collections.abc import Callable
from typing import Any

Matches = Callable[[Any, Any, Any], bool]


def batched(matches_one: Matches) -> Matches:
    def matches(bounds: list[int], expected: list[tuple[Any, Any]], actual: Any) -> bool:
        for number, (inputs, wanted) in enumerate(expected, bounds[0]):
            offset = number - bounds[0]
            found = actual[offset] if type(actual) is list and offset < len(actual) else "nothing"
            if type(found) is not tuple or len(found) != 1:
                raise AssertionError(f"input {number}: {found}")
            if not matches_one(inputs, wanted, found[0]):
                raise AssertionError(f"input {number}: {str(found[0])[:200]} is not right")
        return True

    return matches
