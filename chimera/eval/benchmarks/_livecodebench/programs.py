"""How LiveCodeBench runs an answer: its own stdin stand-in, or one call of a function a test.

Upstream does not start a program anew for each test. It turns the program into a function, puts an
object that is like standard input in part in its place, and calls the function again and again.
`official_stdin` reproduces that, because published verdicts come from it; a script of its own
(`real_stdin`) is the honest way to run the same program.
"""

from __future__ import annotations

import ast

from chimera.eval.kits.python.guard import guarded
from chimera.eval.kits.replies import parse_python

ENTRY_POINT = "chimera_case"
#: What upstream puts before every answer.
PREAMBLE = """\
from string import *
from re import *
from datetime import *
from collections import *
from heapq import *
from bisect import *
from copy import *
from math import *
from random import *
from statistics import *
from itertools import *
from functools import *
from operator import *
from io import *
from sys import *
from json import *
from builtins import *
from typing import *
import string
import re
import datetime
import collections
import heapq
import bisect
import copy
import math
import random
import statistics
import itertools
import functools
import operator
import io
import sys
import json
sys.setrecursionlimit(50000)
"""

_STDIN_DRIVER = """
def _chimera_load():
    import io, sys, types

    real = sys.stdin
    module = types.ModuleType("tmp_sol")
    sys.argv = ["program"]
    exec(compile({source!r}, "<answer>", "exec", dont_inherit=True), module.__dict__)
    function = {function}

    class Buffer:
        def __init__(self, text):
            self.text = text
        def read(self, *arguments):
            return self.text.encode("utf-8")
        def readline(self, *arguments):
            return self.text.encode("utf-8").split(b"\\n")[0] + b"\\n"

    class Input:
        def __init__(self, text):
            self.text, self.lines, self.buffer = text, io.StringIO(text), Buffer(text)
        def read(self, *arguments):
            return self.text
        def readline(self, *arguments):
            return self.lines.readline(*arguments)
        def readlines(self, *arguments):
            return self.text.split("\\n")
        def __getattr__(self, name):
            return getattr(self.lines, name)

    def case(text):
        lines = iter(text.split("\\n"))
        written = io.StringIO()
        written.close = lambda: None
        real.read = lambda *arguments: text
        real.readline = lambda *arguments: next(lines)
        real.readlines = lambda *arguments: text.split("\\n")
        before = sys.stdin, sys.stdout
        sys.stdin, sys.stdout = Input(text), written
        try:
            function()
        except SystemExit:
            pass
        finally:
            sys.stdin, sys.stdout = before
        return written.getvalue()

    return case

chimera_case = _chimera_load()
"""

_FUNCTIONAL_DRIVER = """
def _chimera_load():
    import types

    module = types.ModuleType("tmp_sol")
    exec(compile({source!r}, "<answer>", "exec", dont_inherit=True), module.__dict__)
    method = getattr({target}, {name!r})

    def case(*arguments):
        result = method(*arguments)
        return list(result) if isinstance(result, tuple) else result

    return case

chimera_case = _chimera_load()
"""


def official_stdin(program: str) -> str:
    """A program whose `chimera_case(text)` is what the answer writes when given `text`."""
    code = _as_function(_main_inlined(program))
    # Upstream takes any mention of the class for a functional answer, and then finds no function.
    target = "module.Solution()" if "class Solution" in program else "module"
    driver = _STDIN_DRIVER.format(source=code, function=f"{target}.wrapped_function")
    return guarded(driver, keeping=("exit",))


def functional(program: str, name: str) -> str:
    """A program whose `chimera_case` calls the method of `Solution`, or the function."""
    target = "module.Solution()" if "class Solution" in program else "module"
    driver = _FUNCTIONAL_DRIVER.format(source=PREAMBLE + program, target=target, name=name)
    return guarded(driver, keeping=("exit",))


def real_stdin(program: str) -> str:
    """The answer as a script of its own, with the names upstream offers."""
    return PREAMBLE + program


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
