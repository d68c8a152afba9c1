"""Which answers are whole numbers."""

from __future__ import annotations

import pytest

from chimera.eval.benchmarks._aimo.text import whole_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("204", 204),
        ("0204", 204),
        ("204.0", 204),
        ("204.", 204),
        ("1,204", 1204),
        ("12{,}345", 12345),
        ("12\\,345", 12345),
        ("$204$", 204),
        ("\\text{204}", 204),
        ("m+n = 204", 204),
        ("-5", -5),
        ("\u22125", -5),
        ("204.5", None),
        ("5!", None),
        ("1e3", None),
        ("\\frac{10}{2}", None),
        ("5 or 7", None),
        ("x = 5 or 7", None),
        ("two", None),
        ("1,20", None),
        ("\u00b2", None),
        ("", None),
        ("2 04", None),
        (r"2 \quad 04", None),
        (r"20\quad 204", None),
        ("2{,}04", None),
        (r"2\; 04", None),
        (r"12{,}\!345", 12345),
        (r"1\,234 567", 1234567),
        ("n - 1 = 204", None),
        ("m + n = 204", 204),
    ],
)
def test_whole_number(text, number):
    assert whole_number(text) == number


@pytest.mark.parametrize(
    ("text", "problem", "number"),
    [
        ("m+n+1=204", "Then x is $m/n$. Find $m + n + 1$.", 204),
        ("m + n + 1 = 204", "What is the value of m+n+1?", 204),
        ("m+n+1=204", "Find $m+n$.", None),
        ("n-1=204", "Let n - 1 be prime. Find n.", None),
        ("n-1=204", "It is known that n-1 is prime. Find n such that n-1 is least.", None),
        ("n-1=204", "Find $2n-1$.", None),
        ("n-1=204", "Find $n-1+k$.", None),
        ("n-1=204", "Find\n$n-1$ for the least n.", 204),
        ("n \u2212 1 = 204", "Determine \\(n \u2212 1\\).", 204),
    ],
)
def test_a_sum_with_a_number_counts_where_it_is_asked_for(text, problem, number):
    assert whole_number(text, problem) == number
