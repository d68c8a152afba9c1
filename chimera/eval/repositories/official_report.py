"""Results in swebench's own files: predictions, a report for each instance, the summary."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from chimera.eval.types import TrialRecord
from chimera.types import JSON

SCHEMA_VERSION = 2


def write_predictions(records: Iterable[TrialRecord], path: Path, model: str) -> None:
    """One line for each record that has a submission, as the official harness reads them."""
    lines = [
        json.dumps(
            {
                "instance_id": record.task_id,
                "model_name_or_path": model,
                "model_patch": record.submission.text,
            }
        )
        for record in records
        if record.submission is not None
    ]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def instance_report(record: TrialRecord) -> dict[str, JSON]:
    """The official `report.json` of one instance."""
    verdict = record.verdict
    metrics = verdict.metrics if verdict else {}
    report: dict[str, JSON] = {
        "patch_is_None": record.submission is None,
        "patch_exists": bool(metrics.get("patch_exists")),
        "patch_successfully_applied": bool(metrics.get("patch_applied")),
        "resolved": record.passed,
        "infra_failure": record.error is not None,
    }
    if record.error is not None:
        report["infra_failure_reason"] = record.why
    if verdict is not None and "tests_status" in verdict.evidence:
        report["tests_status"] = verdict.evidence["tests_status"]
    return {record.task_id: report}


def summary(records: Sequence[TrialRecord], total: int) -> dict[str, JSON]:
    """The official summary: counts and lists of ids. `total` is the size of the data set."""
    empty = [r.task_id for r in records if r.submission and not r.submission.text.strip()]
    errors = [r.task_id for r in records if r.status == "error"]
    resolved = [r.task_id for r in records if r.passed]
    done = [r.task_id for r in records if r.status != "error" and r.task_id not in empty]
    unresolved = [name for name in done if name not in resolved]
    lists = {
        "submitted": [r.task_id for r in records if r.submission is not None],
        "completed": done,
        "resolved": resolved,
        "unresolved": unresolved,
        "empty_patch": empty,
        "error": errors,
    }
    counts = {f"{name}_instances": len(ids) for name, ids in lists.items()}
    ids = {f"{name}_ids": sorted(ids) for name, ids in lists.items()}
    return {"schema_version": SCHEMA_VERSION, "total_instances": total, **counts, **ids}


def write_reports(
    records: Sequence[TrialRecord], folder: Path, *, model: str, run: str, total: int
) -> Path:
    """Write every report below `folder` in the official layout; the summary's path."""
    name = model.replace("/", "__")
    for record in records:
        place = folder / "logs" / "run_evaluation" / run / name / record.task_id
        place.mkdir(parents=True, exist_ok=True)
        (place / "report.json").write_text(json.dumps(instance_report(record), indent=2))
        if record.submission is not None:
            (place / "patch.diff").write_text(record.submission.text, encoding="utf-8")
        if record.verdict is not None and isinstance(record.verdict.evidence.get("log"), str):
            (place / "test_output.txt").write_text(record.verdict.evidence["log"])
    path = folder / f"{name}.{run}.json"
    path.write_text(json.dumps(summary(records, total), indent=2))
    return path
