"""Classes by name: a shipped one, `module:Class`, `path/to/file.py:Class`, or an entry point.

Also how a text of the command line becomes the value that a parameter is annotated with.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import types
import typing
from collections.abc import Collection, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar

from chimera.errors import UsageError

KindT = TypeVar("KindT")
BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def load_class(
    name: str, kind: type[KindT], *, what: str, shipped: Mapping[str, str], group: str = ""
) -> type[KindT]:
    """The subclass of `kind` behind `name`; `shipped` maps names to `module:Class` paths.

    `what` is the word for it in messages ("benchmark", "agent"); `group` its entry points.
    """
    path = shipped.get(name)
    if path is None and ":" in name:
        path = name
    if path is None and group:
        path = next((e.value for e in entry_points(group=group) if e.name == name), None)
    if path is None:
        raise UsageError(_unknown(name, what, shipped, group))
    module, _, attribute = path.rpartition(":")
    found: Any = getattr(_module(module, name, what), attribute, None)
    if found is None:
        raise UsageError(f"{what} '{name}': {module} has no '{attribute}'")
    if not (isinstance(found, type) and issubclass(found, kind)):
        raise UsageError(f"{what} '{name}': {attribute} is not a subclass of {kind.__name__}")
    return found


def _unknown(name: str, what: str, shipped: Mapping[str, str], group: str) -> str:
    installed = [entry.name for entry in entry_points(group=group)] if group else []
    own = f"--{what} package.module:Class or path/to/file.py:Class"
    if group:
        own += f", or an entry point in the group '{group}'"
    known = ", ".join(sorted([*shipped, *installed]))
    return f"unknown {what} '{name}'\n  Known: {known}\n  Your own: {own}."


def _module(module: str, name: str, what: str) -> ModuleType:
    """A module by its dotted name, or a file's path."""
    if module.endswith(".py"):
        return _file_module(Path(module).expanduser(), name, what)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise UsageError(f"{what} '{name}': no module '{module}' can be imported") from None


def _file_module(file: Path, name: str, what: str) -> ModuleType:
    """A file as a module that other processes find under the same name (`pickle` needs that)."""
    if not file.is_file():
        raise UsageError(f"{what} '{name}': no file {file}")
    stem = file.stem
    loaded = sys.modules.get(stem)
    if loaded is not None and loaded.__file__ == str(file.resolve()):
        return loaded
    spec = importlib.util.spec_from_file_location(stem, file.resolve())
    if spec is None or spec.loader is None or loaded is not None:
        raise UsageError(f"{what} '{name}': {file} cannot be loaded as the module '{stem}'")
    module = importlib.util.module_from_spec(spec)
    sys.modules[stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[stem]
        raise
    return module


def constructor_values(
    cls: type[Any], given: Mapping[str, str], *, owner: str, reserved: Collection[str] = ()
) -> dict[str, Any]:
    """Values for a class's constructor from KEY=VALUE texts; `reserved` names are not options."""
    parameters = [name for name in inspect.signature(cls).parameters if name not in reserved]
    hints = typing.get_type_hints(vars(cls).get("__init__", cls.__init__))
    values = {}
    for key, text in given.items():
        name = key.replace("-", "_")
        if name not in parameters:
            known = ", ".join(parameters) or "none"
            raise UsageError(f"{owner} has no option '{key}'; it has: {known}")
        values[name] = convert(text, hints.get(name, str), key)
    return values


def convert(text: str, annotation: Any, key: str) -> Any:
    """A text of the command line as the type a parameter is annotated with."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        kinds = [arg for arg in typing.get_args(annotation) if arg is not type(None)]
        if text.lower() in ("none", "") and type(None) in typing.get_args(annotation):
            return None
    else:
        kinds = [annotation]
    for kind in kinds:
        origin = typing.get_origin(kind) or kind
        try:
            if origin is bool:
                return BOOLEANS[text.lower()]
            if origin in (int, float):
                return origin(text)
            if origin is Path:
                return Path(text)
            if origin is Literal or origin is str or not isinstance(origin, type):
                return text
            if hasattr(origin, "__iter__"):
                return [part.strip() for part in text.split(",") if part.strip()]
        except (KeyError, ValueError):
            continue
        return text
    raise UsageError(f"--option {key}={text}: not a valid value ({annotation})")
