"""Calls the answer's function: once, timed, or on many inputs at once.

Some results are gigabytes (Mbpp/255). What is larger than `LARGE` crosses as a digest instead: an
answer cannot know the right digest without the right value. What is equal has the same digest, and
rows of numbers with a float among them, which may be compared with a tolerance, cross as they are.
"""

import marshal
import time
from collections.abc import Callable
from typing import Any

LARGE = 100_000
NOTE = "digest of a large value"
NUMBERS = frozenset((bool, complex, float, int))
#: What equals nothing of another type.
STEADY = frozenset((bytes, int, str, type(None)))
NUMPY = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)} | {
    *("bool", "bool_", "float16", "float32", "float64"),
}
#: Numbers that equal ints and floats of the same value.
EXACT = {"Decimal": "decimal", "Fraction": "fractions"}
PLAIN = frozenset((bool, bytes, complex, float, int, str, type(None)))


def offer(names: dict[str, object], entry_point: str, inputs: bytes) -> None:
    """Define `chimera_call`, and `chimera_batch` over the marshalled inputs.

    A thousand round trips between processes cost more than the calls do.
    """
    call = caller(names, entry_point)
    names["chimera_call"] = call
    if inputs:
        names["chimera_batch"] = batch_caller(call, marshal.loads(inputs))


def offer_timed(names: dict[str, object], entry_point: str, not_none: bool) -> None:
    """Define `chimera_timed`: the result (or only whether there is one), and CPU seconds."""
    call = caller(names, entry_point)

    def timed(*arguments: Any) -> tuple[Any, float]:
        begin = time.process_time()
        result = call(*arguments)
        return (result is not None if not_none else result), time.process_time() - begin

    names["chimera_timed"] = timed


def caller(names: dict[str, object], entry_point: str) -> Callable[..., Any]:
    if entry_point not in names:
        raise NameError(f"the answer defines no {entry_point!r}")
    function: Any = names[entry_point]

    def call(*arguments: Any) -> Any:
        result = function(*arguments)
        return crossing(result) if is_large(result) else result

    return call


def crossing(value: Any) -> Any:
    """What stands for a large value on the other side."""
    if type(value) in (list, tuple):
        kinds = set(map(type, value))
        if any(issubclass(kind, float) for kind in kinds):
            if kinds <= NUMBERS:
                return value
            if all(kind in NUMBERS or is_numpy(kind) or is_exact(kind) for kind in kinds):
                return type(value)(map(alike, value))
    try:
        return digest(value)
    except ValueError:  # holds what is not plain, which only the comparison knows
        return value


def is_large(value: Any) -> bool:
    room, waiting = LARGE, [value]
    while waiting:
        each = waiting.pop()
        kind = type(each)
        if kind in (str, bytes):
            room -= len(each)
        elif kind in (list, tuple):
            room -= len(each)
            if room >= 0:
                waiting.extend(each)
        elif kind not in PLAIN and not is_numpy(kind):
            return False
        if room < 0:
            return True
    return False


def is_numpy(kind: type) -> bool:
    """Whether it is one of numpy's numbers that Python has too."""
    return kind.__module__ == "numpy" and kind.__name__ in NUMPY


def is_exact(kind: type) -> bool:
    return EXACT.get(kind.__name__) == kind.__module__


def digest(value: Any) -> tuple[str, int, str]:
    import hashlib

    total = hashlib.sha256(type(value).__name__.encode())
    step = 1 << 20 if type(value) in (str, bytes) else 10_000
    for start in range(0, len(value), step):
        total.update(marshal.dumps(alike(value[start : start + step]), 2))
    return NOTE, len(value), total.hexdigest()


def alike(value: Any) -> Any:
    """The same for all that is equal: a whole number is an int, whatever it was written as."""
    kind = type(value)
    if kind in STEADY:
        return value
    if kind in (list, tuple):
        return value if STEADY.issuperset(map(type, value)) else kind(map(alike, value))
    if kind in (dict, frozenset, set):
        raise ValueError("what is equal may be in another order")
    if is_numpy(kind):
        value = value.item()
        kind = type(value)
    if is_exact(kind):
        value = plain_number(value)
        kind = type(value)
    if kind is bool or (kind is float and value.is_integer()):
        return int(value)
    if kind is complex and value.imag == 0:
        return alike(value.real)
    return value


def plain_number(value: Any) -> Any:
    """The int or float that a fraction or a decimal number equals; itself where there is none."""
    try:
        whole = int(value)
        number = whole if whole == value else float(value)
        return number if number == value else value
    except (ArithmeticError, ValueError):
        return value


def with_digests(matches_one: Callable[[Any, Any, Any], bool]) -> Callable[[Any, Any, Any], bool]:
    """In the judge: a digest equals the value that it is the digest of, too."""

    def matches(inputs: Any, expected: Any, actual: Any) -> bool:
        if matches_one(inputs, expected, actual):
            return True
        return is_digest(expected) != is_digest(actual) and digested(expected) == digested(actual)

    return matches


def is_digest(value: Any) -> bool:
    return type(value) is tuple and len(value) == 3 and type(value[0]) is str and value[0] == NOTE


def digested(value: Any) -> Any:
    try:
        return digest(value) if type(value) in (list, tuple) and not is_digest(value) else value
    except ValueError:  # holds what is not plain
        return None


def batch_caller(call: Callable[..., Any], inputs: list[list[Any]]) -> Callable[[int, int], Any]:
    def batch(start: int, stop: int) -> list[tuple[Any] | str]:
        """Each result in a tuple; the name of the error that ended the series."""
        results: list[tuple[Any] | str] = []
        for arguments in inputs[start:stop]:
            try:
                results.append((snapshot(call(*arguments)),))
            except BaseException as error:  # noqa: BLE001 - whatever it is, the judge hears of it
                results.append(type(error).__name__)
                break
        return results

    return batch


def snapshot(value: Any) -> Any:
    """The value as it is now: an answer may return what it changes in the next call."""
    if type(value) in PLAIN:
        return value
    if type(value) in (list, tuple) and PLAIN.issuperset(map(type, value)):
        return type(value)(value)
    import copy

    try:
        return copy.deepcopy(value)
    except Exception:  # noqa: BLE001 - an answer's own objects may do anything
        return value
