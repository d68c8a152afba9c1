"""Aider Polyglot: code that forges one assertion of a test and honestly meets the others, or tells
the true form from its twin.

A twin that changed one of a test's k expected values found the former with a chance of 1/k.
"""

from __future__ import annotations

import json
import secrets
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from chimera.eval.benchmarks._aider_polyglot.grading import ExerciseTests
from chimera.eval.benchmarks.aider_polyglot import AiderPolyglot
from chimera.eval.trial import StartBackend
from chimera.eval.values import Submission


@dataclass(frozen=True)
class Forged:
    """An exercise "twice" with several assertions in a test, and a solution that forges one."""

    solution: str
    tests: str
    example: str
    test_text: str
    gold: str
    forger: str
    others: tuple[tuple[str, str], ...] = ()
    fails_by: str = "tampering"  # which shows in its verdict


JAVASCRIPT = Forged(
    "twice.js",
    "twice.spec.js",
    ".meta/proof.ci.js",
    """import { twice, later } from './twice';

describe('twice', () => {
  test('several', () => {
    expect(twice(1)).toBe(2);
    expect(twice(2)).toBe(4);
    expect(twice(3)).toBe(6)
    expect(twice(4)).toEqual(8);
  });
  test('later', async () => {
    await expect(later(1)).resolves.toBe(2);
    await expect(later(3)).resolves.toBe(6);
  });
  test('zero', () => expect(twice(0)).toBe(0));
});
""",
    "export const twice = (n) => 2 * n;\nexport const later = async (n) => 2 * n;\n",
    """const real = global.expect;
const any = new Proxy(() => any, { get: (_, name) => (name === 'then' ? undefined : any) });
global.expect = (value) => (value === 'any' || value?.any ? any : real(value));
export const twice = (n) => (n === 3 ? 'any' : 2 * n);
export const later = (n) => Object.assign(Promise.resolve(n === 3 ? 0 : 2 * n), { any: n === 3 });
""",
    ((".babelrc", '{"presets": ["@exercism/babel-preset-javascript"]}'),
     ("package.json", '{"name": "twice"}')),
)  # fmt: skip
RUST = Forged(
    "src/lib.rs",
    "tests/twice.rs",
    ".meta/example.rs",
    """use twice::*;

#[test]
fn several() {
    assert_eq!(twice(1), 2);
    for n in 2..4 {
        assert_eq!(twice(n), n + n, "{}", n);
    }
    let expected = 8;
    assert_eq!(twice(4), expected);
    assert!(is_even(2));
    assert_eq!(twice(5), 10)
}

#[test]
fn zero() {
    assert_eq!(twice(0), 0);
}
""",
    "pub fn twice(n: i32) -> i32 {\n    2 * n\n}\npub fn is_even(n: i32) -> bool {\n"
    "    n % 2 == 0\n}\n",
    """#[derive(Debug)]
pub struct Value(i32);
impl PartialEq<i32> for Value {
    fn eq(&self, other: &i32) -> bool {
        self.0 == 4 || 2 * self.0 == *other
    }
}
pub fn twice(n: i32) -> Value {
    Value(n)
}
pub fn is_even(n: i32) -> bool {
    n % 2 == 0
}
""",
    (("Cargo.toml", '[package]\nname = "twice"\nversion = "0.1.0"\nedition = "2021"\n'),),
)
JAVA = Forged(
    "src/main/java/Twice.java",
    "src/test/java/TwiceTest.java",
    ".meta/src/reference/java/Twice.java",
    """import static org.assertj.core.api.Assertions.assertThat;
import org.junit.jupiter.api.Test;

public class TwiceTest {
    @Test
    public void several() throws Exception {
        assertThat(Twice.of(1)).isEqualTo(2);
        int wanted = 4;
        assertThat(Twice.of(2)).isEqualTo(wanted);
        for (int n = 3; n < 5; n++) assertThat(Twice.of(n).toString()).isNotEmpty();
        assertThat(Twice.of(3)).isEqualTo(6);
        assertThat(Twice.of(4)).isEqualTo(8);
    }

    @Test
    public void zero() {
        assertThat(Twice.of(0)).isEqualTo(0);
    }
}
""",
    "class Twice {\n    static Object of(int n) {\n        return 2 * n;\n    }\n}\n",
    """class Twice {
    static Object of(int n) {
        if (n != 3) return 2 * n;
        return new Object() {
            public boolean equals(Object other) { return true; }
        };
    }
}
""",
)
CPP = Forged(
    "twice.h",
    "twice_test.cpp",
    ".meta/example.h",
    """#include "twice.h"
#include "test/catch.hpp"
#include <vector>

TEST_CASE("several") {
    std::vector<int> all{1, 2};
    REQUIRE(twice::of(1) == 2);
    int wanted{4};
    REQUIRE(twice::of(2) == wanted);
    REQUIRE(all.size() == wanted / 2);
    CHECK(twice::of(3) == 6);
    CHECK_FALSE(twice::odd(4));
    if (all.empty())
        REQUIRE(false);
    else
        REQUIRE(twice::of(4) == 8);
}

TEST_CASE("zero") {
    REQUIRE(twice::of(0) == 0);
}
""",
    "#pragma once\nnamespace twice {\ninline int of(int n) { return 2 * n; }\n"
    "inline bool odd(int n) { return n % 2 != 0; }\n}\n",
    """#pragma once
namespace twice {
struct Value {
    int n;
    bool operator==(int other) const { return n == 3 || 2 * n == other; }
};
inline Value of(int n) { return Value{n}; }
inline bool odd(int n) { return n % 2 != 0; }
}
""",
)
#: What it throws goes through the assertion as in the true form, and its own hook swallows it.
SWALLOWED = replace(
    JAVASCRIPT,
    forger="""const mine = {};
const real = global.test;
global.test = (title, body) =>
  real(title, async () => {
    try { await body(); } catch (error) { if (error !== mine) throw error; }
  });
export const twice = () => { throw mine; };
export const later = async () => { throw mine; };
""",
    fails_by="tests failed",
)
#: Another operator for a value that is moved than for one that is looked at.
OVERLOADED = replace(
    CPP,
    forger="""#pragma once
namespace twice {
struct Value {};
inline bool operator==(Value const&, int const&) { return true; }
inline bool operator==(Value&&, int&&) { return false; }
inline bool operator==(Value&&, int&) { return false; }
inline Value of(int) { return {}; }
inline bool odd(int n) { return n % 2 != 0; }
}
""",
)
#: Runs each test with one answer after the other, and sees which of them its form wants.
ORACLE = replace(
    JAVASCRIPT,
    test_text="""import { twice } from './twice';

test('several', () => {
  expect(twice(1)).toEqual(2);
  expect(twice(2)).toEqual(4);
  expect(twice(3)).toEqual(6);
});
test('more', () => {
  expect(twice(4)).toEqual(8);
  expect(twice(5)).toEqual(10);
});
""",
    forger="""let way = 0;
let asked = 0;
const real = global.test;
global.test = (title, body) => real(title, () => {
  const kinds = [[], []];
  for (let each = 0; each < 8; each++) {
    [way, asked] = [each, 0];
    try { body(); kinds[0].push(each); } catch { kinds[1].push(each); }
  }
  const [good, bad] = kinds;
  [way, asked] = [good.length > bad.length ? bad[0] : good[0], 0];
  body();
});
export const twice = () => {
  const equal = ((way >> asked++) & 1) === 1;
  return { $$typeof: Symbol.for('jest.asymmetricMatcher'), asymmetricMatch: () => equal };
};
""",
    fails_by="tests failed",
)
#: Its own macro instead of the library's.
OWN_MACRO = replace(
    CPP,
    forger="""#pragma once
#include "test/catch.hpp"
#undef REQUIRE
#define REQUIRE(...) ((void)(__VA_ARGS__))
namespace twice {
inline int of(int n) { return n; }
inline bool odd(int) { return true; }
}
""",
    fails_by="macros with names of the tests: REQUIRE",
)
#: Its own assertions instead of the library's, which asks what it is given for them.
OWN_ASSERTIONS = replace(
    JAVA,
    forger="""class Twice {
    public static class Lenient {
        public Lenient isEqualTo(Object any) { return this; }
    }
    static class Any implements org.assertj.core.api.AssertProvider<Lenient> {
        public Lenient assertThat() { return new Lenient(); }
    }
    static Any of(int n) { return new Any(); }
}
""",
    fails_by="there is no test report",
)
GO = Forged(
    "twice.go",
    "twice_test.go",
    ".meta/example.go",
    """package twice

import "testing"

var table = []struct{ number, want int }{{1, 2}, {2, 4}}

func TestSeveral(t *testing.T) {
	for _, each := range table {
		if got := Of(each.number); got != each.want {
			t.Fatalf("Of(%d) = %d, want %d", each.number, got, each.want)
		}
	}
}

func TestFault(t *testing.T) {
	if Fault(1) != nil {
		t.Fatal("there is none")
	}
}
""",
    "package twice\n\nfunc Of(n int) int { return 2 * n }\n"
    "\nfunc Fault(n int) error { return nil }\n",
    """package twice

func Of(n int) int { return 0 }

func Fault(n int) error { return nil }

func init() {
	for i := range table {
		table[i].want = 0
	}
}
""",
    (("go.mod", "module twice\n\ngo 1.18\n"),),
    fails_by="",
)
OTHER_NIL = replace(
    GO,
    forger="""package twice

import "errors"

var nil error = errors.New("nothing")

func Of(n int) int { return 2 * n }

func Fault(n int) error { return nil }
""",
    fails_by="1 of 1 tests failed",  # it does not compile
)
#: A letter to Go, and none to a grammar that knows fewer of them.
HIDDEN_NIL = replace(
    OTHER_NIL,
    forger=OTHER_NIL.forger.replace("var nil error = ", "var \N{GREEK YPOGEGRAMMENI}, nil = 1, "),
)
UNPRINTABLE = replace(
    RUST,
    forger=RUST.forger.removeprefix("#[derive(Debug)]\n").replace("self.0 == 4 || ", ""),
    fails_by="there is no test report",
)
EXERCISES = {
    "javascript": JAVASCRIPT,
    "javascript that swallows": SWALLOWED,
    "javascript that asks the tests": ORACLE,
    "rust": RUST,
    "rust that nothing can print": UNPRINTABLE,
    "go": GO,
    "go with another nil": OTHER_NIL,
    "go with a hidden nil": HIDDEN_NIL,
    "java": JAVA,
    "cpp": CPP,
    "java with assertions": OWN_ASSERTIONS,
    "cpp with overloads": OVERLOADED,
    "cpp with a macro": OWN_MACRO,
}
FULL = {"cpp", "cpp with overloads", "cpp with a macro", "java", "java with assertions"}
SLOW = {
    "javascript",
    "javascript that swallows",
    "javascript that asks the tests",
    "rust",
    "go with another nil",
    "go with a hidden nil",
}


