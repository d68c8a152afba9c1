"""Chimera runs AI agents against public benchmarks and tells whether they solved each task.

    import chimera

    result = chimera.evaluate("human-eval", model="local/smollm2", limit=5)
    result.pass_rate, result.interval
    chimera.load("latest").filter(status="failed")

A benchmark or an agent of one's own is an object; see `Benchmark` and `Agent`. Importing does
nothing: each name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chimera.agents.base import Agent as Agent
    from chimera.eval.api import evaluate as evaluate
    from chimera.eval.api import load as load
    from chimera.eval.benchmark import Benchmark as Benchmark
    from chimera.eval.harness import Harness as Harness
    from chimera.eval.runs.result import EvalResult as EvalResult
    from chimera.eval.values import Submission as Submission
    from chimera.eval.values import Task as Task
    from chimera.eval.values import Verdict as Verdict
    from chimera.types import AgentResult as AgentResult

__version__ = "0.2.0"

_HOMES = {
    "Agent": "chimera.agents.base",
    "AgentResult": "chimera.types",
    "Benchmark": "chimera.eval.benchmark",
    "EvalResult": "chimera.eval.runs.result",
    "Harness": "chimera.eval.harness",
    "Submission": "chimera.eval.values",
    "Task": "chimera.eval.values",
    "Verdict": "chimera.eval.values",
    "evaluate": "chimera.eval.api",
    "load": "chimera.eval.api",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'chimera' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
