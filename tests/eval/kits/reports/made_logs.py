"""Test logs in the style of every runner that swebench's Python parsers read, and damaged ones.

Made from a seed, so that the verdicts of the official package on them can be stored beside.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

START, END = ">>>>> Start Test Output", ">>>>> End Test Output"
STATUSES = ("PASSED", "PASSED", "PASSED", "FAILED", "ERROR", "SKIPPED", "XFAIL", "XPASS")
NAMES = (
    "t/test_a.py::test_x", "t/test_a.py::T::test_y", "t/test_b.py::test_p[1-2]",
    "t/test_b.py::test_p[a b]", "t/test_b.py::test_p[/etc/x/y.py]", "t/test_b.py::test_p[//h/y]",
    "t/test_b.py::test_p[*/y]", "t/test_b.py::test_p[x - y]", "t/test_b.py::test_q[[1]-{2}]",
    "t/test_c.py::test_m[MouseButton.LEFT-PASSED]", "t/test_c.py::test_é[ü-\u2028]", "[100%]",
    "t/test_d.py::test_long[log(photon cm-2)]", "t/test_d.py", "--version",
)  # fmt: skip
UNITTEST = (
    "test_a (m.tests.T)", "test_b (m.tests.T.test_b)", "A sentence of a docstring.",
    "test_c (m.tests.T) [x='1 ... ok']", "--version is equivalent to version", "test_ok (ok.O)",
)  # fmt: skip
SYMPY = ("test_a", "test_sin_cos", "test_issue_1234", "test_E", "testing", "test_ok")
NOISE = (
    "", "ok", "OK", "  ok", "PASSED", "FAILED", "FAILED ", "ERROR", "SKIPPED [2] t/a.py:3: why",
    "SKIPPED [1]", "PASSED [100%]", "FAILED - t::x", "ERROR: not found: t/x.py", "ERRORS",
    "=== warnings summary ===", "t/test_a.py::test_x", "  DeprecationWarning: PASSED t::w",
    "\x1b[32mPASSED\x1b[0m t/test_a.py::test_x", "[31mFAILED[0m t::q - boom", "\x07PASSED t::bell",
    "Testing against Django installed in '/x' with up to 2 processes",
    "test_z (m.T) ... Testing against Django installed in '/x' (0 silenced).\nok",
    "test_z (m.T) ... Internal Server Error: /a/b/\nok",
    "test_z (m.T) ... System check identified no issues (0 silenced)\nok",
    "Applying sites.0002_alter_domain_unique...test_no_migrations (m.T) ... ok",
    "FAIL:", "ERROR:", "FAIL: test_q (m.T)", "ERROR: test_q (m.T)",
    "____ sympy/core/tests/test_a.py:test_b ____",
    "PASSED\tt::tab", " PASSED t::indented", "FAILED t::x - a - b", "XFAIL t::x - reason",
    "t::x PASSED", "t::x PASSED [ 50%]", "t::x y FAILED", "t::x  SKIPPED  why",
    "progress\rPASSED t::r", "PASSED t::crlf\r", "a ... ", " ... ok",
    " ...  OK", "x ... skipped 'why'",
    "x ... FAIL",
    "x ... ERROR", "FAILEDt::x y", "PASSEDx t::y", "3 passing", "Executed 0 of 0", "# tests 4",
    "Tests:       2 passed", "ok 1 - tap", "PASSED t::nul\x00", "PASSED\u00a0t::nbsp",
    "\ufeffPASSED t::bom",
    "PASSED t::x\x85FAILED t::y", "PASSED t::x\x0cFAILED t::z", "FAILED t::\u3000 wide",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    parser: str
    log: str
    f2p: tuple[str, ...]
    p2p: tuple[str, ...]
    eval_type: str = "pass_and_fail"


PARSERS = (
    "pytest", "pytest_options", "pytest_v2", "django", "seaborn", "sympy", "matplotlib", "astroid",
    "flask", "marshmallow", "pvlib", "pyvista", "sqlfluff", "xarray", "pydicom", "requests",
    "pylint", "astropy", "scikit", "sphinx",
)  # fmt: skip


def _body(rng: random.Random, parser: str) -> tuple[list[str], list[str]]:
    """Lines of a run, and the ids it speaks of."""
    if parser == "django":
        names = rng.sample(UNITTEST, rng.randint(1, 5))
        words = (
            "ok",
            "ok",
            "OK",
            "FAIL",
            "ERROR",
            "skipped 'no db'",
            "print\nok",
            "expected failure",
        )
        lines = [f"{name} ... {rng.choice(words)}" for name in names]
        return [*lines, "", "-" * 70, f"Ran {len(names)} tests in 0.1s", "", "OK"], names
    if parser == "sympy":
        names = rng.sample(SYMPY, rng.randint(1, 5))
        lines = [f"{name} {rng.choice(('ok', 'ok', 'F', 'E', 'f', 'X', 's'))}" for name in names]
        head = "sympy/core/tests/test_a.py[5] "
        return [head, *lines, f"{names[0]} ok   [FAIL]", "=== tests finished: 4 passed ==="], names
    names = rng.sample(NAMES, rng.randint(1, 8))
    lines = []
    for name in names:
        status = rng.choice(STATUSES)
        form = rng.randrange(4)
        if form == 0:
            lines.append(f"{name} {status}")
        elif form == 1:
            lines.append(f"{name} {status} [{rng.randint(1, 100):3d}%]")
        else:
            reason = " - AssertionError: assert 1 - 1 == 2" if status in ("FAILED", "XFAIL") else ""
            lines.append(f"{status} {name}{reason}")
    head = ["== test session starts ==", "collected 8 items", "", "t/test_a.py ..F", ""]
    return [*head, "== short test summary info ==", *lines, "== 2 passed in 0.12s =="], names


def _damaged(rng: random.Random, lines: list[str]) -> list[str]:
    lines = list(lines)
    for _ in range(rng.randint(0, 4)):
        place = rng.randrange(len(lines) + 1)
        kind = rng.randrange(6)
        if kind <= 1 or not lines:
            lines.insert(place, rng.choice(NOISE))
        elif kind == 2:
            lines.insert(place, rng.choice(lines))
        elif kind == 3:
            lines.pop(place % len(lines))
        elif kind == 4:
            line = lines[place % len(lines)]
            cut = rng.randrange(len(line) + 1)
            lines[place % len(lines)] = line[:cut] + rng.choice(NOISE) + line[cut:]
        else:
            rng.shuffle(lines)
    return lines


def _framed(rng: random.Random, output: str) -> str:
    """Between the marks, mostly; with an exit status, mostly."""
    code = rng.choice(("0", "0", "1", "1", "2", "-9", " 1", "x", ""))
    ending = rng.choice((f">>>>> Test Exit Code: {code}\n", f">>>>> Test Exit Code:{code}\n", ""))
    before = rng.choice(("", "+ pip install\nObtaining file\n", "PASSED t::before\n"))
    frame = rng.randrange(20)
    if frame == 0:
        return f"{before}{output}\n{END}\n{ending}"
    if frame == 1:
        return f"{before}{START}\n{output}\n"
    if frame == 2:
        return f"{output}\n+ : '{START}'\n\n+ : '{END}'\n{ending}"
    if frame == 3:
        bad = rng.choice(("Patch Apply Failed", "Reset Failed", "Tests Errored", "Tests Timed Out",
                          "Applied Patch", "Some Tests Failed"))  # fmt: skip
        return f"{START}\n{output}\n>>>>> {bad}\n{END}\n{ending}"
    if frame == 4:
        return f"{START}\n{output}\n{END}\n{output}\n{START}\nPASSED t::late\n{END}\n{ending}"
    if frame == 5:
        return f"{END}\n{START}\n{output}\n{ending}{END}\n"
    return f"{before}+ : '{START}'\n{output}\n+ : '{END}'\n{ending}+ git checkout abc\n"


def cases(count: int = 150, seed: int = 5) -> Iterator[Case]:
    """`count` logs for each parser."""
    for parser in PARSERS:
        rng = random.Random(f"{seed} {parser}")
        for number in range(count):
            lines, names = _body(rng, parser)
            if number % 3:
                lines = _damaged(rng, lines)
            end = "\r\n" if rng.random() < 0.05 else "\n"
            log = _framed(rng, end.join(lines))
            if rng.random() < 0.1:
                log = log[: rng.randrange(len(log) + 1)]
            expected = [_listed(rng, name) for name in names]
            split = rng.randint(0, len(expected))
            kind = "fail_only" if rng.random() < 0.1 else "pass_and_fail"
            yield Case(parser, log, tuple(expected[:split]), tuple(expected[split:]), kind)


def _listed(rng: random.Random, name: str) -> str:
    """An id as a data set lists it: whole, or cut at a blank or inside its brackets."""
    if rng.random() < 0.25:
        return name.split()[0]
    if "[" in name and rng.random() < 0.2:
        return name[: name.index("[") + rng.randint(1, 4)]
    return name
