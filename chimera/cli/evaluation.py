"""From the settings of a command to a finished run; `eval`, `bench` and the presets share it."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click
import msgspec

from chimera.cli.display import create_display, print_summary
from chimera.cli.main import EXIT_DONE, EXIT_GATE, EXIT_INCOMPLETE, EXIT_INTERRUPTED
from chimera.cli.terminal import echo
from chimera.errors import UsageError
from chimera.eval.benchmark import Benchmark
from chimera.eval.data.datasets import DatasetBenchmark, cache_dir
from chimera.eval.harness import Harness, Interrupted
from chimera.eval.registry import create_benchmark
from chimera.eval.runs.files import find_run, new_run_path, runs_dir
from chimera.eval.runs.result import EvalResult
from chimera.eval.runs.store import RunStore
from chimera.eval.trial import StartBackend
from chimera.providers.meter import Limits
from chimera.text import one_line
from chimera.types import JSON


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a run is made of; stored with it, so that it can be resumed by name alone."""

    benchmark: str
    dataset: str | None = None
    model: str | None = None
    agent: str | None = None
    limit: str | None = None
    task: tuple[str, ...] = ()
    samples: int = 1
    concurrency: int | None = None
    environment: str | None = None
    network: bool = False
    budget: float | None = None
    timeout: float | None = None
    max_steps: int | None = None
    max_tokens: int | None = None
    token_limit: int | None = None
    cost_limit: float | None = None
    temperature: float | None = None
    seed: int | None = None
    cache: bool = False
    retries: int = 2
    base_url: str | None = None
    option: tuple[str, ...] = ()
    agent_option: tuple[str, ...] = ()

    @classmethod
    def of_manifest(cls, stored: Mapping[str, JSON]) -> Settings:
        """Stored settings, once each is of its type."""
        values = {f.name: stored[f.name] for f in fields(cls) if f.name in stored}
        try:
            return msgspec.convert(values, cls)
        except msgspec.ValidationError as error:
            raise UsageError(f"the run's settings are damaged: {error}") from None


@dataclass(frozen=True, slots=True)
class Output:
    """Where results go and what decides the exit code."""

    runs: Path | None = None
    resume: str | None = None
    file: Path | None = None
    fail_under: float | None = None
    as_json: bool = False
    dry_run: bool = False


def run_evaluation(settings: Settings, output: Output, *, api_key: str | None = None) -> int:
    """Run (or resume) and report; the exit code says whether it is complete and good enough."""
    from chimera.cli.options import pairs

    benchmark = create_benchmark(
        settings.benchmark,
        dataset=settings.dataset,
        options=pairs(settings.option, "--option"),
    )
    agent = _agent(settings, benchmark, api_key)
    tasks = select_tasks(benchmark.tasks(), settings.limit, settings.task)
    needs_commands = getattr(agent, "needs_environment", False)
    environment = settings.environment or default_environment(
        benchmark, needs_commands=needs_commands
    )
    if output.dry_run:
        _print_plan(settings, benchmark, tasks, environment)
        return EXIT_DONE
    directory = runs_dir(output.runs)
    if output.resume is None:
        path = new_run_path(directory, benchmark.name(), settings.model or settings.agent or "")
    else:
        path = find_run(output.resume, directory)
    with RunStore(path, create=True) as store:
        harness = Harness(
            benchmark=benchmark,
            agent=agent,
            env_factory=StartBackend(environment, network=settings.network),
            samples=settings.samples,
            concurrency=settings.concurrency,
            limits=Limits(
                max_steps=settings.max_steps,
                max_tokens=settings.token_limit,
                max_cost=settings.cost_limit,
                seconds=settings.timeout,
            ),
            budget=settings.budget,
            attempts=settings.retries + 1,
            store=store,
            tasks=tasks,
            manifest=describe(settings, benchmark, environment),
        )
        return drive(harness, store, output, samples=settings.samples)


def drive(harness: Harness, store: RunStore, output: Output, *, samples: int = 1) -> int:
    """Run a harness under a display, then write, print and gate its result."""
    began = time.monotonic()
    try:
        with create_display(as_json=output.as_json) as display:
            harness.observer = display
            result = harness.run()
    except Interrupted:
        partial = EvalResult.of(store)
        click.echo(
            f"\nInterrupted: {partial.total} of {partial.planned} trials are stored.\n"
            f"  Go on with: chimera eval --resume {Path(store.path)}",
            err=True,
        )
        return EXIT_INTERRUPTED
    if output.file is not None:
        write_output(result, output.file)
    if output.as_json:
        summary = {"event": "summary", **result.summary(), "stopped": result.stopped}
        echo(msgspec.json.encode(summary).decode())
    else:
        print_summary(result, samples=samples, elapsed=time.monotonic() - began)
    return exit_code(result, output.fail_under)


