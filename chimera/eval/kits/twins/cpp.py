"""Tests in C++: Catch2, whose tests look like a call followed by a block."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from chimera.eval.kits.twins.cases import Assertion, Case, Expectation, instead
from chimera.eval.kits.twins.trees import (
    Grammar,
    descendants,
    end_of_block,
    expected,
    outside,
    reaches_end,
    text,
)

if TYPE_CHECKING:
    from tree_sitter import Node

#: An assertion: what is called, and the whole.
Call = tuple["Node", "Node"]


def cpp_cases(root: Node, grammar: Grammar) -> Iterator[Case]:
    wanted = dict(_wanted(root))
    for block in descendants(root):
        before = block.prev_sibling
        if block.type != "compound_statement" or before is None:
            continue
        calls = list(_calls(descendants(block)))
        if not text(before).startswith(("TEST_CASE", "SCENARIO", "TEST(", "TEST_F(")):
            continue
        given = list(_given(block, wanted, grammar))
        found = [*_expectations(calls, block, grammar), *given] or list(_opposites(calls))
        check = "\nASSERT_EQ({number}, {other});\n" if text(before).startswith("TEST(") else ""
        check = check or "\nREQUIRE({number} == {other});\n"
        # where a test is run once for each of its sections, its end must not count for all
        sections = _SECTIONS.search(text(block))
        whole_test = not sections and reaches_end(block, _NESTED)
        start = block.start_byte + 1
        yield Case(
            found,
            end_of_block(block),
            check,
            assertions=tuple(_assertions(block, grammar)) if whole_test else (),
            count=(start, " long long {name}c = 0; "),
            account=f"\nREQUIRE({_ACCOUNT} == 0);\n",
            once=() if sections else ((start, start, _ENTRY),),
        )


def _wanted(root: Node) -> Iterator[tuple[str, frozenset[int]]]:
    """The file's functions that compare something with a parameter, and the places of those."""
    for block in descendants(root):
        before = block.prev_sibling
        if block.type != "compound_statement" or before is None:
            continue
        parameters = before.child_by_field_name("parameters")
        equalities = [_equality(call) for _, call in _calls(descendants(block))]
        compared = {
            text(each.child_by_field_name(side))
            for each in equalities
            for side in ("left", "right")
            if each is not None
        }
        given = [] if parameters is None else parameters.named_children
        names = [text(each.child_by_field_name("declarator")).lstrip("&* ") for each in given]
        if places := frozenset(place for place, name in enumerate(names) if name in compared):
            yield text(before.child_by_field_name("declarator")), places


def _given(
    block: Node, wanted: Mapping[str, frozenset[int]], grammar: Grammar
) -> Iterator[Expectation]:
    """What a test gives to a function that compares something with it."""
    for call in descendants(block):
        function = text(call.child_by_field_name("function")).partition("<")[0]
        arguments = call.child_by_field_name("arguments")
        if call.type == "call_expression" and arguments is not None:
            given = [each for each in arguments.named_children if each.type != "comment"]
            for place in sorted(wanted.get(function, frozenset())):
                for each in given[place : place + 1]:
                    yield from expected(each, block, grammar)


_ENTRY = ' static int {name}n = 0; if ({name}n++ > 0) throw "entered again"; '
_COMPARING = ("REQUIRE", "CHECK", "REQUIRE_FALSE", "CHECK_FALSE")
_OTHER = ("THAT", "THROWS", "THROWS_AS", "NOTHROW")
_ASSERTING = (*_COMPARING, *(f"{kind}_{what}" for what in _OTHER for kind in ("REQUIRE", "CHECK")))
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
            if node is not None and text(function) in ("REQUIRE", "CHECK"):
                yield from expected(node, block, grammar)


def _equality(call: Node) -> Node | None:
    for node in descendants(call):
        if node.type == "binary_expression" and any(each.type == "==" for each in node.children):
            return node
    return None


def _opposites(calls: Iterable[Call]) -> Iterator[Expectation]:
    """Never another operator: a value need not have `!=` because it has `==`."""
    for function, _ in calls:
        end = function.end_byte
        if text(function).endswith("_FALSE"):
            yield Expectation(end - len("_FALSE"), end, instead(b""))
        elif text(function) not in _COMPARING:
            yield Expectation(end, end, instead(b"_NOT"))
        else:
            yield Expectation(end, end, instead(b"_FALSE"))


