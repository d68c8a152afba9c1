"""WebArena-Verified's verdicts: by the official package where it is installed, else by the reply.

The package (webarena-verified 1.2.3) pins its own dependencies, so one process is asked of the
Python that CHIMERA_WEBARENA_VERIFIED_PYTHON names. Without it, replies of plain types are compared
here; what a task needs more is a `GraderError`, what a reply may need an `EnvironmentFault`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from chimera.errors import GraderError
from chimera.eval.benchmarks._webarena_verified.package import OutOfTimeError, warm_package
from chimera.eval.benchmarks._webarena_verified.plain import (
    PYTHON_VARIABLE,
    grade_reply,
    is_pattern,
)
from chimera.eval.values import Verdict
from chimera.types import JSON

EVALUATORS = {"AgentResponseEvaluator", "NetworkEventEvaluator"}

#: Replies alone are decided against a trace that holds one visit and nothing else.
_ONE_VISIT: JSON = {
    "request": {
        "method": "GET",
        "url": "http://localhost/",
        "headers": [{"name": "accept", "value": "text/html"}],
    },
    "response": {"status": 200, "headers": [], "redirectURL": "", "cookies": []},
}


@dataclass(frozen=True, slots=True)
class VerifiedGrader:
    """Decides one task; `urls` are the sites that the archive was recorded on."""

    urls: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def check(evaluation: Any) -> None:
        """A `ValueError` for a task that could not be graded."""
        kinds = [check["evaluator"] for check in evaluation]
        if kinds.count("AgentResponseEvaluator") != 1 or set(kinds) - EVALUATORS:
            raise ValueError(f"unknown set of evaluators: {kinds}")

    @staticmethod
    def expected_reply(evaluation: Sequence[Mapping[str, Any]]) -> dict[str, JSON] | None:
        """A reply that the task's response evaluator accepts: the first of all alternatives.

        None where the expected values are patterns.
        """
        check = _response_check(evaluation)
        expected = check["expected"]
        data = expected.get("retrieved_data")
        if isinstance(data, list):
            data = [_first(item) for item in data]
            if any(
                is_pattern(v) for i in data for v in (i.values() if isinstance(i, dict) else [i])
            ):
                return None
        return {
            "task_type": expected["task_type"].upper(),
            "status": expected["status"].upper(),
            "retrieved_data": data,
            "error_details": None,
        }

    def grade(
        self,
        task_id: str,
        evaluation: Sequence[Mapping[str, Any]],
        reply: str,
        files: Mapping[str, bytes],
    ) -> Verdict:
        trace = archive_entries(files["network.har"]) if "network.har" in files else []
        needs_trace = any(c["evaluator"] == "NetworkEventEvaluator" for c in evaluation)
        if needs_trace and not trace:
            raise GraderError(
                "this task is decided by the browser's requests, and no archive was handed in"
            )
        python = package_python()
        if python is not None:
            return self._official(python, task_id, reply, trace or [_ONE_VISIT])
        if needs_trace:
            raise GraderError(
                "tasks decided by requests need the package webarena-verified\n"
                f"  Install it in a virtual environment and set {PYTHON_VARIABLE} to its python."
            )
        return grade_reply(_response_check(evaluation), reply)

    def _official(self, python: str, task_id: str, reply: str, trace: list[JSON]) -> Verdict:
        job = {
            "task_id": int(task_id),
            "response": reply,
            "trace": trace,
            "environments": {
                f"__{site.upper()}__": {"urls": [url]}
                for site, url in self.urls.items()
                if site != "homepage"
            },
        }
        try:
            result = warm_package(python).result(job)
        except OutOfTimeError:
            why = "comparing the reply takes more CPU time than any comparison of values does"
            return Verdict(False, why, metrics={"grader": "webarena-verified"})
        return _verdict(result, task_id)


def package_python() -> str | None:
    """A Python that has the official package, or None."""
    if configured := os.environ.get(PYTHON_VARIABLE):
        return configured
    return sys.executable if find_spec("webarena_verified") else None


def needs_package(evaluation: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the official package alone decides: requests, and values of other kinds."""
    if any(check["evaluator"] == "NetworkEventEvaluator" for check in evaluation):
        return True
    check = _response_check(evaluation)
    wanted = check["expected"].get("retrieved_data")
    data = [_first(item) for item in wanted] if isinstance(wanted, list) else wanted
    try:
        grade_reply(check, json.dumps({**check["expected"], "retrieved_data": data}))
    except GraderError:
        return True
    return False


def archive_entries(archive: bytes) -> list[JSON]:
    """The entries of an HTTP archive without bodies that no evaluator reads."""
    try:
        entries = json.loads(archive)["log"]["entries"]
    except (ValueError, KeyError, TypeError) as error:
        raise GraderError(f"the network archive is damaged: {error!r}") from None
    for entry in entries:
        content = entry.get("response", {}).get("content", {})
        if "json" not in content.get("mimeType", ""):
            content.pop("text", None)
    return list(entries)


def _verdict(result: Mapping[str, Any], task_id: str) -> Verdict:
    if str(result.get("task_id")) != task_id or "status" not in result:
        raise GraderError("webarena-verified decided another task")
    failed = [
        f"{check['evaluator_name']}: {_reason(check)}"
        for check in result.get("evaluators_results") or ()
        if check["status"] != "success"
    ]
    passed = result["status"] == "success" and result["score"] == 1.0
    why = "" if passed else (failed[0] if failed else str(result.get("error_msg")))
    return Verdict(
        passed,
        why=why,
        metrics={"grader": "webarena-verified", "status": result["status"]},
        evidence={"result": dict(result)},
    )


def _reason(check: Mapping[str, Any]) -> str:
    for assertion in check.get("assertions") or ():
        if assertion["status"] != "success":
            details = assertion.get("assertion_msgs") or [assertion.get("error_msg") or ""]
            return f"{assertion['assertion_name']}: {details[0]}"[:500]
    return str(check.get("error_msg") or check["status"])[:500]


def _first(item: JSON) -> JSON:
    """The first of listed alternatives, also within an object."""
    if isinstance(item, list):
        return _first(item[0])
    if isinstance(item, dict):
        return {key: _first(value) for key, value in item.items()}
    return item


def _response_check(evaluation: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return next(c for c in evaluation if c["evaluator"] == "AgentResponseEvaluator")
