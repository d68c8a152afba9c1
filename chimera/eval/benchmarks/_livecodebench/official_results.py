"""Results as LiveCodeBench writes them: every problem with its replies, programs and verdicts."""

from __future__ import annotations

from pathlib import Path

import msgspec

from chimera.eval.benchmark import StoredRun
from chimera.eval.values import TrialRecord
from chimera.types import JSON

#: What of a problem no run knows; its text is in the prompt, which stands in its place.
_UNKNOWN = dict.fromkeys(("question_title", "contest_id", "starter_code"), "")


def export(run: StoredRun, folder: Path) -> list[Path]:
    """`SCENARIO_eval_all.json`; a trial without a verdict is not in it."""
    folder.mkdir(parents=True, exist_ok=True)
    problems: dict[str, list[TrialRecord]] = {}
    for record in run.records:
        if record.verdict is not None and record.submission is not None:
            problems.setdefault(record.task_id, []).append(record)
    options = run.manifest.get("identity", {}).get("options") or {}
    file = folder / f"Scenario.{options.get('scenario', 'codegeneration')}_eval_all.json"
    content = [_problem(run, task, records) for task, records in problems.items()]
    file.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=4))
    return [file]


def _problem(run: StoredRun, task: str, records: list[TrialRecord]) -> dict[str, JSON]:
    prompt, known = run.task(task)
    graded = [record.passed for record in records]
    return {
        **_UNKNOWN,
        "platform": known.get("platform", ""),
        "contest_date": known.get("date", ""),
        "difficulty": known.get("difficulty", ""),
        "question_id": task,
        "question_content": prompt,
        "output_list": [record.output for record in records],
        "code_list": [record.submission.text for record in records if record.submission],
        "graded_list": graded,
        "pass@1": sum(graded) / len(graded),
        "metadata": [msgspec.json.encode({"why": record.why}).decode() for record in records],
    }
