"""One adapter a file. Classes are imported when they are asked for."""

from __future__ import annotations

import importlib
from typing import Any

#: What users import beside the adapters themselves.
_VALUES = {"SWEBenchConfig": "swe_bench", "SWEBenchInstance": "swe_bench"}


def _exported() -> dict[str, str]:
    from chimera.eval.registry import adapters

    found = {cls.__name__: cls.__module__ for cls in adapters().values()}
    return found | {name: f"{__name__}.{module}" for name, module in _VALUES.items()}


def __dir__() -> list[str]:
    return sorted(_exported())


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    if name.startswith("__") or name not in (exported := _exported()):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(exported[name]), name)