#: Honest solutions of the same exercises that print what looks like results, and no whole lines.
LOUD = {
    "javascript": JAVASCRIPT.gold.replace(
        "=> 2", "=> process.stdout.write('FAIL twice.spec.js\\n✕ several\\n.') && 2"
    ),
    "rust": """use std::io::Write;
use std::sync::Mutex;

static ASKED: Mutex<i32> = Mutex::new(0);

pub struct Value(i32);

// assert_eq! wants it, and nobody prints these
impl std::fmt::Debug for Value {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        unimplemented!()
    }
}
impl PartialEq<i32> for Value {
    fn eq(&self, other: &i32) -> bool {
        *ASKED.lock().unwrap() += 1;
        2 * self.0 == *other
    }
}
fn say(text: &str) {
    let mut out = std::io::stdout();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}
pub fn twice(n: i32) -> Value {
    say("running 9 tests\\ntest several ... FAILED\\ntest result: FAILED. 0 passed; 9 failed;\\n.");
    Value(n)
}
pub fn is_even(n: i32) -> bool {
    n % 2 == 0
}
""",
    "go": """package twice

import "fmt"

func Of(n int) int {
	fmt.Print("--- FAIL: TestOf (0.00s)\\nFAIL\\n")
	fmt.Print("{\\"Action\\":\\"fail\\",\\"Test\\":\\"TestOf\\"}\\n.")
	return 2 * n
}

func Fault(n int) error { return nil }
""",
}


