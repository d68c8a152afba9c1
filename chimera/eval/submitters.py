"""Agents without a model: `oracle` knows the answer, `nop` does nothing, `replay` repeats them."""

from __future__ import annotations

import hashlib
import threading
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
    from chimera.eval.values import Submission

_loaded: dict[tuple[object, ...], dict[str, tuple[Submission, ...]]] = {}
_lock = threading.Lock()


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
        stored = _predictions(benchmark, self.path).get(task["id"], ())
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


def _predictions(benchmark: Benchmark[Any], path: Path) -> dict[str, tuple[Submission, ...]]:
    """The answers of a file by task, read once for each benchmark that asks."""
    key = (benchmark.name(), repr(benchmark.options()), path, path.stat().st_mtime_ns)
    with _lock:
        if key not in _loaded:
            found: dict[str, list[Submission]] = defaultdict(list)
            for prediction in benchmark.read_predictions(path):
                found[prediction.task_id].append(prediction.submission)
            _loaded[key] = {task_id: tuple(answers) for task_id, answers in found.items()}
        return _loaded[key]


@lru_cache(maxsize=16)
def _digest(path: Path, modified: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
