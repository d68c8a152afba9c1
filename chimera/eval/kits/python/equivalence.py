"""Whether a mutant that passed computes anything else than the gold, on inputs beyond the tests.

The inputs are those of the tests' own calls, and variations of them. A mutant that agrees with the
gold on all of them is equivalent as far as anybody can see: no test would catch it.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from chimera.eval.kits.python.grading import packages_of
from chimera.sandbox import Call, Limits, call_function

VARIATIONS = 40  # of each call in the tests
MOST_INPUTS = 400
LIMITS = Limits(cpu_seconds=20.0)
SECONDS = 0.5  # for one call


def same_behaviour(gold: str, mutant: str, entry_point: str, tests: str) -> bool:
    """Whether both return the same wherever the gold returns; False when no input was found."""
    inputs = further_inputs(entry_point, tests)
    wanted = _results(gold, entry_point, inputs)
    tried = [i for i, call in enumerate(wanted) if call.ok]
    if not tried:
        return False
    found = _results(mutant, entry_point, [inputs[i] for i in tried])
    return all(
        call.ok and _same(wanted[i].value, call.value) for i, call in zip(tried, found, strict=True)
    )


def _same(value: Any, other: Any) -> bool:
    with suppress(ValueError, TypeError, ArithmeticError, RecursionError):  # an array has no truth
        if value == other:
            return True
    return repr(value) == repr(other)  # not-a-number equals nothing


def _results(program: str, entry_point: str, inputs: Sequence[Sequence[Any]]) -> list[Call]:
    return call_function(
        program,
        entry_point,
        inputs,
        limits=LIMITS,
        seconds_per_call=SECONDS,
        packages=packages_of(program),
    )


def further_inputs(entry_point: str, tests: str) -> list[list[Any]]:
    """The arguments of the calls in the tests that are written out, and variations of them."""
    chance = random.Random(entry_point)
    seeds = list(_calls(entry_point, tests))
    varied = (
        [vary(argument, chance) for argument in seed] for _ in range(VARIATIONS) for seed in seeds
    )
    unique = {repr(each): each for each in (*seeds, *varied)}
    return list(unique.values())[:MOST_INPUTS]


def _calls(entry_point: str, tests: str) -> Iterator[list[Any]]:
    for node in ast.walk(ast.parse(tests)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in (entry_point, "candidate")
        ):
            with suppress(ValueError, TypeError, SyntaxError):
                yield [ast.literal_eval(argument) for argument in node.args]


def vary(value: Any, chance: random.Random) -> Any:
    """Something like `value`, which may be the same, so that arguments change one by one too."""
    if chance.random() < 0.4:
        return value
    if isinstance(value, bool) or value is None:
        return chance.choice([True, False, value])
    if isinstance(value, int):  # what the tests count stays a number to count with
        numbers = [value + 1, abs(value - 1), 0, 1, value * 2, value // 2, chance.randint(0, 99)]
        return chance.choice(numbers if value >= 0 else [*numbers, -value, value - 1])
    if isinstance(value, float):
        near = [value + 0.5, abs(value - 0.5), 0.0, value * 2, float(round(value)), value / 3]
        return chance.choice(near if value >= 0 else [*near, -value])
    if isinstance(value, str):
        return "".join(
            _vary_elements(list(value) or ["a"], chance, lambda: chance.choice("aZ0 ,("))
        )
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(_vary_elements(list(value), chance, None))
    if isinstance(value, dict):
        return {vary(key, chance): vary(each, chance) for key, each in value.items()}
    return value


def _vary_elements(elements: list[Any], chance: random.Random, new: Any) -> list[Any]:
    way = chance.randrange(6)
    if way == 0:
        return elements[::-1]
    if way == 1:
        return elements[: chance.randint(0, len(elements))]
    if way == 2:
        return elements + elements[: chance.randint(0, 3)]
    if way == 3:
        return chance.sample(elements, len(elements))
    if way == 4 and new is not None:
        place = chance.randint(0, len(elements))
        return [*elements[:place], new(), *elements[place:]]
    if new is not None:
        return [new() if chance.random() < 0.3 else each for each in elements]
    return [vary(each, chance) for each in elements]
