"""Aider Polyglot, C++: which macros of an answer's are taken for tampering."""

from __future__ import annotations

import os
import subprocess
from importlib.resources import files

import pytest

LIBRARY = """#pragma once
namespace Catch { struct Handler { void handle(bool) {} }; }
#define INTERNAL_TEST(name, ...) do { Catch::Handler h; h.handle(__VA_ARGS__); } while (false)
#define REQUIRE(...) INTERNAL_TEST("REQUIRE of days", __VA_ARGS__)
#define UNUSED(value) never(value)
#define TEST_CASE(title) void test()
"""
TESTS = """#include "twice.h"
#include "test/catch.hpp"
// a number of days
TEST_CASE("several days: \\"hours\\"") { /* in
    weeks */
    char quote = '"'; int wanted = 4; // "
    REQUIRE(twice(2) == wanted);
}
"""
HONEST = ("days 1440", "hours 24", "weeks 52", "several 3", "name 3", "never(x) x", "value 7")
TAKEN = {
    "#define wanted 5": "wanted",
    "#define handle(x) h": "handle",
    "#define Handler Mine": "Handler",
    "#define quote mine": "quote",
    '#include "test/catch.hpp"\n#undef REQUIRE\n#define REQUIRE(...) ((void)0)': "REQUIRE",
    '#include "test/catch.hpp"\n#undef UNUSED': "UNUSED",
}


@pytest.fixture
def said(tmp_path, require):
    """What the runner says before it builds, of an answer that begins so."""
    require("g++")
    place, tools = tmp_path / "twice", tmp_path / "tools"
    (place / "test").mkdir(parents=True)
    tools.mkdir()
    (tools / "cmake").write_text("#!/bin/sh\nexit 1\n")
    (tools / "cmake").chmod(0o755)
    (place / "test/catch.hpp").write_text(LIBRARY)
    (place / "twice_test.cpp").write_text(TESTS)
    runner = files("chimera.eval.benchmarks._aider_polyglot") / "runners/cpp.sh"

    def run(beginning: str) -> str:
        (place / "twice.h").write_text(
            f"{beginning}\ninline int twice(int n) {{ return 2 * n; }}\n"
        )
        found = subprocess.run(
            ["bash", "-c", runner.read_text()],
            cwd=place,
            env={
                **os.environ,
                "PATH": f"{tools}:{os.environ['PATH']}",
                "SCRATCH": str(tmp_path / "out"),
            },
            capture_output=True,
            text=True,
        )
        assert not found.stderr, found.stderr
        return found.stdout

    return run


def test_words_of_comments_and_texts_are_nobodys_macros(said):
    assert said("\n".join(f"#define {macro}" for macro in HONEST)) == ""


@pytest.mark.parametrize("beginning", TAKEN)
def test_no_macro_has_a_name_that_the_tests_come_to(said, beginning):
    assert said(beginning) == f"tampering: macros with names of the tests: {TAKEN[beginning]} \n"
