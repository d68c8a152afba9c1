"""Every benchmark by name: the shipped ones, installed plug-ins, and `module:Class` paths."""

from __future__ import annotations

import importlib
import inspect
import types
import typing
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from chimera.errors import UsageError
from chimera.eval.benchmark import Benchmark

ENTRY_POINT_GROUP = "chimera.benchmarks"
#: What constructors call the data set's place.
DATASET_PARAMETERS = ("dataset_path", "problems_path", "tasks_dir", "dataset_dir")

#: slug → (module below chimera.eval.benchmarks, class)
BENCHMARKS: Mapping[str, tuple[str, str]] = {
    "aider-polyglot": ("aider_polyglot", "AiderPolyglot"),
    "aimo": ("aimo", "AIMOBenchmark"),
    "cline-bench": ("cline_bench", "ClineBench"),
    "context-bench": ("context_bench", "ContextBench"),
    "custom": ("custom", "CustomBenchmark"),
    "dpai-arena": ("dpai_arena", "DPAIArena"),
    "feature-bench": ("feature_bench", "FeatureBench"),
    "human-eval": ("human_eval", "HumanEval"),
    "humaneval-plus": ("humaneval_plus", "HumanEvalPlus"),
    "livecodebench": ("livecodebench", "LiveCodeBench"),
    "math-500": ("math500", "MATH500Benchmark"),
    "mbpp": ("mbpp", "MBPP"),
    "mbpp-plus": ("mbpp", "MBPPPlus"),
    "swe-bench": ("swe_bench", "SWEBench"),
    "swe-bench-verified": ("swe_bench_verified", "SWEBenchVerified"),
    "swe-polybench": ("swe_polybench", "SWEPolyBench"),
    "swt-bench": ("swt_bench", "SWTBench"),
    "tau-bench": ("tau_bench", "TauBench"),
    "tau2-bench": ("tau_bench", "Tau2Bench"),
    "terminal-bench": ("terminal_bench", "TerminalBench"),
    "webarena": ("webarena", "WebArena"),
    "webarena-verified": ("webarena_verified", "WebArenaVerified"),
}

ALIASES: Mapping[str, str] = {
    "aider": "aider-polyglot",
    "aime": "aimo",
    "cline": "cline-bench",
    "contextbench": "context-bench",
    "dpai": "dpai-arena",
    "featurebench": "feature-bench",
    "humaneval": "human-eval",
    "human-eval-plus": "humaneval-plus",
    "humaneval+": "humaneval-plus",
    "lcb": "livecodebench",
    "live-code-bench": "livecodebench",
    "math500": "math-500",
    "mbpp+": "mbpp-plus",
    "mbppplus": "mbpp-plus",
    "polybench": "swe-polybench",
    "polyglot": "aider-polyglot",
    "swe-bench-lite": "swe-bench",
    "swebench": "swe-bench",
    "swebench-lite": "swe-bench",
    "swebench-verified": "swe-bench-verified",
    "swtbench": "swt-bench",
    "tau": "tau-bench",
    "tau2": "tau2-bench",
    "taubench": "tau-bench",
    "tb2": "terminal-bench",
    "terminal-bench-2": "terminal-bench",
    "terminalbench": "terminal-bench",
}
BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def benchmark_class(name: str) -> type[Benchmark[Any]]:
    """The class behind a slug, an alias, an entry point or a `module:Class` path."""
    slug = name.lower().replace("_", "-")
    slug = ALIASES.get(slug, slug)
    if slug in BENCHMARKS:
        module, attribute = BENCHMARKS[slug]
        return _load(f"chimera.eval.benchmarks.{module}", attribute, name)
    if ":" in name:
        module, _, attribute = name.partition(":")
        return _load(module, attribute, name)
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        if entry.name == name:
            return _load(entry.module, entry.attr, name)
    known = ", ".join(
        sorted([*BENCHMARKS, *(e.name for e in entry_points(group=ENTRY_POINT_GROUP))])
    )
    raise UsageError(
        f"unknown benchmark '{name}'\n  Known: {known}\n"
        "  Your own: --benchmark package.module:ClassName, or an entry point in the group "
        f"'{ENTRY_POINT_GROUP}'."
    )


def create_benchmark(
    name: str, *, dataset: str | Path | None = None, options: Mapping[str, str] | None = None
) -> Benchmark[Any]:
    """An adapter made from command-line values: `options` are converted by its signature."""
    cls = benchmark_class(name)
    signature = inspect.signature(cls)
    hints = typing.get_type_hints(cls.__init__)
    arguments: dict[str, Any] = {}
    if dataset is not None:
        target = next(
            (name for name in DATASET_PARAMETERS if name in signature.parameters),
            None,
        )
        if target is None:
            raise UsageError(f"'{name}' takes no --dataset")
        arguments[target] = Path(dataset)
    for key, value in (options or {}).items():
        parameter = key.replace("-", "_")
        if parameter not in signature.parameters:
            known = ", ".join(p for p in signature.parameters if p not in arguments) or "none"
            raise UsageError(f"'{name}' has no option '{key}'; it has: {known}")
        arguments[parameter] = convert(value, hints.get(parameter, str), key)
    try:
        return cls(**arguments)
    except TypeError as error:
        raise UsageError(f"'{name}' cannot be made: {error}") from None


def convert(value: str, hint: Any, key: str) -> Any:
    """A command-line string as the type a parameter is annotated with."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        kinds = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        if value.lower() in ("none", "") and type(None) in typing.get_args(hint):
            return None
    else:
        kinds = [hint]
    for kind in kinds:
        origin = typing.get_origin(kind) or kind
        try:
            if origin is bool:
                return BOOLEANS[value.lower()]
            if origin in (int, float):
                return origin(value)
            if origin is Path:
                return Path(value)
            if isinstance(origin, type) and origin is not str and hasattr(origin, "__iter__"):
                return [part.strip() for part in value.split(",") if part.strip()]
        except (KeyError, ValueError):
            continue
        return value
    raise UsageError(f"--option {key}={value}: not a valid value ({hint})")


def _load(module: str, attribute: str, name: str) -> type[Benchmark[Any]]:
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise UsageError(f"'{name}': no module '{module}' can be imported") from None
    except AttributeError:
        raise UsageError(f"'{name}': module '{module}' has no '{attribute}'") from None
    if not (isinstance(found, type) and issubclass(found, Benchmark)):
        raise UsageError(f"'{name}': {module}:{attribute} is not a Benchmark")
    return found
