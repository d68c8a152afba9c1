"""A run in the schema of Every Eval Ever (0.3.0): one document of results, one line a trial."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

import chimera
from chimera.errors import UsageError
from chimera.eval.runs.result import EvalResult
from chimera.eval.runs.store import RunStore
from chimera.eval.values import TrialRecord
from chimera.text import file_name
from chimera.types import JSON, Step

SCHEMA_VERSION = "0.3.0"
_METRIC = "passed"


def write_every_eval_ever(store: RunStore, folder: Path, *, model: str) -> list[Path]:
    """Both files below `folder`, in the places that the collection has for them."""
    manifest = store.manifest()
    result = EvalResult.of(store)
    if result.pass_rate is None:
        raise UsageError(f"{store.path} has no verdict: there is no result to be written")
    developer, _, name = model.rpartition("/")
    key = _uuid(Path(store.path).stem, manifest.get("started", 0.0))
    parts = (result.benchmark, developer or "unknown", name)
    place = Path("data", *(file_name(part) for part in parts))
    samples, summary = place / f"{key}_samples.jsonl", place / f"{key}.json"
    (folder / place).mkdir(parents=True, exist_ok=True)
    evaluation = f"{result.benchmark}/{model}/{manifest.get('started', 0.0):.0f}"
    digest = hashlib.sha256()
    with (folder / samples).open("wb") as file:
        for record in store.records(whole=True):
            prompt = store.task_prompt(record.task_id)
            line = msgspec.json.encode(_sample(record, prompt, evaluation, model, result)) + b"\n"
            digest.update(line)
            file.write(line)
    document = _document(result, manifest, evaluation, model)
    document["detailed_evaluation_results"] = {
        "format": "jsonl",
        "file_path": samples.as_posix(),
        "hash_algorithm": "sha256",
        "checksum": digest.hexdigest(),
        "total_rows": result.total,
    }
    (folder / summary).write_bytes(msgspec.json.format(msgspec.json.encode(document)))
    return [folder / summary]


def _uuid(*parts: object) -> uuid.UUID:
    """An id of the form of a random one that the same run has in every export."""
    text = "\0".join(map(str, parts)).encode(errors="surrogatepass")
    return uuid.UUID(bytes=hashlib.sha256(text).digest()[:16], version=4)


def _document(
    result: EvalResult, manifest: Mapping[str, JSON], evaluation: str, model: str
) -> dict[str, JSON]:
    developer, _, name = model.rpartition("/")
    started = manifest.get("started", 0.0)
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": evaluation,
        "evaluation_timestamp": f"{started:.0f}",
        "retrieved_timestamp": f"{started:.0f}",
        "source_metadata": {
            "source_name": "Chimera",
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "chimera", "version": chimera.__version__},
        "model_info": {
            "name": name,
            "id": model,
            "developer": developer or "unknown",
            "additional_details": {
                "deployment_type": "unknown",
                "model_availability": "unknown",
                "agent": str(manifest.get("agent")),
            },
        },
        "evaluation_results": [_metric(result, manifest)],
    }


def _metric(result: EvalResult, manifest: Mapping[str, JSON]) -> dict[str, JSON]:
    low, high = result.outer_interval or (0.0, 1.0)
    worst, best = result.bounds
    counts = {
        "passed": result.passed,
        "failed": result.failed,
        "errored": result.errored,
        "not_run": result.not_run,
        "lowest": worst,
        "highest": best,
    }
    return {
        "evaluation_result_id": _METRIC,
        "evaluation_name": result.benchmark,
        "source_data": _source(result, manifest),
        "metric_config": {
            "evaluation_description": "Share of trials that passed; one without a verdict has not.",
            "metric_id": "pass_rate",
            "metric_name": "pass rate",
            "metric_kind": "accuracy",
            "metric_unit": "proportion",
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": 1.0,
        },
        "score_details": {
            "score": result.pass_rate,
            "details": {name: str(value) for name, value in counts.items()},
            "uncertainty": {
                "confidence_interval": {
                    "lower": low,
                    "upper": high,
                    "confidence_level": 0.95,
                    "method": "see Chimera's docs/statistics.md",
                },
                "num_samples": result.total,
            },
        },
        "generation_config": {"generation_args": _generation(manifest)},
    }


def _source(result: EvalResult, manifest: Mapping[str, JSON]) -> dict[str, JSON]:
    dataset = manifest.get("dataset")
    digest = dataset.get("sha256") if isinstance(dataset, Mapping) else None
    details = {"additional_details": {"sha256": str(digest)}} if digest else {}
    return {"dataset_name": result.benchmark, "source_type": "other", **details}


def _generation(manifest: Mapping[str, JSON]) -> dict[str, JSON]:
    settings = manifest.get("settings") or {}
    known = {"temperature": settings.get("temperature"), "max_tokens": settings.get("max_tokens")}
    if manifest.get("environment"):
        known["sandbox"] = {"type": str(manifest["environment"])}
    return {name: value for name, value in known.items() if value is not None}


def _sample(
    record: TrialRecord, prompt: str, evaluation: str, model: str, result: EvalResult
) -> dict[str, JSON]:
    messages = [_message(number, step) for number, step in enumerate(record.trajectory)]
    agentic = any(step.message.tool_calls for step in record.trajectory)
    single = not agentic and sum(m["role"] == "assistant" for m in messages) <= 1
    kind = "single_turn" if single else "agentic" if agentic else "multi_turn"
    usage = record.usage
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": evaluation,
        "model_id": model,
        "evaluation_name": result.benchmark,
        "evaluation_result_id": _METRIC,
        "sample_id": record.task_id,
        "interaction_type": kind,
        "input": {"raw": prompt, "reference": []},
        "output": {"raw": [record.output]} if single else None,
        "messages": None if single else messages,
        "answer_attribution": list(_attribution(record, len(messages), single=single)),
        "evaluation": {
            "score": record.verdict.value if record.verdict else 0.0,
            "is_correct": record.passed,
            "num_turns": max(1, sum(m["role"] == "assistant" for m in messages)),
            "tool_calls_count": sum(len(s.message.tool_calls) for s in record.trajectory),
        },
        "token_usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "total_tokens": usage.total_tokens,
            "input_tokens_cache_read": usage.cached_tokens,
        },
        "performance": {"latency_ms": record.duration * 1000},
        "error": record.why if record.error is not None else None,
        "metadata": {"sample": str(record.sample), "status": record.status, "why": record.why},
    }


def _attribution(record: TrialRecord, turns: int, *, single: bool) -> Iterator[dict[str, JSON]]:
    if record.submission is not None:
        turn = 0 if single else max(0, turns - 1)
        yield {
            "turn_idx": turn,
            "source": "output.raw" if single else f"messages[{turn}].content",
            "extracted_value": record.submission.text,
            "extraction_method": "by the benchmark",
            "is_terminal": True,
        }


def _message(number: int, step: Step) -> dict[str, JSON]:
    message = step.message
    value: dict[str, JSON] = {
        "turn_idx": number,
        "role": message.role,
        "content": message.content or None,
    }
    if message.tool_calls:
        value["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": _texts(call.arguments)}
            for call in message.tool_calls
        ]
    if message.call_id is not None:
        value["tool_call_id"] = [message.call_id]
    return value


def _texts(arguments: Mapping[str, JSON] | None) -> dict[str, str]:
    return {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in (arguments or {}).items()
    }
