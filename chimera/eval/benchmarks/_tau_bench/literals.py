"""Tasks of the first tau-bench as its repository keeps them: Python calls with literal arguments.

The source is parsed, never executed: `Task(…)` and `Action(…)` calls become dicts, and anything
that is not a literal is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chimera.errors import DatasetError


def tasks_from_source(path: Path) -> Sequence[dict[str, Any]]:
    """The list of tasks that a module assigns to a name beginning with TASKS."""
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (OSError, SyntaxError, ValueError) as error:
        raise DatasetError(f"{path}: {error}") from None
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.List() as value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.List() as value):
                pass
            case _:
                continue
        if name.startswith("TASKS"):
            tasks: list[dict[str, Any]] = _value(value, path)
            return tasks
    raise DatasetError(f"{path}: assigns no list of tasks")


def _value(node: ast.expr, path: Path) -> Any:
    match node:
        case ast.List(elts=elements):
            return [_value(element, path) for element in elements]
        case ast.Dict(keys=keys, values=values) if all(key is not None for key in keys):
            pairs = zip(keys, values, strict=True)
            return {_value(key, path): _value(value, path) for key, value in pairs if key}
        case ast.Call(func=ast.Name(id="Task" | "Action"), args=[], keywords=keywords):
            return {word.arg: _value(word.value, path) for word in keywords if word.arg}
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise DatasetError(f"{path}:{node.lineno}: not a literal value") from None
