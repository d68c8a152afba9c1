"""Results in swebench's own files: predictions, a report for each instance, the summary.

The layout is what `swebench.harness` leaves behind, so that its own tools read and re-grade it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from chimera.eval.benchmark import StoredRun
from chimera.eval.values import TrialRecord
from chimera.types import JSON

SCHEMA_VERSION = 2
LOGS = Path("logs") / "run_evaluation"

#: What upstream makes of an instance. `error`: it leaves no report (the patch does not apply, the
#: tests run out of time, the machine fails).
Listing = Literal["empty_patch", "error", "resolved", "unresolved"]

#: Signs in a log that something other than the patch is to blame, by upstream's names for them.
#: The first that is found counts; the flag tells a sure sign from one a bad patch leaves as well.
_SIGNS: tuple[tuple[str, bool, re.Pattern[str]], ...] = tuple(
    (name, sure, re.compile("|".join(texts), re.MULTILINE))
    for name, sure, texts in (
        ("browser_launch_failed", True, ("Failed to launch", "Failed to connect to the bus")),
        ("display_unavailable", True,
         ("cannot open display", "Missing X server", "unable to open X display")),
        ("out_of_memory", True, ("Cannot allocate memory", "OutOfMemoryError", "^Killed$")),
        ("container_unavailable", True,
         ("Error response from daemon", "Cannot connect to the Docker daemon")),
        ("network_unreachable", True,
         ("Could not resolve host", "Temporary failure in name resolution")),
        ("missing_module", False,
         ("Cannot find module", "MODULE_NOT_FOUND", "ModuleNotFoundError")),
        ("no_tests_collected", False, ("no tests ran", "collected 0 items")),
        ("tests_timed_out", False, (r"Timeout error: \d+ seconds exceeded",)),
    )
)  # fmt: skip


def listing(record: TrialRecord) -> Listing:
    """How upstream would list a record that has a submission."""
    if record.submission is None or record.submission.text == "":
        return "empty_patch"
    if record.verdict is None or record.verdict.metrics.get("timed_out"):
        return "error"
    if not record.verdict.metrics.get("patch_applied"):
        return "error"
    return "resolved" if record.passed else "unresolved"


def prediction(record: TrialRecord, model: str) -> dict[str, JSON]:
    assert record.submission is not None
    return {
        "instance_id": record.task_id,
        "model_name_or_path": model,
        "model_patch": record.submission.text,
    }


def write_predictions(records: Iterable[TrialRecord], path: Path, model: str) -> None:
    """One line for each record that has a submission, as the official harness reads them."""
    lines = [json.dumps(prediction(record, model)) for record in records if record.submission]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def instance_report(record: TrialRecord) -> dict[str, JSON]:
    """The official `report.json` of an instance whose tests ran."""
    verdict = record.verdict
    assert verdict is not None
    read = not verdict.metrics.get("ungradable")
    report: dict[str, JSON] = {
        "patch_is_None": record.submission is None,
        "patch_exists": record.submission is not None,
        "patch_successfully_applied": read,
        "resolved": record.passed,
        "infra_failure": False,
    }
    if not read:
        if sign := _sign(_log(record)):
            report["infra_failure"] = sign[1]
            report["infra_failure_reason"] = sign[0]
    elif "tests_status" in verdict.evidence:
        nothing: JSON = {"success": [], "failure": []}
        status: Mapping[str, JSON] = verdict.evidence["tests_status"]
        report["tests_status"] = {**status, "FAIL_TO_FAIL": nothing, "PASS_TO_FAIL": nothing}
    return {record.task_id: report}


def summary(records: Sequence[TrialRecord], dataset: Iterable[str]) -> dict[str, JSON]:
    """The official summary. `dataset` are the ids of every instance that could be submitted."""
    known = set(dataset)
    listings = {r.task_id: listing(r) for r in records if r.submission is not None}
    signs = {
        record.task_id: sign
        for record in records
        if listings.get(record.task_id) in ("unresolved", "error")
        and (sign := _sign(_log(record) + "\n" + _journal(record)))
    }

    def having(*wanted: Listing) -> list[str]:
        return sorted(name for name, found in listings.items() if found in wanted)

    lists = {
        "completed": having("resolved", "unresolved"),
        "resolved": having("resolved"),
        "unresolved": having("unresolved"),
        "infra_failure": sorted(name for name, (_, sure) in signs.items() if sure),
        "ambiguous_failure": sorted(name for name, (_, sure) in signs.items() if not sure),
        "empty_patch": having("empty_patch"),
        "error": having("error"),
    }
    return {
        "total_instances": len(known),
        "submitted_instances": len(listings),
        **{f"{name}_instances": len(ids) for name, ids in lists.items()},
        **{f"{name}_ids": ids for name, ids in lists.items()},
        "submitted_ids": sorted(listings),
        "incomplete_ids": sorted(known - listings.keys()),
        "failure_reasons": {name: signs[name][0] for name in sorted(signs)},
        "schema_version": SCHEMA_VERSION,
    }


def write_reports(
    records: Sequence[TrialRecord],
    folder: Path,
    *,
    model: str,
    run: str,
    dataset: Iterable[str],
) -> Path:
    """Write predictions, reports and summary below `folder` in the official layout.

    The summary's path. `records` has one record for each instance, with its evidence.
    """
    name = model.replace("/", "__")
    folder.mkdir(parents=True, exist_ok=True)
    write_predictions(records, folder / f"{name}.{run}.predictions.jsonl", model)
    for record in records:
        if record.submission is not None and record.submission.text:
            _write_instance(record, folder / LOGS / run / name / record.task_id)
    path = folder / f"{name}.{run}.json"
    path.write_text(json.dumps(summary(records, dataset), indent=4) + "\n", encoding="utf-8")
    return path


def export(run: StoredRun, folder: Path) -> list[Path]:
    """The summaries. Upstream knows one answer for each instance: each sample is a run to it."""
    samples: dict[int, list[TrialRecord]] = {}
    for record in run.records:
        samples.setdefault(record.sample, []).append(record)
    return [
        write_reports(
            samples[sample],
            folder,
            model=run.model,
            run=f"{run.name}-{sample}" if sample else run.name,
            dataset=run.tasks,
        )
        for sample in sorted(samples)
    ]


def _write_instance(record: TrialRecord, place: Path) -> None:
    assert record.submission is not None
    place.mkdir(parents=True, exist_ok=True)
    texts = {
        "patch.diff": record.submission.text,
        "test_output.txt": _log(record),
        "run_instance.log": _journal(record),
    }
    if listing(record) != "error":
        texts["report.json"] = json.dumps(instance_report(record), indent=4)
    for name, text in texts.items():
        if text:
            (place / name).write_text(text, encoding="utf-8", errors="surrogateescape")


def _log(record: TrialRecord) -> str:
    log = record.verdict.evidence.get("log") if record.verdict else None
    if not isinstance(log, str):
        return ""
    late = record.verdict is not None and record.verdict.metrics.get("timed_out")
    seconds = record.verdict.metrics.get("timeout", 0) if record.verdict else 0
    return f"{log}\n\nTimeout error: {seconds:.0f} seconds exceeded." if late else log


def _journal(record: TrialRecord) -> str:
    """What happened to an instance that upstream would have given up on."""
    if record.error is not None:
        return f"{record.why}\n"
    applied = record.verdict is None or record.verdict.metrics.get("patch_applied")
    return "" if applied else f">>>>> Patch Apply Failed:\n{record.why}\n"


def _sign(log: str) -> tuple[str, bool] | None:
    return next(((name, sure) for name, sure, sign in _SIGNS if sign.search(log)), None)
