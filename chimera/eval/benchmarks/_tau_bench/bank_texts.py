"""How the bank's inner tools are described: officially, by a copy of tau2-bench, or in our words.

The copy's source is parsed, never run: a description is what a method's docstring says.
"""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path

from chimera.errors import DatasetError

#: Where a clone keeps the tools; they may also lie beside the domain's data.
SOURCE = Path("src/tau2/domains/banking_knowledge/tools.py")
_ARGUMENT = re.compile(r"^\s*(\w+)\s*(?:\(([^)]+)\))?\s*:\s*(.+?)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Parameter:
    kind: str
    required: bool
    meaning: str


@dataclass(frozen=True, slots=True)
class ToolText:
    """What unlocking a tool shows of it."""

    description: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


@lru_cache(maxsize=1)
def own_texts() -> Mapping[str, ToolText]:
    """Every inner tool in our own words."""
    file = resources.files("chimera.eval.benchmarks._tau_bench") / "bank_tools.toml"
    content = tomllib.loads(file.read_text("utf-8"))
    kinds = {name: kind for kind, names in content["kinds"].items() for name in names}

    texts = {}
    for tool, said in content["tools"].items():
        meanings = content["parameters"] | said
        taken = {}
        for stated in said["takes"]:
            name = stated.removesuffix("?")
            taken[name] = Parameter(kinds.get(name, "string"), name == stated, meanings[name])
        texts[tool] = ToolText(said["does"], taken)
    return texts


def official_source(folder: Path) -> Path | None:
    """The official tools of a copy that a domain's data lie in or beside."""
    places = [folder / "tools.py", *(parent / SOURCE for parent in folder.parents[:4])]
    return next((place for place in places if place.is_file()), None)


@lru_cache(maxsize=4)
def official_texts(source: Path) -> Mapping[str, ToolText]:
    """Every inner tool as the official source describes it; it must have all that we have."""
    try:
        tree = ast.parse(source.read_text("utf-8"))
    except (OSError, SyntaxError, ValueError) as error:
        raise DatasetError(f"{source}: {error}") from None
    found = {
        node.name: _text(ast.get_docstring(node, clean=False) or "")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any(map(_marks, node.decorator_list))
    }
    for name, own in own_texts().items():
        if name not in found or list(found[name].parameters) != list(own.parameters):
            raise DatasetError(
                f"{source}: '{name}' is not described there as tau2-bench 1.0.1 has it"
            )
    return found


def _marks(decorator: ast.expr) -> bool:
    match decorator:
        case ast.Call(func=ast.Name(id="is_discoverable_tool")):
            return True
    return False


def _text(docstring: str) -> ToolText:
    description, *rest = re.split(r"\n\s*Args:\s*\n", inspect.cleandoc(docstring), maxsplit=1)
    section = re.split(r"\n\s*Returns:\s*\n", rest[0], maxsplit=1)[0] if rest else ""
    parameters = {}
    for name, told, meaning in _ARGUMENT.findall(section):
        kind = re.sub(r",?\s*optional", "", told, flags=re.IGNORECASE).strip() or "string"
        parameters[name] = Parameter(kind, "optional" not in told.lower(), meaning.strip())
    return ToolText(description.strip(), parameters)
