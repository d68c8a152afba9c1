"""Tests in other languages, by the trees of tree-sitter's grammars."""

from __future__ import annotations

import importlib
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from chimera.errors import EnvironmentFault
from chimera.eval.kits.twins.cases import (
    Case,
    Expectation,
    Other,
    instead,
    other_letter,
    other_number,
    other_text,
    other_truth,
    some_text,
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


def expected(node: Node, body: Node, grammar: Grammar) -> Iterator[Expectation]:
    """The literals of an argument, or of a variable that the test has for nothing else."""
    if node.type == "identifier":
        value = value_of(text(node), body)
        if value is not None:
            yield from expectations(value, grammar)
    else:
        yield from expectations(node, grammar)


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

_EQUAL = {"toBe", "toEqual", "toStrictEqual"}
_ASKED = {*_EQUAL, "toBeCloseTo", "toHaveLength", "toThrow", "toThrowError"}
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
        found = found or list(_javascript_opposites(body))
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


def _javascript_calls(body: Node) -> Iterator[tuple[Node, str, list[Node]]]:
    """Calls of methods: the object, the method's name, and what it is given."""
    for call in (body, *descendants(body)):
        function = call.child_by_field_name("function")
        arguments = call.child_by_field_name("arguments")
        if call.type != "call_expression" or function is None or arguments is None:
            continue
        if function.type == "member_expression":
            object_ = function.child_by_field_name("object")
            assert object_ is not None
            name = text(function.child_by_field_name("property"))
            yield object_, name, arguments.named_children


def _javascript_expectations(body: Node, grammar: Grammar) -> Iterator[Expectation]:
    for object_, name, given in _javascript_calls(body):
        asked = text(object_)
        if asked.startswith("expect(") and not asked.endswith(".not") and given:
            if name in _ASKED:
                found = list(expected(given[0], body, grammar))
                yield from found or _whole(given[0], name in _EQUAL)
        elif name in _COMPARED and len(given) >= 2:
            found = list(expected(given[1], body, grammar))
            yield from found or _whole(given[1], True)


def _whole(node: Node, wanted: bool) -> Iterator[Expectation]:
    """A text instead of an expected value that has no literal."""
    if wanted:
        yield Expectation(node.start_byte, node.end_byte, some_text)


def _javascript_opposites(body: Node) -> Iterator[Expectation]:
    for object_, name, _ in _javascript_calls(body):
        asked = text(object_)
        if asked.startswith("expect(") and name.startswith("to"):
            end = object_.end_byte
            if asked.endswith(".not"):
                yield Expectation(end - len(".not"), end, instead(b""))
            else:
                yield Expectation(end, end, instead(b".not"))


# Java: JUnit with its own assertions or AssertJ's

_ASSERTJ = {
    "isEqualTo", "containsExactly", "containsExactlyInAnyOrder", "containsOnly", "hasSize",
    "contains", "withMessage", "hasMessage",
}  # fmt: skip
_MAKING = {"asList", "of", "singletonList", "singleton", "entry", "join"}
_JAVA_PAIRS = (("isTrue", "isFalse"), ("isNull", "isNotNull"), ("isEmpty", "isNotEmpty"),
               ("assertTrue", "assertFalse"), ("assertNull", "assertNotNull"),
               ("isPresent", "isNotPresent"))  # fmt: skip
_JAVA_OPPOSITES = {**dict(_JAVA_PAIRS), **{other: one for one, other in _JAVA_PAIRS}}


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
        found = list(_java_expectations(body, grammar)) or list(_java_opposites(body))
        yield Case(found, end_of_block(body), check)


def _is_java_test(method: Node) -> bool:
    annotations = [
        text(annotation.child_by_field_name("name"))
        for modifiers in method.children
        if modifiers.type == "modifiers"
        for annotation in modifiers.children
        if annotation.type in ("marker_annotation", "annotation")
    ]
    return bool({"Test", "ParameterizedTest", "RepeatedTest"} & set(annotations))


def _java_calls(body: Node) -> Iterator[tuple[Node, list[Node]]]:
    """Assertions, of JUnit or in AssertJ's chains: the name, and what is given."""
    for call in descendants(body):
        name, arguments = (call.child_by_field_name(field) for field in ("name", "arguments"))
        if call.type == "method_invocation" and name is not None and arguments is not None:
            chain = text(call.child_by_field_name("object"))
            if text(name).startswith("assert") or "assertThat" in chain.partition("(")[0]:
                yield name, arguments.named_children


def _java_expectations(body: Node, grammar: Grammar) -> Iterator[Expectation]:
    for name, given in _java_calls(body):
        if text(name) in _ASSERTJ and "doesNot" not in text(name.parent):
            found = [each for node in given for each in _java_expected(node, body, grammar)]
            yield from found or _whole(given[0], text(name) == "isEqualTo")
        elif text(name) == "assertEquals" and len(given) >= 2:
            yield from list(_java_expected(given[0], body, grammar)) or _whole(given[0], True)


def _java_expected(node: Node, body: Node, grammar: Grammar) -> Iterator[Expectation]:
    if node.type == "identifier":
        value = value_of(text(node), body)
        if value is not None:
            yield from _java_expected(value, body, grammar)
    elif node.type == "method_invocation":
        arguments = node.child_by_field_name("arguments")
        if text(node.child_by_field_name("name")) in _MAKING and arguments is not None:
            for argument in arguments.named_children:
                yield from _java_expected(argument, body, grammar)
    else:
        yield from expectations(node, grammar)


def _java_opposites(body: Node) -> Iterator[Expectation]:
    for name, _ in _java_calls(body):
        if (other := _JAVA_OPPOSITES.get(text(name))) is not None:
            yield Expectation(name.start_byte, name.end_byte, instead(other.encode()))


# Go: no value of its can equal what it is not, so that opposite conditions are enough


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
        yield Case(list(_go_opposites(body, name)), end_of_block(body), check)


def _go_opposites(body: Node, name: str) -> Iterator[Expectation]:
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
            and any(failing.match(text(statement)) for statement in _go_statements(then))
        ):
            yield from _go_opposite(condition)


