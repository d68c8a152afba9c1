"""Loads a solution as the module it is where tests import it: with a name, a file and a source."""

from __future__ import annotations

from typing import Any


def _loaded(name: str, source: bytes) -> dict[str, Any]:
    import sys
    import types
    from pathlib import Path

    place = Path.cwd() / f"{name}.py"
    place.write_bytes(source)
    module = types.ModuleType(name)
    module.__file__ = str(place)
    sys.modules[name] = module
    exec(compile(source, place, "exec", dont_inherit=True), vars(module))
    return vars(module)
