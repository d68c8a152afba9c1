"""Tests in Java: JUnit with its own assertions or AssertJ's."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from chimera.eval.kits.twins.cases import (
    Assertion,
    Case,
    Expectation,
    Insertion,
    Other,
    around,
    instead,
)
from chimera.eval.kits.twins.trees import (
    Grammar,
    descendants,
    end_of_block,
    expectations,
    outside,
    reaches_end,
    text,
    value_of,
    whole,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_ASSERTJ = {
    "isEqualTo", "containsExactly", "containsExactlyInAnyOrder", "containsOnly", "hasSize",
    "contains", "withMessage", "hasMessage", "containsOnlyOnce", "containsSequence",
    "containsExactlyElementsOf", "containsExactlyInAnyOrderElementsOf", "containsOnlyKeys",
    "hasSameElementsAs", "startsWith", "endsWith",
}  # fmt: skip
_MAKING = {"asList", "of", "singletonList", "singleton", "entry", "join"}
_PAIRS = (("isEqualTo", "isNotEqualTo"), ("isSameAs", "isNotSameAs"), ("isIn", "isNotIn"),
          ("isCloseTo", "isNotCloseTo"), ("matches", "doesNotMatch"),
          ("contains", "doesNotContain"), ("containsKey", "doesNotContainKey"),
          ("startsWith", "doesNotStartWith"), ("endsWith", "doesNotEndWith"),
          ("isGreaterThan", "isLessThanOrEqualTo"), ("isLessThan", "isGreaterThanOrEqualTo"),
          ("isTrue", "isFalse"), ("isNull", "isNotNull"), ("isEmpty", "isNotEmpty"),
          ("assertEquals", "assertNotEquals"), ("assertSame", "assertNotSame"),
          ("assertTrue", "assertFalse"), ("assertNull", "assertNotNull"),
          ("isPresent", "isNotPresent"), ("isZero", "isNotZero"))  # fmt: skip
_OPPOSITES = {**dict(_PAIRS), **{other: one for one, other in _PAIRS}}

#: An assertion: its name, and what is given.
Call = tuple["Node", list["Node"]]


def java_cases(root: Node, grammar: Grammar) -> Iterator[Case]:
    source = text(root)
    if "org.assertj" in source:
        check = "org.assertj.core.api.Assertions.assertThat({one}).isEqualTo({two});\n"
    elif "org.junit.jupiter" in source:
        check = "org.junit.jupiter.api.Assertions.assertEquals({one}, {two});\n"
    else:
        check = "org.junit.Assert.assertEquals({one}, {two});\n"
    for method in descendants(root):
        body = method.child_by_field_name("body")
        if method.type != "method_declaration" or body is None:
            continue
        test, calls = _is_test(method), list(_calls(descendants(body)))
        if not test and (not calls or _annotations(method)):
            continue
        found = list(_expectations(calls, body, grammar)) or list(_opposites(calls))
        returns = text(method.child_by_field_name("type")) != "void"
        whole_test = not returns and reaches_end(body, _NESTED)
        if not test and not found:
            continue
        yield Case(
            found,
            None if returns else end_of_block(body),
            check.format(one="{number}", two="{other}"),
            assertions=tuple(_assertions(body, grammar)) if whole_test else (),
            count=(body.start_byte + 1, " long {name}c = 0; "),
            account=check.format(one=_ACCOUNT, two="0"),
            once=tuple(_once(method, body)) if test else (),
            helper=not test,
            name=text(method.child_by_field_name("name")),
        )


def _once(method: Node, body: Node) -> Iterator[Insertion]:
    """A field of the file's class counts how often a test is entered that is run once. No class is
    named, since the answer's may have any name."""
    class_ = method.parent
    while class_ is not None and class_.parent is not None and class_.parent.parent is not None:
        class_ = class_.parent
    inside = class_ and class_.child_by_field_name("body")
    if inside and _annotations(method).isdisjoint({"ParameterizedTest", "RepeatedTest"}):
        number = f"{{name}}n{method.start_byte}"
        field = f" private static int {number}; "
        yield inside.start_byte + 1, inside.start_byte + 1, field
        entry = f" if ({number}++ > 0) throw null; /* entered again */ "
        yield body.start_byte + 1, body.start_byte + 1, entry


def _is_test(method: Node) -> bool:
    return bool({"Test", "ParameterizedTest", "RepeatedTest"} & _annotations(method))


def _annotations(method: Node) -> set[str]:
    return {
        text(annotation.child_by_field_name("name"))
        for modifiers in method.children
        if modifiers.type == "modifiers"
        for annotation in modifiers.children
        if annotation.type in ("marker_annotation", "annotation")
    }


def _calls(nodes: Iterable[Node]) -> Iterator[Call]:
    """Assertions, of JUnit or in AssertJ's chains."""
    for call in nodes:
        name, arguments = (call.child_by_field_name(field) for field in ("name", "arguments"))
        if call.type == "method_invocation" and name is not None and arguments is not None:
            chain = text(call.child_by_field_name("object"))
            if text(name).startswith("assert") or "assertThat" in chain.partition("(")[0]:
                yield name, arguments.named_children


