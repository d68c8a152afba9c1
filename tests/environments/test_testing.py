"""Test reports: what they say, and which are none."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from chimera.environments import start_environment
from chimera.environments.base import EnvironmentSpec
from chimera.environments.testing import outcomes, with_options


@pytest.mark.parametrize(
    ("report", "found"),
    [
        ("<testsuite/>", {}),
        ('<testsuites><testsuite><testcase classname="m" name="t"/></testsuite></testsuites>',
         {"m::t": "passed"}),
        ('<testsuite><testcase name="t"/><testcase name="t"><failure/></testcase></testsuite>',
         {"t": "failed"}),
        ('<testsuite><testcase name="t"><failure/></testcase><testcase name="t"/></testsuite>',
         {"t": "failed"}),
        ('<testsuite><testcase name="t"><skipped/></testcase></testsuite>', {"t": "skipped"}),
        ('<testsuite><testcase name="t"><a><failure/></a></testcase><b><error/></b></testsuite>',
         {"t": "passed"}),
        ('<testsuite><testcase name="t"><failure/><error/></testcase></testsuite>', {"t": "error"}),
    ],
)  # fmt: skip
def test_reports_are_read(report: str, found: dict[str, str]) -> None:
    assert outcomes(report.encode()) == found


def test_reports_that_grow_when_read_are_refused() -> None:
    bomb = '<!DOCTYPE a [<!ENTITY b "x">]><testsuite><testcase name="&b;"/></testsuite>'

    with pytest.raises(ValueError, match="entities"):
        outcomes(bomb.encode())


@pytest.mark.parametrize("encoding", ["absent", "rot13", "hex", "utf-7", "idna", "punycode"])
def test_reports_in_encodings_that_cannot_be_read_are_refused(encoding: str) -> None:
    report = f'<?xml version="1.0" encoding="{encoding}"?><testsuite><testcase/></testsuite>'

    with pytest.raises(ValueError, match=r"encod|codec"):
        outcomes(report.encode())


@pytest.mark.parametrize(("command", "failed"), [((), 1), (["test_good.py"], 0)])
def test_the_default_is_pytest_on_all_or_on_the_files(monkeypatch, command, failed):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    with start_environment("local", EnvironmentSpec()) as env:
        env.write_file("test_good.py", "def test_good(): pass\n")
        env.write_file("test_bad.py", "def test_bad(): assert False\n")
        result = env.run_tests(command)

    assert (result.passed, result.failed, result.errors) == (1, failed, 0), result.output


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("pytest -q a.py", "pytest -q a.py -o"),
        ("python3 -m pytest a.py && python3 b.py", "python3 -m pytest a.py -o && python3 b.py"),
        ("pytest a.py || exit 1", "pytest a.py -o || exit 1"),
        ("pytest a.py 2>&1 | tail -5", "pytest a.py 2>&1 -o | tail -5"),
        ("pytest a.py &> log; cat log", "pytest a.py &> log -o ; cat log"),
        ("pytest a.py # the tests", "pytest a.py -o # the tests"),
        ("pytest -k 'a and #b; c' \\\n  a.py\n", "pytest -k 'a and #b; c' \\\n  a.py -o"),
        ('pytest -k "a | \\"b" a.py', 'pytest -k "a | \\"b" a.py -o'),
        ("(cd x && pytest -q)", "(cd x && pytest -q -o )"),
        ("bash -c 'cd x; pytest a.py && true'", "bash -c 'cd x; pytest a.py -o && true'"),
        ("sh -c \"cd x; pytest -k 'a;b'\" && true", "sh -c \"cd x; pytest -k 'a;b' -o \" && true"),
        ("pip install pytest; X=1 pytest a.py", "pip install pytest; X=1 pytest a.py -o"),
        ("pytest $(ls t/*.py | head) && true", "pytest $(ls t/*.py | head) -o && true"),
        ("pytest -n $(nproc) a.py", "pytest -n $(nproc) a.py -o"),
        ("pytest --timeout=$((30*2)) a.py", "pytest --timeout=$((30*2)) a.py -o"),
        ("pytest `ls t; true` | tail", "pytest `ls t; true` -o | tail"),
        ("(cd x; pytest $(ls)) | tail", "(cd x; pytest $(ls) -o ) | tail"),
        ("sh -c 'cd x; pytest $(ls); b'", "sh -c 'cd x; pytest $(ls) -o ; b'"),
        ('sh -c "cd x; pytest $(ls)"', 'sh -c "cd x; pytest $(ls) -o "'),
        ("pytest ${T:-a;b} c.py", "pytest ${T:-a;b} c.py -o"),
        ("pytest -k \"$(cat k)\" 'a.py::t[(1)]'", "pytest -k \"$(cat k)\" 'a.py::t[(1)]' -o"),
        ("pytest a.py::t[(1)]", "pytest a.py::t[(1)] -o"),
        ('pytest "$(sh -c "ls t; b")" a.py', 'pytest "$(sh -c "ls t; b")" a.py -o'),
        ('X="$(echo "a;b")" pytest a.py; b', 'X="$(echo "a;b")" pytest a.py -o ; b'),
        ("pytest a.py && echo pytest ok", "pytest a.py -o && echo pytest ok"),
        ("pytest a || (echo 'no pytest'; exit 1)", "pytest a -o || (echo 'no pytest'; exit 1)"),
        ("pytest a.py # run pytest", "pytest a.py -o # run pytest"),
        ("# run pytest now\npytest a.py", "# run pytest now\npytest a.py -o"),
        ("pytest -q -- a.py", "pytest -q -o -- a.py"),
        ("pytest a.py |& tee x", "pytest a.py -o |& tee x"),
        ("pytest a.py & wait", "pytest a.py -o & wait"),
    ],
)
def test_options_are_those_of_pytest_whatever_follows_it(command: str, expected: str):
    assert with_options(command, "-o").split() == expected.split()