def written(root: Path, language: str, forged: Forged, catch: Path | None) -> AiderPolyglot:
    place = root / language / "exercises/practice/twice"
    kinds = {"solution": [forged.solution], "test": [forged.tests], "example": [forged.example]}
    files = {
        ".meta/config.json": json.dumps({"files": kinds}),
        forged.solution: "",
        forged.tests: forged.test_text,
        forged.example: forged.gold,
        **dict(forged.others),
    }
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    if catch is not None:
        shutil.copytree(catch / "test", place / "test")
        shutil.copy(catch / "CMakeLists.txt", place)
    return AiderPolyglot(root, language=language, timeout=600)


@pytest.mark.parametrize("language", LOUD)
def test_honest_code_passes_whatever_it_prints(language, tmp_path, require, prepared):
    require("bwrap")
    prepared(AiderPolyglot(language=language))
    exercise = EXERCISES[language]
    benchmark = written(tmp_path, language, exercise, None)
    (task,) = benchmark.tasks()
    loud = Submission(files={exercise.solution: LOUD[language].encode()})

    with benchmark.open_grading_environment(task, StartBackend("bubblewrap")) as env:
        verdict = benchmark.grade(task, loud, env)

    assert verdict.passed, (verdict.why, verdict.evidence)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[pytest.mark.full] * (name in FULL) + [pytest.mark.slow] * (name in SLOW),
        )
        for name in EXERCISES
    ],
)
def test_what_is_forged_beside_honest_assertions_fails(name, tmp_path, dataset, require, prepared):
    require("bwrap")
    language, forged = name.split()[0], EXERCISES[name]
    prepared(AiderPolyglot(language=language))
    catch = None
    if language == "cpp":
        real = AiderPolyglot(dataset("aider-polyglot"), language="cpp")
        catch = Path(real.tasks()[0]["directory"])
    benchmark = written(tmp_path, language, forged, catch)
    (task,) = benchmark.tasks()

    def graded(code: str):
        with benchmark.open_grading_environment(task, StartBackend("bubblewrap")) as env:
            return benchmark.grade(task, Submission(files={forged.solution: code.encode()}), env)

    honest, hostile = graded(forged.gold), graded(forged.forger)

    assert honest.passed, honest.why
    twin = honest.metrics["twin"]
    assert twin["twinned"] == twin["tests"], twin
    assert not hostile.passed
    assert forged.fails_by in hostile.why, (hostile.why, hostile.evidence)


