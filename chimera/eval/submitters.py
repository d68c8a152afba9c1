"""Answers without a model: `oracle` knows them, `nop` gives none, `replay` repeats stored ones."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from chimera.agents.base import BaseAgent
from chimera.cache import file_digest
from chimera.environments.base import Environment
from chimera.errors import AgentError, UsageError
from chimera.eval.benchmark import Benchmark
from chimera.eval.data.predictions import read_predictions
from chimera.eval.trial import Submitter
from chimera.eval.values import Submission, content_digest
from chimera.types import JSON, AgentResult

#: Every name that goes in an agent's place, with what it is for.
SUBMITTERS: Mapping[str, str] = {
    "oracle": "hands in the reference answer",
    "nop": "hands in nothing",
    "replay": "hands in stored predictions",
}
_loaded: dict[tuple[object, ...], dict[str, tuple[Submission, ...]]] = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class OracleAgent(Submitter):
    """Shows that a benchmark can be solved: every task passes with it, or the set-up is broken."""

    name = "oracle"

    def identity(self) -> dict[str, JSON]:
        return {"agent": self.name}

    def submit(
        self, benchmark: Benchmark[Any], task: Any, sample: int, env: Environment
    ) -> Submission:
        return benchmark.oracle(task, env)


@dataclass(frozen=True, slots=True)
class NopAgent(BaseAgent):
    """Does nothing: every task must fail with it."""

    name = "nop"

    def identity(self) -> dict[str, JSON]:
        return {"agent": self.name}

    def run(self, prompt: str, env: Environment) -> AgentResult:
        return AgentResult("")


@dataclass(frozen=True, slots=True)
class ReplayAgent(Submitter):
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


@dataclass(frozen=True, slots=True)
class Stored(Submitter):
    """Hands in an answer that was made earlier."""

    submission: Submission

    def submit(
        self, benchmark: Benchmark[Any], task: Any, sample: int, env: Environment
    ) -> Submission:
        return self.submission

    def identity(self) -> JSON:
        return {"stored": content_digest(self.submission)}


def create_submitter(name: str, options: Mapping[str, str]) -> Submitter | NopAgent:
    """One of `SUBMITTERS` from command-line values; `replay:FILE` names the file as well."""
    kind, _, rest = name.partition(":")
    known = ("path",) if kind == "replay" else ()
    for key in options:
        if key not in known:
            raise UsageError(
                f"agent '{kind}' has no option '{key}'; it has: {', '.join(known) or 'none'}"
            )
    if kind == "replay":
        return _replay(options.get("path", rest))
    return OracleAgent() if kind == "oracle" else NopAgent()


def _replay(path: str) -> ReplayAgent:
    if not path:
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
            for prediction in read_predictions(benchmark, path):
                found[prediction.task_id].append(prediction.submission)
            _loaded[key] = {task_id: tuple(answers) for task_id, answers in found.items()}
        return _loaded[key]


@lru_cache(maxsize=16)
def _digest(path: Path, modified: int) -> str:
    return file_digest(path)
