"""Trajectories in ATIF, the Agent Trajectory Interchange Format that Harbor and others read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import chimera
from chimera.eval.values import TrialRecord
from chimera.types import JSON, Message, Step, Usage

SCHEMA_VERSION = "ATIF-v1.7"


def trajectory_document(
    record: TrialRecord, manifest: Mapping[str, JSON], *, prompt: str = ""
) -> dict[str, JSON]:
    """One trial as an ATIF document; `manifest` is that of its run.

    A tool's result stands in the step of its call, as the format has it. A trial without a
    trajectory (an oracle's, say) is told as its prompt and what was handed in.
    """
    run = str(manifest.get("run") or manifest.get("name") or manifest.get("id") or "run")
    steps = _steps(record.trajectory) or _told(record, prompt)
    for number, step in enumerate(steps, 1):
        step["step_id"] = number
    return {
        "schema_version": SCHEMA_VERSION,
        "session_id": run,
        "trajectory_id": f"{run}/{record.task_id}/{record.sample}",
        "agent": _without_none(
            {
                "name": str(_name(manifest.get("agent")) or "chimera"),
                "version": str(manifest.get("version") or chimera.__version__),
                "model_name": _name(manifest.get("model")),
                "extra": {"about": manifest["agent_about"]}
                if manifest.get("agent_about")
                else None,
            }
        ),
        "steps": steps,
        "final_metrics": _without_none(
            {
                "total_prompt_tokens": record.usage.input_tokens,
                "total_completion_tokens": record.usage.output_tokens,
                "total_cached_tokens": record.usage.cached_tokens,
                "total_cost_usd": record.cost,
                "total_steps": len(steps),
                "extra": _apart(record.usage),
            }
        ),
        "extra": _without_none(
            {
                "benchmark": manifest.get("benchmark"),
                "task_id": record.task_id,
                "sample": record.sample,
                "status": record.status,
                "score": None if record.verdict is None else record.verdict.value,
                "why": record.why or None,
                "stop_reason": record.stop_reason or None,
                "duration_seconds": record.duration,
            }
        ),
    }


def _steps(trajectory: Sequence[Step]) -> list[dict[str, JSON]]:
    steps: list[dict[str, JSON]] = []
    for step in trajectory:
        message = step.message
        if message.role == "tool":
            asking = steps[-1] if steps else {}
            known = {call["tool_call_id"] for call in asking.get("tool_calls", ())}
            if message.call_id in known:
                observation = asking.setdefault("observation", {"results": []})
                observation["results"].append(_result(step))
            else:
                steps.append(_observation(step))
        elif message.role == "assistant":
            steps.append(_agent_step(step))
        else:
            source = "system" if "condensed" in step.metadata else message.role
            steps.append(
                {"source": source, **_time(step), "message": message.content, **_extra(step)}
            )
    return steps


def _agent_step(step: Step) -> dict[str, JSON]:
    message = step.message
    value: dict[str, JSON] = {"source": "agent", **_time(step), "message": message.content}
    model = step.metadata.get("model")
    if model:
        value["model_name"] = str(model)
    if message.reasoning:
        value["reasoning_content"] = message.reasoning
    if message.tool_calls:
        value["tool_calls"] = _tool_calls(message)
    if step.usage != Usage() or step.cost:
        value["llm_call_count"] = 1
        value["metrics"] = _without_none(
            {
                "prompt_tokens": step.usage.input_tokens,
                "completion_tokens": step.usage.output_tokens,
                "cached_tokens": step.usage.cached_tokens,
                "cost_usd": step.cost,
                "extra": _apart(step.usage),
            }
        )
    return {**value, **_extra(step)}


def _apart(usage: Usage) -> dict[str, JSON] | None:
    """Tokens that are counted apart, where there are any."""
    counts = {
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }
    return {name: count for name, count in counts.items() if count} or None


def _tool_calls(message: Message) -> list[dict[str, JSON]]:
    calls = []
    for call in message.tool_calls:
        value: dict[str, JSON] = {
            "tool_call_id": call.id,
            "function_name": call.name,
            "arguments": dict(call.arguments or {}),
        }
        if call.arguments is None:  # what the model wrote was not valid
            value["extra"] = {"raw_arguments": call.raw_arguments}
        calls.append(value)
    return calls


def _result(step: Step) -> dict[str, JSON]:
    value: dict[str, JSON] = {
        "source_call_id": step.message.call_id,
        "content": step.message.content,
    }
    return {**value, **_extra(step)}


def _observation(step: Step) -> dict[str, JSON]:
    """A result without a call in sight: something the surroundings said by themselves."""
    result = {"content": step.message.content, **_extra(step)}
    return {"source": "system", **_time(step), "message": "", "observation": {"results": [result]}}


def _told(record: TrialRecord, prompt: str) -> list[dict[str, JSON]]:
    steps: list[dict[str, JSON]] = [{"source": "user", "message": prompt}]
    if record.submission is not None:
        steps.append({"source": "agent", "message": record.output, "llm_call_count": 0})
    return steps


def _time(step: Step) -> dict[str, JSON]:
    if not 0 < step.timestamp < 1e11:  # none, or none that a calendar has
        return {}
    return {"timestamp": datetime.fromtimestamp(step.timestamp, UTC).isoformat()}


def _extra(step: Step) -> dict[str, JSON]:
    rest = {key: value for key, value in step.metadata.items() if key != "model"}
    return {"extra": rest} if rest else {}


def _name(value: JSON) -> str | None:
    """A name, also where the manifest keeps more than that."""
    if isinstance(value, Mapping):
        value = value.get("agent") or value.get("model") or value.get("name")
    return str(value) if value else None


def _without_none(values: Mapping[str, JSON]) -> dict[str, JSON]:
    return {key: value for key, value in values.items() if value is not None}