def exit_code(result: EvalResult, fail_under: float | None) -> int:
    if result.errored or result.not_run:
        return EXIT_INCOMPLETE
    if fail_under is not None and result.pass_rate < fail_under:
        click.echo(
            f"gate not met: {result.pass_rate:.4f} is under --fail-under {fail_under:g}", err=True
        )
        return EXIT_GATE
    return EXIT_DONE


def write_output(result: EvalResult, file: Path) -> None:
    """The plain summary with every result, written whole or not at all."""
    document = {**result.summary(), "results": [msgspec.to_builtins(r) for r in result.results]}
    if result.stopped:
        document["stopped"] = result.stopped
    temporary = file.with_name(f".{file.name}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
        temporary.replace(file)
    except OSError as error:
        raise UsageError(
            f"--output {file}: {error.strerror}; the run is stored all the same"
        ) from None


def select_tasks(tasks: Sequence[Any], limit: str | None, globs: Sequence[str]) -> Sequence[Any]:
    """Tasks whose id fits a glob, then the first N of them or a range "A:B"."""
    chosen = [t for t in tasks if not globs or any(fnmatchcase(t["id"], g) for g in globs)]
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
    if low < 0 or high <= low:
        raise UsageError(f"--limit {limit}: selects no task")
    return chosen[low:high]


def _agent(settings: Settings, benchmark: Benchmark[Any], api_key: str | None) -> Any:
    from chimera.agents import create_agent
    from chimera.cli.options import pairs

    agent = create_agent(
        settings.agent or benchmark.default_agent,
        model=settings.model,
        temperature=settings.temperature,
        max_steps=settings.max_steps,
        max_tokens=settings.max_tokens,
        seed=settings.seed,
        base_url=settings.base_url,
        api_key=api_key,
        cache=cache_dir() / "calls.sqlite" if settings.cache else None,
        options=pairs(settings.agent_option, "--agent-option"),
    )
    if settings.budget is not None or settings.cost_limit is not None:
        provider = getattr(agent, "provider", None)
        if provider is not None:
            provider.required_price()  # money cannot be kept of what has no known price
    return benchmark.prepare_agent(agent)


def default_environment(benchmark: Benchmark[Any], *, needs_commands: bool = False) -> str:
    """The first backend of the benchmark's list that this machine has; never `local` by itself."""
    from chimera.environments import available

    reasons = []
    if tuple(benchmark.environments) == ("none",):
        return "none"  # the benchmark brings an environment of its own, or needs none
    for backend in benchmark.environments:
        if backend == "local" or (backend == "none" and needs_commands):
            continue
        reason = available(backend)
        if reason is None:
            return backend
        reasons.append(f"  {backend}: {reason}")
    raise UsageError(
        f"{benchmark.name()} needs an environment that this machine does not have:\n"
        + "\n".join(reasons)
        + "\n  --environment local runs without confinement, on this machine as it is."
    )


def describe(settings: Settings, benchmark: Benchmark[Any], environment: str) -> dict[str, JSON]:
    dataset = None
    if isinstance(benchmark, DatasetBenchmark):
        source = benchmark.source().absolute()
        dataset = {"path": str(source), "sha256": benchmark.dataset_digest()}
    stored = asdict(settings)
    if settings.dataset is not None:
        stored["dataset"] = str(Path(settings.dataset).absolute())
    return {
        "settings": stored,
        "dataset": dataset,
        "model": settings.model,
        "agent": settings.agent or benchmark.default_agent,
        "environment": environment,
        "platform": {
            "python": platform.python_version(),
            "system": platform.platform(),
            "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        },
    }


def _print_plan(
    settings: Settings,
    benchmark: Benchmark[Any],
    tasks: Sequence[Any],
    environment: str,
) -> None:
    click.echo(f"benchmark    {benchmark.name()} {benchmark.options() or ''}".rstrip())
    if isinstance(benchmark, DatasetBenchmark):
        click.echo(f"data set     {benchmark.source()}")
    click.echo(f"agent        {settings.agent or benchmark.default_agent}")
    click.echo(f"model        {settings.model or '(none)'}")
    click.echo(f"environment  {environment}")
    click.echo(f"trials       {len(tasks)} tasks × {settings.samples} samples")
    click.echo(
        "tasks        "
        + ", ".join(one_line(task["id"]) for task in tasks[:5])
        + ", …"[: 3 * (len(tasks) > 5)]
    )
    click.echo("Nothing was run (--dry-run).")
