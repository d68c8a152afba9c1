"""Programs for the answer's process, put together from steps: our functions and their values."""

from __future__ import annotations

import inspect
import marshal
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Concatenate, ParamSpec

from chimera.eval.kits.python.inside import loader

ParameterT = ParamSpec("ParameterT")
Step = tuple[bytes, str, tuple[Any, ...]]  # a file's code, a function in it, its arguments


def step(
    function: Callable[Concatenate[dict[str, object], ParameterT], None],
    *arguments: ParameterT.args,
    **named: ParameterT.kwargs,
) -> Step:
    """A function of an `inside` file, with plain values for its arguments."""
    bound = inspect.signature(function).bind({}, *arguments, **named)
    return _code(function.__module__), function.__name__, bound.args[1:]


def program(*steps: Step) -> str:
    """Source that takes the steps in turn, each with the names that the judge may ask for."""
    load = f"exec(__import__('marshal').loads({_code(loader.__name__)!r}), own)"
    return f"(lambda own: {load} or own['take'])({{}})(globals(), {list(steps)!r})\n"


@cache
def _code(module: str) -> bytes:
    """Compiled here, once: the sandbox has the same interpreter, but starts anew each time."""
    code = compile(source_of(module), f"<{module.rpartition('.')[2]}>", "exec", dont_inherit=True)
    return marshal.dumps(code)


@cache
def source_of(module: str) -> str:
    return inspect.getsource(sys.modules[module])
