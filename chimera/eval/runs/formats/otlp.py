"""Trials as OpenTelemetry spans, in the JSON that collectors read: one request a line.

A trial is a trace: the agent's work, each model call and each tool call below it, with the names of
the conventions for generative models (`gen_ai.*`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

import chimera
from chimera.eval.runs.result import benchmark_of
from chimera.eval.runs.store import RunStore
from chimera.eval.values import TrialRecord
from chimera.providers.meter import CallRecord
from chimera.types import JSON, Step

_INTERNAL, _CLIENT = 1, 3
_OK, _ERROR = 1, 2


def otlp_lines(store: RunStore) -> Iterator[str]:
    """An export request for each trial."""
    manifest = {**store.manifest(), "run": Path(store.path).stem}
    resource = _attributes(
        {
            "service.name": "chimera",
            "service.version": chimera.__version__,
            "chimera.run": manifest["run"],
            "chimera.benchmark": benchmark_of(manifest),
        }
    )
    scope = {"name": "chimera", "version": chimera.__version__}
    for record in store.records(whole=True):
        spans = list(_spans(record, manifest))
        request = {
            "resourceSpans": [
                {
                    "resource": {"attributes": resource},
                    "scopeSpans": [{"scope": scope, "spans": spans}],
                }
            ]
        }
        yield msgspec.json.encode(request).decode()


def _spans(record: TrialRecord, manifest: Mapping[str, JSON]) -> Iterator[dict[str, JSON]]:
    trace = _digest(32, manifest["run"], record.task_id, record.sample, record.started)
    root = _digest(16, trace, "trial")
    end = record.started + record.duration
    yield {
        "traceId": trace,
        "spanId": root,
        "name": f"invoke_agent {manifest.get('agent') or 'agent'}",
        "kind": _INTERNAL,
        **_times(record.started, end),
        "attributes": _attributes(_trial(record, manifest)),
        "status": {"code": _OK}
        if record.error is None
        else {"code": _ERROR, "message": record.why[:1000]},
    }
    for number, call in enumerate(record.calls):
        yield {**_child(trace, root, f"call {number}"), **_model_call(call)}
    for number, (name, call_id, started, ended) in enumerate(_tool_calls(record.trajectory)):
        values = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call_id,
        }
        yield {
            **_child(trace, root, f"tool {number}"),
            "name": f"execute_tool {name}",
            "kind": _INTERNAL,
            **_times(started, ended),
            "attributes": _attributes(values),
        }


def _trial(record: TrialRecord, manifest: Mapping[str, JSON]) -> dict[str, JSON]:
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": manifest.get("agent"),
        "gen_ai.request.model": manifest.get("model"),
        "gen_ai.usage.input_tokens": record.usage.input_tokens,
        "gen_ai.usage.output_tokens": record.usage.output_tokens,
        "gen_ai.evaluation.name": benchmark_of(manifest),
        "gen_ai.evaluation.score.value": record.verdict.value if record.verdict else None,
        "gen_ai.evaluation.score.label": record.status,
        "gen_ai.evaluation.explanation": record.why[:1000],
        "chimera.task": record.task_id,
        "chimera.sample": record.sample,
        "chimera.cost_usd": record.cost,
        "chimera.stop_reason": record.stop_reason or None,
        "error.type": record.error.boundary if record.error else None,
    }


def _model_call(call: CallRecord) -> dict[str, JSON]:
    values = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": call.model,
        "gen_ai.usage.input_tokens": call.usage.input_tokens,
        "gen_ai.usage.output_tokens": call.usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": call.usage.cached_tokens or None,
        "chimera.cost_usd": call.cost,
        "chimera.attempts": call.attempts,
        "chimera.cached": call.cached,
    }
    return {
        "name": f"chat {call.model}",
        "kind": _CLIENT,
        **_times(call.started, call.started + call.seconds),
        "attributes": _attributes(values),
        "status": {"code": _ERROR, "message": call.error[:1000]} if call.error else {"code": _OK},
    }


def _tool_calls(trajectory: tuple[Step, ...]) -> Iterator[tuple[str, str, float, float]]:
    """Each tool call that was answered: name, id, when it was asked for and when answered."""
    asked: dict[str, tuple[str, float]] = {}
    for step in trajectory:
        for call in step.message.tool_calls:
            asked[call.id] = (call.name, step.timestamp)
        call_id = step.message.call_id
        if step.message.role == "tool" and call_id in asked:
            assert call_id is not None
            name, since = asked.pop(call_id)
            yield name, call_id, since, step.timestamp


def _child(trace: str, parent: str, name: str) -> dict[str, JSON]:
    return {"traceId": trace, "spanId": _digest(16, trace, name), "parentSpanId": parent}


def _digest(digits: int, *parts: object) -> str:
    """An id that the same trial has in every export."""
    text = "\0".join(map(str, parts)).encode(errors="surrogatepass")
    return hashlib.sha256(text).hexdigest()[:digits]


def _times(start: float, end: float) -> dict[str, str]:
    first = int(start * 1e9)
    last = max(first, int(end * 1e9))
    return {"startTimeUnixNano": str(first), "endTimeUnixNano": str(last)}


def _attributes(values: Mapping[str, JSON]) -> list[dict[str, JSON]]:
    return [{"key": k, "value": _value(v)} for k, v in values.items() if v is not None]


def _value(value: JSON) -> dict[str, JSON]:
    """Whole numbers are texts in this format: JSON's have no 64 bits everywhere."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": str(value)}
