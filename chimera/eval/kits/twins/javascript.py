"""Tests in JavaScript and TypeScript: jest, mocha, node's own."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from chimera.eval.kits.twins.cases import (
    Assertion,
    Case,
    Expectation,
    Insertion,
    around,
    instead,
    some_text,
)
from chimera.eval.kits.twins.trees import (
    Grammar,
    descendants,
    end_of_block,
    expected,
    outside,
    reaches_end,
    text,
    whole,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_EQUAL = {"toBe", "toEqual", "toStrictEqual"}
_ASKED = {*_EQUAL, "toBeCloseTo", "toHaveLength", "toThrow", "toThrowError"}
_COMPARED = {"equal", "strictEqual", "deepEqual", "deepStrictEqual", "is", "same"}

#: A call of a method: the object, the method's name, and what it is given.
Call = tuple["Node", str, list["Node"]]


def javascript_cases(root: Node, grammar: Grammar) -> Iterator[Case]:
    for call in descendants(root):
        if call.type != "call_expression":
            continue
        arguments = call.child_by_field_name("arguments")
        if _testing(call.child_by_field_name("function")) not in _TESTS or arguments is None:
            continue
        functions = [each for each in arguments.named_children if each.type in _FUNCTIONS]
        body = functions[-1].child_by_field_name("body") if functions else None
        if body is None:
            yield Case()
            continue
        calls = list(_calls([body, *descendants(body)]))
        once = _once(call, functions[-1], body)
        found = list(_expectations(calls, body, grammar)) or list(_opposites(calls))
        if body.type == "statement_block":
            whole_test = not _takes_part(functions[-1]) and reaches_end(body, _NESTED)
            yield Case(
                found,
                end_of_block(body),
                f"{_check(body, '{number}', '{other}')};\n",
                assertions=tuple(_assertions(body, grammar)) if whole_test else (),
                count=(body.start_byte + 1, " let {name}c = 0; "),
                account=f"{_check(body, _ACCOUNT, '0')};\n",
                once=once,
            )
        elif body.type == "call_expression":  # the check's value is undefined
            check = _check(body, "{number}", "{other}")
            yield Case(found, int(body.start_byte), f"{check} ?? ", once=once)
        else:
            yield Case(found)


def _once(call: Node, function: Node, body: Node) -> Sequence[Insertion]:
    """What counts is a variable around the function, unless that is for each line of a table."""
    declared = call.child_by_field_name("function")
    if declared is None or declared.type == "call_expression":
        return ()
    entry, at = " {name}o(); ", body.start_byte + 1
    if body.type != "statement_block":
        entry, at = "{name}o() ?? ", body.start_byte
    counted = "(n => () => { if (n++) throw new Error('entered again'); })(0)"
    start, end = function.start_byte, function.end_byte
    return ((start, start, "(({name}o) => "), (at, at, entry), (end, end, f")({counted})"))


def _testing(function: Node | None) -> str:
    """What a test is declared by, whether it is one or is run for each line of a table."""
    name = text(function)
    if function is not None and function.type == "call_expression":
        name = text(function.child_by_field_name("function"))
        name = name.removesuffix(".each") if name.endswith(".each") else ""
    return name.removesuffix(".only").removesuffix(".concurrent")


_TESTS = ("test", "it", "xtest", "xit", "specify")
_FUNCTIONS = ("arrow_function", "function_expression")


def _check(body: Node, one: str, other: str) -> str:
    """By the test's own means: what disarms those must meet it."""
    if "expect(" in text(body):
        return f"expect({one}).toBe({other})"
    asserting = "assert" if "assert." in text(body) else "require('assert')"
    return f"{asserting}.strictEqual({one} - {other}, 0)"


def _takes_part(function: Node) -> bool:
    """Whether a test says itself when it is over, or counts its assertions."""
    parameters = function.child_by_field_name("parameters")
    given = function.child_by_field_name("parameter") or (parameters and parameters.named_children)
    return bool(given) or "expect.assertions" in text(function)


def _calls(nodes: Iterable[Node]) -> Iterator[Call]:
    for call in nodes:
        function = call.child_by_field_name("function")
        arguments = call.child_by_field_name("arguments")
        if call.type != "call_expression" or function is None or arguments is None:
            continue
        if function.type == "member_expression":
            object_ = function.child_by_field_name("object")
            assert object_ is not None
            name = text(function.child_by_field_name("property"))
            yield object_, name, arguments.named_children


