"""`chimera PRESET bench BENCHMARK`: a benchmark with one of the named agents."""

from __future__ import annotations

from pathlib import Path

import click

from chimera.agents import about
from chimera.cli.evaluation import Output, run_evaluation
from chimera.cli.options import json_option, option, runs_dir_option
from chimera.errors import UsageError
from chimera.eval.registry import flavour
from chimera.eval.run import RunSettings


def group(preset: str) -> click.Group:
    """The command group of one preset."""

    @click.group(preset, help=f"The agent preset '{preset}': {about(preset)}.")
    def preset_group() -> None: ...

    @preset_group.command("bench")
    @click.argument("benchmark")
    @option("--model", "-m", help="provider/model, e.g. local/smollm2.")
    @option("--bench-limit", "--limit", "limit", type=click.IntRange(0), default=5,
            help="Tasks to run; 0 is the whole set.")  # fmt: skip
    @option("--language", help="Only this language, where the benchmark has several.")
    @option("--dataset", help="The data set's file or directory.")
    @option("--environment", "-e", help="none, local, bubblewrap, docker, …")
    @option("--option", "-o", "options", multiple=True, help="KEY=VALUE for the benchmark.")
    @option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Results as JSON.")
    @runs_dir_option
    @json_option
    def bench(
        *,
        benchmark: str,
        model: str | None,
        limit: int,
        language: str | None,
        dataset: str | None,
        environment: str | None,
        options: tuple[str, ...],
        output: Path | None,
        runs_dir: Path | None,
        as_json: bool,
    ) -> int:
        """Run BENCHMARK with this preset."""
        if not model:
            raise UsageError(f"which model? Give --model, e.g. --model local/smollm2 for {preset}")
        if language is not None:
            options = (*options, f"language={language}")
        settings = RunSettings(
            benchmark=flavour(preset, benchmark),
            dataset=dataset,
            model=model,
            agent=preset,
            limit=str(limit) if limit else None,
            environment=environment,
            option=options,
        )
        return run_evaluation(settings, Output(runs=runs_dir, file=output, as_json=as_json))

    return preset_group