def _go_statements(block: Node) -> Iterator[Node]:
    for child in block.named_children:
        yield from child.named_children if child.type == "statement_list" else (child,)


def _go_opposite(condition: Node) -> Iterator[Expectation]:
    while condition.type == "expression_list" and condition.named_child_count == 1:
        condition = condition.named_children[0]
    sign = condition.child_by_field_name("operator")
    if sign is not None and sign.type in _GO_SIGNS:
        yield Expectation(sign.start_byte, sign.end_byte, instead(_GO_SIGNS[sign.type]))
    elif condition.type in ("identifier", "call_expression", "selector_expression"):
        yield Expectation(condition.start_byte, condition.start_byte, instead(b"!"))
    elif condition.type == "binary_expression":
        yield Expectation(condition.start_byte, condition.end_byte, _not)


def _not(text: bytes, seed: random.Random) -> bytes:
    return b"!(" + text + b")"


_GO_SIGNS = {"==": b"!=", "!=": b"==", "<": b">=", ">": b"<=", "<=": b">", ">=": b"<", "!": b""}


# Rust: attributes stand before their function; what macros are given is a tree of tokens


def _rust(root: Node, grammar: Grammar) -> Iterator[Case]:
    for function in descendants(root):
        body = function.child_by_field_name("body")
        if function.type != "function_item" or body is None:
            continue
        attributes = _attributes(function)
        if not any(name.endswith("test") for name in attributes):
            continue
        found = list(_rust_panics(function)) or list(_rust_expectations(body, grammar))
        found = found or list(_rust_opposites(body))
        yield Case(found, _before_value(body), "\nassert_eq!({number}, {other});\n")


def _attributes(function: Node) -> list[str]:
    return [text(node).removeprefix("#[").removesuffix("]") for node in _before(function)]


def _before(function: Node) -> Iterator[Node]:
    """The attributes of a function."""
    before = function.prev_sibling
    while before is not None and before.type in ("attribute_item", "line_comment"):
        if before.type == "attribute_item":
            yield before
        before = before.prev_sibling


def _rust_panics(function: Node) -> Iterator[Expectation]:
    """That a test must panic, which it need not in the twin."""
    for attribute in _before(function):
        if text(attribute).startswith("#[should_panic"):
            yield Expectation(attribute.start_byte, attribute.end_byte, instead(b""))


def _before_value(block: Node) -> int | None:
    """The end of a block, or the place before the expression that is its value."""
    statements = [child for child in block.named_children if "comment" not in child.type]
    if statements and not statements[-1].type.endswith(("statement", "declaration", "item")):
        return int(statements[-1].start_byte)
    return int(block.end_byte) - 1


def _rust_macros(body: Node, name: str) -> Iterator[tuple[Node, Node]]:
    """Uses of a macro: its name, and the tokens that it is given."""
    for macro in descendants(body):
        named = macro.child_by_field_name("macro") if macro.type == "macro_invocation" else None
        if named is not None and text(named) == name:
            yield from ((named, child) for child in macro.children if child.type == "token_tree")


