"""The languages whose tests are read by the trees of tree-sitter's grammars."""

from __future__ import annotations

import importlib
import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from chimera.errors import EnvironmentFault
from chimera.eval.kits.twins import cpp, go, rust
from chimera.eval.kits.twins.cases import (
    Case,
    Insertion,
    edited,
    other_letter,
    other_number,
    other_text,
    other_truth,
)
from chimera.eval.kits.twins.java import java_cases
from chimera.eval.kits.twins.javascript import javascript_cases
from chimera.eval.kits.twins.trees import Grammar, text

if TYPE_CHECKING:
    from tree_sitter import Parser


def cases_of(language: str, source: bytes) -> tuple[list[Case], list[Insertion]]:
    """The tests of a file (none when its grammar finds it broken around them), and the lines that
    their assertions need at its head."""
    grammar = GRAMMARS[language]
    root = _parser(language).parse(source).root_node
    head = grammar.head(root)
    cases = list(grammar.cases(root, grammar))
    if all(case.helper for case in cases):
        return [], []
    if helpers := "|".join(re.escape(case.name) for case in cases if case.helper):
        called = re.compile(rf"\b(?:{helpers})\b[^;(]*\(".encode())
        cases = [
            replace(case, helped=called.search(source, case.count[0], case.place or 0) is not None)
            for case in cases
        ]
    return cases, [(head, head, grammar.opposites), (head, head, grammar.prologue)]


def renamed_variables(sources: Mapping[str, bytes], seed: random.Random) -> dict[str, bytes]:
    """Go's test files with other names for what they share: it is a package's, and the code under
    test, which is of the same, could set it before they run."""
    roots = {path: _parser("go").parse(source).root_node for path, source in sources.items()}
    names = {name for root in roots.values() for name in go.declared(root, "var_declaration")}
    names -= {"_", *(key for root in roots.values() for key in go.keys(root))}
    others = {name: f"{name}{seed.getrandbits(64):016x}".encode() for name in sorted(names)}
    return {
        path: edited(
            source,
            [
                (node.start_byte, node.end_byte, others[text(node)])
                for node in go.identifiers(roots[path])
                if text(node) in others
            ],
        )
        for path, source in sources.items()
    }


def words_held(sources: Mapping[str, bytes], reference: Iterable[bytes]) -> dict[str, bytes]:
    """A file for each package of Go's tests, beside which no other file of that package can give
    the words that the tests use a meaning of their own, `nil` for one: the compiler refuses it, and
    nobody else reads what an answer wrote. What the tests or the reference declare is theirs."""
    parse = _parser("go").parse
    roots = {path: parse(source).root_node for path, source in sources.items()}
    known = [*roots.values(), *(parse(source).root_node for source in reference)]
    words = go.UNIVERSE.difference(*(go.declared(root, *go.DECLARING) for root in known))
    words &= {text(node) for root in roots.values() for node in go.identifiers(root)}
    tests = {path: root for path, root in roots.items() if path.endswith("_test.go")}
    packages = {(path.rpartition("/")[0], go.package(root)): path for path, root in tests.items()}
    return {
        path.removesuffix("_test.go") + "_words_test.go": go.file_of_words(package, sorted(words))
        for (_, package), path in packages.items()
        if words and package
    }


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
        "tree_sitter_javascript", _JAVASCRIPT, _JAVASCRIPT_CONTAINERS, javascript_cases
    ),
    "typescript": Grammar(
        "tree_sitter_typescript",
        _JAVASCRIPT,
        _JAVASCRIPT_CONTAINERS,
        javascript_cases,
        "language_typescript",
    ),
    "tsx": Grammar(
        "tree_sitter_typescript",
        _JAVASCRIPT,
        _JAVASCRIPT_CONTAINERS,
        javascript_cases,
        "language_tsx",
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
        java_cases,
    ),
    "go": Grammar("tree_sitter_go", {}, frozenset(), go.go_cases),
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
        rust.rust_cases,
        prologue=rust.PROLOGUE,
        opposites=rust.OPPOSITES,
        head=rust.head,
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
        cpp.cpp_cases,
        prologue=cpp.PROLOGUE,
        opposites=cpp.OPPOSITES,
        head=cpp.head,
    ),
}
