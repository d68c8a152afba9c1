"""Steps run in the answer's process, and neither side is in the other's way."""

from __future__ import annotations

import pytest

from chimera.eval.kits.evalplus.inside import calls
from chimera.eval.kits.python.inside import answer
from chimera.eval.kits.python.steps import program, step
from chimera.sandbox import call_function


def called(text: str, *arguments: object) -> object:
    source = program(step(answer.run, text), step(calls.offer, "f", b""))
    (call,) = call_function(source, "chimera_call", [arguments])
    return call.value if call.ok else call.error


@pytest.mark.parametrize(
    "before",
    [
        "",
        "def digest(value): return 'mine'\ndef is_large(value): return True\n",
        "list = tuple = str = len = type = all = None\n",
        "from re import *\nexec = globals = None\n",
        "import builtins\nbuiltins.compile = builtins.exec = None\n",
    ],
)
def test_an_answers_names_do_not_reach_our_steps(before):
    assert called(before + "def f(x): return [x]", 3) == [3]


def test_an_answer_sees_no_names_of_ours():
    assert called("def f(): return sorted(globals())") == ["__builtins__", "chimera_call", "f"]


def test_an_answer_that_does_not_define_the_function_is_told_so():
    assert "defines no 'f'" in str(called("def g(): return 1"))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("def f(): return open is None", True),
        ("import os\ndef f(): return os.fork is None and os.system is None", True),
        ("import subprocess\ndef f(): return subprocess.Popen is None", True),
        ("import os\ndef f(): return os.path is not None", True),
    ],
)
def test_a_guarded_answer_has_not_what_is_switched_off(text, result):
    source = program(step(answer.run_guarded, text, ["open"]), step(calls.offer, "f", b""))

    (call,) = call_function(source, "chimera_call", [[]])

    assert call.value is result