def _rust_expectations(body: Node, grammar: Grammar) -> Iterator[Expectation]:
    for _, tokens in _rust_macros(body, "assert_eq"):
        sides = [_rust_value(side, body, grammar) for side in _sides(tokens)[:2]]
        known = [side for side in sides if side is not None]
        if len(sides) == 2 and len(known) == 1:
            yield from known[0]


def _rust_opposites(body: Node) -> Iterator[Expectation]:
    for name, tokens in _rust_macros(body, "assert"):
        opening = instead(b"assert_eq!" + (tokens.text or b"")[:1] + b"false, ")
        yield Expectation(name.start_byte, tokens.start_byte + 1, opening)
    for name, _ in _rust_macros(body, "assert_eq"):
        yield Expectation(name.start_byte, name.end_byte, instead(b"assert_ne"))


_RUST_MAKING = frozenset({"from", "to_string", "to_owned", "to_vec", "into", "vec", "as_ref"})
_RUST_PARTS = frozenset(
    {"token_tree", "reference_expression", "array_expression", "tuple_expression",
     "unary_expression", "call_expression", "arguments", "field_expression", "scoped_identifier",
     "macro_invocation", "struct_expression", "field_initializer_list", "field_initializer",
     "type_identifier", "field_identifier", "primitive_type"}
)  # fmt: skip


def _rust_value(nodes: list[Node], body: Node, grammar: Grammar) -> list[Expectation] | None:
    """The literals of what is built of literals alone; None for what calls or names others."""
    found: list[Expectation] = []
    for node in nodes:
        if node.type in ("identifier", "field_identifier"):
            name = text(node)
            if name[:1].isupper() or name in _RUST_MAKING:
                continue
            value = value_of(name, body)
            inside = None if value is None else _rust_value([value], body, grammar)
        elif node.type in grammar.literals:
            inside = list(expectations(node, grammar))
        elif node.type in _RUST_PARTS:
            inside = _rust_value(node.children, body, grammar)
        else:
            inside = None if node.is_named else []
        if inside is None:
            return None
        found += inside
    return found


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
        found = list(_cpp_expectations(block, grammar)) or list(_cpp_opposites(block))
        check = "\nASSERT_EQ({number}, {other});\n" if text(before).startswith("TEST(") else ""
        check = check or "\nREQUIRE({number} == {other});\n"
        yield Case(found, end_of_block(block), check)


def _cpp_calls(block: Node, names: tuple[str, ...]) -> Iterator[tuple[Node, Node]]:
    """Calls: what is called, and the whole."""
    for call in descendants(block):
        function = call.child_by_field_name("function")
        if call.type == "call_expression" and text(function) in names and function is not None:
            yield function, call


def _cpp_expectations(block: Node, grammar: Grammar) -> Iterator[Expectation]:
    for _, call in _cpp_calls(block, ("REQUIRE", "CHECK")):
        comparison = _cpp_equality(call)
        for side in ("left", "right"):
            node = None if comparison is None else comparison.child_by_field_name(side)
            if node is not None:
                yield from expected(node, block, grammar)


def _cpp_equality(call: Node) -> Node | None:
    for node in descendants(call):
        if node.type == "binary_expression" and any(each.type == "==" for each in node.children):
            return node
    return None


def _cpp_opposites(block: Node) -> Iterator[Expectation]:
    for function, call in _cpp_calls(block, ("REQUIRE", "CHECK")):
        comparison = _cpp_equality(call)
        if comparison is None:
            yield Expectation(function.end_byte, function.end_byte, instead(b"_FALSE"))
            continue
        for sign in comparison.children:
            if sign.type == "==":
                yield Expectation(sign.start_byte, sign.end_byte, instead(b"!="))
    for function, _ in _cpp_calls(block, ("REQUIRE_FALSE", "CHECK_FALSE")):
        end = function.end_byte
        yield Expectation(end - len("_FALSE"), end, instead(b""))


_JAVASCRIPT = {
    "number": other_number,
    "string": other_text,
    "template_string": other_text,
    "true": other_truth,
    "false": other_truth,
}
_JAVASCRIPT_CONTAINERS = frozenset(
    {"array", "object", "pair", "unary_expression", "new_expression", "arguments"}
)
_CPP_CONTAINERS = frozenset(
    {"unary_expression", "initializer_list", "parenthesized_expression",
     "compound_literal_expression"}
)  # fmt: skip
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
            "hex_integer_literal": other_number,
            "decimal_floating_point_literal": other_number,
            "string_literal": other_text,
            "character_literal": other_letter,
            "true": other_truth,
            "false": other_truth,
        },
        frozenset({"unary_expression", "array_initializer", "array_creation_expression"}),
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
        _CPP_CONTAINERS,
        _cpp,
    ),
}
