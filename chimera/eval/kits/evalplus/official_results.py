"""Results as EvalPlus writes them: one JSON document, every task with its samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

import msgspec

from chimera.eval.benchmark import StoredRun
from chimera.eval.runs.stats import pass_at_k
from chimera.eval.values import TrialRecord
from chimera.types import JSON


def export(run: StoredRun, folder: Path) -> list[Path]:
    """`eval_results.json`; a trial without a verdict is not in it, nor which inputs failed."""
    folder.mkdir(parents=True, exist_ok=True)
    tasks: dict[str, list[dict[str, JSON]]] = {}
    for record in run.records:
        if record.verdict is not None and record.submission is not None:
            tasks.setdefault(record.task_id, []).append(_result(record, record.verdict.metrics))
    dataset = run.manifest.get("dataset")
    document = {
        "date": datetime.fromtimestamp(run.manifest.get("started", 0), UTC).strftime(
            "%Y-%m-%d %H:%M"
        ),
        "hash": dataset.get("sha256") if isinstance(dataset, Mapping) else None,
        "eval": tasks,
        "pass_at_k": {kind: dict(_rates(tasks, kind)) for kind in ("base", "plus")},
    }
    file = folder / "eval_results.json"
    file.write_bytes(msgspec.json.encode(document))
    return [file]


def _result(record: TrialRecord, metrics: Mapping[str, JSON]) -> dict[str, JSON]:
    assert record.submission is not None
    late = "timeout" if metrics.get("limit") else "fail"
    held = {kind: "pass" if metrics.get(kind) else late for kind in ("base", "plus")}
    return {
        "task_id": record.task_id,
        "solution": record.submission.text,
        "base_status": held["base"],
        "plus_status": held["plus"] if "plus" in metrics else None,
        "base_fail_tests": [],
        "plus_fail_tests": [],
    }


def _rates(tasks: Mapping[str, list[dict[str, JSON]]], kind: str) -> Iterator[tuple[str, float]]:
    """pass@k for those k of which every task has samples; plus asks that base held too."""
    needed = ("base_status",) if kind == "base" else ("base_status", "plus_status")
    counts = [
        (len(samples), sum(all(sample[name] == "pass" for name in needed) for sample in samples))
        for samples in tasks.values()
    ]
    for k in (1, 10, 100):
        if counts and min(n for n, _ in counts) >= k:
            yield f"pass@{k}", fmean(pass_at_k(n, c, k) for n, c in counts)
