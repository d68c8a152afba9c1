"""`python -m` an adapter's module: `chimera eval` with the adapter's options as flags."""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any

from chimera.errors import UsageError
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.options import from_texts
from chimera.eval.registry import benchmark_class
from chimera.eval.run import RunSettings, assume_models

LIMIT = "3"


def main_for(*slugs: str, arguments: Sequence[str] | None = None) -> int:
    """`chimera eval` on the first slug, or on that which --benchmark names; its exit code.

    `--domain airline` stands for `--option domain=airline`, and without --limit it is a few tasks.
    """
    given = list(_translated(slugs, sys.argv[1:] if arguments is None else arguments))
    flags = {text.partition("=")[0] for text in given}
    if not {"--limit", "-l", "--resume", "--task", "-t"} & flags:
        given += ["--limit", LIMIT]
    if not {"--model", "-m", "--agent", "-a", "--resume", "--config"} & flags:
        given += _assumed_model(given)
    sys.argv = ["chimera", "eval", *given]
    try:
        runpy.run_module("chimera", run_name="__main__")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    return 0


def _assumed_model(given: Sequence[str]) -> list[str]:
    """Flags that name the default model, which is said; of the customers too, where there are."""
    slug = given[given.index("--benchmark") + 1]
    assumed = assume_models(slug, [text for flag, text in pairwise(given) if flag == "--option"])
    print(assumed.note, file=sys.stderr)
    more = (word for text in assumed.options for word in ("--option", text))
    return ["--model", assumed.model, *more]


def _translated(slugs: Sequence[str], arguments: Sequence[str]) -> Iterator[str]:
    words = [word for text in arguments for word in _split(text)]
    chosen = words.index("--benchmark") if "--benchmark" in words else None
    slug = _fitting(slugs, words) if chosen is None else "".join(words[chosen + 1 : chosen + 2])
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


def _fitting(slugs: Sequence[str], words: Sequence[str]) -> str:
    """The first adapter that takes all options as they are given, else the first of all."""
    values = dict(pairwise(words))
    for slug in slugs:
        own = {name: values.get(f"--{name.replace('_', '-')}") for name in _own_options(slug)}
        given = {name: text for name, text in own.items() if text is not None}
        options = _adapter(slug).option_type
        with contextlib.suppress(UsageError):
            options(**from_texts(options, given, slug))
            return slug
    return slugs[0]


def _split(text: str) -> list[str]:
    flag, equals, value = text.partition("=")
    return [flag, value] if equals and flag.startswith("--") else [text]


def _own_options(slug: str) -> set[str]:
    """The adapter's options that are no settings of a run by the same name."""
    settings = {each.name for each in fields(RunSettings)}
    return {each.name for each in fields(_adapter(slug).option_type)} - settings


def _adapter(slug: str) -> type[DatasetBenchmark[Any]]:
    found = benchmark_class(slug)
    assert issubclass(found, DatasetBenchmark), slug
    return found
