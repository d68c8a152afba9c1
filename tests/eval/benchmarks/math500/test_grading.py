"""Equality of mathematical answers: every observed verdict, and answers that never end."""

from __future__ import annotations

import importlib
import json
import sys
import threading
from pathlib import Path

import pytest

from chimera.eval.benchmarks._math500 import rules
from chimera.eval.benchmarks._math500.grading import compare

pytest.importorskip("math_verify")
FOLDER = Path(__file__).parent / "vectors"
RULES = {"hendrycks": "hendrycks", "prm800k": "prm800k", "math-verify": "math_verify_0_9_0"}


def vectors(name):
    return [json.loads(line) for line in (FOLDER / name).read_text().splitlines()]


@pytest.mark.parametrize("rule", RULES)
def test_answers_are_equal_where_the_published_grader_says_so(rule):
    differing = [
        (vector["given"], vector["gold"])
        for vector in vectors("math500.jsonl")
        if compare(vector["given"], vector["gold"], rule=rule).equal is not vector[RULES[rule]]
    ]

    assert differing == []


def test_math_verify_on_whole_texts():
    differing = [
        vector
        for vector in vectors("math_verify_raw.jsonl")
        if compare(vector["reply"], vector["gold"], rule="math-verify-reply").equal
        is not vector["verdict"]
    ]

    assert differing == []


@pytest.mark.parametrize(
    "given",
    [
        "__import__('os').system('true')",
        "().__class__",
        "exit()",
        "open(0)",
        "\\frac" * 200,
        "(" * 3000,
        "\x00",
    ],
)
def test_hostile_answers_are_only_unequal(given):
    assert not compare(given, "5", rule="prm800k").equal
    assert not compare(given, "5", rule="hendrycks").equal


@pytest.mark.full
def test_a_comparison_that_never_ends_is_ended_and_said():
    ended = compare("10^{10^{10}}", "5", rule="math-verify")

    assert not ended.equal
    assert ended.limit is not None
    assert compare("5", "5", rule="math-verify").equal


def test_a_worker_that_died_while_nobody_asked_decides_nothing():
    """The kernel ends confined workers with the thread that started them."""
    thread = threading.Thread(target=compare, args=("1", "1"), kwargs={"rule": "hendrycks"})
    thread.start()
    thread.join()

    assert compare(r"\frac{1}{2}", "0.5", rule="math-verify").equal


@pytest.mark.parametrize("given", ["0)+9.^9*9.^9*9.^9-(9.^9*9.^9*9.^9", "1)*0*(1", ")(", "5)"])
def test_an_answer_does_not_leave_its_parentheses(given):
    assert not compare(given, r"\frac{14}{3}", rule="prm800k").equal


@pytest.mark.parametrize("module", ["pylatexenc.latex2text", "sympy.parsing.sympy_parser"])
def test_packages_that_are_broken_compare_nothing(module, monkeypatch):
    """The gold answer would pass all the same: its text is equal."""
    rules.compares()
    parent, _, name = module.rpartition(".")
    monkeypatch.delattr(importlib.import_module(parent), name)
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(ImportError):
        rules.compares()