def _expectations(calls: Iterable[Call], body: Node, grammar: Grammar) -> Iterator[Expectation]:
    for name, given in calls:
        if text(name) in _ASSERTJ and "doesNot" not in text(name.parent):
            found = [each for node in given for each in _expected(node, body, grammar)]
            if not found and text(name) == "isEqualTo" and len(given) == 1:
                found = [*_made(given[0], body, grammar)] or [*whole(given[0], True)]
            yield from found
        elif text(name) == "assertEquals" and len(given) >= 2:
            found = [*_expected(given[0], body, grammar)] or [*_made(given[0], body, grammar)]
            yield from found or whole(given[0], True)


def _expected(node: Node, body: Node, grammar: Grammar) -> Iterator[Expectation]:
    if node.type == "identifier":
        value = value_of(text(node), body)
        if value is not None:
            yield from _expected(value, body, grammar)
        elif (literal := _literal_of(text(node), body)) is not None:
            other, stands = grammar.literals.get(literal.type), literal.text or b""
            if other is not None:
                made = partial(_another, other, stands)
                yield Expectation(node.start_byte, node.end_byte, made)
    elif node.type == "field_access" and _CONSTANT.fullmatch(text(node)):
        if others := _constants(node):
            yield Expectation(node.start_byte, node.end_byte, partial(_one_of, others))
    elif node.type == "method_invocation":
        arguments = node.child_by_field_name("arguments")
        if text(node.child_by_field_name("name")) in _MAKING and arguments is not None:
            for argument in arguments.named_children:
                yield from _expected(argument, body, grammar)
    else:
        yield from expectations(node, grammar)


def _another(other: Other, stands: bytes, _: bytes, seed: random.Random) -> bytes:
    return other(stands, seed)


def _one_of(others: Sequence[bytes], _: bytes, seed: random.Random) -> bytes:
    return seed.choice(others)


def _literal_of(name: str, body: Node) -> Node | None:
    """The literal that a variable is set to, also where the test has it for more: another stands
    where it is compared."""
    for node in descendants(body):
        if node.type == "variable_declarator" and text(node.child_by_field_name("name")) == name:
            return node.child_by_field_name("value")
    return None


def _constants(node: Node) -> list[bytes]:
    """Others of the type that the file names: they exist."""
    type_, root = text(node.child_by_field_name("object")), _root(node)
    found = {text(each) for each in descendants(root) if each.type == "field_access"}
    others = (each for each in found if _CONSTANT.fullmatch(each))
    return sorted(e.encode() for e in others if e.rpartition(".")[0] == type_ and e != text(node))


_CONSTANT = re.compile(r"(?:[A-Z]\w*\.)+[A-Z][A-Z0-9_]*")


def _root(node: Node) -> Node:
    while node.parent is not None:
        node = node.parent
    return node


def _made(node: Node, body: Node, grammar: Grammar) -> Iterator[Expectation]:
    """Another object of a class, as the file makes it elsewhere: the answer's own can be equal to
    all of its class, and what it makes of anything else is for the answer to say. It is made where
    it is compared."""
    value = value_of(text(node), body) if node.type == "identifier" else node
    if value is None or value.type != "object_creation_expression" or value.text is None:
        return
    root = _root(body)
    type_ = text(value.child_by_field_name("type"))
    others = {
        each.text or b""
        for each in descendants(root)
        if each.type == value.type
        and text(each.child_by_field_name("type")) == type_
        and not any(n.type == "identifier" and text(n)[:1].islower() for n in descendants(each))
    }
    if found := sorted(others - {value.text}):
        yield Expectation(node.start_byte, node.end_byte, partial(_one_of, found))


def _opposites(calls: Iterable[Call]) -> Iterator[Expectation]:
    for name, given in calls:
        if text(name) == "assertThatExceptionOfType" and given:
            start, end = given[0].start_byte, given[0].end_byte
            yield Expectation(start, end, instead(_NEVER_THROWN))
        elif text(name) == "isEqualTo" and len(given) > 1:  # with an offset
            yield Expectation(name.start_byte, name.end_byte, instead(b"isNotCloseTo"))
        elif (other := _OPPOSITES.get(text(name))) is not None and (
            other not in _LAST or not _goes_on(name.parent)
        ):
            yield Expectation(name.start_byte, name.end_byte, instead(other.encode()))


def _goes_on(call: Node | None) -> bool:
    """Whether another call of its chain follows."""
    after = None if call is None else call.parent
    return after is not None and after.child_by_field_name("object") == call


#: What ends a chain, having no value.
_LAST = ("isNull", "isEmpty")
#: No class can be this and what is expected, unless the answer's own is expected.
_NEVER_THROWN = b"java.util.zip.DataFormatException.class"


def _assertions(body: Node, grammar: Grammar) -> Iterator[Assertion]:
    for statement in outside(body, _NESTED):
        if statement.type == "expression_statement":
            calls = list(_calls(outside(statement, _NESTED)))
            found = list(_expectations(calls, body, grammar)) or list(_opposites(calls))
            if found:
                yield around(statement.start_byte, statement.end_byte, "try { ", _AFTER, found)


_NESTED = frozenset({"lambda_expression", "class_body"})
_AFTER = (
    " {name}c += {held}; } catch (java.lang.Throwable {name}e)"
    " { {name}c += {failed}; try { java.lang.System.err.println({name}e); }"
    " catch (java.lang.Throwable {name}f) {} }"
)
_ACCOUNT = "({name}c == 0) == ({number} == {other}) ? 0 : {number}"
