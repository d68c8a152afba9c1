"""Programs for the answer's process, put together from steps: our functions and their values."""

from __future__ import annotations

import inspect
import marshal
import sys
from collections.abc import Callable
from functools import cache
from typing import TypeVarTuple

from chimera.eval.kits.python.inside import loader

ArgumentTs = TypeVarTuple("ArgumentTs")
Step = str  # the source of a tuple: a file's code, a function in it, its arguments


def step(
    function: Callable[[dict[str, object], *ArgumentTs], None], *arguments: *ArgumentTs
) -> Step:
    """A function of an `inside` file, with plain values for its arguments."""
    return f"({_code(function.__module__)}, {function.__name__!r}, {arguments!r}),"


def program(*steps: Step) -> str:
    """Source that takes the steps in turn, each with the names that the judge may ask for."""
    load = f"exec(__import__('marshal').loads({_code(loader.__name__)}), own)"
    return f"(lambda own: {load} or own['take'])({{}})(globals(), [{''.join(steps)}])\n"


@cache
def _code(module: str) -> str:
    """Compiled here, once: the sandbox has the same interpreter, but starts anew each time."""
    code = compile(source_of(module), f"<{module.rpartition('.')[2]}>", "exec", dont_inherit=True)
    return repr(marshal.dumps(code))


@cache
def source_of(module: str) -> str:
    return inspect.getsource(sys.modules[module])
