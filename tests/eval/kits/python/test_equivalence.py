"""Mutants that no test could catch are told from those that the tests miss."""

from __future__ import annotations

import random

import pytest

from chimera.eval.kits.python.equivalence import further_inputs, same_behaviour, vary

GOLD = """\
def largest(values):
    best = values[0]
    for value in values:
        if value > best:
            best = value
    return best
"""
TESTS = "assert largest([1, 2, 3]) == 3\nassert largest([5]) == 5\n"


def test_a_mutant_that_computes_the_same_is_equivalent() -> None:
    assert same_behaviour(GOLD, GOLD.replace("value > best", "value >= best"), "largest", TESTS)


@pytest.mark.parametrize(
    "wrong", ["return values[-1]", "return 3", "return max(values) if len(values) < 4 else 0"]
)
def test_one_that_the_tests_miss_is_not(wrong: str) -> None:
    mutant = f"def largest(values):\n    {wrong}\n"

    assert not same_behaviour(GOLD, mutant, "largest", TESTS)


def test_without_a_call_to_vary_nothing_is_called_equivalent() -> None:
    assert not same_behaviour(GOLD, GOLD, "largest", "x = [1]\nassert largest(x) == 1\n")


def test_inputs_are_many_and_the_same_every_time() -> None:
    inputs = further_inputs("f", "assert f('abc', [1, 2.5], {'a': (1, None)}) == 1")

    assert len(inputs) > 20
    assert inputs == further_inputs("f", "assert f('abc', [1, 2.5], {'a': (1, None)}) == 1")
    assert inputs[0] == ["abc", [1, 2.5], {"a": (1, None)}]


def test_variations_keep_the_kind_of_value() -> None:
    chance = random.Random(0)

    for value in ("text", [1, 2], (1, "a"), {3}, 7):
        assert {type(vary(value, chance)) for _ in range(50)} == {type(value)}
