"""From settings to a finished run: what the command line, `python -m` and Python share.

result = run(RunSettings(benchmark="human-eval", model="local/smollm2", limit="5"))
"""

from __future__ import annotations

import glob
import os
import platform
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from chimera.agents import Agent, about, agent_needs_environment, as_agent
from chimera.cache import cache_dir, write_atomically
from chimera.environments import available, backend_class
from chimera.errors import DatasetError, ExitCode, StoreError, UsageError
from chimera.eval.benchmark import Benchmark, Lack, tasks_of
from chimera.eval.controls import Mode
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.filed import those
from chimera.eval.harness import Harness, Observer, Planned, SilentObserver, named_agent
from chimera.eval.preflight import (
    Problems,
    backend_problems,
    check_disk,
    describe,
    runnable,
)
from chimera.eval.registry import benchmark_class, create_benchmark
from chimera.eval.runs.comparison import RunScores, differences
from chimera.eval.runs.files import discard_if_empty, find_run, new_run_path, runs_dir
from chimera.eval.runs.result import EvalResult
from chimera.eval.runs.seal import usable_settings
from chimera.eval.runs.sequential import SequentialTest, UntilDecided, lot
from chimera.eval.runs.store import Count, RunStore, Samples
from chimera.eval.submitters import SUBMITTERS, OracleAgent
from chimera.eval.trial import StartBackend, Submitter
from chimera.plugins import pairs
from chimera.providers import create_provider
from chimera.providers.meter import TrialLimits
from chimera.providers.settings import ModelSettings, model_settings
from chimera.text import file_name
from chimera.types import JSON

