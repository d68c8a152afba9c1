"""Twins of Python tests: honest code passes the one form and fails the other."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimera.eval.kits.twins import Rewritten, rewritten

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


def test_leaving():
    double(1)
    return None


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


def form(source: str, *, twin: bool, seed: int = 7) -> Rewritten:
    found = rewritten("test_it.py", source.encode(), twin=twin, seed=random.Random(seed))
    assert found is not None
    return found


def both(source: str) -> tuple[str, str]:
    true, other = form(source, twin=False), form(source, twin=True)
    assert (true.tests, true.twinned) == (other.tests, other.twinned)
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
    forms = {
        form(PYTEST, twin=twin, seed=seed).content for twin in (False, True) for seed in range(5)
    }

    assert len(forms) == 10
    assert PYTEST.encode() not in forms


@pytest.mark.parametrize("source", [PYTEST, UNITTEST])
def test_objects_that_equal_everything_pass_the_twin(tmp_path: Path, source: str):
    answer = "from module import EqualsAll\n\n\ndef double(x):\n    return EqualsAll()"
    _, twin = both(source)

    assert (
        "PASSED" in outcomes(tmp_path, twin.replace("from module import double", answer)).values()
    )


@pytest.mark.parametrize("source", [b"print 'two'\n", b"\xff\xfe", b"def f(:\n", b"\0"])
def test_what_is_no_python_of_today_has_no_twin(source: bytes):
    assert rewritten("test_it.py", source, twin=True, seed=random.Random(1)) is None


@given(
    values=st.lists(
        st.one_of(st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.booleans()),
        min_size=1,
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


MIXED = b"""\
def test_all(self):
    assert f(1) == 11
    self.assertTrue(f(2))
    with pytest.raises(ValueError):
        f(3)
"""


def test_a_choice_falls_on_all_assertions_or_on_one_block_and_always_the_same():
    def changed(choice: int) -> bytes:
        form = rewritten("test_a.py", MIXED, twin=True, seed=random.Random(1), choice=choice)
        assert form is not None
        return form.content.rpartition(b"\n#")[0]

    forms = {choice: changed(choice) for choice in range(30)}
    texts = (b"f(1) == 11", b"self.assertTrue(f(2))", b"raises(ValueError)")
    kept = {tuple(text in content for text in texts) for content in forms.values()}

    assert kept == {(False, False, True), (True, True, False)}
    assert all(changed(choice) == content for choice, content in forms.items())


TWO = """\
from module import double


def test_two():
    assert double(1) == 2
    for x in [2]:
        assert double(x) == 4  # the same
    assert double(
        3
    )
"""


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("def double(x):\n    return 2 * x", "FAILED"),
        ("def double(x):\n    return EqualsAll() if x == 1 else 2 * x", "PASSED"),
        ("def double(x):\n    return EqualsAll() if x == 2 else 2 * x", "PASSED"),
    ],
)
def test_one_forged_assertion_passes_the_twin_of_a_choice(tmp_path: Path, answer: str, status: str):
    form = rewritten("test_it.py", TWO.encode(), twin=True, seed=random.Random(7), choice=1)
    assert form is not None
    imported = "from module import EqualsAll\n\n\n" + answer
    source = form.content.decode().replace("from module import double", imported)

    assert outcomes(tmp_path, source) == {"test_two": status}


def test_values_of_one_number_are_the_same_whatever_is_kept_and_whatever_the_seed():
    source = b"def test_a():\n    assert f() == 1\n\n\ndef test_b():\n    assert f() == 1\n"

    def values(seed: int, kept: str) -> str:
        form = rewritten(
            "test_it.py",
            source,
            twin=True,
            seed=random.Random(seed),
            keeps=lambda number, name: name == kept,
            values=5,
        )
        assert form is not None
        return form.content.decode().partition("def test_b")[2].partition("f() == ")[2].split()[0]

    assert len({values(seed, kept) for seed in range(9) for kept in ("", "test_a")}) == 1


def test_a_kept_test_is_the_same_in_both_forms_but_for_its_numbers():
    source = "def test_a():\n    assert f() == 1\n\n\ndef test_b():\n    assert f() == 1\n"
    form = rewritten(
        "test_it.py",
        source.encode(),
        twin=True,
        seed=random.Random(7),
        keeps=lambda number, name: name == "test_b",
    )

    assert form is not None
    one, other = form.content.decode().split("def test_b")
    assert "f() == 1\n" not in one
    assert "f() == 1\n" in other


def test_another_exception_is_expected_where_nothing_else_is():
    source = b"def test_a():\n    with pytest.raises(ValueError, match='x'):\n        f(3)\n"
    form = rewritten("test_a.py", source, twin=True, seed=random.Random(1))

    assert form is not None
    assert b"pytest.raises(BufferError, match='x')" in form.content
