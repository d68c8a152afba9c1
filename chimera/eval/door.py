"""`python -m` an adapter's module: a few of its tasks and a table, run and stored as by `eval`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from chimera.errors import ChimeraError, ExitCode
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.harness import Interrupted
from chimera.eval.registry import benchmark_class
from chimera.eval.run import (
    RunSettings,
    exit_code,
    interruption,
    prepare,
    resumed_settings,
    write_output,
)
from chimera.eval.runs.result import EvalResult

LIMIT = "3"
OPTION = "option "  # before an adapter's own options among what was parsed
FLAGS: Mapping[str, Mapping[str, Any]] = {
    "limit": {"help": f"the first N tasks, or a range A:B (default: {LIMIT})"},
    "model": {"help": "the agent's model"},
    "agent": {"help": "default: the benchmark's own"},
    "samples": {"type": int, "help": "trials of each task"},
    "max_steps": {"type": int, "help": "the agent's steps at most"},
    "dataset": {"help": "the data set's file or directory"},
    "output": {"type": Path, "help": "write results as JSON"},
    "resume": {"nargs": "?", "const": "latest", "help": "go on with a run (default: the latest)"},
    "runs_dir": {"type": Path, "help": "where runs are kept (default: ./runs)"},
    "no_color": {"action": "store_true"},
}


def main_for(*slugs: str, arguments: Sequence[str] | None = None) -> int:
    """Run the adapter of the first slug, or of that which --benchmark names; the exit code.

    The adapter's options are flags of their own: `--domain airline`.
    """
    first = _unset(add_help=False)
    first.add_argument("--benchmark", choices=slugs, help=f"default: {slugs[0]}")
    slug = vars(first.parse_known_args(arguments)[0]).get("benchmark", slugs[0])
    given = vars(_parser(slug, first).parse_args(arguments))
    try:
        return _run(slug, given)
    except ChimeraError as error:
        print(f"chimera: {error}", file=sys.stderr)
        return error.exit_code


def _parser(slug: str, first: argparse.ArgumentParser) -> argparse.ArgumentParser:
    adapter = benchmark_class(slug)
    parser = _unset(prog=f"python -m {adapter.__module__}", parents=[first])
    for name, settings in FLAGS.items():
        parser.add_argument(_flag(name), **settings)
    if issubclass(adapter, DatasetBenchmark):
        for each in fields(adapter.option_type):
            if each.name not in FLAGS:
                meaning = each.metadata.get("text")
                parser.add_argument(
                    _flag(each.name), dest=OPTION + each.name, metavar="VALUE", help=meaning
                )
    return parser


def _unset(**settings: Any) -> argparse.ArgumentParser:
    """A parser that leaves unset what is not given, so that resuming changes no more than that."""
    return argparse.ArgumentParser(
        argument_default=argparse.SUPPRESS, allow_abbrev=False, **settings
    )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _run(slug: str, given: dict[str, Any]) -> int:
    runs, resume, output = (given.pop(name, None) for name in ("runs_dir", "resume", "output"))
    color = not given.pop("no_color", False)
    options = tuple(
        f"{name.removeprefix(OPTION)}={given.pop(name)}"
        for name in list(given)
        if name.startswith(OPTION)
    )
    if options:
        given["option"] = options
    if resume is None:
        settings = RunSettings(**{"benchmark": slug, "limit": LIMIT, **given})
    else:
        settings = resumed_settings(resume, runs, given)
    prepared = prepare(settings)
    with prepared.open_store(runs, resume) as store:
        try:
            result = prepared.harness(store).run()
        except Interrupted:
            print(interruption(store), file=sys.stderr)
            return ExitCode.INTERRUPTED
        if output is not None:
            write_output(result, output)
        _print_table(result, f"{result.benchmark} {' '.join(settings.option)}", color=color)
        return exit_code(result)


def _print_table(result: EvalResult, title: str, *, color: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for column in ("task", "sample", "result", "steps", "why"):
        table.add_column(column)
    for each in result.results:
        table.add_row(each.task_id, str(each.sample), each.status, str(each.steps), each.why[:100])
    console = Console(no_color=not color, highlight=False, width=None if color else 120)
    console.print(table)
    console.print(f"passed {result.passed} of {result.total} ({result.pass_rate:.1%})")
    console.print(f"run: {result.store.path}", soft_wrap=True)
