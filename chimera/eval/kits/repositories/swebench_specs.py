"""How classic rows are tested, from the tables of an installed swebench 4.

Its package is not imported, which would need a container engine's client and much else: one file of
constants runs, and the names of log parsers are read off another.
"""

from __future__ import annotations

import ast
import posixpath
import runpy
import shlex
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from chimera.eval.data.rows import Row
from chimera.foreign_trees import read_inside

MISSING = (
    "a file eval_settings.jsonl beside the data, or swebench 4, whose tables have them "
    "(pip install --no-deps 'swebench>=4.1,<5')"
)
_LISTED = ("requirements.txt", "environment.yml")


def settings(repo: str, version: str, files: list[str]) -> Row | None:
    """The row of settings for a version of a repository, tested by `files`; None if unknown."""
    tables = _tables()
    specs = tables.get("MAP_REPO_VERSION_TO_SPECS_PY", {}).get(repo, {}).get(version)
    parser = _parsers().get(repo)
    if specs is None or parser is None:
        return None
    named = str(specs.get("packages", ""))
    requirements = [] if named in _LISTED else shlex.split(named)
    table = "MAP_REPO_TO_REQS_PATHS" if named == _LISTED[0] else "MAP_REPO_TO_ENV_YML_PATHS"
    paths = tables.get(table, {}).get(repo, ()) if named in _LISTED else ()
    command = specs["test_cmd"]
    return {
        "test_command": " ".join([command if isinstance(command, str) else command[-1], *files]),
        "log_parser": parser,
        "python": str(specs["python"]),
        "requirements": [*requirements, *specs.get("pip_packages", ())],
        "requirement_files": [*paths],
    }


def listed_requirements(tree: Path, names: tuple[str, ...]) -> tuple[str, ...]:
    """What the first of these files that is there asks for."""
    for name in names:
        text = read_inside(tree, name)
        if text is not None:
            return tuple(_from_yaml(text) if name.endswith(".yml") else _from_text(tree, name, []))
    return ()


def _from_text(tree: Path, name: str, read: list[str]) -> list[str]:
    """The lines of a file and of those that it includes, each read once."""
    read.append(name)
    found = []
    for line in (read_inside(tree, name) or "").splitlines():
        text = line.partition(" #")[0].strip()
        included = posixpath.normpath(posixpath.join(posixpath.dirname(name), text[2:].strip()))
        if text.startswith("-r") and included not in read:
            found += _from_text(tree, included, read)
        elif text and not text.startswith(("-", "#", ".")):
            found.append(text)
    return found


def _from_yaml(text: str) -> list[str]:
    """The names in a conda environment; its interpreter and sections are left out."""
    lines = (line.partition(" #")[0].strip() for line in text.split("\n"))
    names = (line[2:].strip() for line in lines if line.startswith("- "))
    left = ("python", "pip", "nodefaults", "conda-forge", "defaults")
    plain = (n for n in names if n and not n.endswith(":") and not n.startswith((".", "-")))
    return [n.replace("=", "==", 1) if "==" not in n and not set("<>!") & set(n) else n
            for n in plain if n.partition("=")[0].rstrip("<>!") not in left]  # fmt: skip


def _harness() -> Path | None:
    found = find_spec("swebench")
    places = list(found.submodule_search_locations or ()) if found else []
    return Path(places[0]) / "harness" if places else None


@cache
def _tables() -> Mapping[str, Any]:
    harness = _harness()
    constants = harness / "constants" / "python.py" if harness else None
    return runpy.run_path(str(constants)) if constants and constants.is_file() else {}


@cache
def _parsers() -> Mapping[str, str]:
    """Repository → the name of its log parser."""
    harness = _harness()
    source = harness / "log_parsers" / "python.py" if harness else None
    if source is None or not source.is_file():
        return {}
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            pairs = zip(node.value.keys, node.value.values, strict=True)
            return {
                str(key.value): value.id
                for key, value in pairs
                if isinstance(key, ast.Constant) and isinstance(value, ast.Name)
            }
    return {}
