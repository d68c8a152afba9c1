"""`python -m` an adapter's module: `chimera eval` with the adapter's options as flags."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields

from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.registry import benchmark_class
from chimera.eval.run import RunSettings

LIMIT = "3"


def main_for(*slugs: str, arguments: Sequence[str] | None = None) -> int:
    """`chimera eval` on the first slug, or on that which --benchmark names; its exit code.

    `--domain airline` stands for `--option domain=airline`, and without --limit it is a few tasks.
    """
    given = list(_translated(slugs, sys.argv[1:] if arguments is None else arguments))
    if not {"--limit", "-l", "--resume", "--task", "-t"} & {
        text.partition("=")[0] for text in given
    }:
        given += ["--limit", LIMIT]
    sys.argv = ["chimera", "eval", *given]
    try:
        runpy.run_module("chimera", run_name="__main__")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    return 0


def _translated(slugs: Sequence[str], arguments: Sequence[str]) -> Iterator[str]:
    words = [word for text in arguments for word in _split(text)]
    chosen = words.index("--benchmark") if "--benchmark" in words else None
    slug = slugs[0] if chosen is None else "".join(words[chosen + 1 : chosen + 2])
    own = _own_options(slug) if slug in slugs else set()
    if chosen is None and "--resume" not in words:
        yield from ("--benchmark", slug)
    waiting = iter(words)
    for word in waiting:
        name = word.removeprefix("--").replace("-", "_")
        if word == "--no-color":
            os.environ["NO_COLOR"] = "1"
        elif word.startswith("--") and name in own:
            yield from ("--option", f"{name}={next(waiting, '')}")
        else:
            yield word


def _split(text: str) -> list[str]:
    flag, equals, value = text.partition("=")
    return [flag, value] if equals and flag.startswith("--") else [text]


def _own_options(slug: str) -> set[str]:
    """The adapter's options that are no settings of a run by the same name."""
    adapter = benchmark_class(slug)
    if not issubclass(adapter, DatasetBenchmark):
        return set()
    settings = {each.name for each in fields(RunSettings)}
    return {each.name for each in fields(adapter.option_type)} - settings
