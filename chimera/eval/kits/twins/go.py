"""Tests in Go: no value of its can equal what it is not, so that opposite conditions are enough."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from chimera.eval.kits.twins.cases import Case, Expectation, Insertion, instead
from chimera.eval.kits.twins.trees import Grammar, descendants, end_of_block, outside, text

if TYPE_CHECKING:
    from tree_sitter import Node


#: What every file means alike unless its package declares it (Go 1.24).
UNIVERSE = frozenset(
    {"any", "append", "bool", "byte", "cap", "clear", "close", "comparable", "complex",
     "complex128", "complex64", "copy", "delete", "error", "false", "float32", "float64", "imag",
     "int", "int16", "int32", "int64", "int8", "iota", "len", "make", "max", "min", "new", "nil",
     "panic", "print", "println", "real", "recover", "rune", "string", "true", "uint", "uint16",
     "uint32", "uint64", "uint8", "uintptr"}
)  # fmt: skip


def declared(root: Node, *kinds: str) -> set[str]:
    """The names that a file declares for its whole package, by the given kinds of declaration."""
    names: set[str] = set()
    for declaration in root.named_children:
        if declaration.type in kinds:
            found = [declaration, *outside(declaration, _INNER)]
            named = (each for node in found for each in node.children_by_field_name("name"))
            names.update(map(text, named))
    return names


DECLARING = ("var_declaration", "const_declaration", "function_declaration", "type_declaration")


def package(root: Node) -> str:
    clauses = (each for each in root.named_children if each.type == "package_clause")
    return next((text(name) for each in clauses for name in each.named_children), "")


def file_of_words(package: str, words: Sequence[str]) -> bytes:
    """A file that imports something by each of the words, which its package cannot declare then."""
    imports = "".join(f'\t{word} "strings"\n' for word in words)
    uses = "".join(f"var _ = {word}.ToUpper\n" for word in words)
    return f"package {package}\n\nimport (\n{imports})\n\n{uses}".encode()


_INNER = frozenset({"block", "struct_type", "interface_type", "func_literal", "parameter_list"})


def identifiers(root: Node) -> Iterator[Node]:
    """The names of variables, constants, functions and types that a file uses."""
    used = ("identifier", "type_identifier", "nil", "true", "false", "iota")
    return (node for node in descendants(root) if node.type in used)


def keys(root: Node) -> set[str]:
    """Names before a colon, which may be those of fields."""
    pairs = (node.named_children for node in descendants(root) if node.type == "keyed_element")
    return {text(pair[0]) for pair in pairs}


def go_cases(root: Node, grammar: Grammar) -> Iterator[Case]:
    for function in descendants(root):
        test = text(function.child_by_field_name("name")).startswith("Test")
        if function.type == "function_declaration":
            if not test:
                continue
        elif function.type != "func_literal":
            continue
        body = function.child_by_field_name("body")
        parameters = text(function.child_by_field_name("parameters"))
        if body is None or "*testing.T" not in parameters:
            continue
        name = parameters.strip("()").split()[0]
        check = f"\nif {{number}} != {{other}} {{ {name}.Fatal({{number}}) }}\n"
        once = _once(function, body) if test else ()
        yield Case(list(_opposites(body, name)), end_of_block(body), check, once=once)


def _once(function: Node, body: Node) -> Sequence[Insertion]:
    number = f"{{name}}n{function.start_byte}"
    entry = f' if {number}++; {number} > 1 {{ panic("entered again") }}; '
    start, at = function.start_byte, body.start_byte + 1
    return ((start, start, f"var {number} int; "), (at, at, entry))


def _opposites(body: Node, name: str) -> Iterator[Expectation]:
    """Conditions on which a test fails at once, turned around."""
    failing = re.compile(rf"{re.escape(name)}\.(?:Fatal|Error|Fail)")
    for node in descendants(body):
        if node.type == "if_statement":
            condition, then = (node.child_by_field_name(f) for f in ("condition", "consequence"))
        elif node.type == "expression_case":
            condition, then = node.child_by_field_name("value"), node
        else:
            continue
        if (
            condition is not None
            and then is not None
            and any(failing.match(text(statement)) for statement in _statements(then))
        ):
            yield from _opposite(condition)


def _statements(block: Node) -> Iterator[Node]:
    for child in block.named_children:
        yield from child.named_children if child.type == "statement_list" else (child,)


def _opposite(condition: Node) -> Iterator[Expectation]:
    while condition.type == "expression_list" and condition.named_child_count == 1:
        condition = condition.named_children[0]
    sign = condition.child_by_field_name("operator")
    if sign is not None and sign.type in _SIGNS:
        yield Expectation(sign.start_byte, sign.end_byte, instead(_SIGNS[sign.type]))
    elif condition.type in ("identifier", "call_expression", "selector_expression"):
        yield Expectation(condition.start_byte, condition.start_byte, instead(b"!"))
    elif condition.type == "binary_expression":
        yield Expectation(condition.start_byte, condition.end_byte, _not)


def _not(text: bytes, seed: random.Random) -> bytes:
    return b"!(" + text + b")"


_SIGNS = {"==": b"!=", "!=": b"==", "<": b">=", ">": b"<=", "<=": b">", ">=": b"<", "!": b""}