#: Numbers of settings, checked where these come from a file.
Positive = Annotated[int, Meta(ge=1, le=2**62)]
Amount = Annotated[float, Meta(ge=0, le=1e300)]
#: Trials at once where each waits for its part of a batch.
BATCH_TRIALS = 4000
SUMMARY = "summary"
#: Models that a run can have beside the agent's. Those of a benchmark are its options
#: `judge_model` and `user_model`; `summary` condenses the agent's long conversations.
ROLES = ("judge", "user", SUMMARY)
EMBEDDED_MODEL = "local/smollm2"
MODEL_VARIABLES = ("CHIMERA_MODEL", "ANTHROPIC_MODEL", "OPENAI_MODEL")
UNCONFINED = "\n  --environment local runs without confinement, on this machine as it is."


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Everything a run is made of; stored with it, so that it can be resumed by name alone."""

    benchmark: str
    dataset: str | None = None
    model: str | None = None
    agent: str | None = None
    limit: str | None = None
    task: tuple[str, ...] = ()
    shard: str | None = None
    samples: Samples = 1
    concurrency: Positive | None = None
    environment: str | None = None
    network: bool = False
    budget: Amount | None = None
    timeout: Amount | None = None
    max_steps: Positive | None = None
    max_tokens: Positive | None = None
    token_limit: Positive | None = None
    cost_limit: Amount | None = None
    temperature: float | None = None
    seed: int | None = None
    cache: bool = False
    retries: Count = 2
    base_url: str | None = None
    controls: Mode = "auto"
    option: tuple[str, ...] = ()
    agent_option: tuple[str, ...] = ()
    reasoning_effort: str | None = None
    thinking_tokens: Count | None = None
    top_p: float | None = None
    max_connections: Positive | None = None
    model_option: tuple[str, ...] = ()
    role: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()
    batch: str | None = None  # the name of the file of the run's batches
    against: str | None = None
    until: Literal["done", "decided"] = "done"
    alpha: float = 0.05
    margin: float | None = None

    @classmethod
    def of_manifest(cls, stored: Mapping[str, JSON]) -> RunSettings:
        """Stored settings, once each is of its type."""
        values = {each.name: stored[each.name] for each in fields(cls) if each.name in stored}
        try:
            return msgspec.convert(values, cls)
        except msgspec.ValidationError as error:
            raise UsageError(f"the run's settings are damaged: {error}") from None

    def create_benchmark(self) -> Benchmark[Any]:
        roles = {f"{role}_model": model for role, model in self.roles().items() if role != SUMMARY}
        options = {**roles, **pairs(self.option, "--option")}
        return create_benchmark(self.benchmark, dataset=self.dataset, options=options)

    def roles(self) -> dict[str, str]:
        """The models beside the agent's, by what they do."""
        found = pairs(self.role, "--role")
        for name in found:
            if name not in ROLES:
                raise UsageError(f"--role {name}: there are the roles {', '.join(ROLES)}")
        return found

    def model_settings(self) -> ModelSettings:
        return model_settings(
            pairs(self.model_option, "--model-option"),
            reasoning_effort=self.reasoning_effort,
            thinking_tokens=self.thinking_tokens,
            top_p=self.top_p,
        )

    def batches(self) -> Path | None:
        """The file of the run's batches, where its calls go out in such."""
        if self.batch is None:
            return None
        if self.timeout is not None:
            raise UsageError("--batch may take a day: it cannot be had together with --timeout")
        return cache_dir() / "batches" / f"{file_name(self.batch)}.sqlite"

    def limits(self) -> TrialLimits:
        return TrialLimits(
            max_steps=self.max_steps,
            max_tokens=self.token_limit,
            max_cost=self.cost_limit,
            seconds=self.timeout,
        )


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """All that a run needs, found and made, with nothing run yet."""

    settings: RunSettings
    benchmark: Benchmark[Any]
    agent: Agent | Submitter
    tasks: Sequence[Any]
    environment: str
    #: Stored answers and the file they came from, where these are graded and no agent runs.
    answers: Sequence[Planned] | None = None
    predictions: Path | None = None
    #: Tasks of which the file has none.
    unanswered: int = 0
    #: What this machine cannot run of the benchmark, where `--limit` passed over it.
    left_out: Sequence[str] = ()
    #: Of `--until decided`: when the run has decided, against which rates.
    until: UntilDecided | None = None
    #: Why this environment, where nobody named one.
    environment_why: str = ""

    @property
    def samples(self) -> int:
        """Trials of each task; of stored answers, how many every answered task has."""
        if self.answers is None:
            return self.settings.samples
        return min(Counter(task["id"] for task, _, _ in self.answers).values())

    def open_store(self, runs: Path | None = None, resume: str | None = None) -> RunStore:
        """A new run's file in the directory `runs`, or the file of the run to go on with."""
        directory = runs_dir(runs)
        if resume is not None:
            return RunStore(find_run(resume, directory), create=True)
        who = self.settings.model or self.settings.agent or ""
        label = who if self.predictions is None else self.predictions.name
        return RunStore(new_run_path(directory, self.benchmark.name(), label), create=True)

    def harness(self, store: RunStore, observer: Observer | None = None) -> Harness:
        settings = self.settings
        return Harness(
            benchmark=self.benchmark,
            agent=self.agent,
            env_factory=StartBackend(
                self.environment, network=settings.network, mounts=as_agent(self.agent).mounts
            ),
            samples=settings.samples,
            concurrency=settings.concurrency or (BATCH_TRIALS if settings.batch else None),
            limits=settings.limits(),
            budget=settings.budget,
            attempts=settings.retries + 1,
            store=store,
            tasks=self.tasks,
            predictions=self.answers,
            manifest=self.manifest(),
            controls=settings.controls,
            observer=observer or SilentObserver(),
            until=self.until,
        )

    def manifest(self) -> dict[str, JSON]:
        """What the run's file says of how it was made."""
        settings, dataset = asdict(self.settings), None
        name = self.settings.agent or self.benchmark.default_agent
        if self.settings.dataset is not None:
            settings["dataset"] = str(Path(self.settings.dataset).absolute())
        if isinstance(self.benchmark, DatasetBenchmark):
            source = self.benchmark.dataset().source().absolute()
            dataset = {"path": str(source), "sha256": self.benchmark.dataset_digest()}
        found: dict[str, JSON] = {
            "settings": settings,
            "dataset": dataset,
            "model": self.settings.model,
            "agent": name,
            "agent_about": about(name),
            "environment": self.environment,
            "platform": {
                "python": platform.python_version(),
                "system": platform.platform(),
                "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
            },
        }
        if self.predictions is not None:
            found["predictions"] = str(self.predictions.absolute())
            found["unanswered"] = self.unanswered
        return found


