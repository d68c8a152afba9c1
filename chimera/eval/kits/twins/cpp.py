"""Tests in C++: Catch2, whose tests look like a call followed by a block."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from chimera.eval.kits.twins.cases import Assertion, Case, Expectation, instead
from chimera.eval.kits.twins.trees import (
    Grammar,
    descendants,
    end_of_block,
    expected,
    outside,
    text,
)

if TYPE_CHECKING:
    from tree_sitter import Node

#: An assertion: what is called, and the whole.
Call = tuple["Node", "Node"]


def cpp_cases(root: Node, grammar: Grammar) -> Iterator[Case]:
    for block in descendants(root):
        before = block.prev_sibling
        if block.type != "compound_statement" or before is None:
            continue
        if not text(before).startswith(("TEST_CASE", "SCENARIO", "TEST(", "TEST_F(")):
            continue
        calls = list(_calls(descendants(block)))
        found = list(_expectations(calls, block, grammar)) or list(_opposites(calls))
        check = "\nASSERT_EQ({number}, {other});\n" if text(before).startswith("TEST(") else ""
        check = check or "\nREQUIRE({number} == {other});\n"
        # where a test is run once for each of its sections, its end must not count for all
        alone = () if _SECTIONS.search(text(block)) else tuple(_assertions(block, grammar))
        yield Case(found, end_of_block(block), check, assertions=alone)


_ASSERTING = ("REQUIRE", "CHECK", "REQUIRE_FALSE", "CHECK_FALSE")
_SECTIONS = re.compile(r"\b(?:SECTION|GENERATE\w*|GIVEN|WHEN|THEN)\s*\(")


def _calls(nodes: Iterable[Node]) -> Iterator[Call]:
    for call in nodes:
        function = call.child_by_field_name("function")
        if call.type == "call_expression" and text(function) in _ASSERTING and function is not None:
            yield function, call


def _expectations(calls: Iterable[Call], block: Node, grammar: Grammar) -> Iterator[Expectation]:
    for function, call in calls:
        comparison = _equality(call)
        for side in ("left", "right"):
            node = None if comparison is None else comparison.child_by_field_name(side)
            if node is not None and not text(function).endswith("_FALSE"):
                yield from expected(node, block, grammar)


def _equality(call: Node) -> Node | None:
    for node in descendants(call):
        if node.type == "binary_expression" and any(each.type == "==" for each in node.children):
            return node
    return None


def _opposites(calls: Iterable[Call]) -> Iterator[Expectation]:
    for function, call in calls:
        comparison, end = _equality(call), function.end_byte
        if text(function).endswith("_FALSE"):
            yield Expectation(end - len("_FALSE"), end, instead(b""))
        elif comparison is None:
            yield Expectation(end, end, instead(b"_FALSE"))
        else:
            signs = [sign for sign in comparison.children if sign.type == "=="]
            yield from (Expectation(s.start_byte, s.end_byte, instead(b"!=")) for s in signs)


def _assertions(block: Node, grammar: Grammar) -> Iterator[Assertion]:
    for statement in outside(block, frozenset({"lambda_expression"})):
        if statement.type != "expression_statement":
            continue
        calls = list(_calls(statement.children))
        found = list(_expectations(calls, block, grammar))
        # a value need not have `!=` because it has `==`
        found = found or list(_opposites(each for each in calls if _equality(each[1]) is None))
        if found:
            (function, call) = calls[0]
            start, given = function.start_byte, call.child_by_field_name("arguments")
            opening = function.end_byte if given is None else given.start_byte
            edits = [
                (start, start, "{name}("),
                (function.end_byte, opening + 1, ", {number}, {other}, "),
            ]
            yield Assertion(start, call.end_byte, edits, found)


#: An assertion of Catch2 is counted when it fails, whoever catches it, so that one that must fail
#: is evaluated without it.
PROLOGUE = "".join(
    f"{line}\n"
    for line in (
        '#pragma GCC diagnostic ignored "-Wsign-compare"',
        "#define {name}(check, number, other, ...) do { \\",
        "  if (number == other) { check(__VA_ARGS__); } \\",
        "  else { try { if ({name}_##check(__VA_ARGS__)) return; } catch (...) {} } } while (0)",
        *(
            f"#define {{name}}_{check}(...) {sign}static_cast<bool>(__VA_ARGS__)"
            for check, sign in zip(_ASSERTING, ("", "", "!", "!"), strict=True)
        ),
    )
)
