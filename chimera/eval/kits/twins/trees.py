"""What the tests of all languages are found with, in trees of tree-sitter's grammars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chimera.eval.kits.twins.cases import Case, Expectation, Other, some_text

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True, slots=True)
class Grammar:
    """A language: its package, its literals, which containers of literals count as one, how tests
    are found, and lines that their assertions need at the head of a file, and where that is."""

    package: str
    literals: Mapping[str, Other]
    containers: frozenset[str]
    cases: Callable[[Node, Grammar], Iterator[Case]]
    function: str = "language"
    prologue: str = ""
    opposites: str = ""  # definitions that changed assertions need, wherever they stand
    head: Callable[[Node], int] = lambda root: 0


def descendants(node: Node) -> Iterator[Node]:
    """All nodes below, in the order of the source, without recursion."""
    return outside(node, frozenset())


def outside(node: Node, kinds: frozenset[str]) -> Iterator[Node]:
    """The nodes below, but not those inside of some kinds (functions, classes)."""
    waiting = list(reversed(node.children))
    while waiting:
        each = waiting.pop()
        yield each
        if each.type not in kinds:
            waiting += reversed(each.children)


def text(node: Node | None) -> str:
    return "" if node is None or node.text is None else node.text.decode("utf-8", "replace")


def expectations(node: Node, grammar: Grammar) -> Iterator[Expectation]:
    """The literals of an argument that is one, or is made of some; calls belong to the question."""
    if (other := grammar.literals.get(node.type)) is not None:
        single_line = node.start_point[0] == node.end_point[0]
        if single_line and not any("substitution" in each.type for each in node.children):
            yield Expectation(node.start_byte, node.end_byte, other)
    elif node.type in grammar.containers:
        for child in node.named_children:
            yield from expectations(child, grammar)


def expected(node: Node, body: Node, grammar: Grammar) -> Iterator[Expectation]:
    """The literals of an argument, or of a variable that the test has for nothing else."""
    if node.type == "identifier":
        value = value_of(text(node), body)
        if value is not None:
            yield from expectations(value, grammar)
    else:
        yield from expectations(node, grammar)


def whole(node: Node, wanted: bool) -> Iterator[Expectation]:
    """A text instead of an expected value that has no literal."""
    if wanted:
        yield Expectation(node.start_byte, node.end_byte, some_text)


def value_of(name: str, body: Node) -> Node | None:
    """What a variable of a test is set to, when the test names it but once more."""
    nodes = list(descendants(body))
    if sum(node.type == "identifier" and text(node) == name for node in nodes) != 2:
        return None
    for node in nodes:
        for field in ("name", "pattern", "declarator"):
            if node.type in _DECLARING and text(node.child_by_field_name(field)) == name:
                return node.child_by_field_name("value")
    return None


_DECLARING = ("variable_declarator", "init_declarator", "let_declaration")


def reaches_end(block: Node, nested: frozenset[str]) -> bool:
    """Whether nothing leaves a test before its end but what fails."""
    *earlier, last = [*block.named_children, block]
    if earlier and earlier[-1].type in _LEAVING:
        last = earlier[-1]
    return not any("return" in node.type for node in outside(block, nested) if node != last)


_LEAVING = ("return_statement", "throw_statement")


def end_of_block(block: Node) -> int:
    """Where a statement can be added: before the closing brace, or before one that leaves."""
    statements = [child for child in block.named_children if "comment" not in child.type]
    if statements and statements[-1].type == "statement_list":  # Go has one more level
        statements = statements[-1].named_children
    if statements and statements[-1].type in _LEAVING:
        return int(statements[-1].start_byte)
    return int(block.end_byte) - 1
