"""`chimera PRESET bench BENCHMARK`: a benchmark with one of the named agents."""

from __future__ import annotations

from typing import Any

import click

from chimera.agents import about
from chimera.cli.eval import command as evaluation
from chimera.cli.names import COMPLETERS
from chimera.cli.options import option
from chimera.cli.terminal import echo
from chimera.eval.registry import flavour
from chimera.eval.run import assume_models

#: Options of `chimera eval` that mean something else here, or nothing.
LEFT_OUT = ("benchmark", "agent", "limit", "resume")


def group(preset: str) -> click.Group:
    """The command group of one preset."""

    example = f"  chimera {preset} bench human-eval --bench-limit 5 --model openai/gpt-4o"
    about_it = f"The agent preset '{preset}': {about(preset)}.\n\n\b\nExample:\n{example}"

    @click.group(preset, help=about_it)
    def preset_group() -> None: ...

    @preset_group.command("bench")
    @click.argument("benchmark", shell_complete=COMPLETERS["benchmark"])
    @option("--bench-limit", "--limit", "-l", "limit", default="5",
            help="Tasks to run: N, a range A:B, or 0 for the whole set.")  # fmt: skip
    @option("--language", help="Only this language, where the benchmark has several.")
    @click.pass_context
    def bench(
        context: click.Context,
        /,
        benchmark: str,
        limit: str,
        language: str | None,
        model: str | None,
        option: tuple[str, ...],
        **given: Any,
    ) -> int:
        """Run BENCHMARK with this preset, by the options of `chimera eval`."""
        name = flavour(preset, benchmark)
        if language is not None:
            option = (*option, f"language={language}")
        if model is None:
            assumed = assume_models(name, option)
            model, option = assumed.model, (*option, *assumed.options)
            echo(assumed.note, err=True)
        code: int = context.invoke(
            evaluation,
            benchmark=name,
            agent=preset,
            limit=None if limit == "0" else limit,
            model=model,
            option=option,
            **given,
        )
        return code

    bench.params += [known for known in evaluation.params if known.name not in LEFT_OUT]
    return preset_group