def prepare(
    settings: RunSettings,
    *,
    api_key: str | None = None,
    runs: Path | None = None,
    benchmark: Benchmark[Any] | None = None,
    agent: Agent | Submitter | None = None,
) -> PreparedRun:
    """Make benchmark and agent, choose tasks and environment, and check that they can run.

    A `UsageError` says everything that would certainly fail. `api_key` is no setting, so that it
    is never stored. Objects of one's own count instead of the settings' names.
    """
    problems = Problems()
    with problems.collected():
        benchmark = benchmark or settings.create_benchmark()
    if benchmark is None:
        _check_names(settings, problems, api_key)
        problems.raise_all()
        raise AssertionError("a benchmark that cannot be made was told")
    with problems.collected():
        agent = agent or chosen_agent(settings, benchmark, api_key=api_key)
    tasks, left_out, environment, why = _chosen_tasks(settings, benchmark, agent, problems)
    until = None
    with problems.collected():
        if settings.until == "decided":
            tasks, until = until_decided(settings, benchmark, tasks)
    with problems.collected():
        check_disk(runs_dir(runs))
    problems.raise_all()
    assert agent is not None
    if left_out:  # a resume must find the same tasks, whatever can be had by then
        ids = tuple(glob.escape(task["id"]) for task in tasks)
        settings = replace(settings, limit=None, task=ids)
    return PreparedRun(
        settings,
        benchmark,
        agent,
        tasks,
        environment,
        left_out=left_out,
        until=until,
        environment_why=why,
    )


def _check_names(settings: RunSettings, problems: Problems, api_key: str | None) -> None:
    """What can be said of a run whose benchmark is not known: its model and its environment."""
    if settings.model is not None:
        with problems.collected():
            create_provider(settings.model, api_key=api_key, base_url=settings.base_url)
    if settings.environment is not None:
        with problems.collected():
            backend_class(settings.environment)


def _chosen_tasks(
    settings: RunSettings,
    benchmark: Benchmark[Any],
    agent: Agent | Submitter | None,
    problems: Problems,
) -> tuple[Sequence[Any], tuple[str, ...], str, str]:
    """The tasks that run, what was left out, the environment and why it was chosen."""
    tasks: Sequence[Any] = ()
    left_out: tuple[str, ...] = ()
    environment, why = settings.environment or "", ""
    every: Sequence[Any] = ()
    with problems.collected():
        every = _every_task(settings, benchmark, problems)
        tasks = select_tasks(every, settings.limit, settings.task)
    with problems.collected():
        if not environment:
            needs_commands = agent is not None and as_agent(agent).needs_environment
            environment, why = explained_backend(benchmark, tasks, needs_commands=needs_commands)
        problems.add(*backend_problems(benchmark, environment, tasks))
    with problems.collected():
        if tasks:
            tasks, left_out = _runnable_tasks(settings, benchmark, environment, every, problems)
        tasks = tasks if settings.shard is None else shard_of(tasks, settings.shard)
    return tasks, left_out, environment, why


def _every_task(
    settings: RunSettings, benchmark: Benchmark[Any], problems: Problems
) -> Sequence[Any]:
    try:
        return tasks_of(benchmark)
    except DatasetError:  # what it lacks whatever the tasks are is told with that
        problems.add(*(describe(lack, 0) for lack in _lacks(settings, benchmark, (), "")))
        raise


def _runnable_tasks(
    settings: RunSettings,
    benchmark: Benchmark[Any],
    environment: str,
    every: Sequence[Any],
    problems: Problems,
) -> tuple[Sequence[Any], tuple[str, ...]]:
    """The chosen tasks, and what was left out: `--limit N` takes what this machine can run."""
    chosen = select_tasks(every, settings.limit, settings.task)
    lacks = _lacks(settings, benchmark, chosen, environment)
    counted = settings.limit is not None and settings.limit.isdigit() and not settings.task
    counted = counted and settings.shard is None  # which must mean the same on every machine
    if counted and lacks and all(lack.kind in ("machine", "doubt") for lack in lacks):
        here = _lacks(settings, benchmark, every, environment)
        here = [lack for lack in here if lack.kind in ("machine", "doubt")]
        sure = [lack for lack in here if lack.kind == "machine"]
        for reasons in (here, sure) if sure else (here,):  # where all are in doubt, none is
            if able := runnable(every, reasons):
                without = tuple(f"left out: {describe(lack, len(every))}" for lack in reasons)
                return select_tasks(able, settings.limit, ()), without
    certain = [lack for lack in lacks if lack.kind != "doubt"]
    told = [describe(lack, len(chosen)) for lack in certain]
    if told and settings.environment is None:
        told[-1] += "".join(_other_environments(settings, benchmark, environment, every))
    problems.add(*told)
    return chosen, ()


