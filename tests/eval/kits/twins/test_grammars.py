"""Twins in other languages: which texts change, and that the true form keeps every value."""

from __future__ import annotations

import random
import re

import pytest

from chimera.eval.kits.twins import rewritten
from chimera.eval.kits.twins.cases import Half, other_number
from chimera.eval.kits.twins.grammars import renamed_variables, words_held

CASES = [
    ("a.spec.js", "test('a', () => {\n  expect(f(1)).toEqual([2, {k: 'x'}]);\n});\n", 1),
    ("a.spec.js", "it('a', function () {\n  expect(() => f()).toThrow();\n});\n", 1),
    ("a.spec.js", "test('a', () => {\n  expect(f(1)).toEqual(['']);\n});\n", 1),
    ("a.spec.js", "test('a', () => expect(f(1)).toEqual(2));\n", 1),
    ("a.spec.js", "test('a', () => expect(f(1)).toBeNull());\n", 1),
    ("a.spec.js", "test('a', () => {\n  return expect(f(1)).rejects.toThrow();\n});\n", 1),
    ("a.spec.js", "it.each([[1, 2]])('a', (x, y) => {\n  expect(f(x) - f(1)).toBe(y);\n});\n", 1),
    ("a.spec.js", "test.each`x\n${1}`('a', async ({x}) => {\n  await f(1) === x;\n});\n", 1),
    ("a.test.ts", "it('a', () => {\n  assert.strictEqual(f(1), 2);\n});\n", 1),
    ("ATest.java", 'class A { @Test void a() { assertThat(f(1)).isEqualTo("x"); } }\n', 1),
    ("ATest.java", "class A { @Test public void a() { assertTrue(f(1)); } }\n", 1),
    ("a_test.go", "package a\nfunc TestA(t *testing.T) {\n\tf(1)\n}\n", 1),
    ("a_test.go", "package a\nfunc TestA(t *testing.T) {\n\tif f(1) != 2 { t.Fatal() }\n}\n", 1),
    ("a_test.go", "package a\nfunc TestA(t *testing.T) {\n\tif f(1) { t.Error() }\n}\n", 1),
    ("a.rs", "#[test]\n#[ignore]\nfn a() {\n    assert_eq!(f(1), 2);\n}\n", 1),
    ("a.rs", "#[test]\nfn a() -> R {\n    assert!(f(1));\n    Ok(())\n}\n", 1),
    ("a.rs", '#[tokio::test(flavor = "x")]\nasync fn a() {\n    assert!(f(1));\n}\n', 1),
    ("a.rs", "#[test]\n#[should_panic]\nfn a() {\n    f(1);\n}\n", 1),
    ("a.rs", "#[test]\nfn a() {\n    let e = Some(vec![2]);\n    assert_eq!(f(1), e);\n}\n", 1),
    ("a.rs", "#[test]\nfn a() {\n    assert_eq!(f(1), g());\n}\n", 1),
    ("ATest.java", "class A { @Test void a() { assertThat(f(1)).isEqualTo(g()); } }\n", 1),
    ("a_test.cpp", 'TEST_CASE("a") {\n    int e{2};\n    REQUIRE(e == f(1));\n}\n', 1),
    ("a_test.cpp", 'TEST_CASE("a") {\n    REQUIRE(f(1));\n}\n', 1),
    ("a_test.cpp", 'TEST_CASE("a") {\n    REQUIRE(f(1) == -2);\n}\n', 1),
    ("a_test.cpp", 'TEST_CASE("a") {\n    REQUIRE_THROWS_AS(f(1), E);\n}\n', 1),
]


@pytest.mark.parametrize(("path", "source", "twinned"), CASES)
def test_a_twin_differs_where_the_true_form_does_not(path: str, source: str, twinned: int):
    forms = [
        rewritten(path, source.encode(), twin=twin, seed=random.Random(3)) for twin in (False, True)
    ]
    true, twin = (form for form in forms if form is not None)

    assert (true.tests, true.twinned, twin.twinned) == (1, twinned, twinned)
    assert "f(1)" in twin.content.decode() or "f()" in twin.content.decode()
    assert (_body(true.content) == _body(twin.content)) is (twinned == 0)
    assert true.content.count(b"\n") == twin.content.count(b"\n")


