"""`chimera eval`: run an agent against a benchmark."""

from __future__ import annotations

import secrets
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from chimera.cli.evaluation import Output, Reports, run_evaluation
from chimera.cli.options import (
    SHARE,
    Number,
    Whole,
    config_option,
    controls_option,
    json_option,
    option,
    report_options,
    runs_dir_option,
)
from chimera.errors import UsageError
from chimera.eval.run import RunSettings, resumed_settings
from chimera.eval.runs.files import find_run, runs_dir
from chimera.eval.runs.store import MOST_SAMPLES


@click.command("eval")
@option("--benchmark", "-b", help="A name from `chimera benchmarks`, or your file.py:Class.")
@option("--dataset", help="The data set's file or directory.")
@option("--model", "-m", help="provider/model, e.g. openai/gpt-4o, anthropic/…, local/smollm2.")
@option(
    "--agent", "-a", help="direct, react, claude-code, codex, …, oracle, command:…, file.py:Class."
)
@option("--limit", "-l", help="The first N tasks, or a range A:B.")
@option("--task", "-t", multiple=True, help="Only tasks whose id fits this glob; repeatable.")
@option("--shard", help="i/N: every N-th task from the i-th on; `chimera runs merge` joins them.")
@option("--samples", "-k", type=Whole(1, MOST_SAMPLES), default=1, help="Trials of each task.")
@option("--concurrency", "-n", type=Whole(1), help="Trials at once (default: 4 a core).")
@option(
    "--environment",
    "-e",
    help="none, local, bubblewrap, docker, browser, ssh://HOST, k8s://NAMESPACE, file.py:Class[://PLACE].",
)
@option("--network", is_flag=True, help="Give the agent's environment a network (default: none).")
@option("--budget", type=Number(0), help="US dollars this run may spend at the most.")
@option(
    "--timeout",
    type=Number(0, min_open=True),
    help="Seconds an agent may work on a task.",
)
@option("--max-steps", type=Whole(1), help="Steps an agent may take.")
@option("--max-tokens", type=Whole(1), help="Tokens of one reply.")
@option("--token-limit", type=Whole(1), help="Tokens a trial may use, in and out.")
@option("--cost-limit", type=Number(0), help="US dollars a trial may spend.")
@option("--temperature", type=Number(0), help="Sampling temperature.")
@option("--top-p", type=Number(0, 1), help="Nucleus sampling.")
@option("--reasoning-effort", help="none, minimal, low, medium, high, …, as the model takes it.")
@option("--thinking-tokens", type=Whole(0), help="Tokens of thought beside the reply.")
@option("--seed", type=Whole(), help="Seed; sample n uses seed + n.")
@option("--cache", is_flag=True, help="Answer repeated model calls from a cache.")
@option("--batch", is_flag=True, help="Half price, within a day: OpenAI's and Anthropic's batches.")
@option("--retries", type=Whole(0), default=2, help="New attempts after a passing fault.")
@controls_option
@option("--base-url", help="Address of an OpenAI- or Anthropic-compatible server.")
@option("--api-key", help="Key for it; better given by the provider's usual variable.")
@option("--max-connections", type=Whole(1), help="Model calls at once (default: adapts).")
@option(
    "--model-option",
    multiple=True,
    help="FIELD=VALUE of each request (reasoning.summary=auto), header.NAME=VALUE, "
    "protocol=chat|responses; repeatable.",
)
@option("--role", multiple=True, help="judge=MODEL, user=MODEL or summary=MODEL; repeatable.")
@option("--mcp", multiple=True, help="Command of an MCP server whose tools the agent gets.")
@option("--option", "-o", multiple=True, help="KEY=VALUE for the benchmark; repeatable.")
@option("--agent-option", multiple=True, help="KEY=VALUE for the agent; repeatable.")
@option("--resume", is_flag=False, flag_value="latest", help="Go on with a run (default: latest).")
@runs_dir_option
@option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Write results as JSON.")
@option("--against", help="An earlier run of the same benchmark, for --until decided.")
@option("--until", type=click.Choice(["done", "decided"]), default="done",
        help="decided: stop when better or worse than --against is shown.")  # fmt: skip
@option("--alpha", type=SHARE, default=0.05, help="Chance that --until decided is wrong.")
@option("--margin", type=SHARE, help="Stop also when a difference of that size is ruled out.")
@report_options
@option("--fail-under", type=Number(0, 1), help="Exit 1 when the pass rate is lower.")
@option("--on", help="Where trials run: processes, processes:N, ray, ray://HOST:PORT "
        "(default: threads of this process).")  # fmt: skip
@option("--metrics", type=Whole(0, 65535),
        help="Serve /metrics (Prometheus) and /status here on this port; 0 is any.")  # fmt: skip
@option("--dry-run", is_flag=True, help="Show what would be run.")
@json_option
@config_option
@click.pass_context
def command(
    context: click.Context,
    /,
    resume: str | None,
    runs_dir: Path | None,
    output: Path | None,
    junit: Path | None,
    ctrf: Path | None,
    github: bool | None,
    fail_under: float | None,
    on: str | None,
    metrics: int | None,
    dry_run: bool,
    as_json: bool,
    api_key: str | None,
    batch: bool,
    **given: Any,
) -> int:
    """Run an agent against a benchmark and say for every task whether it was solved.

    \b
    Examples:
      chimera eval --benchmark human-eval --model local/smollm2 --limit 5
      chimera eval -b human-eval -m openai/gpt-4o -k 5 --budget 2 --output results.json
      chimera eval -b my_bench.py:MyBench -m anthropic/claude-sonnet-4-5
      chimera eval -b aider-polyglot --agent claude-code -m anthropic/claude-sonnet-4-5 --budget 5
      chimera eval --resume                      # go on with the latest run
      chimera eval -b human-eval --agent oracle  # the reference answers
      chimera eval -b human-eval -m openai/gpt-4o -n 1000 --on processes  # on all cores
      chimera eval -b human-eval -m openai/gpt-4o --on ray  # every machine of a Ray cluster
      chimera eval -b mbpp -m openai/gpt-4o --against BASELINE --until decided --margin 0.05
      chimera eval -b swe-bench -m openai/gpt-4o --controls first  # prove every task before paying

    \b
    Exit codes: 0 done, 1 --fail-under not met, 2 wrong usage or no data set,
    3 some trials have no verdict, 4 no place to write to, 130 interrupted, 143 terminated.
    """
    given["batch"] = secrets.token_hex(8) if batch else None
    if given["against"]:
        given["against"] = str(_against(given["against"], runs_dir))
    if resume:
        settings = resumed_settings(resume, runs_dir, _told(context, given))
    elif given["benchmark"]:
        settings = RunSettings(**given)
    else:
        raise UsageError("which benchmark? Give --benchmark NAME (`chimera benchmarks` lists them)")
    if on is not None and api_key is not None:
        raise UsageError(
            "--api-key does not travel: with --on, set the provider's variable instead"
        )
    reports = Reports(output, junit, ctrf, github)
    target = Output(runs_dir, resume, reports, fail_under, as_json, dry_run, on, metrics)
    return run_evaluation(settings, target, api_key=api_key)


def _against(name: str, directory: Path | None) -> Path:
    return find_run(name, runs_dir(directory)).absolute()


def _told(context: click.Context, given: dict[str, Any]) -> dict[str, Any]:
    """What was given on this command line, in a variable or in a file."""
    return {
        each.name: given[each.name]
        for each in fields(RunSettings)
        if each.name != "batch"  # a run goes on as it was begun, by the same batches
        and context.get_parameter_source(each.name) not in (ParameterSource.DEFAULT, None)
    }