def _other_environments(
    settings: RunSettings, benchmark: Benchmark[Any], environment: str, every: Sequence[Any]
) -> Iterator[str]:
    """Where else tasks could be run here, for somebody who named no environment."""
    for name in benchmark.environments:
        if name in (environment, "local", "none") or available(name) is not None:
            continue
        fitting = [task for task in every if name in benchmark.fitting_environments(task)]
        if able := runnable(fitting, _lacks(settings, benchmark, fitting, name)):
            yield f"\n  {len(able)} of {len(every)} tasks run here with --environment {name}"


def _lacks(
    settings: RunSettings, benchmark: Benchmark[Any], tasks: Sequence[Any], environment: str
) -> list[Lack]:
    """What is missing for these tasks; a model is none to what hands in by itself."""
    agent = (settings.agent or benchmark.default_agent).partition(":")[0]
    missing = benchmark.missing(tasks)
    lacks = [lack for lack in missing if not (agent in SUBMITTERS and lack.kind == "model")]
    if agent == OracleAgent.name:
        lacks += _lacking_references(benchmark, tasks)
    return [*lacks, *(benchmark.out_of_reach(tasks, environment) if environment else ())]


def _lacking_references(benchmark: Benchmark[Any], tasks: Sequence[Any]) -> list[Lack]:
    """What the oracle cannot answer; a run in which it answers something is not refused."""
    without = frozenset(task["id"] for task in tasks if not benchmark.has_reference(task))
    if not without:
        return []
    kind: Literal["machine", "doubt"] = "machine" if len(without) == len(tasks) else "doubt"
    remedy = "the data have none, so that --agent oracle has nothing to hand in"
    return [Lack("a reference answer", remedy, without, kind)]


def run(
    settings: RunSettings,
    *,
    runs: Path | None = None,
    resume: str | None = None,
    output: Path | None = None,
    observer: Observer | None = None,
    api_key: str | None = None,
    benchmark: Benchmark[Any] | None = None,
    agent: Agent | Submitter | None = None,
) -> EvalResult:
    """Run or resume, as `chimera eval` does; the result reads from the run's open file."""
    prepared = prepare(settings, api_key=api_key, runs=runs, benchmark=benchmark, agent=agent)
    for each in prepared.benchmark.preparations(prepared.tasks):
        each.make()
    store = prepared.open_store(runs, resume)
    try:
        result = prepared.harness(store, observer).run()
    except BaseException:
        if resume is None:
            discard_if_empty(store)
        raise
    if output is not None:
        write_output(result, output)
    return result


@dataclass(frozen=True, slots=True)
class AssumedModels:
    """What is taken where no model was named, and the line that says so."""

    model: str
    options: tuple[str, ...]  # of the benchmark: the models of its customers
    note: str


def assume_models(benchmark: str, options: Sequence[str] = ()) -> AssumedModels:
    """The model of the usual variables, else the embedded one, which then plays customers too."""
    named = (os.environ.get(variable) for variable in MODEL_VARIABLES)
    model = next(filter(None, named), EMBEDDED_MODEL)
    more: tuple[str, ...] = ()
    cls = benchmark_class(benchmark)
    if model == EMBEDDED_MODEL and issubclass(cls, DatasetBenchmark):
        given = pairs(options, "--option")
        roles = [each.name for each in fields(cls.option_type) if each.name.endswith("_model")]
        preset = {each.name: each.default for each in fields(cls.option_type)}
        more = tuple(f"{role}={model}" for role in roles if preset[role] and role not in given)
    also = "".join(f", {text.partition('=')[0].replace('_', ' ')} too" for text in more)
    note = f"no --model was given: {model}{also} (CHIMERA_MODEL names another)"
    return AssumedModels(model, more, note)


def stored_settings(
    store: RunStore,
    changes: Mapping[str, Any] | None = None,
    used: Collection[str] | None = None,
) -> dict[str, JSON]:
    """How a stored run was made, but for `changes`, as far as that may be `used`: see `seal`."""
    manifest = store.manifest()
    if not manifest.get("settings"):
        raise UsageError(
            f"the run {store.path} does not say how it was made: it can be neither resumed nor "
            "graded again"
        )
    return usable_settings(manifest, changes or {}, used)


