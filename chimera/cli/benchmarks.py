"""`chimera benchmarks`: what there is to choose from, and everything about one of them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

import click
import msgspec

from chimera.cli.names import COMPLETERS
from chimera.cli.options import json_option, option
from chimera.cli.terminal import columns, echo, fitted
from chimera.errors import DatasetError
from chimera.eval.benchmark import Benchmark
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.options import described
from chimera.eval.proof.status import BenchmarkStatus, benchmark_states, markdown_table
from chimera.eval.registry import ENTRY_POINT_GROUP, adapters, benchmark_class


@click.command("benchmarks")
@click.argument("name", required=False, shell_complete=COMPLETERS["benchmark"])
@json_option
@option("--markdown", is_flag=True, help="The table of docs/benchmarks.md: what was proved.")
def command(*, name: str | None, as_json: bool, markdown: bool) -> None:
    """List the benchmarks: what each asks, how many tasks, what it needs, whether its data is here.

    With NAME everything about one: its options with their meaning, what is missing on this
    machine, what was measured of its grader.

    \b
    Examples:
      chimera benchmarks
      chimera benchmarks aider-polyglot
      chimera benchmarks | grep 'data here'
    """
    if name is not None:
        _show_one(name)
        return
    states = benchmark_states()
    if as_json:
        echo(msgspec.json.encode(states).decode())
    elif markdown:
        echo(markdown_table(states), nl=False)
    else:
        _show_all(states)


def _show_all(states: list[BenchmarkStatus]) -> None:
    """Blocks as wide as the terminal; in a pipe a line for each, with nothing cut."""
    width = columns()
    for state in states:
        adapter = adapters()[state.slug]
        facts = [f"{state.tasks.rpartition(' ')[2]} tasks", _data(adapter), state.state]
        if adapter.needs:
            facts.append(f"needs {', '.join(adapter.needs)}")
        if width is None:
            echo(f"{state.slug:<20} {' · '.join(facts)} · {state.description}")
            continue
        echo(click.wrap_text(f"{state.slug}  {state.description}", width, "", "    "))
        echo(click.wrap_text(" · ".join(facts), width, "    ", "    "))
    plugins = sorted(entry.name for entry in entry_points(group=ENTRY_POINT_GROUP))
    if plugins:
        echo(f"plug-ins: {', '.join(plugins)}")
    if width is not None:
        echo("options of one: chimera benchmarks NAME")


def _data(adapter: type[Benchmark[Any]]) -> str:
    if not issubclass(adapter, DatasetBenchmark):
        return "no data"
    try:
        adapter().dataset().place()
    except DatasetError:
        return "data absent, can be pulled" if adapter.sources else "data absent"
    return "data here"


def _show_one(name: str) -> None:
    cls = benchmark_class(name)
    for title, text in _facts(cls, name):
        echo(fitted(f"{title:<14}{text}", 14))
    lines = list(_options(cls))
    echo("options" if lines else "options       none")
    for line in lines:
        echo(fitted(f"  {line}", 31))


def _facts(cls: type[Benchmark[Any]], name: str) -> Iterator[tuple[str, str]]:
    yield "name", ", ".join([cls.slug or cls.__name__, *cls.aliases])
    yield "asks", cls.description or " ".join((vars(cls).get("__doc__") or "not said").split())
    if issubclass(cls, DatasetBenchmark):
        try:
            yield "data", f"{cls().dataset().place()}"
        except DatasetError:
            yield "data", f"absent: {cls.fetch_hint() or cls.setup}"
        yield "licence", cls.licence or "see its publisher"
    needed = ", ".join(cls.needs)
    yield "needs", needed or "nothing else"
    if cls.slug:
        made = cls()
        for lack in made.missing():
            yield "missing here", f"{lack.what}: {lack.remedy}"
        for each in made.preparations():
            yield "not fetched", f"{each.what}: chimera prepare {cls.slug}"
        yield "runs in", ", ".join(made.environments)
        yield "graded as", made.graded_as()
        for state in benchmark_states():
            if state.slug == cls.slug:
                counts = f"gold {state.gold}, nothing {state.nothing}, mutants {state.mutants}"
                yield "proved", state.state + ("" if state.gold == "–" else f": {counts}")
                if state.judge:
                    yield "judged", state.judge
    yield "agent", cls.default_agent
    yield "try", f"chimera eval -b {name} -m local/smollm2 --limit 3"


def _options(cls: type[Benchmark[Any]]) -> Iterator[str]:
    """A line for each option: its name and default, then what it does."""
    if not issubclass(cls, DatasetBenchmark):
        for parameter in inspect.signature(cls).parameters.values():
            default = "" if parameter.default is parameter.empty else f"={parameter.default}"
            yield f"{parameter.name}{default}"
        return
    for name, default, meaning in described(cls.option_type):
        yield f"{f'{name}={default}' if default else name:<28} {meaning}"
