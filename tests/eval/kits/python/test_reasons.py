"""Reasons one can act on: what came, what was expected, and where."""

from __future__ import annotations

import pytest

from chimera.eval.kits.python.grading import difference, python_stdin


@pytest.mark.parametrize(
    ("written", "expected", "says"),
    [
        ("3\n", "4\n", "wrote '3', expected '4'"),
        ("1\n2\n3", "1\n2\n4", "line 3: wrote '3', expected '4'"),
        ("1\n2", "1\n2\n3", "line 3: wrote nothing more, expected '3'"),
        ("1\n2\n3", "1\n2", "line 3: wrote '3', expected nothing more"),
        ("", "x", "wrote nothing more, expected 'x'"),
        ("x" * 300 + "a", "x" * 300 + "b", "xxa', expected 'xx"),
    ],
)
def test_the_first_line_that_differs(written, expected, says):
    assert says in difference(written, expected)


def test_a_program_on_standard_input_says_which_line_is_wrong():
    verdict = python_stdin("print(1)\nprint(2)", [("", "1\n3\n")])

    assert verdict.why == "case 0: line 2: wrote '2', expected '3'"
