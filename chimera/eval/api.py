"""What `import chimera` offers: run a benchmark, look at a run.

result = chimera.evaluate("human-eval", model="local/smollm2", limit=5)
print(result.pass_rate, result.filter(status="failed"))
chimera.load("latest").to_pandas()
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from chimera.agents.base import Agent, checked_agent, class_path
from chimera.errors import UsageError
from chimera.eval.benchmark import Benchmark
from chimera.eval.harness import Observer, checked_benchmark
from chimera.eval.run import RunSettings, run
from chimera.eval.runs.files import find_run, runs_dir
from chimera.eval.runs.result import EvalResult
from chimera.eval.runs.store import RunStore
from chimera.eval.trial import Submitter
from chimera.types import JSON

#: The parameters of `evaluate` that are no settings of a run by the same name.
_OWN = ("benchmark", "model", "agent", "limit", "options", "agent_options", "runs", "resume")


def evaluate(
    benchmark: str | Benchmark[Any],
    *,
    model: str | None = None,
    agent: str | Agent | Submitter | Callable[..., Any] | None = None,
    limit: int | str | None = None,
    options: Mapping[str, object] | None = None,
    agent_options: Mapping[str, object] | None = None,
    runs: Path | str | None = None,
    resume: str | None = None,
    observer: Observer | None = None,
    api_key: str | None = None,
    **settings: Any,
) -> EvalResult:
    """Run a benchmark as `chimera eval` does, store the run, and return what it came to.

    Benchmark and agent are names or objects; an agent may be a function of the prompt, or of the
    prompt and the environment. `options` are the benchmark's, `agent_options` the agent's. The
    other `settings` have the names of the command's flags: `samples`, `concurrency`, `environment`,
    `budget`, `timeout`, `task`, `temperature`, `seed`, … `runs` is the directory the run is kept
    in, `resume` the name of one to go on with.
    """
    made = None if isinstance(benchmark, str) else checked_benchmark(benchmark)
    answering = None if agent is None or isinstance(agent, str) else checked_agent(agent)
    chosen = _settings(
        benchmark=benchmark if isinstance(benchmark, str) else _path(benchmark),
        agent=_path(answering) if answering is not None else agent,
        model=_text("model", model),
        limit=None if limit is None else str(limit),
        option=_texts(options),
        agent_option=_texts(agent_options),
        **settings,
    )
    return run(
        chosen,
        runs=None if runs is None else Path(runs),
        resume=resume,
        observer=observer,
        api_key=api_key,
        benchmark=made,
        agent=answering,
    )


def load(name: str | Path = "latest", *, runs: Path | str | None = None) -> EvalResult:
    """A stored run, by its path, its name, the start of its name, or "latest"."""
    return EvalResult.of(RunStore(find_run(str(name), runs_dir(runs))))


def _settings(**given: Any) -> RunSettings:
    """The settings of a run, each of its type; names that are none are refused."""
    names = [each.name for each in fields(RunSettings)]
    known = [*_OWN, *(name for name in names if name not in ("option", "agent_option"))]
    for name in given:
        if name not in names:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else f"; there are: {', '.join(known)}"
            raise UsageError(f"evaluate() has no setting '{name}'{hint}")
    if isinstance(given.get("task"), str):
        given["task"] = (given["task"],)
    try:
        return msgspec.convert(given, RunSettings)
    except msgspec.ValidationError as error:
        found = re.fullmatch(r"Expected `(.+)`, got .* - at `\$\.(\w+).*`", str(error))
        if found is None:
            raise UsageError(f"evaluate(): {error}") from None
        expected, name = found.groups()
        raise UsageError(f"{name} is {given[name]!r:.60}: expected {expected}") from None


def _texts(options: Mapping[str, object] | None) -> tuple[str, ...]:
    """KEY=VALUE texts, as the command line has them."""
    if options is not None and not isinstance(options, Mapping):
        raise UsageError(f"options are {options!r:.60}: expected a dictionary")
    return tuple(f"{key}={_plain(value)}" for key, value in (options or {}).items())


def _plain(value: JSON) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(_plain, value))
    return str(value)


def _text(name: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{name} is {value!r:.60}: expected a text such as 'local/smollm2'")
    return value


def _path(value: object) -> str:
    module, _, name = class_path(value).rpartition(".")
    return f"{module}:{name}"
