"""Defines `chimera_case`, which runs the answer on one test: a text to read, or arguments."""

import io
import sys
import types
from typing import Any


def read_standard_input(names: dict[str, object], source: str, in_class: bool, plain: bool) -> None:
    """`chimera_case(text)` is what the answer's `wrapped_function` writes when given `text`."""
    real: Any = sys.stdin
    sys.argv = ["program"]
    function = loaded(source, in_class).wrapped_function

    def case(text: str) -> str:
        lines = iter(text.split("\n"))
        written: Any = io.StringIO()
        written.close = lambda: None
        real.read = lambda *arguments: text
        real.readline = lambda *arguments: next(lines)
        real.readlines = lambda *arguments: text.split("\n")
        before = sys.stdin, sys.stdout
        stand_in: Any = io.StringIO(text) if plain else Input(text)
        sys.stdin, sys.stdout = stand_in, written
        try:
            function()
        except SystemExit:
            pass
        finally:
            sys.stdin, sys.stdout = before
        return str(written.getvalue())

    names["chimera_case"] = case


def take_arguments(names: dict[str, object], source: str, in_class: bool, name: str) -> None:
    """`chimera_case` calls the method of `Solution`, or the function."""
    method = getattr(loaded(source, in_class), name)

    def case(*arguments: Any) -> Any:
        result = method(*arguments)
        return list(result) if isinstance(result, tuple) else result

    names["chimera_case"] = case


def loaded(source: str, in_class: bool) -> Any:
    module: Any = types.ModuleType("tmp_sol")
    exec(compile(source, "<answer>", "exec", dont_inherit=True), module.__dict__)
    return module.Solution() if in_class else module


class Buffer:
    def __init__(self, text: str) -> None:
        self.text = text

    def read(self, *arguments: Any) -> bytes:
        return self.text.encode("utf-8")

    def readline(self, *arguments: Any) -> bytes:
        return self.text.encode("utf-8").split(b"\n")[0] + b"\n"


class Input:
    def __init__(self, text: str) -> None:
        self.text, self.lines, self.buffer = text, io.StringIO(text), Buffer(text)

    def read(self, *arguments: Any) -> str:
        return self.text

    def readline(self, *arguments: Any) -> str:
        return self.lines.readline(*arguments)

    def readlines(self, *arguments: Any) -> list[str]:
        return self.text.split("\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lines, name)