def resumed_settings(
    name: str, runs: Path | None = None, changes: Mapping[str, Any] | None = None
) -> RunSettings:
    """The settings of a stored run, but for those of `changes`."""
    with RunStore(find_run(name, runs_dir(runs))) as store:
        return RunSettings.of_manifest(stored_settings(store, changes))


def chosen_agent(
    settings: RunSettings, benchmark: Benchmark[Any], *, api_key: str | None = None
) -> Agent | Submitter:
    """The agent of that name as the benchmark wants it, or what hands in answers by itself."""
    name = settings.agent or benchmark.default_agent
    agent = named_agent(
        name,
        benchmark,
        model=settings.model,
        temperature=settings.temperature,
        max_steps=settings.max_steps,
        max_tokens=settings.max_tokens,
        seed=settings.seed,
        base_url=settings.base_url,
        api_key=api_key,
        cache=cache_dir() / "calls.sqlite" if settings.cache else None,
        options=pairs(settings.agent_option, "--agent-option"),
        model_settings=settings.model_settings(),
        max_connections=settings.max_connections,
        summary_model=settings.roles().get(SUMMARY),
        mcp=settings.mcp,
        batches=settings.batches(),
    )
    if settings.budget is not None or settings.cost_limit is not None:
        for provider in as_agent(agent).providers():
            provider.required_price()  # money cannot be kept of what has no known price
    return agent


def until_decided(
    settings: RunSettings, benchmark: Benchmark[Any], tasks: Sequence[Any]
) -> tuple[Sequence[Any], UntilDecided]:
    """The tasks in the order of their lots, those of the earlier run first, and when to stop."""
    if settings.against is None:
        raise UsageError("--until decided: give the run to compare with, as --against RUN")
    with RunStore(find_run(settings.against, runs_dir())) as store:
        scores = RunScores.of(store)
        rates = {task: (count.rate, count.highest_rate) for task, count in scores.in_order()}
    if scores.benchmark != benchmark.name():
        raise UsageError(f"--against {settings.against} is a run of {scores.benchmark}")
    if unlike := differences([scores, replace(scores, basis=judged_by(benchmark))]):
        raise UsageError(f"--against {settings.against}: {'; '.join(unlike)}")
    seed = settings.seed or 0
    order = sorted(tasks, key=lambda task: (task["id"] not in rates, lot(task["id"], seed)))
    if not order or order[0]["id"] not in rates:
        raise UsageError(f"--against {settings.against} has none of the tasks to be run")
    test = SequentialTest(alpha=settings.alpha, margin=settings.margin)
    ids = [task["id"] for task in order]
    return order, UntilDecided(test, rates, ids, samples=settings.samples)


def judged_by(benchmark: Benchmark[Any]) -> dict[str, JSON]:
    """What must be the same for verdicts to be comparable."""
    own: dict[str, JSON] = {"grader": benchmark.grader_version, "options": benchmark.options()}
    if isinstance(benchmark, DatasetBenchmark):
        own["data set"] = benchmark.dataset_digest()
    return own


def select_tasks(tasks: Sequence[Any], limit: str | None, globs: Sequence[str]) -> Sequence[Any]:
    """Tasks whose id fits a glob, then the first N of them or a range "A:B"."""
    chosen = tasks
    if globs:
        chosen = those(tasks, lambda task: any(fnmatchcase(task["id"], glob) for glob in globs))
    if globs and not chosen:
        example = tasks[0]["id"] if tasks else "none"
        raise UsageError(f"--task {' '.join(globs)} fits no task; an id looks like {example!r}")
    if limit is None:
        return chosen
    start, colon, end = limit.partition(":")
    try:
        if colon:
            low, high = int(start or 0), int(end) if end else len(chosen)
        else:
            low, high = 0, int(start)
    except ValueError:
        raise UsageError(f"--limit {limit}: expected N or A:B") from None
    if low < 0 or high <= low or low >= len(chosen) > 0:
        raise UsageError(f"--limit {limit}: selects no task; there are {len(chosen)}")
    return chosen[low:high]


