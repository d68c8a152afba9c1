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
