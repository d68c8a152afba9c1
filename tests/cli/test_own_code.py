"""A benchmark of one's own that is not right yet: one line that says what, and where."""

from __future__ import annotations

import sys
import textwrap

import pytest

BENCHMARK = """
from chimera.eval.harness import Benchmark
class Mine(Benchmark):
    def name(self): return "mine"
    def tasks(self): return {tasks}
    def evaluate(self, task, agent_output, env): return {verdict}
    def gold(self, task): return {gold}
"""
TASK = '[{"id": "a", "prompt": "x"}]'


def source(tasks: str = TASK, verdict: str = "True", gold: str = "None") -> str:
    return BENCHMARK.format(tasks=tasks, verdict=verdict, gold=gold)


@pytest.fixture
def own(tmp_path):
    """Writes code of one's own; how `chimera` names it."""

    def write(code: str) -> str:
        (tmp_path / "mine_to_try.py").write_text(textwrap.dedent(code))
        return "mine_to_try.py"

    yield write
    sys.modules.pop("mine_to_try", None)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("def f(:", "cannot be loaded: SyntaxError: invalid syntax (mine_to_try.py, line 1)"),
        ("import no_such_package", "No module named 'no_such_package' (mine_to_try.py:1)"),
        ("\n1 / 0", "cannot be loaded: ZeroDivisionError: division by zero (mine_to_try.py:2)"),
        (source("1 / 0"), "mine: tasks() failed: ZeroDivisionError: division by zero"),
        ("import sys; sys.exit(0)", "cannot be loaded: SystemExit: 0 (mine_to_try.py:1)"),
        (source("exit(0)"), "mine: tasks() failed: SystemExit: 0"),
        (source("['a']"), "task 0 is 'a': expected a dictionary with the texts 'id' and 'prompt'"),
        (source('[{"id": 1, "prompt": "x"}]'), "task 0 is {'id': 1, 'prompt': 'x'}: expected"),
        (source('[{"prompt": "x"}]'), "task 0 is {'prompt': 'x'}: expected"),
        (source('[{"id": "a"}]'), "task 0 is {'id': 'a'}: expected"),
    ],
)
@pytest.mark.parametrize("command", [("eval", "-a", "nop", "-b"), ("validate",), ("attack",)])
def test_what_is_wrong_with_it_is_one_line(chimera, own, code, says, command):
    ran = chimera(*command, own(code))

    assert ran.code == 2
    assert says in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("method", ["__init__", "options", "missing", "preparations", "notes"])
@pytest.mark.parametrize("raised", ["ValueError('boom')", "SystemExit(0)", "BrokenPipeError"])
def test_whatever_it_raises_is_told_as_its_own(chimera, own, method, raised):
    code = f"{source()}    def {method}(self, *_): raise {raised}\n"
    ran = chimera("eval", "-a", "nop", "-b", own(code))

    assert ran.code == 2
    assert raised.partition("(")[0] in ran.err
    assert "(mine_to_try.py:8)" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("member", "says"),
    [
        ('def options(self): return {"x": object()}', "its identity"),
        ('def options(self): return {1: 2}', "cannot be stored"),
        ('def tasks(self): return [{"id": "a", "prompt": "", "metadata": {"x": {1: object()}}}]',
         "the metadata of task 'a'"),
    ],
)  # fmt: skip
def test_what_cannot_be_stored_is_named(chimera, own, member, says):
    ran = chimera("eval", "-a", "nop", "-b", own(f"{source()}    {member}\n"))

    assert (ran.code, says in ran.err, "Traceback" in ran.err) == (2, True, False)


def test_tasks_may_be_made_one_by_one(chimera, own):
    ran = chimera("eval", "-a", "nop", "-b", own(source(f"iter({TASK})")))

    assert ran.code == 0
    assert "mine: 100.0% passed (1 of 1" in ran.out


@pytest.mark.parametrize(
    ("verdict", "gold", "says"),
    [
        ("1 / 0", "None", "empty error: a: grader: grading failed: ZeroDivisionError"),
        ("True", "'x'", "gold error: a: agent: what was handed in is str: expected a Submission"),
        ("True", "None", "empty passed: a\n"),
    ],
)
def test_validate_says_what_came_of_each_answer(chimera, own, verdict, gold, says):
    ran = chimera("validate", own(source(verdict=verdict, gold=gold)))

    assert ran.code == 1
    assert says in ran.out
