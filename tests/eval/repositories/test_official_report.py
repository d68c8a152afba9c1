"""Results in swebench's own files."""

from __future__ import annotations

import json

from chimera.eval.benchmarks.swe_bench import SWEBench, SWEBenchInstance
from chimera.eval.predictions import read_predictions
from chimera.eval.repositories.official_report import write_predictions, write_reports
from chimera.eval.types import Submission, TrialError, TrialRecord, Verdict

PATCH = Submission("diff --git a/x b/x\n", form="model_patch")
STATUS = {"FAIL_TO_PASS": {"success": ["t"], "failure": []}}
RECORDS = [
    TrialRecord(
        "a__b-1", 0, "", PATCH,
        Verdict(True, metrics={"patch_exists": True, "patch_applied": "git apply"},
                evidence={"tests_status": STATUS, "log": "PASSED t"}),
    ),
    TrialRecord("a__b-2", 0, "", PATCH, Verdict(False, metrics={"patch_exists": True})),
    TrialRecord("a__b-3", 0, "", Submission(form="model_patch"), Verdict(False)),
    TrialRecord("a__b-4", 0, "", None, error=TrialError("environment", "no disk")),
]  # fmt: skip


def test_reports_and_summary(tmp_path):
    place = write_reports(RECORDS, tmp_path, model="a/b", run="r1", total=300)

    assert place.name == "a__b.r1.json"
    totals = json.loads(place.read_text())
    assert totals["total_instances"] == 300
    assert totals["resolved_ids"] == ["a__b-1"]
    assert totals["unresolved_ids"] == ["a__b-2"]
    assert totals["empty_patch_ids"] == ["a__b-3"]
    assert totals["error_ids"] == ["a__b-4"]
    folder = tmp_path / "logs" / "run_evaluation" / "r1" / "a__b"
    first = json.loads((folder / "a__b-1" / "report.json").read_text())["a__b-1"]
    assert first["resolved"]
    assert first["patch_successfully_applied"]
    assert first["tests_status"] == STATUS
    broken = json.loads((folder / "a__b-4" / "report.json").read_text())["a__b-4"]
    assert (broken["infra_failure"], broken["resolved"]) == (True, False)


def test_predictions_can_be_read_again(tmp_path):
    write_predictions(RECORDS, tmp_path / "predictions.jsonl", "model")
    benchmark = SWEBench()
    for record in RECORDS:
        benchmark.add_instance(SWEBenchInstance(record.task_id, "a/b", "c", "s"))

    found = list(read_predictions(benchmark, tmp_path / "predictions.jsonl"))

    assert [p.task_id for p in found] == ["a__b-1", "a__b-2", "a__b-3"]
    assert found[0].submission == PATCH
