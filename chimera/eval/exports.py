"""A stored run in other formats: results, prediction files, trajectories, a benchmark's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from chimera.errors import UsageError
from chimera.eval.benchmark import Export, StoredRun
from chimera.eval.data.predictions import ANSWER_FIELDS, REPLY_FIELD
from chimera.eval.data.rows import rows
from chimera.eval.filed import gathered
from chimera.eval.registry import adapters, benchmark_class
from chimera.eval.run import RunSettings, stored_settings
from chimera.eval.runs.ci import ctrf, junit
from chimera.eval.runs.formats.atif import trajectory_document
from chimera.eval.runs.formats.every_eval_ever import write_every_eval_ever
from chimera.eval.runs.formats.inspect_log import write_inspect_log
from chimera.eval.runs.formats.otlp import otlp_lines
from chimera.eval.runs.formats.tables import csv_lines, write_parquet
from chimera.eval.runs.result import EvalResult, TaskEvalResult
from chimera.eval.runs.seal import is_own
from chimera.eval.runs.store import RunStore
from chimera.eval.values import TrialRecord, content_digest
from chimera.text import did_you_mean, file_name
from chimera.types import JSON


def export_lines(store: RunStore, kind: str) -> Iterator[str] | None:
    """The run in a format that is one text, by line; None when `kind` names another format."""
    write = TEXTS.get(kind)
    return None if write is None else write(store)


def export_files(store: RunStore, kind: str, target: Path) -> list[Path]:
    """Write the run to a file, or below a directory for formats of several files.

    Returns what a person should know of: summaries, not the file of each trial.
    """
    if kind in FILES:
        target.parent.mkdir(parents=True, exist_ok=True)
        FILES[kind](store, target)
        return [target]
    if kind in FOLDERS:
        return FOLDERS[kind](store, target)
    write = _benchmarks_own(store, kind)
    stored = StoredRun(
        Path(store.path).stem,
        answered_by(store),
        store.records(whole=True),
        _all_tasks(store),
        store.manifest(),
        lambda task: _task(store, task),
    )
    return list(write(stored, target))


def check_format(store: RunStore, kind: str) -> None:
    """Raise where there is no such format for this run."""
    if kind not in FORMATS:
        _benchmarks_own(store, kind)


def _task(store: RunStore, task_id: str) -> tuple[str, Mapping[str, JSON]]:
    query = "SELECT prompt, metadata FROM tasks WHERE task_id = ?"
    for prompt, metadata in store.rows(tuple[str, str], query, (task_id,)):
        return prompt, store.decode(metadata)
    return "", {}


def _benchmarks_own(store: RunStore, kind: str) -> Export:
    """The export in a format of the run's benchmark."""
    name = str(store.manifest().get("identity", {}).get("benchmark", "?"))
    shipped = adapters().get(name.partition(":")[0])  # first: no code of a stranger's is loaded
    own = (shipped or benchmark_class(_settings(store).benchmark)).exports
    if kind not in own:
        known = [*FORMATS, *own]
        raise UsageError(
            f"--format {kind}: a run of {name} can be written as {', '.join(known)}"
            f"{did_you_mean(kind, known)}"
        )
    return own[kind]


def answered_by(store: RunStore) -> str:
    """Who made the answers of a run: as the graded file says, else its model, else its agent."""
    manifest = store.manifest()
    if manifest.get("predictions"):
        path = Path(manifest["predictions"])
        first: Mapping[str, Any] = (
            next(rows(path), {}) if is_own(manifest) and path.exists() else {}
        )
        return str(first.get("model_name_or_path") or path.stem)
    return str(manifest.get("model") or manifest.get("agent") or "chimera")


def _all_tasks(store: RunStore) -> Sequence[str]:
    """All that could have been submitted: the run's tasks; for graded files, the whole data set.

    A run that was made elsewhere does not say which code and files are read here.
    """
    manifest = store.manifest()
    if not manifest.get("predictions") or not is_own(manifest):
        query = "SELECT task_id FROM tasks"
        return gathered(task for (task,) in store.rows(tuple[str], query))
    return gathered(str(task["id"]) for task in _settings(store).create_benchmark().tasks())


def _settings(store: RunStore) -> RunSettings:
    return RunSettings.of_manifest(
        stored_settings(store, used=("benchmark", "dataset", "option", "role"))
    )


def _results(store: RunStore) -> Iterator[str]:
    for record in store.records():
        yield msgspec.json.encode(TaskEvalResult.of(record)).decode()


def _document(store: RunStore) -> Iterator[str]:
    return EvalResult.of(store).document()


def _predictions(store: RunStore) -> Iterator[str]:
    model = answered_by(store)
    for record in store.records():
        if record.submission is not None:
            yield msgspec.json.encode(_prediction(record, model)).decode()


def _prediction(record: TrialRecord, model: str) -> dict[str, str]:
    submission = record.submission
    assert submission is not None
    if submission.form == "model_patch":
        head = {"instance_id": record.task_id, "model_name_or_path": model}
    else:
        head = {}
    line = {**head, "task_id": record.task_id}
    if submission.form in ANSWER_FIELDS:
        return {**line, submission.form: submission.text}
    return {**line, REPLY_FIELD: submission.text if submission.raw is None else submission.raw}


def _inspect_log(store: RunStore, file: Path) -> None:
    write_inspect_log(store, file, model=answered_by(store))


def _every_eval_ever(store: RunStore, folder: Path) -> list[Path]:
    return write_every_eval_ever(store, folder, model=answered_by(store))


def _trajectories(store: RunStore, folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {**store.manifest(), "run": Path(store.path).stem}
    taken: dict[str, str] = {}
    for record in store.records(whole=True):
        document = trajectory_document(record, manifest, prompt=store.task_prompt(record.task_id))
        content = msgspec.json.format(msgspec.json.encode(document))
        name = file_name(record.task_id)
        if taken.setdefault(name.lower(), record.task_id) != record.task_id:
            name += f"-{content_digest(record.task_id)[:12]}"  # a/b and a_b are two tasks
        (folder / f"{name}-{record.sample}.json").write_bytes(content)
    return []


TEXTS: Mapping[str, Callable[[RunStore], Iterator[str]]] = {
    "jsonl": _results,
    "json": _document,
    "predictions": _predictions,
    "csv": csv_lines,
    "otlp": otlp_lines,
    "junit": junit,
    "ctrf": ctrf,
}
FILES: Mapping[str, Callable[[RunStore, Path], None]] = {
    "parquet": write_parquet,
    "inspect": _inspect_log,
}
FOLDERS: Mapping[str, Callable[[RunStore, Path], list[Path]]] = {
    "atif": _trajectories,
    "every-eval-ever": _every_eval_ever,
}
FORMATS = (*TEXTS, *FILES, *FOLDERS)
