"""Results in swebench's own files, compared with those that swebench 5.0.2 makes of the same."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from click.testing import CliRunner

from chimera.cli.main import cli
from chimera.eval.benchmarks._swe_bench.official_report import write_predictions, write_reports
from chimera.eval.benchmarks.swe_bench import SWEBench, SWEBenchInstance
from chimera.eval.data.predictions import read_predictions
from chimera.eval.kits.repositories import swebench_rule as rule
from chimera.eval.runs.store import RunStore
from chimera.eval.values import Submission, TrialError, TrialRecord, Verdict

PATCH = Submission("diff --git a/x b/x\n", form="model_patch")
APPLIED = {"patch_exists": True, "patch_applied": "git apply"}
NOTHING = {"success": [], "failure": []}


def ran(name: str, output: str, *, code: int = 0, **metrics) -> TrialRecord:
    """A record as the grader leaves it, for an instance with F2P t::a and P2P t::b."""
    held = {"t::a": "PASSED t::a" in output, "t::b": "PASSED t::b" in output}
    status = {
        group: {"success": [t] if held[t] else [], "failure": [] if held[t] else [t]}
        for group, t in (("FAIL_TO_PASS", "t::a"), ("PASS_TO_PASS", "t::b"))
    }
    evidence = {"tests_status": status, "log": rule.write_log(output, code)}
    verdict = Verdict(all(held.values()), metrics={**APPLIED, **metrics}, evidence=evidence)
    return TrialRecord(name, 0, "", PATCH, verdict)


RECORDS = [
    ran("a__b-1", "PASSED t::a\nPASSED t::b"),
    ran("a__b-2", "PASSED t::b\nFAILED t::a - no", code=1),
    ran("a__b-3", "E  ModuleNotFoundError: x\ncollected 0 items", code=2, ungradable=True),
    ran("a__b-4", "PASSED t::a", timed_out=True, timeout=1800.0, ungradable=True),
    ran("a__b-5", "OSError: Cannot allocate memory", code=1, ungradable=True),
    TrialRecord("a__b-6", 0, "", PATCH, Verdict(False, "does not apply",
                                                metrics={"patch_applied": False})),
    TrialRecord("a__b-7", 0, "", Submission(form="model_patch"), Verdict(False)),
    TrialRecord("a__b-8", 0, "", PATCH, error=TrialError("environment", "no disk")),
    TrialRecord("a__b-9", 0, "", None, error=TrialError("agent", "no answer")),
]  # fmt: skip
IDS = [*(record.task_id for record in RECORDS), "a__b-10"]


def test_the_summary(tmp_path):
    place = write_reports(RECORDS, tmp_path, model="a/b", run="r1", dataset=IDS)

    assert place.name == "a__b.r1.json"
    found = json.loads(place.read_text())
    assert {k: v for k, v in found.items() if k.endswith("_instances")} == {
        "total_instances": 10,
        "submitted_instances": 8,
        "completed_instances": 4,
        "resolved_instances": 1,
        "unresolved_instances": 3,
        "infra_failure_instances": 1,
        "ambiguous_failure_instances": 2,
        "empty_patch_instances": 1,
        "error_instances": 3,
    }
    assert found["incomplete_ids"] == ["a__b-10", "a__b-9"]
    assert found["error_ids"] == ["a__b-4", "a__b-6", "a__b-8"]
    assert found["failure_reasons"] == {
        "a__b-3": "missing_module",
        "a__b-4": "tests_timed_out",
        "a__b-5": "out_of_memory",
    }


def test_reports_of_instances(tmp_path):
    write_reports(RECORDS, tmp_path, model="a/b", run="r1", dataset=IDS)
    folder = tmp_path / "logs" / "run_evaluation" / "r1" / "a__b"

    first = json.loads((folder / "a__b-1" / "report.json").read_text())["a__b-1"]
    assert first["tests_status"] == {
        "FAIL_TO_PASS": {"success": ["t::a"], "failure": []},
        "PASS_TO_PASS": {"success": ["t::b"], "failure": []},
        "FAIL_TO_FAIL": NOTHING,
        "PASS_TO_FAIL": NOTHING,
    }
    assert (first["resolved"], first["patch_successfully_applied"]) == (True, True)
    third = json.loads((folder / "a__b-3" / "report.json").read_text())["a__b-3"]
    assert third == {
        "patch_is_None": False,
        "patch_exists": True,
        "patch_successfully_applied": False,
        "resolved": False,
        "infra_failure": False,
        "infra_failure_reason": "missing_module",
    }
    assert not [n for n in (4, 6, 8) if (folder / f"a__b-{n}" / "report.json").exists()]
    assert not (folder / "a__b-7").exists()


OFFICIAL = """
import json, sys
from pathlib import Path
from types import SimpleNamespace
from swebench.harness.grading import get_eval_report
from swebench.harness.reporting import make_run_report
given = json.load(sys.stdin)
predictions = {p["instance_id"]: p for p in map(json.loads, open(given["predictions"]))}
reports = {}
for place in sorted(Path("logs/run_evaluation/r1/a__b").glob("*/report.json")):
    name = place.parent.name
    spec = SimpleNamespace(instance_id=name, log_parser="parse_log_pytest", FAIL_TO_PASS=["t::a"],
                           PASS_TO_PASS=["t::b"], eval_type="pass_and_fail")
    log = place.with_name("test_output.txt")
    reports.update(get_eval_report(spec, predictions[name], str(log), True))
