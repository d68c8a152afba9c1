"""Every benchmark by name, read off the adapters: the shipped ones, plug-ins, and your own."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from chimera.errors import UsageError
from chimera.eval.benchmark import Benchmark
from chimera.eval.data.datasets import DatasetBenchmark
from chimera.eval.options import from_texts
from chimera.plugins import constructor_values, load_class

ADAPTERS = "chimera.eval.benchmarks"
ENTRY_POINT_GROUP = "chimera.benchmarks"


@cache
def adapters() -> Mapping[str, type[Benchmark[Any]]]:
    """Every shipped adapter by its slug, in the order of the slugs."""
    found = {cls.slug: cls for module in _modules() for cls in _adapters_in(module)}
    return dict(sorted(found.items()))


def benchmark_class(name: str) -> type[Benchmark[Any]]:
    """The class behind a slug, an alias, an entry point, `module:Class` or `file.py:Class`."""
    wanted = name.lower().replace("_", "-")
    for cls in _named_like(wanted):  # its own module, before all are imported
        return cls
    known = {slug: _path(cls) for slug, cls in adapters().items()}
    aliases = {alias: _path(cls) for cls in adapters().values() for alias in cls.aliases}
    if wanted in aliases:
        known[name] = aliases[wanted]
    kind: Any = Benchmark  # abstract, which is no matter here
    found: type[Benchmark[Any]] = load_class(
        name, kind, what="benchmark", shipped=known, group=ENTRY_POINT_GROUP
    )
    return found


def create_benchmark(
    name: str, *, dataset: str | Path | None = None, options: Mapping[str, str] | None = None
) -> Benchmark[Any]:
    """An adapter made from command-line values: `options` are converted by their annotations."""
    cls = benchmark_class(name)
    given = options or {}
    if issubclass(cls, DatasetBenchmark):
        values = from_texts(cls.option_type, given, name)
        if dataset is not None:
            values[cls.path_parameter] = Path(dataset)
    else:
        values = constructor_values(cls, given, owner=f"'{name}'")
        if dataset is not None:
            raise UsageError(f"'{name}' takes no --dataset")
    try:
        return cls(**values)
    except TypeError as error:
        raise UsageError(f"'{name}' cannot be made: {error}") from None


def flavour(preset: str, name: str) -> str:
    """The name of a preset's own flavour of a benchmark, or the benchmark's where it has none.

    Flavours are adapters in `chimera.PRESET.benchmarks`, in a module named as the benchmark's.
    """
    package = f"chimera.{preset}"
    module = f"{package}.benchmarks.{name.lower().replace('-', '_')}"
    if importlib.util.find_spec(package) is None or importlib.util.find_spec(module) is None:
        return name
    return next(map(_path, _benchmarks_in(importlib.import_module(module))))


def _modules() -> Iterator[str]:
    package = importlib.import_module(ADAPTERS)
    for module in pkgutil.iter_modules(package.__path__):
        if not module.name.startswith("_"):
            yield module.name


def _adapters_in(module: str) -> Iterator[type[Benchmark[Any]]]:
    """The adapters that a module defines: classes with a slug of their own."""
    for cls in _benchmarks_in(importlib.import_module(f"{ADAPTERS}.{module}")):
        if cls.__dict__.get("slug"):
            yield cls


def _benchmarks_in(module: ModuleType) -> Iterator[type[Benchmark[Any]]]:
    for value in vars(module).values():
        if (
            isinstance(value, type)
            and issubclass(value, Benchmark)
            and value.__module__ == module.__name__
        ):
            yield value


def _named_like(slug: str) -> Iterator[type[Benchmark[Any]]]:
    module = slug.replace("-", "_")
    if module in set(_modules()):
        yield from (cls for cls in _adapters_in(module) if cls.slug == slug)


def _path(cls: type[Benchmark[Any]]) -> str:
    return f"{cls.__module__}:{cls.__name__}"