def _body(content: bytes) -> bytes:
    return content.rpartition(b"\n//")[0]


@pytest.mark.parametrize(("path", "source", "twinned"), CASES)
def test_a_test_that_is_entered_again_ends_but_for_tables(path: str, source: str, twinned: int):
    made = rewritten(path, source.encode(), twin=True, seed=random.Random(3), once=True)

    assert made is not None
    assert (b"entered again" in made.content) is (".each" not in source)


def test_what_is_asked_stays_and_what_is_expected_changes():
    source = b"test('a', () => {\n  expect(f(1, 'in')).toBe('out');\n});\n"
    twin = rewritten("a.spec.js", source, twin=True, seed=random.Random(5))

    assert twin is not None
    assert b"f(1, 'in')" in twin.content
    assert b"'out'" not in twin.content


def test_a_java_test_expects_another_object_of_those_that_the_file_makes():
    source = b"""\
class A {
    @Test void a() {
        Rational made = new Rational(7, 6);
        assertThat(f(1)).isEqualTo(made);
    }
    @Test void b() { assertEquals(new Node(), f(1)); }
    @Test void c() { f(new Rational(x, 4)); assertThat(f(2)).isEqualTo(new Rational(2, 3)); }
}
"""
    twin = rewritten("ATest.java", source, twin=True, seed=random.Random(5))

    assert twin is not None
    assert b"Rational made = new Rational(7, 6);" in twin.content
    assert b"isEqualTo(new Rational(2, 3))" in twin.content
    assert b"f(new Rational(x, 4))" in twin.content
    assert b"isEqualTo(new Rational(7, 6))" in twin.content
    assert re.search(rb'assertEquals\("\w+", f\(1\)\)', twin.content)


def test_a_rust_test_expects_what_helpers_make_of_another_text_of_the_file():
    source = b"""\
fn number(text: &str) -> Number { text.parse().unwrap() }
#[test]
fn a() {
    assert_eq!(number("1") + number(&"2"), number("3"), "why");
    assert_eq!(other(x), x);
}
#[test]
fn b() {
    assert_eq!(f(1), Number::from("5"));
    assert_eq!(f(1), String::from("5"));
}
"""
    twin = rewritten("a.rs", source, twin=True, seed=random.Random(5))

    assert twin is not None
    assert re.search(rb'number\("1"\) \+ number\(&"2"\), number\("[12]"\)', twin.content)
    assert b'assert_eq!(f(1), Number::from("5"))' in twin.content
    assert re.search(rb'String::from\("5\w{5}"\)', twin.content)


def test_what_constructors_are_given_stays_in_javascript_unless_they_are_its_own():
    source = b"""\
import { Rational, Set } from './a';
test('a', () => {
  const made = [new Rational(7, 6)];
  expect(f(1)).toEqual(made);
  expect(f(2)).toEqual(new Set([1]));
  expect(f(3)).toEqual(new Map([[1, 2]]));
});
"""
    twin = rewritten("a.spec.js", source, twin=True, seed=random.Random(5))

    assert twin is not None
    assert re.search(
        rb"\[Object.assign\(new Rational\(7, 6\), \{ message: \"(\w+)\", \"\1\": 1 \}\)\]",
        twin.content,
    )
    assert b"Object.assign(new Set([1])," in twin.content
    assert re.search(rb"new Map\(\[\[(?!1, 2)\d+, \d+\]\]\)", twin.content)


@pytest.mark.parametrize(
    "number",
    ["0", "7", "-4", ".5", "255", "0x0", "0xff_u8", "0b101", "4_294_967_295", "1'000", "0.5", "3n"],
)
def test_another_number_is_written_alike(number: str):
    other = other_number(number.encode(), random.Random(1)).decode()

    assert other != number
    assert len(other) <= len(number) + 1