Path("theirs").mkdir()
made = make_run_report(predictions, [{"instance_id": i} for i in given["ids"]], "r1",
                       report_dir="theirs")
Path("theirs.json").write_text(json.dumps({"reports": reports, "summary": json.load(open(made))}))
"""


def test_swebench_makes_the_same_reports(tmp_path):
    """Needs CHIMERA_SWEBENCH_PYTHON, an interpreter that has swebench 5.0 installed."""
    official = os.environ.get("CHIMERA_SWEBENCH_PYTHON")
    if not official:
        pytest.skip("CHIMERA_SWEBENCH_PYTHON names no interpreter with swebench")
    ours = write_reports(RECORDS, tmp_path, model="a/b", run="r1", dataset=IDS)
    given = json.dumps({"predictions": "a__b.r1.predictions.jsonl", "ids": IDS})
    done = subprocess.run(
        [official, "-c", OFFICIAL], input=given, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-800:]
    theirs = json.loads((tmp_path / "theirs.json").read_text())

    assert json.loads(ours.read_text()) == theirs["summary"]
    for name, report in theirs["reports"].items():
        place = tmp_path / "logs" / "run_evaluation" / "r1" / "a__b" / name / "report.json"
        assert json.loads(place.read_text()) == {name: report}


def test_predictions_can_be_read_again(tmp_path):
    write_predictions(RECORDS, tmp_path / "predictions.jsonl", "model")
    benchmark = SWEBench()
    for record in RECORDS:
        benchmark.add_instance(SWEBenchInstance(record.task_id, "a/b", "c", "s"))

    found = list(read_predictions(benchmark, tmp_path / "predictions.jsonl"))

    assert [p.task_id for p in found] == [r.task_id for r in RECORDS if r.submission]
    assert found[0].submission == PATCH


def stored(path, benchmark: str, **manifest) -> None:
    with RunStore(path, create=True) as store:
        store.set_manifest({"identity": {"benchmark": benchmark}, "model": "maker/m", **manifest})
        store.add_tasks([{"id": name, "prompt": ""} for name in IDS])
        for record in RECORDS:
            store.write(record)
        store.write(TrialRecord("a__b-1", 1, "", PATCH, Verdict(False, metrics=APPLIED)))


def test_runs_are_exported_a_sample_at_a_time(tmp_path):
    stored(tmp_path / "r1.chi", "swe-bench-verified")
    arguments = ["runs", "export", "r1", "--runs-dir", str(tmp_path), "--format", "swe-bench"]

    done = CliRunner().invoke(cli, [*arguments, "--output", str(tmp_path / "out")])

    assert done.exit_code == 0, done.output
    first = json.loads((tmp_path / "out" / "maker__m.r1.json").read_text())
    second = json.loads((tmp_path / "out" / "maker__m.r1-1.json").read_text())
    assert (first["resolved_ids"], second["unresolved_ids"]) == (["a__b-1"], ["a__b-1"])
    assert (first["total_instances"], second["total_instances"]) == (10, 10)
    lines = (tmp_path / "out" / "maker__m.r1.predictions.jsonl").read_text().splitlines()
    assert len(lines) == 8
    assert json.loads(lines[0])["model_name_or_path"] == "maker/m"


def test_other_benchmarks_are_refused(tmp_path):
    stored(tmp_path / "r1.chi", "mbpp")
    arguments = ["runs", "export", "r1", "--runs-dir", str(tmp_path), "--format", "swe-bench"]

    done = CliRunner().invoke(cli, [*arguments, "--output", str(tmp_path / "out")])

    assert done.exit_code != 0
    assert "mbpp" in str(done.exception or done.output)
