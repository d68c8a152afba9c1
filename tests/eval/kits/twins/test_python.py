"""Twins of Python tests: honest code passes the one form and fails the other."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimera.eval.kits.twins.python import rewritten

MODULE = """\
def double(x):
    return 2 * x


class EqualsAll(object):
    def __eq__(self, other):
        return True
"""
PYTEST = """\
import pytest
from module import double


@pytest.mark.parametrize("given", [1, 2])
def test_kinds(given):
    assert double(given) == given + given
    assert double("a") == "aa"
    for x in [1]:
        assert [double(x), 1] == [2, True]


class TestClass:
    def test_method(self):
        with pytest.raises(TypeError):
            double(None)


def test_one_line(): assert double(2) == 4
"""
UNITTEST = """\
import unittest
from module import double


class Doubles(unittest.TestCase):
    def test_equal(self):
        '''A docstring.'''
        self.assertEqual(double(2), 4)
        self.assertTrue(double(1))
"""


def both(source: str) -> tuple[str, str]:
    true, other = (
        rewritten(source.encode(), twin=twin, seed=random.Random(7)) for twin in (False, True)
    )
    assert true is not None
    assert other is not None
    assert (true.tests, true.checks, true.changed) == (other.tests, other.checks, other.changed)
    assert true.content.count(b"\n") == other.content.count(b"\n")
    return true.content.decode(), other.content.decode()


def outcomes(tmp_path: Path, source: str) -> dict[str, str]:
    (tmp_path / "module.py").write_text(MODULE)
    (tmp_path / "test_it.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    words = ("PASSED", "FAILED", "ERROR")
    found = [line.split()[:2] for line in done.stdout.splitlines() if line.startswith(words)]
    return {name.partition("::")[2]: status for status, name in found}


@pytest.mark.parametrize("source", [PYTEST, UNITTEST])
def test_honest_code_passes_the_true_form_and_fails_the_twin(tmp_path: Path, source: str):
    true, twin = both(source)
    passed, failed = outcomes(tmp_path, true), outcomes(tmp_path, twin)

    assert passed
    assert passed.keys() == failed.keys() == outcomes(tmp_path, source).keys()
    assert set(passed.values()) == {"PASSED"}
    assert set(failed.values()) == {"FAILED"}


def test_neither_form_is_the_published_file_and_no_two_are_the_same():
    forms = {rewritten(PYTEST.encode(), twin=t, seed=random.Random(n)).content
             for t in (False, True) for n in range(5)}  # fmt: skip

    assert len(forms) == 10
    assert PYTEST.encode() not in forms


def test_the_lines_of_checks_and_of_changed_expectations_are_told():
    form = rewritten(UNITTEST.encode(), twin=True, seed=random.Random(1))
    assert form is not None
    lines = form.content.decode().split("\n")

    assert [lines[line - 1].strip()[:17] for line in sorted(form.checks)] == ["self.assertEqual("]
    assert ["double(2)" in lines[line - 1] for line in form.changed] == [True]


@pytest.mark.parametrize("source", [b"print 'two'\n", b"\xff\xfe", b"def f(:\n", b"\0"])
def test_what_is_no_python_of_today_has_no_twin(source: bytes):
    assert rewritten(source, twin=True, seed=random.Random(1)) is None


@given(
    values=st.lists(
        st.one_of(st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.booleans()),
        max_size=4,
    )
)
@settings(max_examples=100, deadline=None)
def test_any_expected_values_leave_a_file_that_parses(values: list[object]):
    source = f"def test_values():\n    assert f() == {values!r}\n    assertEqual(g(), {values!r})\n"
    true, twin = both(source)

    for form in (true, twin):
        compile(form, "test_it.py", "exec")
    assert (true == twin) is False
