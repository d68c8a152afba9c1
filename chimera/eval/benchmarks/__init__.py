"""One adapter a file. Classes are imported when they are asked for."""

from __future__ import annotations

import importlib
from typing import Any

from chimera.eval.registry import BENCHMARKS

_MODULES = {attribute: module for module, attribute in BENCHMARKS.values()}
_MODULES["SWEBenchConfig"] = _MODULES["SWEBenchInstance"] = "swe_bench"

__all__ = sorted(_MODULES)  # the registry is the one list of adapters


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
