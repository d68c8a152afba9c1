"""Logs and rule of swebench 5.0.2: the verdicts were observed by running that package."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from chimera.errors import GraderError
from chimera.eval.kits.reports import swebench_logs
from chimera.eval.kits.repositories import swebench_rule as rule
from tests.eval.kits.reports.made_logs import Case, cases

F2P = ("t::a",)


def status(log: str, f2p, p2p=(), parser="pytest", code=0, eval_type="pass_and_fail") -> str:
    reading = rule.read_log(rule.write_log(log, code), parser)
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

    def resolved(text: str) -> bool:
        reading = rule.read_log(text, parser)
        return not reading.ungradable and rule.decide(reading.statuses, f2p, p2p).resolved

    assert resolved(whole)
    assert not [end for end in range(len(whole)) if resolved(whole[:end])]


@pytest.mark.parametrize(
    ("log", "eval_type", "ours", "upstream"),
    [
        ("Executed 4 of 4 SUCCESS", "fail_only", "FULL", "FULL"),
        ("Executed 0 of 0", "fail_only", "ungradable", "ungradable"),
        ("ok", "fail_only", "ungradable", "ungradable"),
        ("3 passing", "pass_and_fail", "NO", "NO"),
    ],
)
def test_a_suite_that_names_no_test(log, eval_type, ours, upstream):
    assert status(log, F2P, eval_type=eval_type) == ours
    reading = rule.read_official_log(rule.write_log(log, 0), "pytest")
    decided = rule.decide(reading.statuses, F2P, (), eval_type).status
    assert ("ungradable" if reading.ungradable else decided) == upstream


def test_logs_of_upstream_need_no_exit_status():
    log = f"PASSED t::a\n{rule.START}\n{rule.END}\n"

    assert rule.read_official_log(log, "pytest").statuses == {"t::a": "PASSED"}
    assert rule.read_log(log, "pytest").ungradable


def test_a_failure_without_a_name_has_no_verdict():
    log = rule.write_log("test_a (m.T) ... ok\nFAIL:", 0)

    assert "names no test" in rule.read_official_log(log, "django").ungradable


# --- made logs, with what swebench itself said of them

VECTORS = Path(__file__).parent / "vectors" / "swebench_made_logs.json"
OFFICIAL = """
import json, os, sys, tempfile
from types import SimpleNamespace
from swebench.harness import grading
from swebench.harness.constants import EvalType
import swebench.harness.log_parsers.python as parsers
place = tempfile.mktemp()
for line in sys.stdin:
    case = json.loads(line)
    with open(place, "w", newline="") as log:
        log.write(case["log"])
    name = "parse_log_" + case["parser"]
    spec = SimpleNamespace(log_parser=name, repo="r", version="v")
    grading.MAP_REPO_TO_PARSER = {"r": getattr(parsers, name)}  # of 4.1
    grading.MAP_REPO_VERSION_TO_SPECS = {"r": {"v": {"test_cmd": ""}}}
    try:
        statuses, found = grading.get_logs_eval(spec, place)
    except IndexError:
        statuses, found = {}, False
    lists = {"FAIL_TO_PASS": case["f2p"], "PASS_TO_PASS": case["p2p"]}
    report = grading.get_eval_tests_report(statuses, lists, eval_type=EvalType(case["eval_type"]))
    status = grading.get_resolution_status(report) if found else "ungradable"
    print(json.dumps([status.removeprefix("RESOLVED_"), statuses,
                      *(sorted(set(report[key]["success"])) for key in lists)]))
"""


def fingerprint(status, statuses, f2p, p2p) -> str:
    """The verdict in clear, the rest as a digest; nothing is known of a log without a verdict."""
    if status == "ungradable":
        return status
    text = json.dumps([statuses, f2p, p2p], sort_keys=True)
    return f"{status} {hashlib.sha256(text.encode()).hexdigest()[:10]}"


def decided(case: Case, version: swebench_logs.Version) -> str:
    reading = rule.read_official_log(case.log, case.parser, version)
    if reading.ungradable:
        return "ungradable"
    found = rule.decide(reading.statuses, case.f2p, case.p2p, case.eval_type, version)
    held = (
        sorted(name for name, ok in names.items() if ok)
        for names in (found.fail_to_pass, found.pass_to_pass)
    )
    return fingerprint(found.status, dict(reading.statuses), *held)


@pytest.mark.parametrize("version", swebench_logs.RELEASES)
def test_made_logs_are_decided_as_swebench_did(version):
    expected = json.loads(VECTORS.read_text())[version]
    made = list(cases(40))

    assert len(made) == len(expected)
    different = [
        (case, want, ours)
        for case, want in zip(made, expected, strict=True)
        if (ours := decided(case, version)) != want
    ]
    assert different == []


def test_our_reading_passes_nothing_that_swebench_does_not():
    expected = json.loads(VECTORS.read_text())["5.0"]
    for case, want in zip(cases(40), expected, strict=True):
        reading = rule.read_log(case.log, case.parser)
        found = rule.decide(reading.statuses, case.f2p, case.p2p, case.eval_type)
        if not reading.ungradable and found.resolved:
            assert want.startswith("FULL"), case


@pytest.mark.parametrize(
    ("version", "variable"),
    [("5.0", "CHIMERA_SWEBENCH_PYTHON"), ("4.1", "CHIMERA_SWEBENCH_4_PYTHON")],
)
def test_agrees_with_the_official_package(version, variable):
    """Needs an interpreter that has swebench of that version installed, named by the variable.

    CHIMERA_WRITE_VECTORS=1 stores what it says of the made logs.
    """
    official = os.environ.get(variable)
    if not official:
        pytest.skip(f"{variable} names no interpreter with swebench {version}")
    made = list(cases(40)) + [
        Case(parser, rule.write_log(log[:end], 0), f2p, p2p)
        for parser, (log, f2p, p2p) in LOGS.items()
        for end in range(len(log) + 1)
    ]
    folder = os.environ.get("CHIMERA_SWEBENCH_LOGS")
    for file in sorted(Path(folder).glob("*.json")) if folder else ():
        known = json.loads(file.read_text())
        log = rule.write_log(known["log"], 0)
        made.append(Case(known["parser"], log, tuple(known["f2p"]), tuple(known["p2p"])))
    lines = "\n".join(json.dumps(asdict(case)) for case in made)
    done = subprocess.run(
        [*official.split(), "-c", OFFICIAL], input=lines, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-500:]
    theirs = [fingerprint(*json.loads(line)) for line in done.stdout.splitlines()]

    assert [decided(case, version) for case in made] == theirs
    if os.environ.get("CHIMERA_WRITE_VECTORS") == "1":
        VECTORS.parent.mkdir(exist_ok=True)
        stored = json.loads(VECTORS.read_text()) if VECTORS.exists() else {}
        stored[version] = theirs[: len(list(cases(40)))]
        VECTORS.write_text(json.dumps(stored, indent=0) + "\n")
