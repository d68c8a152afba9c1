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
from collections.abc import Collection, Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar

from chimera.errors import UsageError

KindT = TypeVar("KindT")
BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def load_class(
    name: str,
    kind: type[KindT],
    *,
    what: str,
    shipped: Mapping[str, str],
    group: str,
    others: Collection[str] = (),
) -> type[KindT]:
    """The class behind `name`, which is a `kind`; `shipped` maps names to `module:Class` paths.

    `what` is the word for it in messages ("benchmark", "agent"), `group` its entry points, and
    `others` are names that the caller knows beside these.
    """
    path = shipped.get(name) or (name if ":" in name else _entry_points(group).get(name))
    if path is None:
        known = ", ".join(sorted({*shipped, *_entry_points(group), *others}))
        raise UsageError(
            f"unknown {what} '{name}'\n  Known: {known}\n  Your own: package.module:Class, "
            f"path/to/file.py:Class, or an entry point in the group '{group}'."
        )
    module, _, attribute = path.rpartition(":")
    found: Any = getattr(_module(module, name, what), attribute, None)
    if found is None:
        raise UsageError(f"{what} '{name}': {module} has no '{attribute}'")
    if not (isinstance(found, type) and issubclass(found, kind)):
        wanted = "class" if kind is object else f"{kind.__name__} class"
        raise UsageError(f"{what} '{name}': {attribute} is no {wanted}")
    return found


def _entry_points(group: str) -> dict[str, str]:
    return {entry.name: entry.value for entry in entry_points(group=group)}


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


def pairs(texts: Iterable[str], flag: str) -> dict[str, str]:
    """KEY=VALUE texts, as `flag` takes them, by their keys."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"{flag} {text}: expected KEY=VALUE")
        found[key.strip()] = value
    return found


def convert(text: str, annotation: Any, key: str) -> Any:
    """A text of the command line as the type a parameter is annotated with."""
    kinds = [annotation]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        kinds = [each for each in typing.get_args(annotation) if each is not type(None)]
        if text.lower() in ("none", "") and type(None) in typing.get_args(annotation):
            return None
    for kind in kinds:
        try:
            return _converted(text, kind, key)
        except (KeyError, ValueError):
            continue
    raise UsageError(f"option {key}={text}: not a valid value ({annotation})")


def _converted(text: str, kind: Any, key: str) -> Any:
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin is bool:
        return BOOLEANS[text.lower()]
    if origin in (int, float, Path):
        return origin(text)
    if origin is Literal:
        return next((each for each in arguments if str(each) == text), text)
    if origin is not str and isinstance(origin, type) and issubclass(origin, Iterable):
        element = arguments[0] if arguments else str
        return [convert(part.strip(), element, key) for part in text.split(",") if part.strip()]
    return text
