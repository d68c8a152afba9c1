"""A run as a log of Inspect AI (`.eval`): a zip of JSON files that `inspect view` opens."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

import chimera
from chimera.eval.filed import Filed
from chimera.eval.runs.result import EvalResult
from chimera.eval.runs.store import RunStore
from chimera.eval.values import TrialRecord
from chimera.types import JSON, Message, Step, Usage

LOG_VERSION = 2
SCORER = "chimera"
#: Characters of an id that is the name of a file in the archive.
MOST_NAME = 1000
#: Inspect's words for right and wrong.
_VALUES = {"passed": "C", "failed": "I"}


def write_inspect_log(store: RunStore, file: Path, *, model: str) -> None:
    """The log, a trial at a time; Inspect's epochs are the samples, counted from 1."""
    result, manifest = EvalResult.of(store), store.manifest()
    head = _header(result, manifest, model)
    last = manifest.get("started", 0.0)
    summaries: Filed[dict[str, JSON]] = Filed()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        start = {name: head[name] for name in ("version", "eval", "plan")}
        _write(archive, "_journal/start.json", start)
        for record in store.records(whole=True):
            sample = _sample(record, store.task_prompt(record.task_id), model)
            _write(archive, _entry(record), sample)
            summaries.append(_summary(sample))
            last = max(last, record.started + record.duration)
        head["stats"]["completed_at"] = _time(last)
        for name in ("_journal/summaries/1.json", "summaries.json"):
            _write_list(archive, name, summaries)
        _write(archive, "header.json", head)


def _entry(record: TrialRecord) -> str:
    """Where Inspect looks for a sample, by its id; what no archive can hold is replaced."""
    name = record.task_id
    leaves = any(part in ("", ".", "..") for part in re.split(r"[/\\]", name))
    if leaves or "\0" in name or len(name) > MOST_NAME:
        name = _id(name)
    return f"samples/{name}_epoch_{record.sample + 1}.json"


def _write(archive: zipfile.ZipFile, name: str, value: JSON) -> None:
    archive.writestr(name, msgspec.json.encode(value))


def _write_list(archive: zipfile.ZipFile, name: str, values: Iterable[JSON]) -> None:
    with archive.open(name, "w", force_zip64=True) as file:
        before = b"["
        for value in values:
            file.write(before + msgspec.json.encode(value))
            before = b","
        file.write(b"[]" if before == b"[" else b"]")


def _header(result: EvalResult, manifest: Mapping[str, JSON], model: str) -> dict[str, JSON]:
    started = _time(manifest.get("started", 0.0))
    samples = manifest.get("samples", 1)
    rate = result.pass_rate or 0.0
    metrics = {
        "accuracy": {"name": "accuracy", "value": rate, "params": {}},
        "lowest": {"name": "lowest", "value": result.bounds[0], "params": {}},
        "highest": {"name": "highest", "value": result.bounds[1], "params": {}},
    }
    tasks = result.task_count()
    return {
        "version": LOG_VERSION,
        "status": "success" if not result.not_run else "cancelled",
        "eval": {
            "eval_id": _id(result.store.path, "eval"),
            "run_id": _id(result.store.path, "run"),
            "created": started,
            "task": result.benchmark,
            "task_id": _id(result.store.path, "task"),
            "task_version": 0,
            "task_attribs": {},
            "task_args": {},
            "dataset": {"name": result.benchmark, "samples": tasks, "shuffled": False},
            "model": model,
            "model_args": {},
            "config": {"epochs": samples},
            "packages": {"chimera-eval": chimera.__version__},
            "metadata": {"agent": str(manifest.get("agent")), "made by": "chimera runs export"},
        },
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {
            "total_samples": result.planned,
            "completed_samples": result.passed + result.failed,
            "scores": [{"name": SCORER, "scorer": SCORER, "params": {}, "metrics": metrics}]
            if result.judged
            else [],
        },
        "stats": {
            "started_at": started,
            "completed_at": started,
            "model_usage": {model: _usage(result.usage)},
        },
    }


def _sample(record: TrialRecord, prompt: str, model: str) -> dict[str, JSON]:
    messages = list(_messages(record, prompt))
    sample: dict[str, JSON] = {
        "id": record.task_id,
        "epoch": record.sample + 1,
        "input": prompt,
        "target": "",
        "messages": messages,
        "output": _output(record, model),
        "scores": {SCORER: _score(record)} if record.verdict else {},
        "metadata": dict(record.verdict.metrics) if record.verdict else {},
        "store": {},
        "events": [],
        "model_usage": {model: _usage(record.usage)},
        "started_at": _time(record.started),
        "completed_at": _time(record.started + record.duration),
        "total_time": record.duration,
        "working_time": record.duration,
        "uuid": _id(record.digest, record.task_id, record.sample),
        "attachments": {},
    }
    if record.error is not None:
        sample["error"] = {"message": record.why, "traceback": "", "traceback_ansi": ""}
    return sample


def _score(record: TrialRecord) -> dict[str, JSON]:
    text = record.submission.text if record.submission else ""
    return {"value": _VALUES[record.status], "answer": text, "explanation": record.why}


def _summary(sample: Mapping[str, JSON]) -> dict[str, JSON]:
    names = ("id", "epoch", "target", "model_usage", "started_at", "completed_at",
             "total_time", "working_time", "uuid")  # fmt: skip
    scores = {
        name: {"value": score["value"], "answer": score["answer"][:200]}
        for name, score in sample["scores"].items()
    }
    return {
        **{name: sample[name] for name in names},
        "input": str(sample["input"])[:1000],
        "scores": scores,
        "metadata": {},
        "error": sample.get("error", {}).get("message"),
        "retries": 0,
        "completed": True,
        "message_count": len(sample["messages"]),
    }


def _messages(record: TrialRecord, prompt: str) -> Iterator[dict[str, JSON]]:
    if not record.trajectory:
        yield {"role": "user", "content": prompt, "source": "input"}
        if record.submission is not None:
            yield {"role": "assistant", "content": record.output, "source": "generate"}
        return
    names: dict[str, str] = {}
    for step in record.trajectory:
        names.update((call.id, call.name) for call in step.message.tool_calls)
        yield _message(step.message, names)


def _message(message: Message, names: Mapping[str, str]) -> dict[str, JSON]:
    value: dict[str, JSON] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        value["tool_calls"] = [
            {
                "id": call.id,
                "function": call.name,
                "arguments": dict(call.arguments or {}),
                "type": "function",
                **({"parse_error": call.raw_arguments} if call.arguments is None else {}),
            }
            for call in message.tool_calls
        ]
    if message.role == "tool":
        value["tool_call_id"] = message.call_id
        value["function"] = names.get(message.call_id or "", "tool")
    return value


def _output(record: TrialRecord, model: str) -> dict[str, JSON]:
    said = _last_words(record.trajectory) or record.output
    message = {"role": "assistant", "content": said, "source": "generate"}
    return {
        "model": model,
        "choices": [{"message": message, "stop_reason": "stop"}],
        "completion": said,
        "usage": _usage(record.usage),
    }


def _last_words(trajectory: tuple[Step, ...]) -> str:
    said = (s.message.content for s in reversed(trajectory) if s.message.role == "assistant")
    return next(said, "")


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "input_tokens_cache_read": usage.cached_tokens,
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(min(seconds, 1e11), UTC).isoformat(timespec="microseconds")


def _id(*parts: object) -> str:
    """An id that the same run has in every export."""
    text = "\0".join(map(str, parts)).encode(errors="surrogatepass")
    return hashlib.sha256(text).hexdigest()[:22]