def _assertions(block: Node, grammar: Grammar) -> Iterator[Assertion]:
    for statement in outside(block, _NESTED):
        if statement.type != "expression_statement":
            continue
        calls = list(_calls(statement.children))
        found = list(_expectations(calls, block, grammar)) or list(_opposites(calls))
        if found:
            (function, call) = calls[0]
            start, given = function.start_byte, call.child_by_field_name("arguments")
            opening = function.end_byte if given is None else given.start_byte
            edits = [
                (start, start, "{name}("),
                (function.end_byte, opening + 1, ", {held}, {failed}, "),
            ]
            yield Assertion(start, call.end_byte, edits, found)


_NESTED = frozenset({"lambda_expression"})
_ACCOUNT = "((({name}c == 0) == ({number} == {other})) ? 0 : {number})"


def head(root: Node) -> int:
    """Where lines can be put without a word to what is tested: after all that is included. Before
    it they would lend a header what it forgot to include, and quieten the compiler about it."""
    end = 0
    for node in root.children:
        if any(each.type == "compound_statement" for each in descendants(node)):
            break
        if node.type.startswith("preproc_"):
            end = node.end_byte
    return end


_DONE = "static_cast<void>(done);"
_CAUGHT = "catch (__VA_ARGS__ const&)"
_PASSED = "static_cast<void>(__VA_ARGS__); {name}r = true;"
_THREW = "{name}r = true; static_cast<void>(__VA_ARGS__); {name}r = false;"
#: An assertion of Catch2 is counted when it fails, whoever catches it, so that its expression is
#: taken apart as Catch2 does it, and asked without it.
PROLOGUE = "".join(
    f"{line}\n"
    for line in (
        "",  # whatever stands before it ends its line
        "#include <iostream>",
        '#pragma GCC diagnostic ignored "-Wsign-compare"',
        '#pragma GCC diagnostic ignored "-Wparentheses"',
        "template <typename E> auto {name}a(E const& e, int)",
        "  -> decltype(e.makeUnaryExpr().getResult()) { return e.makeUnaryExpr().getResult(); }",
        "template <typename E> bool {name}a(E const& e, long) { return e.getResult(); }",
        "#define {name}(check, held, failed, ...) do { bool {name}r = false; \\",
        "  try { {name}_##check(__VA_ARGS__) } catch (...) {} \\",
        "  {name}c += {name}r ? held : failed; \\",
        '  if (!{name}r) std::cerr << #check "(" #__VA_ARGS__ ")" << std::endl; } while (0)',
        *(
            f"#define {{name}}_{check}(...) "
            f"{{name}}r = {{name}}a(Catch::Decomposer() <= __VA_ARGS__, 0) == {wanted};"
            for check, wanted in zip(_COMPARING, ("true", "true", "false", "false"), strict=True)
        ),
        *(
            f"#define {{name}}_{kind}_{what} {result}"
            for kind in ("REQUIRE", "CHECK")
            for what, result in (
                ("THAT(value, ...)", "{name}r = (__VA_ARGS__).match(value);"),
                ("THAT_NOT(value, ...)", "{name}r = !(__VA_ARGS__).match(value);"),
                ("THROWS(...)", _THREW),
                ("THROWS_NOT(...)", _PASSED),
                ("NOTHROW(...)", _PASSED),
                ("NOTHROW_NOT(...)", _THREW),
                ("THROWS_AS(done, ...)", f"try {{ {_DONE} }} {_CAUGHT} {{ {{name}}r = true; }}"),
                (
                    "THROWS_AS_NOT(done, ...)",
                    f"{{name}}r = true; try {{ {_DONE} }} {_CAUGHT} {{ {{name}}r = false; }}",
                ),
            )
        ),
    )
)

#: Of assertions that Catch2 has no opposite for.
OPPOSITES = "\n" + "".join(
    f"#define {kind}_{what} {kind}_{result}\n"
    for kind in ("REQUIRE", "CHECK")
    for what, result in (
        ("THAT_NOT(value, ...)", "THAT(value, !(__VA_ARGS__))"),
        ("THROWS_NOT(...)", "NOTHROW(__VA_ARGS__)"),
        ("NOTHROW_NOT(...)", "THROWS(__VA_ARGS__)"),
        ("THROWS_AS_NOT(done, ...)", "NOTHROW(done)"),
    )
)