def shard_of(tasks: Sequence[Any], shard: str) -> Sequence[Any]:
    """Every N-th task from the i-th on, for a shard "i/N": together the shards are all tasks."""
    part, _, parts = shard.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts) < 10**6):
        raise UsageError(f"--shard {shard}: expected i/N with i from 1 to N, as in 2/8")
    chosen = tasks[int(part) - 1 :: int(parts)]
    if not chosen:
        raise UsageError(f"--shard {shard}: there are only {len(tasks)} tasks")
    return chosen


def default_backend(benchmark: Benchmark[Any], tasks: Sequence[Any]) -> str:
    """The backend that `eval` would choose with the benchmark's own agent."""
    name = benchmark.default_agent
    needs_commands = name not in SUBMITTERS and agent_needs_environment(name)
    return choose_backend(benchmark, tasks, needs_commands=needs_commands)


def choose_backend(
    benchmark: Benchmark[Any], tasks: Sequence[Any] = (), *, needs_commands: bool = False
) -> str:
    """The backend that `explained_backend` chooses."""
    return explained_backend(benchmark, tasks, needs_commands=needs_commands)[0]


def explained_backend(
    benchmark: Benchmark[Any], tasks: Sequence[Any] = (), *, needs_commands: bool = False
) -> tuple[str, str]:
    """The first of the benchmark's backends that fits the tasks, and why; never `local` by itself.

    What happens to run on this machine changes nothing: a backend that it lacks is an error, and
    no other takes its place.
    """
    listed = benchmark.environments
    if tuple(listed) == ("none",):
        return "none", "the benchmark brings an environment of its own, or needs none"
    wanted = [
        name for name in listed if name != "local" and not (name == "none" and needs_commands)
    ]
    fitting = Counter(name for task in tasks for name in {*benchmark.fitting_environments(task)})
    fits = {name: fitting[name] for name in wanted}
    if not wanted:
        raise UsageError(f"{benchmark.name()} has no confined environment{UNCONFINED}")
    chosen = max(wanted, key=fits.__getitem__)
    reason = available(chosen)
    if reason is not None:
        others = [f"{name} ({fits[name]} of {len(tasks)} tasks)" for name in wanted
                  if name != chosen and (fits[name] or not tasks)]  # fmt: skip
        also = f"\n  What fits too, with --environment: {', '.join(others)}" if others else ""
        without = UNCONFINED if "local" in listed else ""
        raise UsageError(
            f"{benchmark.name()} needs the environment {chosen}, which this machine does not "
            f"have:\n  {chosen}: {reason}{also}{without}"
        )
    every = fits[chosen] == len(tasks)
    fit = f"fits {'all' if every else fits[chosen]} of the {len(tasks)} tasks"
    return chosen, f"{chosen} {fit}, the first that does of: {', '.join(wanted)}"


def write_output(result: EvalResult, file: Path) -> None:
    """The plain summary with every result, written whole or not at all."""
    write_report(result, file, result.document())


def write_report(result: EvalResult, file: Path, lines: Iterable[str]) -> None:
    """A file about a run, written whole or not at all."""
    try:
        write_atomically(file, (f"{line}\n".encode() for line in lines))
    except OSError as error:
        raise unwritable(file, error, result) from None


def unwritable(file: Path, error: OSError, result: EvalResult) -> StoreError:
    """What is said of a file about a run that is there."""
    why = f"{file} cannot be written: {error.strerror}"
    return StoreError(f"{why}; the run is stored: {result.store.path}")


def gated_rate(result: EvalResult) -> float:
    """The rate that a gate is on: no task counts more for having been tried more often."""
    return (result.task_rate if result.uneven else result.pass_rate) or 0.0


def exit_code(
    result: EvalResult, fail_under: float | None = None, *, decided: bool = False
) -> ExitCode:
    """Whether the run is complete, or has decided what it was to decide, and good enough."""
    if result.errored or (result.not_run and not decided):
        return ExitCode.INCOMPLETE
    if fail_under is not None and not gated_rate(result) >= fail_under:
        return ExitCode.GATE
    return ExitCode.DONE


def how_to_go_on(store: RunStore) -> str:
    """What is stored of a run that was cut short, and the command that does the rest."""
    partial = EvalResult.of(store)
    if not partial.total and not partial.spent:
        return "nothing was stored"
    stored = f"{partial.total} of {partial.planned} trials are stored"
    return f"{stored}; go on with: chimera eval --resume {Path(store.path)}"
