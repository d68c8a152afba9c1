"""WebArena-Verified: replies compared here, and the official package where it is installed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from chimera.errors import GraderError
from chimera.eval.benchmarks._webarena_verified.grading import (
    VerifiedGrader,
    archive_entries,
    grade_reply,
)
from chimera.eval.benchmarks._webarena_verified.plain import PYTHON_VARIABLE

VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parent / "vectors" / "webarena_verified.jsonl")
    .read_text()
    .splitlines()
]


def reply_text(vector: dict[str, Any]) -> str:
    reply = vector["agent_response"]
    return reply if isinstance(reply, str) else json.dumps(reply)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: str(VECTORS.index(v)))
def test_replies_get_the_official_verdict_or_none(vector: dict[str, Any]) -> None:
    formats = vector["results_schema"].get("items", {}).get("format")
    try:
        verdict = grade_reply(vector, reply_text(vector))
    except GraderError:
        assert formats in {"duration", "currency", "distance", "date", "location-name"}
    else:
        assert verdict.passed is (vector["response_evaluator"] == "success")


@pytest.mark.parametrize(
    ("said", "truth"),
    [
        *[(said, True) for said in (True, 1, 2, 0.5, "Yes", " y ", "T", "on", "1", "TRUE")],
        *[(said, False) for said in (False, 0, 0.0, "no", "N", "f", "OFF", "0", "false")],
        *[(said, None) for said in ("", "2", "maybe", "1.0", {}, None)],
    ],
)
def test_truth_values_are_read_as_the_package_reads_them(said: Any, truth: bool | None) -> None:
    for wanted in (True, False):
        expected = {"task_type": "retrieve", "status": "SUCCESS", "retrieved_data": [wanted]}
        check = {"expected": expected, "results_schema": {"items": {"type": "boolean"}}}
        reply = {"task_type": "RETRIEVE", "status": "SUCCESS", "retrieved_data": [said]}

        assert grade_reply(check, json.dumps(reply)).passed is (truth is wanted)


def network_task() -> list[dict[str, Any]]:
    expected = {"task_type": "navigate", "status": "SUCCESS", "retrieved_data": None}
    return [
        {"evaluator": "AgentResponseEvaluator", "expected": expected},
        {"evaluator": "NetworkEventEvaluator", "expected": {"url": "__SHOPPING__/a"}},
    ]


def test_tasks_decided_by_requests_need_the_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, "/nowhere/python")

    with pytest.raises(GraderError, match="no archive"):
        VerifiedGrader().grade("1", network_task(), "{}", {})
    archive = json.dumps({"log": {"entries": [{"request": {}, "response": {}}]}}).encode()
    with pytest.raises(GraderError, match="gave no result"):
        VerifiedGrader().grade("1", network_task(), "{}", {"network.har": archive})
    with pytest.raises(GraderError, match="damaged"):
        VerifiedGrader().grade("1", network_task(), "{}", {"network.har": b"{"})


def test_an_archive_keeps_only_bodies_that_are_compared() -> None:
    def entry(kind: str) -> dict[str, Any]:
        return {"request": {}, "response": {"content": {"mimeType": kind, "text": "{}"}}}

    archive = json.dumps({"log": {"entries": [entry("text/html"), entry("application/json")]}})

    bodies = [e["response"]["content"].get("text") for e in archive_entries(archive.encode())]

    assert bodies == [None, "{}"]


@pytest.mark.full
def test_the_package_decides_the_vectors() -> None:
    """Every recorded verdict again, from the package itself in its own environment."""
    if not os.environ.get(PYTHON_VARIABLE):
        pytest.skip(f"{PYTHON_VARIABLE} names no Python with webarena-verified")
    for vector in VECTORS:
        evaluation = [
            {
                "evaluator": "AgentResponseEvaluator",
                "expected": vector["expected"],
                "results_schema": vector["results_schema"],
            }
        ]
        verdict = VerifiedGrader().grade(str(vector["task_id"]), evaluation, reply_text(vector), {})
        assert verdict.passed is (vector["task_status"] == "success"), vector