def test_nothing_is_put_before_what_cpp_tests_include():
    """It would lend a header what it forgot, and hide what the compiler says of it."""
    included = (
        '#include "a.h"\n#ifdef X\n#include <catch2/catch.hpp>\n#else\n#include "c.hpp"\n#endif'
    )
    test = '#ifdef ALL\nTEST_CASE("a") {\n    REQUIRE(f(1) == 2);\n}\n#endif\n'
    for twin in (False, True):
        made = rewritten(
            "a_test.cpp", f"{included}\n\n{test}".encode(), twin=twin, seed=random.Random(1)
        )
        assert made is not None
        before, _, after = made.content.decode().partition("\n#include <iostream>\n")
        assert included in before
        assert "TEST_CASE" not in before
        assert "TEST_CASE" in after


SEVERAL = [
    ("a.spec.js", "it('a', () => {\n  expect(f(1)).toBe(2);\n  expect(f(2)).toBe('x');\n});\n"),
    ("a.spec.js", "it('a', () => {\n  expect(f(1)).toBeNull();\n  expect(g()).toBeNaN();\n});\n"),
    ("ATest.java", 'class A { @Test void a() { assertEquals(1, f()); assertEquals("", g()); } }\n'),
    ("a.rs", "#[test]\nfn a() {\n    assert_eq!(f(1), 2);\n    assert_eq!(f(2), 3);\n}\n"),
    ("a.rs", "#[test]\nfn a() {\n    assert!(f(1));\n    assert!(f(2));\n}\n"),
    ("a_test.go", "package a\nfunc TestA(t *testing.T) {\n\tif f(1) && g(1) { t.Fatal() }\n"
     "\tif f(2) || g(2) { t.Fatal() }\n}\n"),
    ("a_test.cpp", 'TEST_CASE("a") {\n    REQUIRE(f(1) == 2);\n    REQUIRE(f(2) == 3);\n}\n'),
]  # fmt: skip


def form(path: str, source: str, *, choice: int | None, plain: bool = False) -> bytes:
    made = rewritten(
        path,
        source.encode(),
        twin=True,
        seed=random.Random(1),
        choice=choice,
        values=5,
        plain=plain,
    )
    assert made is not None
    return _body(made.content)


@pytest.mark.parametrize(("path", "source"), SEVERAL)
def test_a_choice_changes_one_expectation_of_a_plain_form_and_may_fall_on_each(path, source):
    """Code that forges one of two is found by half of the choices."""
    true = rewritten(path, source.encode(), twin=False, seed=random.Random(1), plain=True)
    assert true is not None
    forms = {form(path, source, choice=choice, plain=True) for choice in range(30)}

    assert len(forms) == 2
    assert not forms & {_body(true.content), form(path, source, choice=None, plain=True)}


@pytest.mark.parametrize(("path", "source"), [each for each in SEVERAL if each[0] != "a_test.go"])
def test_all_assertions_that_stand_alone_change_at_once(path: str, source: str):
    """Whatever the choice: where one of them holds in spite of it, the test ends with success.
    What counts them is drawn anew each time."""
    assert len({form(path, source, choice=choice) for choice in range(30)}) == 1


ONE_LEFT = [
    "it('a', (done) => {\n  expect(f(1)).toBe(2);\n  expect(f(2)).toBe(3);\n});\n",
    "it('a', () => {\n  expect.assertions(2);\n  expect(f(1)).toBe(2);\n"
    "  expect(f(2)).toBe(3);\n});\n",
    "it('a', () => {\n  expect(f(1)).resolves.toBe(2);\n  expect(f(2)).toBe(3);\n});\n",
    "it('a', () => {\n  g(() => { expect(f(1)).toBe(2); });\n  expect(f(2)).toBe(3);\n});\n",
    "it('a', () => {\n  expect(f(1)).toBe(2);\n  return expect(f(2)).resolves.toBe(3);\n});\n",
    "it('a', () => {\n  t.is(f(1), 2);\n  expect(f(2)).toBe(3);\n});\n",
]


