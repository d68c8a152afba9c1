"""The rules by which two answers are equal, for a process that can be killed.

Model text is only parsed: names that could reach Python's own functions are never bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from chimera.eval.benchmarks._math500.strings import (
    hendrycks_equal,
    is_fraction,
    is_integer,
    prm800k_first_normalised,
    prm800k_normalised,
    tuple_elements,
)

#: Names of at most two different letters that mean something to the PRM800K rules' parser.
_FUNCTIONS = ("sqrt", "ln", "re", "im", "li", "ff", "rf")
_CONSTANTS = ("pi", "oo", "nan", "zoo")
_INTERNAL = ("Integer", "Float", "Rational", "Symbol", "Function", "factorial", "factorial2")
_SAFE_TEXT = re.compile(r"[0-9A-Za-z+\-*/^().,!<>= ]*")


def prm800k_equal(given: str, gold: str) -> bool:
    """PRM800K `grade_answer`: two normalisers, then element by element with sympy."""
    if prm800k_first_normalised(given) == prm800k_first_normalised(gold):
        return True
    given, gold = prm800k_normalised(given), prm800k_normalised(gold)
    if given == gold:
        return True
    if not given:
        return False
    given_elements, gold_elements = tuple_elements(given), tuple_elements(gold)
    if len(given_elements) != len(gold_elements):
        return False
    if len(gold_elements) > 1 and (gold[0] != given[0] or gold[-1] != given[-1]):
        return False
    return all(map(_elements_equal, given_elements, gold_elements))


def _elements_equal(given: str, gold: str) -> bool:
    if is_fraction(gold) and is_fraction(given):
        return given == gold  # an unreduced fraction is wrong by these rules
    if is_integer(gold) != is_integer(given):
        return False
    if _is_closed(gold) and not _is_closed(given):
        return False  # it would leave the parentheses around it, and take part in the subtraction
    return _difference_is_zero(f"({gold})-({given})")


def _is_closed(expression: str) -> bool:
    """Whether every parenthesis is opened before it is closed, and closed at last."""
    depth = 0
    for character in expression:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            return False
    return depth == 0


def _difference_is_zero(expression: str) -> bool:
    letters = expression.replace("sqrt", "").replace("frac", "")
    if len({letter for letter in letters if letter.isalpha()}) > 2:
        return False
    if "^{" in expression or "^(" in expression:
        return False
    if re.search(r"\^[0-9]+\^", expression) or re.search(r"\^[0-9][0-9]+", expression):
        return False
    if not _SAFE_TEXT.fullmatch(expression) or re.search(r"\.\s*[A-Za-z]", expression):
        return False  # attributes, quotes and brackets have no place in an answer
    import sympy
    from sympy.parsing import sympy_parser

    names = {name: getattr(sympy, name) for name in (*_FUNCTIONS, *_CONSTANTS, *_INTERNAL)}
    transformations = (
        *sympy_parser.standard_transformations,
        sympy_parser.implicit_multiplication_application,
    )
    try:
        difference = sympy_parser.parse_expr(
            expression.replace("^", "**"),
            global_dict={**names, "__builtins__": {}},
            transformations=transformations,
        )
        return bool(sympy.simplify(difference) == 0)
    except Exception:  # noqa: BLE001 - by these rules whatever cannot be parsed is not equal
        return False


def math_verify_equal(given: str, gold: str) -> bool:
    """math-verify on the extracted answer: gold in `$`, the given one in a box."""
    return math_verify_reply(f"$\\boxed{{{given}}}$", f"${gold}$")


def math_verify_reply(given: str, gold: str) -> bool:
    """math-verify on texts as they are."""
    import math_verify

    try:
        return bool(
            math_verify.verify(
                math_verify.parse(gold, parsing_timeout=None),
                math_verify.parse(given, parsing_timeout=None),
                timeout_seconds=None,
            )
        )
    except (RecursionError, MemoryError):
        return False


RULES: Mapping[str, Callable[[str, str], bool]] = {
    "hendrycks": hendrycks_equal,
    "math-verify": math_verify_equal,
    "math-verify-reply": math_verify_reply,
    "prm800k": prm800k_equal,
}


def equal(rules: list[str], given: str, gold: str) -> dict[str, bool]:
    """What each rule says."""
    return {rule: RULES[rule](given, gold) for rule in rules}


def compares() -> bool:
    """Whether the packages do what the rules need: a gold answer passes without them."""
    rules = (prm800k_equal, math_verify_equal)
    return all(
        rule("2*sqrt(2)", "\\sqrt{8}") and not rule("2*sqrt(2)", "\\sqrt{9}") for rule in rules
    )
