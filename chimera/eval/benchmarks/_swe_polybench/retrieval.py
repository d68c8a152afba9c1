"""Did a patch change the right places: recall and precision over files and over syntax nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from chimera.errors import UsageError
from chimera.eval.kits.patches import diffs

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


@dataclass(frozen=True, slots=True)
class Retrieval:
    recall: float
    precision: float

    @property
    def f1(self) -> float:
        total = self.recall + self.precision
        return 2 * self.recall * self.precision / total if total else 0.0


def retrieval(expected: Iterable[str], found: Iterable[str]) -> Retrieval:
    """Shares of the expected that was found and of the found that was expected; 0/0 is 0."""
    wanted, got = set(expected), set(found)
    common = len(wanted & got)
    return Retrieval(common / len(wanted) if wanted else 0.0, common / len(got) if got else 0.0)


def changed_files(patch: str) -> set[str]:
    """Old paths of a patch; a new file is listed by its own name."""
    return {file.old or file.new or "" for file in diffs.parse(patch)}


#: Suffix → (package with the grammar, name of its function).
_GRAMMARS: Mapping[str, tuple[str, str]] = {
    ".py": ("tree_sitter_python", "language"),
    ".py-tpl": ("tree_sitter_python", "language"),
    ".pyi": ("tree_sitter_python", "language"),
    ".js": ("tree_sitter_javascript", "language"),
    ".jsx": ("tree_sitter_javascript", "language"),
    ".cjs": ("tree_sitter_javascript", "language"),
    ".ts": ("tree_sitter_typescript", "language_typescript"),
    ".java": ("tree_sitter_java", "language"),
}
_NAMED_NODES = frozenset(
    {
        "function_definition", "class_definition", "function_declaration", "method_declaration",
        "method_definition", "class_declaration", "constructor_declaration",
    }
)  # fmt: skip


def node_of_line(source: bytes, suffix: str, line: int) -> str | None:
    """The innermost function, method or class around a line (from 1), as a path of nodes.

    `program->class_declaration:A->method_declaration:f`; None at the level of the module.
    """
    parser = _parser(suffix)
    if parser is None:
        return None
    root = parser.parse(source).root_node
    row = line - 1
    if row > root.end_point[0] - 1:
        return None
    return _path(root, row)


def changed_nodes(patch: str, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> set[str]:
    """`file->node path` for each line a patch removes (looked up before) or adds (after).

    Files that are new or renamed have no nodes, as SWE-PolyBench defines it.
    """
    found: set[str] = set()
    for file in diffs.parse(patch):
        if file.old is None or file.old != file.new:
            continue
        suffix = _suffix(file.old)
        if suffix is None:
            continue
        sides: Sequence[tuple[Mapping[str, bytes], list[int]]] = (
            (before, [n for hunk in file.hunks for n in hunk.removed]),
            (after, [n for hunk in file.hunks for n in hunk.added]),
        )
        for sources, numbers in sides:
            source = sources.get(file.old)
            for number in numbers if source is not None else ():
                path = node_of_line(source or b"", suffix, number)
                if path is not None:
                    found.add(f"{file.old}->{path}")
    return found


def _path(root: Node, row: int) -> str | None:
    chain = _chain(root, row)
    return "->".join([root.type, *chain]) if chain else None


def _chain(node: Node, row: int) -> list[str]:
    """The longest nest of named nodes around a line; one line can be part of several."""
    around = [c for c in node.children if c.start_point[0] <= row <= c.end_point[0]]
    inner = max((_chain(child, row) for child in around), key=len, default=[])
    return [f"{node.type}:{_name(node)}", *inner] if node.type in _NAMED_NODES else inner


def _name(node: Node) -> str:
    name = node.child_by_field_name("name")
    return name.text.decode("utf-8", "replace") if name is not None and name.text else ""


def _suffix(path: str) -> str | None:
    name = path.rpartition("/")[2]
    _, dot, ending = name.rpartition(".")
    suffix = dot + ending
    return suffix if dot and suffix in _GRAMMARS else None


@cache
def _parser(suffix: str) -> Parser | None:
    if suffix not in _GRAMMARS:
        return None
    package, function = _GRAMMARS[suffix]
    try:
        from tree_sitter import Language
        from tree_sitter import Parser as MakeParser

        grammar: Any = import_module(package)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"syntax nodes need {error.name}: pip install 'chimera-eval[syntax]'"
        ) from None
    return MakeParser(Language(getattr(grammar, function)()))
