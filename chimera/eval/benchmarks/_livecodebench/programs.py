"""An answer as LiveCodeBench runs it: by its own stand-in for standard input, or as a function.

`official_stdin` reproduces the stand-in, because published verdicts come from it; a script of its
own (`real_stdin`) is the honest way to run the same program.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Literal

from chimera.eval.benchmarks._livecodebench.inside import cases
from chimera.eval.kits.python import steps
from chimera.eval.kits.python.inside import answer
from chimera.eval.kits.replies import parse_python

ENTRY_POINT = "chimera_case"
#: What upstream puts in the place of `sys.stdin`: an object of its own, or a plain `StringIO`.
StandIn = Literal["own", "plain"]
_MODULES = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random"),
    *("statistics", "itertools", "functools", "operator", "io", "sys", "json"),
)
#: What upstream puts before every answer.
PREAMBLE = (
    "".join(f"from {name} import *\n" for name in (*_MODULES, "builtins", "typing"))
    + "".join(f"import {name}\n" for name in _MODULES)
    + "sys.setrecursionlimit(50000)\n"
)
SWITCHED_OFF = ["quit", "help"]


def official_stdin(program: str, stand_in: StandIn = "own") -> str:
    """A program whose `chimera_case(text)` is what the answer writes when given `text`."""
    code = _rewritten(_as_function, _rewritten(_main_inlined, program))
    # Upstream takes any mention of the class for a functional answer, and then finds no function.
    in_class = "class Solution" in program
    load = steps.step(cases.read_standard_input, code, in_class, stand_in == "plain")
    return steps.program(steps.step(answer.guard, program, SWITCHED_OFF), load)


def functional(program: str, name: str) -> str:
    """A program whose `chimera_case` calls the method of `Solution`, or the function."""
    in_class = "class Solution" in program
    load = steps.step(cases.take_arguments, PREAMBLE + program, in_class, name)
    return steps.program(steps.step(answer.guard, program, SWITCHED_OFF), load)


def real_stdin(program: str) -> str:
    """The answer as a script of its own, with the names upstream offers."""
    return PREAMBLE + program


def _rewritten(change: Callable[[str], str], program: str) -> str:
    """A changed program, or the same where it cannot be written anew, as upstream does it."""
    try:
        return change(program)
    except (RecursionError, ValueError, MemoryError):  # deep expressions, numbers of many digits
        return program


def _main_inlined(program: str) -> str:
    """A main guard that is the last statement is replaced by its body."""
    tree = parse_python(program)
    if tree is None or not tree.body or not isinstance(last := tree.body[-1], ast.If):
        return program
    if ast.unparse(last.test).strip() != "__name__ == '__main__'":
        return program
    rest = ast.Module(body=tree.body[:-1], type_ignores=[])
    return f"{ast.unparse(rest)}\n{ast.unparse(ast.Module(body=last.body, type_ignores=[]))}"


def _as_function(program: str) -> str:
    """Imports first, all other statements as the body of `wrapped_function`."""
    tree = parse_python(program)
    if tree is None:
        return program
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    others = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    function = ast.parse("def wrapped_function():\n    pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = others
    parts = ast.unparse(ast.Module(body=list(imports), type_ignores=[]))
    return f"{PREAMBLE}\n{parts}\n{ast.unparse(ast.fix_missing_locations(function))}"
