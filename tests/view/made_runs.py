"""Runs as a benchmark would leave them, made without one."""

from __future__ import annotations

import random
import struct
import zlib
from dataclasses import replace
from pathlib import Path

from chimera.eval.runs.store import RunStore
from chimera.eval.values import (
    Control,
    Submission,
    TrialControls,
    TrialError,
    TrialRecord,
    Verdict,
)
from chimera.providers.meter import CallRecord
from chimera.types import Message, Step, ToolCall, Usage

START = 1_790_000_000.0
TOPICS = ("graphs", "parsing", "strings", "numbers", "dates")
PATCH = """diff --git a/{topic}/core.py b/{topic}/core.py
index 3b18e51..a9c1d22 100644
--- a/{topic}/core.py
+++ b/{topic}/core.py
@@ -41,7 +41,9 @@ def normalise(values, *, limit=None):
     seen = set()
-    for value in values:
+    for value in sorted(values, key=str):
+        if value in seen:
+            continue
         seen.add(value)
     return list(seen)[:limit]
"""
LOG = """\x1b[1m============ test session starts ============\x1b[0m
collected 14 items

tests/test_core.py ............{mark}.                    [100%]

=================== short summary ===================
{summary}
"""


def png(width: int = 640, height: int = 360) -> bytes:
    """A picture of a page with a bar on it."""
    row = b"\0" + b"".join(b"\xf3\xf5\xf8" if x > 90 else b"\x34\x51\xb2" for x in range(width))

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(row * height, 9)
    start = b"\x89PNG\r\n\x1a\n"
    return start + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def steps(topic: str, number: int, began: float, tail: str) -> tuple[Step, ...]:
    """A trajectory whose first steps are those of every other trial of the task."""
    test = f"python -m pytest tests/test_{topic}.py -q"
    said = [
        Message.system("You are a careful engineer. Work in /testbed; hand in a patch."),
        Message.user(f"Issue {number}: `normalise` in {topic}/core.py loses the order of values."),
        Message.assistant(
            "I look at the code first.",
            [ToolCall("c1", "bash", {"command": f"sed -n 30,60p {topic}/core.py"})],
        ),
        Message.tool("def normalise(values, *, limit=None):\n    seen = set()\n    …", "c1"),
        Message.assistant(
            f"The set loses the order. {tail}", [ToolCall("c2", "bash", {"command": test})]
        ),
        Message.tool(f"14 passed in 0.{number}s {tail}", "c2"),
        Message.assistant("The tests pass; this is the patch.", [
            ToolCall("c3", "submit", {"files": [f"{topic}/core.py"], "message": "Keep the order"})
        ]),
    ]  # fmt: skip
    return tuple(
        Step(
            message,
            Usage(800 + 40 * n, 90),
            0.0021 * (message.role == "assistant"),
            began + 3.5 * n,
        )
        for n, message in enumerate(said)
    )


def trial(task: str, topic: str, sample: int, draw: random.Random, skill: float) -> TrialRecord:
    number = int(task.rpartition("-")[2])
    began = START + 17 * number + 900 * sample
    hard = (number % 10) / 12
    luck = draw.random()
    common = {
        "task_id": task, "sample": sample, "digest": "d", "started": began,
        "duration": 20 + 60 * draw.random(), "steps": 7, "usage": Usage(9000 + number, 700),
        "stop_reason": "done",
    }  # fmt: skip
    if luck > 0.985:
        fault = TrialError("environment", "the container did not start: no space left", True)
        return TrialRecord(**common, cost=0.0, error=fault)
    passed = luck < max(0.05, skill - hard * 0.6)
    cost = 0.01 + 0.03 * draw.random() + (0 if passed else 0.01)
    failing = f"FAILED tests/test_{topic}.py::test_order - AssertionError: [3, 1] != [1, 3]"
    log = LOG.format(mark="." if passed else "F", summary="14 passed" if passed else failing)
    metrics: dict[str, object] = {"tests": 14, "twin": passed, "rule": "swe-bench"}
    if number % 13 == 5 and not passed:
        metrics["corrected"] = True
    evidence: dict[str, object] = {
        "report": {"FAIL_TO_PASS": {"success": 2 * passed, "failure": 2 - 2 * passed}}, "log": log,
    }  # fmt: skip
    if number % 20 == 3:
        evidence["screen.png"] = png()
    why = "" if passed else f"tests/test_{topic}.py::test_order failed"
    tail = f"Try {sample}, {skill:.2f}." if number % 3 else ""
    return TrialRecord(
        **common,
        cost=cost,
        submission=Submission(PATCH.format(topic=topic), "model_patch"),
        verdict=Verdict(passed, why, None, metrics, evidence),
        calls=(
            CallRecord("maker/model-large", Usage(4000, 300), cost, began, 4.0, 1, False, None),
        ),
        trajectory=steps(topic, number, began, tail=tail),
        control=TrialControls("passed", "failed", "environment-1"),
    )


def make_run(
    path: Path,
    *,
    model: str = "maker/model-large",
    skill: float = 0.85,
    tasks: int = 60,
    samples: int = 1,
    seed: int = 0,
    planned: int | None = None,
    benchmark: str = "repository-tasks",
) -> Path:
    """A run file of so many tasks; the chance to pass falls with a task's number."""
    draw = random.Random(seed)
    names = [(f"{TOPICS[n % 5]}-{n}", TOPICS[n % 5]) for n in range(tasks)]
    with RunStore(path, create=True) as store:
        store.set_manifest(
            {
                "chimera": {"version": "0.2.0"},
                "planned": planned or tasks * samples,
                "samples": samples,
                "identity": {"benchmark": benchmark, "grader": "3"},
                "model": model,
                "agent": "react",
                "environment": "bubblewrap",
                "started": START,
            }
        )
        store.add_tasks(
            {
                "id": name,
                "prompt": f"Issue {n}: `normalise` in {topic}/core.py loses the order of values.",
                "metadata": {"topic": topic, "difficulty": ("easy", "medium", "hard")[n % 10 // 4]},
            }
            for n, (name, topic) in enumerate(names)
        )
        known = Control("environment-1", "reference", benchmark, names[0][0], "passed", made=START)
        store.add_control(replace(known, log="14 passed in 0.41s"))
        store.add_control(replace(known, answer="nothing", status="failed", log="2 failed"))
        for sample in range(samples):
            for name, topic in names:
                store.write(trial(name, topic, sample, draw, skill))
    return path
