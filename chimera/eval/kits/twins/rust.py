"""Tests in Rust: attributes stand before a function, and what macros get is a tree of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    expectations,
    outside,
    reaches_end,
    text,
    value_of,
)

if TYPE_CHECKING:
    from tree_sitter import Node

#: The use of a macro: its name, and the tokens that it is given.
Macro = tuple["Node", "Node"]


@dataclass(frozen=True, slots=True)
class Known:
    """What a file's tests share: the names of its functions; by where a text is that is given to a
    function, the others that the file gives to the same one; and by function which of its
    parameters it compares something with."""

    helpers: frozenset[str]
    others: Mapping[int, Sequence[bytes]]
    wanted: Mapping[str, frozenset[int]]

    @classmethod
    def of(cls, root: Node) -> Known:
        nodes = list(descendants(root))
        functions = [n for n in nodes if n.type == "function_item" and not _attributes(n)]
        named = {text(each.child_by_field_name("name")): each for each in functions}
        wanted = {name: places for name, f in named.items() if (places := _wanted(f))}
        given = {n: key for n in nodes if n.type == "string_literal" if (key := _given_to(n))}
        texts: dict[tuple[str, int], set[bytes]] = {}
        for node, key in given.items():
            texts.setdefault(key, set()).add(node.text or b"")
        others = {n.start_byte: sorted(texts[key] - {n.text or b""}) for n, key in given.items()}
        return cls(frozenset(named), others, wanted)


def _wanted(function: Node) -> frozenset[int]:
    """The places of the parameters that are a whole side of an equality in its body."""
    parameters = function.child_by_field_name("parameters")
    given = [] if parameters is None else parameters.named_children
    names = [text(each.child_by_field_name("pattern")) for each in given]
    equalities = _equalities(_macros(descendants(function)))
    sides = [side for tokens in equalities for side in _sides(tokens)[:2]]
    compared = {"".join(map(text, side)).lstrip("&*") for side in sides}
    return frozenset(place for place, name in enumerate(names) if name in compared)


def _given(body: Node, grammar: Grammar, known: Known) -> Iterator[Expectation]:
    """What a test gives to a function that compares something with it."""
    for call in descendants(body):
        arguments = call.child_by_field_name("arguments")
        if call.type == "call_expression" and arguments is not None:
            given = [each for each in arguments.named_children if "comment" not in each.type]
            places = known.wanted.get(text(call.child_by_field_name("function")), frozenset())
            for place in sorted(places):
                yield from _value(given[place : place + 1], body, grammar) or ()


def _given_to(node: Node) -> tuple[str, int] | None:
    """The function that it is given to, and as which argument."""
    arguments = node.parent
    if arguments is not None and arguments.type == "reference_expression":
        arguments = arguments.parent
    function = arguments and arguments.prev_sibling
    if arguments is None or function is None or not function.is_named:
        return None
    before = (each for each in arguments.children if each.end_byte <= node.start_byte)
    return text(function).rpartition("::")[2], sum(each.type == "," for each in before)


def rust_cases(root: Node, grammar: Grammar) -> Iterator[Case]:
    known = Known.of(root)
    for function in descendants(root):
        body = function.child_by_field_name("body")
        if function.type != "function_item" or body is None:
            continue
        if not any(name.endswith(_TESTS) for name in _attributes(function)):
            continue
        macros = list(_macros(descendants(body)))
        panics = list(_panics(function))
        given = _given(body, grammar, known)
        found = panics or [*_expected(macros, body, grammar, known), *given]
        returns = function.child_by_field_name("return_type") is not None
        whole_test = not panics and not returns and reaches_end(body, _NESTED)
        alone = tuple(_assertions(body, grammar, known)) if whole_test else ()
        yield Case(
            found,
            _before_value(body, alone),
            "\n::std::assert_eq!({number}, {other});\n",
            assertions=alone,
            count=(body.start_byte + 1, " let mut {name}c = 0_i64; "),
            account=f"\n::std::assert_eq!({_ACCOUNT}, 0);\n",
            once=_once(function, body),
        )


_TESTS = ("test", "test_case")


def _once(function: Node, body: Node) -> Sequence[Insertion]:
    """For a function that is not a test for each line of a table."""
    parameters = function.child_by_field_name("parameters")
    table = any(name.endswith("test_case") for name in _attributes(function))
    if table or (parameters is not None and parameters.named_children):
        return ()
    return ((body.start_byte + 1, body.start_byte + 1, _ENTRY),)


_ENTRY = (
    " #[allow(non_upper_case_globals)] static {name}n: ::std::sync::atomic::AtomicUsize"
    " = ::std::sync::atomic::AtomicUsize::new(0);"
    " if {name}n.fetch_add(1, ::std::sync::atomic::Ordering::SeqCst) > 0"
    ' { ::std::panic!("entered again") } '
)


def _attributes(function: Node) -> list[str]:
    """Their names, without what they are given."""
    marks = (text(node).removeprefix("#[").removesuffix("]") for node in _before(function))
    return [mark.partition("(")[0].strip() for mark in marks]


def _before(function: Node) -> Iterator[Node]:
    """The attributes of a function."""
    before = function.prev_sibling
    while before is not None and before.type in ("attribute_item", "line_comment"):
        if before.type == "attribute_item":
            yield before
        before = before.prev_sibling


def _panics(function: Node) -> Iterator[Expectation]:
    """That a test must panic, which it need not in the twin."""
    for attribute in _before(function):
        if text(attribute).startswith("#[should_panic"):
            yield Expectation(attribute.start_byte, attribute.end_byte, instead(b""))


def _before_value(block: Node, alone: Sequence[Assertion]) -> int:
    """The end of a block, or the place before the expression that is its value."""
    statements = [child for child in block.named_children if "comment" not in child.type]
    if statements and not statements[-1].type.endswith(("statement", "declaration", "item")):
        value = statements[-1]
        if value.end_byte not in [each.end for each in alone]:
            return int(value.start_byte)
    return int(block.end_byte) - 1


def _macros(nodes: Iterable[Node]) -> Iterator[Macro]:
    for macro in nodes:
        named = macro.child_by_field_name("macro") if macro.type == "macro_invocation" else None
        if named is not None:
            yield from ((named, child) for child in macro.children if child.type == "token_tree")


def _expected(
    macros: Sequence[Macro], body: Node, grammar: Grammar, known: Known
) -> Sequence[Expectation]:
    """What assertions expect, else what of that is a text inside, since a value of its own type can
    be equal to whatever it is asked about; else their opposites."""
    return (
        list(_expectations(macros, body, grammar))
        or list(_made(macros, body, grammar, known))
        or list(_opposites(macros))
    )


def _expectations(macros: Iterable[Macro], body: Node, grammar: Grammar) -> Iterator[Expectation]:
    for tokens in _equalities(macros):
        sides = [_value(side, body, grammar) for side in _sides(tokens)[:2]]
        known = [side for side in sides if side is not None]
        if len(known) == 1:
            yield from known[0]


def _made(
    macros: Iterable[Macro], body: Node, grammar: Grammar, known: Known
) -> Iterator[Expectation]:
    """The texts that functions of the file, or constructors, make a second value of. Others are
    those that the file gives them elsewhere: what they make of any other is for the answer to
    say."""
    for tokens in _equalities(macros):
        found = _value(_sides(tokens)[1], body, grammar, known.helpers | {"new", "from"}) or ()
        for each in found:
            if others := known.others.get(each.start):
                yield Expectation(each.start, each.end, _one_of(others))


def _one_of(others: Sequence[bytes]) -> Other:
    return lambda text, seed: seed.choice(others)


def _equalities(macros: Iterable[Macro]) -> Iterator[Node]:
    return (
        tokens for name, tokens in macros if text(name) == "assert_eq" and len(_sides(tokens)) > 1
    )


def _opposites(macros: Iterable[Macro]) -> Iterator[Expectation]:
    for name, _ in macros:
        if (other := _PAIRS.get(text(name))) is not None:
            yield Expectation(name.start_byte, name.end_byte, instead(other))


_PAIRS = {"assert": b"assert_not", "assert_eq": b"assert_ne", "assert_ne": b"assert_eq"}


def _assertions(body: Node, grammar: Grammar, known: Known) -> Iterator[Assertion]:
    """Macros that are statements; the last one may be without a semicolon."""
    for macro in outside(body, _NESTED):
        statement = macro.parent
        if macro.type != "macro_invocation" or statement is None or "await" in text(macro):
            continue
        if statement.type == "block":
            statement = macro
        if statement.type not in ("expression_statement", "macro_invocation"):
            continue
        found = _expected(list(_macros([macro])), body, grammar, known)
        if found:
            yield around(statement.start_byte, statement.end_byte, _BEFORE, _AFTER, found)


_NESTED = frozenset({"closure_expression", "function_item", "async_block"})
_BEFORE = "match ::std::panic::catch_unwind(::std::panic::AssertUnwindSafe(|| { {name}_"
_AFTER = " })) { ::std::result::Result::Ok(true) => {name}c += {held}, _ => {name}c += {failed} }"
_ACCOUNT = "if ({name}c == 0) == ({number} == {other}) { 0 } else { {number} }"


def head(root: Node) -> int:
    """Where lines can be put before all else: after what is said of the file as a whole."""
    inner = [
        node.end_byte
        for node in root.children
        if node.type == "inner_attribute_item" or text(node).startswith(("//!", "/*!"))
    ]
    return max(inner, default=0)


def _macro(
    name: str, pattern: str, asked: str, given: str, message: str, own: str = ""
) -> Iterator[str]:
    """An assertion as a function's value, and in place of the one that panics. Neither formats
    what was compared: that an answer's `Debug` panics, or never ends, is not asked. The language's
    own is compiled, and never called, so that it refuses whatever it refuses."""
    more = "$(, $($more:tt)*)?"
    own = f"if false {{ ::std::{own or name}!({given} $(, $($more)*)?) }}"
    said = f'::std::panic!("{message}: {{}}", ::std::stringify!({pattern.replace(":expr", "")}))'
    for made, result in (
        (f"{{name}}_{name}", "return {}"),
        (name, f"if !{{}} {{{{ {said.replace('{}', '{{}}')} }}}}"),
    ):
        value = result.format(asked.replace("OWN", own))
        yield "#[allow(unused_macros)]"
        yield f"macro_rules! {made} {{ ({pattern} {more}) => {{ {value} }} }}"


_PAIR = "$left:expr, $right:expr"
_COMPARED = "(match (&$left, &$right) {{ (left, right) => {{ OWN {}(*left == *right) }} }})"

#: Another prelude: assertions in the file are these, whose panics say what stands in the source.
PROLOGUE = "\n" + "".join(
    f"{line}\n"
    for macro in (
        _macro("assert_eq", _PAIR, _COMPARED.format(""), "*left, *right",
               "assertion `left == right` failed"),
        _macro("assert_ne", _PAIR, _COMPARED.format("!"), "*left, *right",
               "assertion `left != right` failed"),
        _macro("assert", "$held:expr", "(match $held { held => { OWN !!held } })", "held",
               "assertion failed"),
        _macro("assert_not", "$held:expr", "(match $held { held => { OWN !held } })", "held",
               "assertion failed: not", "assert"),
    )
    for line in macro
)  # fmt: skip


OPPOSITES = (
    "\n#[allow(unused_macros)]\nmacro_rules! assert_not {"
    " ($held:expr $(, $($more:tt)*)?) => { ::std::assert!(!$held $(, $($more)*)?) } }\n"
)
_MAKING = frozenset({"from", "to_string", "to_owned", "to_vec", "into", "vec", "as_ref"})
_PARTS = frozenset(
    {"token_tree", "reference_expression", "array_expression", "tuple_expression",
     "unary_expression", "call_expression", "arguments", "field_expression", "scoped_identifier",
     "macro_invocation", "struct_expression", "field_initializer_list", "field_initializer",
     "type_identifier", "field_identifier", "primitive_type"}
)  # fmt: skip


def _value(
    nodes: list[Node], body: Node, grammar: Grammar, helpers: frozenset[str] = frozenset()
) -> list[Expectation] | None:
    """The literals of what is built of literals alone; None for what calls or names others, but for
    helpers, beside which variables are not looked up."""
    found: list[Expectation] = []
    for node in nodes:
        if node.type in ("identifier", "field_identifier"):
            name = text(node)
            if name in helpers:
                continue
            if name[:1].isupper() or (name in _MAKING and not _is_constructor(node)):
                continue
            value = None if helpers else value_of(name, body)
            inside = None if value is None else _value([value], body, grammar)
        elif node.type in grammar.literals:
            inside = list(expectations(node, grammar))
        elif node.type in _PARTS:
            inside = _value(node.children, body, grammar, helpers)
        else:
            inside = None if node.is_named else []
        if inside is None:
            return None
        found += inside
    return found


def _is_constructor(node: Node) -> bool:
    """Whether it makes an object of a type that is not the language's."""
    colons = node.prev_sibling
    type_ = colons.prev_sibling if colons is not None and text(colons) == "::" else None
    return type_ is not None and text(type_).partition("<")[0] not in _STANDARD


_STANDARD = frozenset({"String", "Vec", "HashMap", "HashSet", "BTreeMap", "BTreeSet", "VecDeque"})


def _sides(tokens: Node) -> list[list[Node]]:
    """What stands between the commas of a macro."""
    sides: list[list[Node]] = [[]]
    for token in tokens.children[1:-1]:
        if token.type == ",":
            sides.append([])
        else:
            sides[-1].append(token)
    return [side for side in sides if side]