def _expectations(calls: Iterable[Call], body: Node, grammar: Grammar) -> Iterator[Expectation]:
    for object_, name, given in calls:
        asked = text(object_)
        if asked.startswith("expect(") and not asked.endswith(".not") and given:
            if name in _ASKED:
                found = list(_expected(given[0], body, grammar))
                yield from found or whole(given[0], name in _EQUAL)
        elif name in _COMPARED and len(given) >= 2:
            found = list(_expected(given[1], body, grammar))
            yield from found or whole(given[1], True)


def _expected(node: Node, body: Node, grammar: Grammar) -> Iterator[Expectation]:
    """Of an object of a class that is not the language's, what it is made of stays: it is for that
    to say what it makes of it. The object gets properties instead that no right answer's has."""
    found, made = list(expected(node, body, grammar)), []
    if found:
        news = (each for each in descendants(body) if each.type == "new_expression")
        made = [each for each in news if not _is_builtin(each.child_by_field_name("constructor"))]
    seen: set[int] = set()
    for one in found:
        whose = next((n for n in made if n.start_byte <= one.start < n.end_byte), None)
        if whose is None:
            yield one
        elif whose.start_byte not in seen:
            seen.add(whose.start_byte)
            yield Expectation(whose.start_byte, whose.end_byte, _with_properties)


def _with_properties(text: bytes, seed: random.Random) -> bytes:
    word = some_text(b"", seed)
    return b"Object.assign(" + text + b", { message: " + word + b", " + word + b": 1 })"


def _is_builtin(constructor: Node | None) -> bool:
    """Whether it is the language's own, and the file has no other of that name."""
    name, root = text(constructor), constructor
    if name not in _BUILTIN or root is None:
        return False
    while root.parent is not None:
        root = root.parent
    declared = (each.parent for each in descendants(root) if text(each) == name)
    return not any(each is not None and each.type in _NAMING for each in declared)


_BUILTIN = frozenset(
    {"Array", "Date", "Error", "Map", "RangeError", "ReferenceError", "Set", "SyntaxError",
     "TypeError", "Uint8Array", "Uint16Array", "Uint32Array"}
)  # fmt: skip
_NAMING = frozenset(
    {"import_specifier", "import_clause", "namespace_import", "variable_declarator",
     "object_pattern", "pair_pattern", "class_declaration", "function_declaration"}
)  # fmt: skip


def _opposites(calls: Iterable[Call]) -> Iterator[Expectation]:
    for object_, name, _ in calls:
        asked = text(object_)
        if asked.startswith("expect(") and name.startswith("to"):
            end = object_.end_byte
            if asked.endswith(".not"):
                yield Expectation(end - len(".not"), end, instead(b""))
            else:
                yield Expectation(end, end, instead(b".not"))


def _assertions(body: Node, grammar: Grammar) -> Iterator[Assertion]:
    """The statements that throw when what they assert does not hold, or await it."""
    for statement in outside(body, _NESTED):
        if statement.type != "expression_statement":
            continue
        asserted = statement.named_children[0]
        awaited = asserted.type == "await_expression"
        calls = list(_calls(asserted.named_children if awaited else [asserted]))
        if not calls or not _THROWING.match(text(calls[0][0])):
            continue
        if not awaited and _PROMISING.search(text(calls[0][0])):
            continue
        found = list(_expectations(calls, body, grammar)) or list(_opposites(calls))
        if found:
            yield around(statement.start_byte, statement.end_byte, "try { ", _AFTER, found)


_NESTED = frozenset(
    {"arrow_function", "function_expression", "function_declaration", "class_body",
     "generator_function", "generator_function_declaration", "method_definition"}
)  # fmt: skip
_THROWING = re.compile(r"(?:expect\(|assert\b)")
_PROMISING = re.compile(r"\)\s*\.\s*(?:resolves|rejects)\b")
_AFTER = (
    "; {name}c += {held}; }"
    " catch ({name}e) { {name}c += {failed};"
    " try { console.error(String({name}e)); } catch ({name}f) {} }"
)
# a difference, since TypeScript refuses to compare two numbers that it knows to differ
_ACCOUNT = "(!{name}c === !({number} - {other}) ? 0 : {number})"
