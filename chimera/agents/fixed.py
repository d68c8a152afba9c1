"""Agents without a model: `oracle` knows the answer, `nop` does nothing, `replay` repeats them."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chimera.environments.base import Environment
from chimera.errors import AgentError, UsageError
from chimera.types import JSON, AgentResult

if TYPE_CHECKING:
    from chimera.eval.benchmark import Benchmark
    from chimera.eval.types import Submission


@dataclass(frozen=True, slots=True)
class OracleAgent:
    """Shows that a benchmark can be solved: every task passes with it, or the set-up is broken."""

    name = "oracle"

    def identity(self) -> dict[str, JSON]:
        return {"agent": self.name}

    def submit(
        self, benchmark: Benchmark[Any], task: Any, sample: int, env: Environment
    ) -> Submission:
        return benchmark.oracle(task, env)


@dataclass(frozen=True, slots=True)
class NopAgent:
    """Does nothing: every task must fail with it."""

    name = "nop"

    def identity(self) -> dict[str, JSON]:
        return {"agent": self.name}

    def run(self, prompt: str, env: Environment) -> AgentResult:
        return AgentResult("")


@dataclass(frozen=True, slots=True)
class ReplayAgent:
    """Hands in the answers of a prediction file; the n-th line of a task is its sample n."""

    path: Path

    name = "replay"

    def identity(self) -> dict[str, JSON]:
        return {"agent": self.name, "predictions": _digest(self.path, self.path.stat().st_mtime_ns)}

    def submit(
        self, benchmark: Benchmark[Any], task: Any, sample: int, env: Environment
    ) -> Submission:
        stored = _predictions(benchmark.name(), self.path, _Unhashed(benchmark)).get(task["id"], ())
        if sample >= len(stored):
            raise AgentError(
                f"{self.path} has {len(stored)} answers for task {task['id']}, "
                f"none for its sample {sample}"
            )
        return stored[sample]


def replay_agent(path: str | None) -> ReplayAgent:
    if path is None:
        raise UsageError(
            "the agent 'replay' needs a prediction file\n  --agent-option path=FILE.jsonl"
        )
    file = Path(path).expanduser()
    if not file.is_file():
        raise UsageError(f"no prediction file at {file}")
    return ReplayAgent(file)


class _Unhashed:
    """Carries a benchmark into a cached function without being part of the key."""

    def __init__(self, benchmark: Benchmark[Any]) -> None:
        self.benchmark = benchmark

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unhashed)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=4)
def _predictions(name: str, path: Path, carried: _Unhashed) -> dict[str, tuple[Submission, ...]]:
    found: dict[str, list[Submission]] = defaultdict(list)
    for prediction in carried.benchmark.read_predictions(path):
        found[prediction.task_id].append(prediction.submission)
    return {task_id: tuple(submissions) for task_id, submissions in found.items()}


@lru_cache(maxsize=16)
def _digest(path: Path, modified: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
