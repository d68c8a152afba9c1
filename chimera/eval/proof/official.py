"""The official grader beside ours, on the same answers: how often they agree, and where not.

The official package lives in an environment of its own and is driven by a short program of ours,
which the benchmark names (`Benchmark.official_grader`).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chimera.errors import GraderError, UsageError
from chimera.eval.benchmark import Benchmark, OfficialGrader
from chimera.eval.proof.validate import Check, Report

TIMEOUT_SECONDS = 4 * 3600.0


def agreement(
    benchmark: Benchmark[Any], tasks: Sequence[Any], report: Report, python: Path
) -> dict[str, Any]:
    """Grade the answers of a validation with the official grader and compare the verdicts."""
    grader = benchmark.official_grader(tasks)
    if grader is None:
        raise UsageError(f"no official grader of {benchmark.name()} can be driven")
    checks = [check for check in report.checks if check.status != "error"]
    theirs = _verdicts(grader, checks, python)
    differing = [
        {
            "task": check.task_id,
            "answer": check.answer,
            "number": check.number,
            "ours": check.status,
            "note": f"ours {check.status} ({check.why[:120]}); "
            f"official {'passed' if verdict['passed'] else 'failed'} {verdict['note'][:80]}",
        }
        for check, verdict in zip(checks, theirs, strict=True)
        if (check.status == "passed") != verdict["passed"]
    ]
    return {
        "grader": grader.name,
        "pairs": len(checks),
        "agreeing": len(checks) - len(differing),
        "disagreements": differing,
    }


def _verdicts(
    grader: OfficialGrader, checks: Sequence[Check], python: Path
) -> list[dict[str, Any]]:
    lines = [json.dumps(grader.settings)]
    lines += [json.dumps({"task": check.task_id, "text": check.text}) for check in checks]
    try:
        done = subprocess.run(
            [str(python), str(grader.program)],
            input="\n".join(lines) + "\n",
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
            env={**os.environ, **grader.variables},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GraderError(f"the official grader did not run: {error}") from None
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 or len(verdicts) != len(checks):
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        raise GraderError(f"the official grader failed after {len(verdicts)} answers: {last[0]}")
    return verdicts
