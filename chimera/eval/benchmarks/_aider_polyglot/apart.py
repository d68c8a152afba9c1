"""Python exercises whose tests never share a process with the solution.

The judge of the sandbox runs the official tests, and what they import from the solution are handles
to an answer in a process of its own; the record of their conversation decides. That fits where a
solution is plain functions, or objects that tests only call and look into. The tests and the
reference say so, never a submission: where the reference does not pass apart, the twin is asked.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from chimera.cache import digest, stored_value
from chimera.errors import GraderError
from chimera.eval.kits.python.grading import python_tests
from chimera.eval.values import Verdict
from chimera.sandbox import Limits

#: Raised when tests are put before the judge in another way.
VERSION = 2
#: Runs the test cases that stand before it, and ends with the first failure.
RUNNER = Path(__file__).parent / "runners" / "unittest_apart.py"
#: Stands before the solution, which it loads.
LOADER = Path(__file__).parent / "runners" / "solution_apart.py"
#: What tests may import; by others (`random`, `io`, mocks) they reach into the solution.
PURE = frozenset(
    {"collections", "datetime", "decimal", "fractions", "functools", "itertools", "json", "math",
     "operator", "re", "string", "typing", "unittest"}
)  # fmt: skip
#: Assertions that handles always meet, since they equal nothing but themselves.
ALWAYS_MET = frozenset({"assertNotEqual", "assertNotIn", "assertIsNot", "assertNotIsInstance"})


@dataclass(frozen=True, slots=True)
class Checks:
    """What a judge runs, the solution's module, the names that it takes from it, and a solution
    that passes."""

    source: str
    module: str
    names: tuple[str, ...]
    reference: str
    seconds: float

    def verdict(self, program: str) -> Verdict:
        return python_tests(
            self._loaded(program),
            self.source,
            names=self.names,
            limits=Limits(cpu_seconds=self.seconds),
            packages=(),
            reference=self._loaded(self.reference),
        )

    def _loaded(self, program: str) -> str:
        loader, source = LOADER.read_text("utf-8"), program.encode("utf-8", "surrogatepass")
        return f"{loader}\n\nglobals().update(_loaded({self.module!r}, {source!r}))\n"

    def fit(self) -> bool:
        """Whether the reference passes apart from the tests, tried once."""

        def passes() -> bool:
            try:
                return self.verdict(self.reference).passed
            except GraderError:  # the tests hand over what cannot cross
                return False

        return stored_value(
            "polyglot-apart",
            digest(
                VERSION, sys.version, self.reference, self.source, self.module, list(self.names)
            ),
            passes,
            dump=lambda passed: json.dumps(passed).encode(),
            load=lambda content: bool(json.loads(content)),
        )


def checks_of(tests: str, module: str, reference: str, seconds: float) -> Checks | None:
    """A test file without its imports of the solution's module; None where a judge cannot run it,
    or would not come to the same."""
    try:
        tree = ast.parse(tests)
    except (SyntaxError, ValueError):
        return None
    if any(isinstance(node, ast.Attribute) and node.attr in ALWAYS_MET for node in ast.walk(tree)):
        return None
    lines, names = tests.splitlines(), list[str]()
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef) and statement.name.startswith("test"):
            return None  # the runner would not find it
        sources = _sources(statement)
        if module not in sources:
            if not PURE.issuperset(sources):
                return None
            continue
        if isinstance(statement, ast.ImportFrom):
            taken = {each.asname or each.name: each.name for each in statement.names}
            if "*" in taken:
                return None
            binding = "; ".join(_renamed(taken))
        else:
            taken = {name: name for name in _looked_up(tree, module)}
            given = ", ".join(f"{name}={name}" for name in taken)
            binding = f"{module} = __import__('types').SimpleNamespace({given})"
        names += taken.values()
        start, end = statement.lineno - 1, statement.end_lineno or 0
        lines[start:end] = [binding, *[""] * (end - start - 1)]
    source = "\n".join([*lines, RUNNER.read_text("utf-8")])
    return Checks(source, module, tuple(dict.fromkeys(names)), reference, seconds)


def _sources(statement: ast.stmt) -> list[str]:
    """The modules that a statement imports (from)."""
    if isinstance(statement, ast.Import):
        return [each.name for each in statement.names]
    if isinstance(statement, ast.ImportFrom):
        module = "." * statement.level + (statement.module or "")
        inner = [f"unittest.{each.name}" for each in statement.names if each.name == "mock"]
        return [module, *inner]
    return []


def _renamed(taken: Mapping[str, str]) -> Iterator[str]:
    """Names under which others are imported. Those others go, since they may be built-in ones; it
    fails where the solution has none of that name, and the built-in one was taken."""
    for new, name in taken.items():
        if new != name:
            yield f"{new} = {name}; del {name}"


def _looked_up(tree: ast.Module, module: str) -> Iterator[str]:
    """The names that tests look up in a module."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name)) if name == module:
                yield node.attr
