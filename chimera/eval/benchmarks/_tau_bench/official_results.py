"""Conversations and rewards as tau2-bench stores them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from chimera.eval.benchmark import StoredRun
from chimera.eval.values import TrialRecord
from chimera.types import JSON

_BASES = ("DB", "ENV_ASSERTION", "NL_ASSERTION", "ACTION", "COMMUNICATE")


def export(run: StoredRun, folder: Path) -> list[Path]:
    """`results.json`: every conversation; its reward where there is a verdict.

    The tasks are not in it: they hold the expected outcome, which no run has.
    """
    folder.mkdir(parents=True, exist_ok=True)
    options = run.manifest.get("identity", {}).get("options") or {}
    document = {
        "timestamp": _time(run.manifest.get("started", 0.0)),
        "info": _info(run, options),
        "tasks": [],
        "simulations": [
            _simulation(record)
            for record in run.records
            if record.submission is not None and _messages(record) is not None
        ],
    }
    file = folder / "results.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(document)))
    return [file]


def _messages(record: TrialRecord) -> list[JSON] | None:
    data = record.submission.data if record.submission else None
    messages = data.get("messages") if isinstance(data, Mapping) else None
    return messages if isinstance(messages, list) else None


def _info(run: StoredRun, options: Mapping[str, JSON]) -> dict[str, JSON]:
    return {
        "git_commit": "unknown",
        "num_trials": run.manifest.get("samples", 1),
        "max_steps": options.get("max_steps") or 0,
        "max_errors": options.get("max_errors") or 0,
        "user_info": {"implementation": "user_simulator", "llm": options.get("user_model")},
        "agent_info": {"implementation": str(run.manifest.get("agent")), "llm": run.model},
        "environment_info": {"domain_name": str(options.get("domain")), "policy": ""},
        "seed": (run.manifest.get("settings") or {}).get("seed"),
    }


def _simulation(record: TrialRecord) -> dict[str, JSON]:
    assert record.submission is not None
    ended = record.submission.data.get("termination_reason") or "unexpected_error"
    return {
        "id": f"{record.task_id}-{record.sample}",
        "task_id": record.task_id,
        "timestamp": _time(record.started),
        "start_time": _time(record.started),
        "end_time": _time(record.started + record.duration),
        "duration": record.duration,
        "termination_reason": ended,
        "agent_cost": record.cost,
        "reward_info": _reward(record),
        "messages": _messages(record),
        "trial": record.sample,
    }


def _reward(record: TrialRecord) -> dict[str, JSON] | None:
    if record.verdict is None:
        return None
    metrics = record.verdict.metrics
    parts = {name: metrics[name] for name in _BASES if isinstance(metrics.get(name), (int, float))}
    return {
        "reward": record.verdict.value,
        "reward_basis": list(parts) or None,
        "reward_breakdown": parts or None,
        "info": {"why": record.verdict.why},
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(min(seconds, 1e11), UTC).isoformat()
