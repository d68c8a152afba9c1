"""What continuous integration is given: JUnit XML, CTRF, GitHub's annotations and summary."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import pytest

from chimera.cli.terminal import echo
from chimera.eval.runs.store import RunStore
from chimera.eval.values import TrialError, TrialRecord, Verdict

HOSTILE = "<b>&]]>\x1b[31m\x00\n::error::| `x` @all"


@pytest.fixture
def run(tmp_path):
    """Two tasks with two samples: one passed, one failed, one error, one not run."""
    path = tmp_path / "runs" / "20260101-hostile.chi"
    path.parent.mkdir()
    with RunStore(path, create=True) as store:
        tasks = [{"id": "a", "prompt": "p"}, {"id": HOSTILE, "prompt": "p"}]
        store.add_tasks(tasks)
        identity = {"benchmark": "mine"}
        store.set_manifest({"planned": 4, "samples": 2, "identity": identity, "started": 1e9})
        store.write(TrialRecord("a", 0, "", verdict=Verdict(True), duration=1.5))
        store.write(TrialRecord("a", 1, "", verdict=Verdict(False, HOSTILE), cost=0.25))
        store.write(TrialRecord(HOSTILE, 0, "", error=TrialError("provider", "HTTP 500")))
    return path


def test_junit_tells_failures_errors_and_skipped_apart(chimera, run):
    text = chimera("runs", "export", run, "--format", "junit").out
    root = ElementTree.fromstring(text)
    [suite] = root
    cases = {case.get("name"): [child.tag for child in case] for case in suite}

    assert [suite.get(n) for n in ("name", "tests", "failures", "errors", "skipped")] == [
        *("mine", "4", "1", "1", "1")
    ]
    assert list(cases.values()) == [[], ["failure"], ["error"], ["skipped"]]
    assert suite[1][0].text.startswith("<b>&]]>")
    assert suite[2][0].get("message") == "provider: HTTP 500"


def test_ctrf_has_what_the_format_requires(chimera, run):
    document = json.loads(chimera("runs", "export", run, "--format", "ctrf").out)
    summary = document["results"]["summary"]

    assert document["reportFormat"] == "CTRF"
    assert document["results"]["tool"]["name"] == "chimera"
    counts = ("tests", "passed", "failed", "skipped", "pending", "other")
    assert [summary[name] for name in counts] == [4, 1, 1, 1, 0, 1]
    assert summary["stop"] - summary["start"] == 1500
    tests = document["results"]["tests"]
    assert [t["status"] for t in tests] == ["passed", "failed", "other", "skipped"]
    assert {"name", "status", "duration"} <= tests[3].keys()


@pytest.fixture
def predictions(tmp_path):
    right = {"task_id": "HumanEval/53", "completion": "    return x + y\n"}
    wrong = {"task_id": "HumanEval/53", "completion": "    return 7\n"}
    (tmp_path / "p.jsonl").write_text(f"{json.dumps(right)}\n{json.dumps(wrong)}\n")
    return ("--benchmark", "human-eval", "--predictions", "p.jsonl")


@pytest.mark.parametrize(
    "command",
    [
        ("eval", "-b", "human-eval", "-a", "nop", "-l", "2"),
        ("otter", "bench", "human-eval", "-m", "scripted/echo", "-l", "2"),
        ("grade",),
    ],
)
def test_reports_are_written_by_the_commands_that_run(chimera, predictions, tmp_path, command):
    given = (*command, *(predictions if command == ("grade",) else ()))
    ran = chimera(*given, "--junit", "out/junit.xml", "--ctrf", "out/ctrf.json")
    suite = ElementTree.parse(tmp_path / "out" / "junit.xml").getroot()[0]

    assert ran.code == 0
    assert suite.get("tests") == "2"
    assert json.loads((tmp_path / "out" / "ctrf.json").read_text())["results"]["summary"]["tests"]


def test_github_gets_annotations_and_a_summary(chimera, predictions, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "page.md"))
    ran = chimera("grade", *predictions)
    lines = ran.err.splitlines()
    page = (tmp_path / "page.md").read_text()

    assert [line.split("::")[1] for line in lines if line.startswith("::")] == [
        *("notice title=chimera", "warning title=chimera 1 ×")
    ]
    assert "50.0%25 passed" in lines[-2]
    assert page.startswith("### human&#45;eval&#58; 50.0% passed")
    assert "| passed | 1 |" in page
    assert "::" not in chimera("grade", *predictions, "--no-github").err


def test_a_models_words_are_no_command_to_the_runner(capsys, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    echo("fine :: here\n  ::error::x\n::set-output name=a::b\nx ##[add-path]/tmp")

    assert capsys.readouterr().out.splitlines() == [
        "fine :: here",
        "  \\u003a:error::x",
        "\\u003a:set-output name=a::b",
        "x \\u0023#[add-path]/tmp",
    ]