@pytest.mark.parametrize("source", ONE_LEFT)
def test_what_cannot_stand_alone_is_chosen_by_itself(source: str):
    """A test that says when it is over or counts its assertions, promises nobody waits for, other
    functions, and assertions that do not throw."""
    assert len({form("a.spec.js", source, choice=choice) for choice in range(30)}) == 2


def test_what_only_has_the_name_of_an_assertion_stays():
    source = b"class A { @Test void a() { assertThat(s.contains(1)).isTrue(); } }"
    twin = rewritten("ATest.java", source, twin=True, seed=random.Random(5))

    assert twin is not None
    assert b"assertThat(s.contains(1)).isFalse()" in twin.content


@pytest.mark.parametrize("number", range(20))
def test_what_one_half_keeps_the_other_changes(number: int):
    """Of the tests, and of the assertions in each of them."""
    tests = "".join(
        f"it('{name}', () => {{\n  expect(f(1)).toBe({one});\n  expect(f(2)).toBe({two});\n}});\n"
        for name, one, two in (("a", 12, 13), ("b", 14, 15))
    )
    kept, fails = [], []
    for half in (Half(number), Half(number, second=True)):
        made = rewritten(
            "a.spec.js", tests.encode(), twin=True, seed=random.Random(1), half=half, choice=0
        )
        assert made is not None
        kept.append({each for each in range(12, 16) if b"toBe(%d)" % each in made.content})
        numbers = re.findall(rb"\((\d+) - (\d+)\) \?", made.content)
        fails.append([one != other for one, other in numbers])

    assert kept[0] | kept[1] == {12, 13, 14, 15}
    assert not kept[0] & kept[1]
    assert all(len(each & {12, 13}) == len(each & {14, 15}) == 1 for each in kept)
    assert sorted(fails) == [[False, True], [True, False]]


def test_variables_that_go_tests_share_have_other_names():
    """Those of fields stay, and what is not declared for the whole package."""
    table = b"package a\n\nvar table, other = []row{{key: 1}}, 2\nvar key = 3\n"
    tests = (
        b"package a\nfunc TestA(t *testing.T) {\n\tfor _, c := range table { f(c.table, key) }\n}\n"
    )

    made = renamed_variables({"a.go": table, "b.go": tests}, random.Random(1))

    (name,) = set(re.findall(rb"table[0-9a-f]{16}", made["a.go"] + made["b.go"]))
    assert made["b.go"] == tests.replace(b"range table", b"range " + name)
    assert re.fullmatch(rb"other[0-9a-f]{16}", made["a.go"].split()[4])
    assert made["a.go"].endswith(b"= []row{{key: 1}}, 2\nvar key = 3\n")


def test_words_of_go_that_tests_use_are_imports_of_their_package():
    tests = (
        b"package a\nfunc TestA(t *testing.T) {\n\tif f() != nil || len(a) > 0 { t.Fatal() }\n}\n"
    )
    table = b"package a\nfunc len(x int) int { return x }\n"

    made = words_held({"a_test.go": tests, "table.go": table}, [])
    (held,) = words_held({"a_test.go": tests}, [b"package a\nvar nil = 3\n"]).values()

    assert re.findall(rb'\t(\w+) "strings"', made["a_words_test.go"]) == [b"int", b"nil"]
    assert re.findall(rb'\t(\w+) "strings"', held) == [b"len"]


HELPERS = [
    (
        "ATest.java",
        "class A { void asked(int x, int y) { assertThat(f(x)).isCloseTo(y, z); }"
        " @Test void a() { asked(1, 2); } }\n",
        b"isNotCloseTo",
    ),
]


def test_what_a_cpp_function_compares_with_changes_where_it_is_given():
    source = b"""\
template <typename T> static void asked(const tree<T>& it, const T& data, bool left) {
    REQUIRE(data == it->data());
    REQUIRE((bool) it->left() == left);
}
TEST_CASE("a") {
    auto tested = make({4});
    asked<int>(tested, 4, false);
}
"""
    twin = rewritten("a_test.cpp", source, twin=True, seed=random.Random(3))

    assert twin is not None
    assert (twin.tests, twin.at_end) == (1, 0)
    assert re.search(rb"asked<int>\(tested, (?!4)\d+, true\)", twin.content)
    assert b"make({4})" in twin.content