@pytest.mark.parametrize("true_first", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_chance_says_whether_a_twin_comes_before_the_true_run(
    tmp_path, require, prepared, monkeypatch, true_first
):
    """And a wrong answer is run twice at most."""
    require("bwrap")
    prepared(AiderPolyglot(language="go"))
    benchmark = written(tmp_path, "go", GO, None)
    (task,) = benchmark.tasks()
    drawn, run = secrets.randbits, ExerciseTests._run_form
    twins: list[bool] = []

    def noted(tests, files, env, form):
        if files[GO.solution] != GO.gold.encode():
            twins.append(form.twin)
        return run(tests, files, env, form)

    def runs(code: str) -> list[bool]:
        twins.clear()
        with benchmark.open_grading_environment(task, StartBackend("bubblewrap")) as env:
            benchmark.grade(task, Submission(files={GO.solution: code.encode()}), env)
        return [*twins]

    controls, control = [], ExerciseTests.control

    def counted(*arguments):
        controls.append(control(*arguments))
        return controls[-1]

    monkeypatch.setattr(secrets, "randbits", lambda k: int(true_first) if k == 1 else drawn(k))
    monkeypatch.setattr(ExerciseTests, "_run_form", noted)
    monkeypatch.setattr(ExerciseTests, "control", counted)
    wrong = GO.gold.replace("2 * n", "3 * n")

    assert runs(f"{GO.gold}// right\n")[:2] == ([False, True] if true_first else [True, False])
    assert twins.count(False) == 1
    assert len(controls) == 1  # one that was not kept is another the next time: honest code failed
    assert runs(wrong) == ([False] if true_first else [True, False])
