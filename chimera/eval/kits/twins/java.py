"""Tests in Java: JUnit with its own assertions or AssertJ's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from chimera.eval.kits.twins.cases import Assertion, Case, Expectation, Insertion, around, instead
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
    "contains", "withMessage", "hasMessage",
}  # fmt: skip
_MAKING = {"asList", "of", "singletonList", "singleton", "entry", "join"}
_PAIRS = (("isTrue", "isFalse"), ("isNull", "isNotNull"), ("isEmpty", "isNotEmpty"),
          ("assertTrue", "assertFalse"), ("assertNull", "assertNotNull"),
          ("isPresent", "isNotPresent"))  # fmt: skip
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
        if method.type != "method_declaration" or body is None or not _is_test(method):
            continue
        calls = list(_calls(descendants(body)))
        found = list(_expectations(calls, body, grammar)) or list(_opposites(calls))
        whole_test = reaches_end(body, _NESTED)
        yield Case(
            found,
            end_of_block(body),
            check.format(one="{number}", two="{other}"),
            assertions=tuple(_assertions(body, grammar)) if whole_test else (),
            count=(body.start_byte + 1, " long {name}c = 0; "),
            account=check.format(one=_ACCOUNT, two="0"),
            once=tuple(_once(method, body)),
        )


def _once(method: Node, body: Node) -> Iterator[Insertion]:
    """A field of the file's class counts how often a test is entered that is run once."""
    class_ = method.parent
    while class_ is not None and class_.parent is not None and class_.parent.parent is not None:
        class_ = class_.parent
    inside = class_ and class_.child_by_field_name("body")
    if inside and _annotations(method).isdisjoint({"ParameterizedTest", "RepeatedTest"}):
        number = f"{{name}}n{method.start_byte}"
        counter = "java.util.concurrent.atomic.AtomicInteger"
        field = f" private static final {counter} {number} = new {counter}(); "
        yield inside.start_byte + 1, inside.start_byte + 1, field
        again = 'throw new java.lang.IllegalStateException("entered again");'
        entry = f" if ({number}.getAndIncrement() > 0) {again} "
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
            if not found and text(name) == "isEqualTo":
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
    elif node.type == "method_invocation":
        arguments = node.child_by_field_name("arguments")
        if text(node.child_by_field_name("name")) in _MAKING and arguments is not None:
            for argument in arguments.named_children:
                yield from _expected(argument, body, grammar)
    else:
        yield from expectations(node, grammar)


def _made(node: Node, body: Node, grammar: Grammar) -> Iterator[Expectation]:
    """Another object of a class, as the file makes it elsewhere: the answer's own can be equal to
    all of its class, and what it makes of anything else is for the answer to say. It is made where
    it is compared."""
    value = value_of(text(node), body) if node.type == "identifier" else node
    if value is None or value.type != "object_creation_expression" or value.text is None:
        return
    root = body
    while root.parent is not None:
        root = root.parent
    type_ = text(value.child_by_field_name("type"))
    others = {
        each.text or b""
        for each in descendants(root)
        if each.type == value.type
        and text(each.child_by_field_name("type")) == type_
        and not any(n.type == "identifier" and text(n)[:1].islower() for n in descendants(each))
    }
    if found := sorted(others - {value.text}):
        yield Expectation(node.start_byte, node.end_byte, lambda _, seed: seed.choice(found))


def _opposites(calls: Iterable[Call]) -> Iterator[Expectation]:
    for name, _ in calls:
        if (other := _OPPOSITES.get(text(name))) is not None:
            yield Expectation(name.start_byte, name.end_byte, instead(other.encode()))


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
