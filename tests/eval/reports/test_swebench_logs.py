"""Logs and rule of swebench 5.0.2: the verdicts were observed by running that package."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from chimera.errors import GraderError
from chimera.eval.graders import swebench_rule as rule
from chimera.eval.reports import swebench_logs

F2P = ("t::a",)


def status(log: str, f2p, p2p=(), parser="pytest", code=0, eval_type="pass_and_fail") -> str:
    reading = rule.read_log(rule.write_log(log, code), swebench_logs.parser(parser))
    if reading.ungradable:
        return "ungradable"
    return rule.decide(reading.statuses, f2p, p2p, eval_type).status


@pytest.mark.parametrize(
    ("log", "f2p", "p2p", "code", "parser", "expected"),
    [
        ("SKIPPED t::a\nPASSED t::b", F2P, ("t::b",), 0, "pytest", "NO"),
        ("PASSED t::a", F2P, (), 1, "pytest", "ungradable"),
        ("PASSED t::a\nFAILED t::z", F2P, (), 1, "pytest", "FULL"),
        ("PASSED t::a\nSKIPPED t::b", F2P, ("t::b",), 0, "pytest", "FULL"),
        ("PASSED t::a\nERROR t::a", F2P, (), 1, "pytest", "NO"),
        ("PASSED t::a[x-1]\nPASSED t::a[x-2]", ("t::a[x",), (), 0, "pytest", "FULL"),
        ("PASSED t::a[x-1]\nFAILED t::a[x-2]", ("t::a[x",), (), 1, "pytest", "NO"),
        ("PASSED t::a[x y]", ("t::a[x y]",), (), 0, "pytest", "NO"),
        ("PASSED t::a[x y]", ("t::a[x y]",), (), 0, "sphinx", "FULL"),
        ("\x1b[32mPASSED\x1b[0m t::a", F2P, (), 0, "pytest", "ungradable"),
        ("\x1b[32mPASSED\x1b[0m t::a", F2P, (), 0, "sphinx", "FULL"),
        ("XFAIL t::a", F2P, (), 0, "pytest", "FULL"),
        ("XPASS t::a\nPASSED t::b", F2P, (), 0, "pytest", "NO"),
        ("PASSED t::b", F2P, ("t::b",), 0, "pytest", "NO"),
        ("PASSED t::a\nFAILED t::c - boom", F2P, ("t::c",), 1, "pytest", "NO"),
        ("PASSED t::a\nFAILED t::c", ("t::a", "t::c"), (), 1, "pytest", "PARTIAL"),
        ("test_a (m.T) ... print\nok", ("test_a (m.T)",), (), 0, "django", "FULL"),
        ("Doc. ... ok", ("test_a (m.T)",), (), 0, "django", "NO"),
        ("Doc. ... ok", ("Doc.",), (), 0, "django", "FULL"),
        ("test_a (m.T) ... ok\nFAIL: test_b (m.T)", ("test_b",), (), 1, "django", "NO"),
        ("PASSED t::a[/x/y/z.py]", ("t::a[/z.py]",), (), 0, "requests", "FULL"),
        ("PASSED t::a\nSKIPPED t::b", F2P, ("t::b",), 0, "seaborn", "NO"),
        ("test_a ok\ntest_b F", ("test_a",), (), 1, "sympy", "FULL"),
        ("", F2P, (), 0, "pytest", "ungradable"),
    ],
)
def test_official_verdicts(log, f2p, p2p, code, parser, expected):
    assert status(log, f2p, p2p, parser, code) == expected


def test_fail_only_counts_failures_alone():
    assert status("FAILED x\nPASSED t::a", ("t::q",), eval_type="fail_only", code=1) == "FULL"
    assert status("FAILED t::a", F2P, eval_type="fail_only", code=1) == "NO"


def test_bad_marks_make_a_log_ungradable():
    assert status("PASSED t::a\n>>>>> Tests Timed Out", F2P) == "ungradable"


def test_skip_counts_are_no_tests():
    assert swebench_logs.pytest_lines("SKIPPED [2] a.py:3: why\nPASSED [100%]") == {
        "[100%]": "PASSED"
    }


def test_an_unknown_parser_is_an_error():
    with pytest.raises(GraderError, match="parse_log_karma"):
        swebench_logs.parser("parse_log_karma")


LOGS = {
    "pytest": ("PASSED t::a\nPASSED t::b[x-1]\n== 2 passed in 0.1s ==", ("t::a",), ("t::b[x",)),
    "sphinx": ("t.py::a PASSED\nPASSED t::b c\n", ("t::b c",), ("t.py::a",)),
    "django": (
        "test_a (m.T) ... ok\ntest_b (m.T) ... ok\nRan 2 tests\n\nOK",
        ("test_b (m.T)",),
        (),
    ),
    "sympy": ("test_a ok\ntest_b ok   [OK]\n", ("test_a",), ()),
    "seaborn": ("PASSED t::a\nt::b PASSED [50%]\n", ("t::a",), ("t::b",)),
}


@pytest.mark.parametrize("parser", LOGS)
def test_a_log_cut_anywhere_is_no_pass(parser):
    log, f2p, p2p = LOGS[parser]
    whole = rule.write_log(log, 0)
    parse = swebench_logs.parser(parser)

    def resolved(text: str) -> bool:
        reading = rule.read_log(text, parse)
        return not reading.ungradable and rule.decide(reading.statuses, f2p, p2p).resolved

    assert resolved(whole)
    assert not [end for end in range(len(whole)) if resolved(whole[:end])]


OFFICIAL = """
import json, sys
from swebench.harness.log_parsers import PARSER_REGISTRY
from swebench.harness.grading import get_eval_tests_report, get_resolution_status
for line in sys.stdin:
    case = json.loads(line)
    statuses = PARSER_REGISTRY["parse_log_" + case["parser"]](case["log"], None)
    gold = {"FAIL_TO_PASS": case["f2p"], "PASS_TO_PASS": case["p2p"]}
    status = get_resolution_status(get_eval_tests_report(statuses, gold))
    print(json.dumps({"statuses": statuses, "status": status}))
"""


def test_agrees_with_the_official_package(tmp_path):
    """Needs CHIMERA_SWEBENCH_PYTHON, an interpreter that has swebench 5.0 installed."""
    official = os.environ.get("CHIMERA_SWEBENCH_PYTHON")
    if not official:
        pytest.skip("CHIMERA_SWEBENCH_PYTHON names no interpreter with swebench")
    cases = []
    for parser, (log, f2p, p2p) in LOGS.items():
        for end in range(len(log) + 1):
            if log[:end].endswith(("FAIL:", "ERROR:")):
                continue  # upstream raises IndexError there
            cases.append({"parser": parser, "log": log[:end], "f2p": f2p, "p2p": p2p})
    folder = os.environ.get("CHIMERA_SWEBENCH_LOGS")
    for file in sorted(Path(folder).glob("*.json")) if folder else ():
        cases.append(json.loads(file.read_text()))
    lines = "\n".join(json.dumps(case) for case in cases)
    done = subprocess.run([official, "-c", OFFICIAL], input=lines, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    for case, line in zip(cases, done.stdout.splitlines(), strict=True):
        theirs = json.loads(line)
        ours = swebench_logs.parser(case["parser"])(case["log"])
        assert ours == theirs["statuses"], case["parser"]
        assert rule.decide(ours, case["f2p"], case["p2p"]).status == (
            theirs["status"].removeprefix("RESOLVED_")
        )
