"""Tests in other languages, by the trees of tree-sitter's grammars."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from chimera.errors import EnvironmentFault
from chimera.eval.kits.twins.cases import (
    Case,
    Expectation,
    Other,
    other_letter,
    other_number,
    other_text,
    other_truth,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


@dataclass(frozen=True, slots=True)
class Grammar:
    """A language: its package, its literals, which containers of literals count as one, and how
    tests are found."""

    package: str
    literals: Mapping[str, Other]
    containers: frozenset[str]
    cases: Callable[[Node, Grammar], Iterator[Case]]
    function: str = "language"


def cases_of(language: str, source: bytes) -> list[Case]:
    """The tests of a file; none when its grammar finds it broken around them."""
    grammar = GRAMMARS[language]
    return list(grammar.cases(_parser(language).parse(source).root_node, grammar))


@cache
def _parser(language: str) -> Parser:
    grammar = GRAMMARS[language]
    try:
        import tree_sitter

        module = importlib.import_module(grammar.package)
    except ImportError:
        name = grammar.package.replace("_", "-")
        raise EnvironmentFault(
            f"tests in {language} need their grammar: pip install tree-sitter {name}"
        ) from None
    return tree_sitter.Parser(tree_sitter.Language(getattr(module, grammar.function)()))


def descendants(node: Node) -> Iterator[Node]:
    """All nodes below, in the order of the source, without recursion."""
    waiting = list(reversed(node.children))
    while waiting:
        each = waiting.pop()
        yield each
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


def end_of_block(block: Node) -> int:
    """Where a statement can be added: before the closing brace, or before one that leaves."""
    statements = [child for child in block.named_children if "comment" not in child.type]
    if statements and statements[-1].type == "statement_list":  # Go has one more level
        statements = statements[-1].named_children
    leaving = ("return_statement", "throw_statement")
    if statements and statements[-1].type in leaving:
        return int(statements[-1].start_byte)
    return int(block.end_byte) - 1


# JavaScript and TypeScript: jest, mocha, node's own

_ASKED = {"toBe", "toEqual", "toStrictEqual", "toBeCloseTo", "toHaveLength"}
_COMPARED = {"equal", "strictEqual", "deepEqual", "deepStrictEqual", "is", "same"}


def _javascript(root: Node, grammar: Grammar) -> Iterator[Case]:
    for call in descendants(root):
        if call.type != "call_expression":
            continue
        name = text(call.child_by_field_name("function")).removesuffix(".only")
        arguments = call.child_by_field_name("arguments")
        if name not in ("test", "it", "xtest", "xit", "specify") or arguments is None:
            continue
        functions = [each for each in arguments.named_children if each.type in _FUNCTIONS]
        body = functions[-1].child_by_field_name("body") if functions else None
        if body is None:
            yield Case()
            continue
        found = list(_javascript_expectations(body, grammar))
        check = _JEST_CHECK if "expect(" in text(body) else _NODE_CHECK
        if body.type == "statement_block":
            yield Case(found, end_of_block(body), f"{check};\n")
        elif body.type == "call_expression":  # the check's value is undefined
            yield Case(found, int(body.start_byte), f"{check} ?? ")
        else:
            yield Case(found)


_FUNCTIONS = ("arrow_function", "function_expression")
_JEST_CHECK = "expect({number}).toBe({other})"
_NODE_CHECK = "require('assert').strictEqual({number}, {other})"


def _javascript_expectations(body: Node, grammar: Grammar) -> Iterator[Expectation]:
    for call in (body, *descendants(body)):
        if call.type != "call_expression":
            continue
        function = call.child_by_field_name("function")
        arguments = call.child_by_field_name("arguments")
        if function is None or function.type != "member_expression" or arguments is None:
            continue
        name = text(function.child_by_field_name("property"))
        object_ = text(function.child_by_field_name("object"))
        given = arguments.named_children
        if name in _ASKED and object_.startswith("expect(") and not object_.endswith(".not"):
            if given:
                yield from expectations(given[0], grammar)
        elif name in _COMPARED and len(given) >= 2:
            yield from expectations(given[1], grammar)


# Java: JUnit with its own assertions or AssertJ's

_ASSERTJ = {"isEqualTo", "containsExactly", "containsExactlyInAnyOrder", "hasSize", "contains"}


def _java(root: Node, grammar: Grammar) -> Iterator[Case]:
    source = text(root)
    if "org.assertj" in source:
        check = "org.assertj.core.api.Assertions.assertThat({number}).isEqualTo({other});\n"
    elif "org.junit.jupiter" in source:
        check = "org.junit.jupiter.api.Assertions.assertEquals({number}, {other});\n"
    else:
        check = "org.junit.Assert.assertEquals({number}, {other});\n"
    for method in descendants(root):
        body = method.child_by_field_name("body")
        if method.type != "method_declaration" or body is None or not _is_java_test(method):
            continue
        yield Case(list(_java_expectations(body, grammar)), end_of_block(body), check)


def _is_java_test(method: Node) -> bool:
    annotations = [
        text(annotation.child_by_field_name("name"))
        for modifiers in method.children
        if modifiers.type == "modifiers"
        for annotation in modifiers.children
        if annotation.type in ("marker_annotation", "annotation")
    ]
    return bool({"Test", "ParameterizedTest", "RepeatedTest"} & set(annotations))


def _java_expectations(body: Node, grammar: Grammar) -> Iterator[Expectation]:
    for call in descendants(body):
        if call.type != "method_invocation":
            continue
        name = text(call.child_by_field_name("name"))
        arguments = call.child_by_field_name("arguments")
        given = [] if arguments is None else arguments.named_children
        if name in _ASSERTJ and "doesNot" not in text(call):
            for argument in given:
                yield from expectations(argument, grammar)
        elif name == "assertEquals" and len(given) >= 2:
            yield from expectations(given[0], grammar)


# Go: no value of its can equal what it is not, so that a check at the end is enough


def _go(root: Node, grammar: Grammar) -> Iterator[Case]:
    for function in descendants(root):
        if function.type == "function_declaration":
            if not text(function.child_by_field_name("name")).startswith("Test"):
                continue
        elif function.type != "func_literal":
            continue
        body = function.child_by_field_name("body")
        parameters = text(function.child_by_field_name("parameters"))
        if body is None or "*testing.T" not in parameters:
            continue
        name = parameters.strip("()").split()[0]
        check = f"\nif {{number}} != {{other}} {{ {name}.Fatal({{number}}) }}\n"
        yield Case(place=end_of_block(body), check=check)


# Rust: attributes stand before their function; what macros are given is a tree of tokens


def _rust(root: Node, grammar: Grammar) -> Iterator[Case]:
    for function in descendants(root):
        body = function.child_by_field_name("body")
        if function.type != "function_item" or body is None:
            continue
        attributes = _attributes(function)
        if not any(name.endswith("test") for name in attributes):
            continue
        if any(name.startswith("should_panic") for name in attributes):
            yield Case()
            continue
        found = list(_rust_expectations(body, grammar))
        yield Case(found, _before_value(body), "\nassert_eq!({number}, {other});\n")


def _attributes(function: Node) -> list[str]:
    found = []
    before = function.prev_sibling
    while before is not None and before.type in ("attribute_item", "line_comment"):
        if before.type == "attribute_item":
            found.append(text(before).removeprefix("#[").removesuffix("]"))
        before = before.prev_sibling
    return found


def _before_value(block: Node) -> int | None:
    """The end of a block, or the place before the expression that is its value."""
    statements = [child for child in block.named_children if "comment" not in child.type]
    if statements and not statements[-1].type.endswith(("statement", "declaration", "item")):
        return int(statements[-1].start_byte)
    return int(block.end_byte) - 1


def _rust_expectations(body: Node, grammar: Grammar) -> Iterator[Expectation]:
    for macro in descendants(body):
        if macro.type != "macro_invocation" or text(macro.child_by_field_name("macro")) != (
            "assert_eq"
        ):
            continue
        tokens = next((child for child in macro.children if child.type == "token_tree"), None)
        sides = [] if tokens is None else _sides(tokens)
        if len(sides) >= 2:
            literals = [
                [e for token in side for e in expectations(token, grammar)] for side in sides[:2]
            ]
            plain = [all(token.type in _PLAIN for token in side) for side in sides[:2]]
            for mine, is_plain, others in ((0, plain[0], plain[1]), (1, plain[1], plain[0])):
                if is_plain and not others:
                    yield from literals[mine]


_PLAIN = frozenset(
    {"integer_literal", "float_literal", "string_literal", "boolean_literal", "char_literal", "-"}
)


def _sides(tokens: Node) -> list[list[Node]]:
    """What stands between the commas of a macro."""
    sides: list[list[Node]] = [[]]
    for token in tokens.children[1:-1]:
        if token.type == ",":
            sides.append([])
        else:
            sides[-1].append(token)
    return [side for side in sides if side]


# C++: Catch2, whose tests look like a call followed by a block


def _cpp(root: Node, grammar: Grammar) -> Iterator[Case]:
    for block in descendants(root):
        before = block.prev_sibling
        if block.type != "compound_statement" or before is None:
            continue
        if not text(before).startswith(("TEST_CASE", "SCENARIO", "TEST(", "TEST_F(")):
            continue
        found = list(_cpp_expectations(block, grammar))
        check = "\nASSERT_EQ({number}, {other});\n" if text(before).startswith("TEST(") else ""
        check = check or "\nREQUIRE({number} == {other});\n"
        yield Case(found, end_of_block(block), check)


def _cpp_expectations(block: Node, grammar: Grammar) -> Iterator[Expectation]:
    for call in descendants(block):
        if call.type != "call_expression":
            continue
        if text(call.child_by_field_name("function")) not in ("REQUIRE", "CHECK"):
            continue
        for comparison in descendants(call):
            if comparison.type == "binary_expression" and any(
                child.type == "==" for child in comparison.children
            ):
                for side in ("left", "right"):
                    node = comparison.child_by_field_name(side)
                    if node is not None:
                        yield from expectations(node, grammar)
                break


_JAVASCRIPT = {
    "number": other_number,
    "string": other_text,
    "template_string": other_text,
    "true": other_truth,
    "false": other_truth,
}
_JAVASCRIPT_CONTAINERS = frozenset({"array", "object", "pair", "unary_expression"})
GRAMMARS: Mapping[str, Grammar] = {
    "javascript": Grammar(
        "tree_sitter_javascript", _JAVASCRIPT, _JAVASCRIPT_CONTAINERS, _javascript
    ),
    "typescript": Grammar(
        "tree_sitter_typescript",
        _JAVASCRIPT,
        _JAVASCRIPT_CONTAINERS,
        _javascript,
        "language_typescript",
    ),
    "tsx": Grammar(
        "tree_sitter_typescript", _JAVASCRIPT, _JAVASCRIPT_CONTAINERS, _javascript, "language_tsx"
    ),
    "java": Grammar(
        "tree_sitter_java",
        {
            "decimal_integer_literal": other_number,
            "decimal_floating_point_literal": other_number,
            "string_literal": other_text,
            "character_literal": other_letter,
            "true": other_truth,
            "false": other_truth,
        },
        frozenset({"unary_expression", "array_initializer"}),
        _java,
    ),
    "go": Grammar("tree_sitter_go", {}, frozenset(), _go),
    "rust": Grammar(
        "tree_sitter_rust",
        {
            "integer_literal": other_number,
            "float_literal": other_number,
            "string_literal": other_text,
            "boolean_literal": other_truth,
            "char_literal": other_letter,
        },
        frozenset(),
        _rust,
    ),
    "cpp": Grammar(
        "tree_sitter_cpp",
        {
            "number_literal": other_number,
            "string_literal": other_text,
            "true": other_truth,
            "false": other_truth,
            "char_literal": other_letter,
        },
        frozenset({"unary_expression", "initializer_list", "parenthesized_expression"}),
        _cpp,
    ),
}
