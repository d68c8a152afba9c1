"""Aider Polyglot: code that forges one assertion of a test and honestly meets the others.

A twin that changed one of a test's k expected values found it with a chance of 1/k.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from chimera.eval.benchmarks._aider_polyglot.caches import prepare
from chimera.eval.benchmarks._aider_polyglot.toolchains import missing_requirements
from chimera.eval.benchmarks.aider_polyglot import AiderPolyglot
from chimera.eval.trial import StartBackend
from chimera.eval.values import Submission
from tests.conftest import missing


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
EXERCISES = {"javascript": JAVASCRIPT, "rust": RUST, "java": JAVA, "cpp": CPP}
SLOW = {"cpp", "java"}


def written(root: Path, language: str, catch: Path | None) -> AiderPolyglot:
    forged = EXERCISES[language]
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


@pytest.mark.parametrize(
    "language",
    [pytest.param(name, marks=[pytest.mark.full] * (name in SLOW)) for name in EXERCISES],
)
def test_one_forged_assertion_among_honest_ones_is_tampering(language, tmp_path, dataset, require):
    require("bwrap")
    if lacking := missing_requirements(language):
        missing(f"{language} needs {lacking[0].install_command}")
    prepare(language)
    catch = None
    if language == "cpp":
        real = AiderPolyglot(dataset("aider-polyglot"), language="cpp")
        catch = Path(real.tasks()[0]["directory"])
    benchmark, forged = written(tmp_path, language, catch), EXERCISES[language]
    (task,) = benchmark.tasks()

    def graded(code: str):
        with benchmark.open_grading_environment(task, StartBackend("bubblewrap")) as env:
            return benchmark.grade(task, Submission(files={forged.solution: code.encode()}), env)

    honest, hostile = graded(forged.gold), graded(forged.forger)

    assert honest.passed, honest.why
    twin = honest.metrics["twin"]
    assert twin["twinned"] == twin["tests"], twin
    assert not hostile.passed
    assert hostile.metrics.get("tampering"), (hostile.why, hostile.evidence)
    assert "several" in hostile.why or "later" in hostile.why  # the other one may be the kept