def test_what_a_rust_function_compares_with_changes_where_it_is_given():
    source = b"""\
fn asked(given: &str, wanted: &[&str]) {
    assert_eq!(f(given), wanted);
}
#[test]
fn a() {
    asked("1", &["2"]);
}
"""
    twin = rewritten("a.rs", source, twin=True, seed=random.Random(3), choice=1)

    assert twin is not None
    assert (twin.tests, twin.at_end) == (1, 0)
    assert re.search(rb'asked\("1", &\["2\w+"\]\)', twin.content)
    assert b"assert_eq!(f(given), wanted)" in twin.content


@pytest.mark.parametrize(("path", "source", "opposite"), HELPERS)
def test_functions_that_assert_for_tests_change_too(path: str, source: str, opposite: bytes):
    twin = rewritten(path, source.encode(), twin=True, seed=random.Random(3), choice=1)

    assert twin is not None
    assert (twin.tests, twin.twinned, twin.at_end) == (1, 1, 0)
    assert opposite in twin.content.partition(b"asked")[2]


ASSERTED = [
    ("a_test.cpp", 'TEST_CASE("a") {\n    REQUIRE_THROWS_AS(f(1), E);\n}\n', b"AS_NOT"),
    ("a_test.cpp", 'TEST_CASE("a") {\n    REQUIRE_NOTHROW(f(1));\n}\n', b"NOTHROW_NOT"),
    ("ATest.java", "class A { @Test void a() { assertThatExceptionOfType(E.class)"
     ".isThrownBy(() -> f(1)); } }\n", b"DataFormatException.class"),
    ("ATest.java", "class A { @Test void a() { String e = \"x\"; assertThat(f(e))"
     ".containsExactly(e); } }\n", b'containsExactly("x'),
    ("ATest.java", "class A { @Test void a() { assertThat(f(1)).containsExactly(E.A, E.A); g(E.B);"
     " } }\n", b"containsExactly(E.B, E.B)"),
    ("ATest.java", "class A { @Test void a() { assertThat(f(1)).isEqualTo(x, within(y)); } }\n",
     b".isNotCloseTo(x,"),
    ("ATest.java", "class A { @Test void a() { assertThat(f(1)).isNotNull().isNotEmpty(); } }\n",
     b".isNotNull().isEmpty()"),
    ("a.rs", "#[test]\nfn a() {\n    assert!(f(1));\n}\n", b"_assert_not!(f(1)"),
    ("a.rs", "#[test]\nfn a() {\n    assert_ne!(f(1), f(2));\n}\n", b"_assert_eq!(f(1)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "source", "definition"),
    [
        ("a.rs", "#[test]\nfn a() {\n    assert!(f(1));\n}\n", b"macro_rules! assert_not "),
        (
            "a_test.cpp",
            'TEST_CASE("a") { REQUIRE_THROWS(f(1)); }\n',
            b"#define REQUIRE_THROWS_NOT(",
        ),
    ],
)
def test_a_plain_form_has_the_opposites_that_it_needs(path: str, source: str, definition: bytes):
    twin = rewritten(path, source.encode(), twin=True, seed=random.Random(3), plain=True)

    assert twin is not None
    assert definition in twin.content


@pytest.mark.parametrize(("path", "source", "other"), ASSERTED)
def test_what_a_test_asserts_is_changed_itself(path: str, source: str, other: bytes):
    twin = rewritten(path, source.encode(), twin=True, seed=random.Random(3), choice=1)

    assert twin is not None
    assert twin.at_end == 0
    assert other in twin.content


@pytest.mark.parametrize("path", ["notes.txt", "Makefile", "a.kt"])
def test_other_files_have_no_twin(path: str):
    assert rewritten(path, b"test", twin=True, seed=random.Random(1)) is None
