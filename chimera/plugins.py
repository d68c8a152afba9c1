"""Classes by name: a shipped one, `module:Class`, `file.py`, `file.py:Class`, or an entry point.

Also how a text of the command line becomes the value that a parameter is annotated with.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
import re
import sys
import threading
import traceback
import types
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar

from chimera.errors import UsageError, fault
from chimera.text import did_you_mean

KindT = TypeVar("KindT")
_loading = threading.RLock()
#: The files of code that is not shipped.
_own_files: set[str] = set()
BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def load_class(
    name: str,
    kind: type[KindT],
    *,
    what: str,
    shipped: Mapping[str, str],
    group: str,
    others: Collection[str] = (),
    members: Sequence[str] = (),
) -> type[KindT]:
    """The class behind `name`, which is a `kind`; `shipped` maps names to `module:Class` paths.

    `what` is the word for it in messages ("benchmark", "agent"), `group` its entry points, and
    `others` are names that the caller knows beside these. A file alone must hold one such class;
    where any class will do (`kind` is object), it is one with any of these `members`.
    """
    path = shipped.get(name) or (name if is_own_code(name) else _entry_points(group).get(name))
    if path is None:
        known = sorted({*shipped, *_entry_points(group), *others})
        raise UsageError(
            f"unknown {what} '{name}'{did_you_mean(name.partition(':')[0], known)}\n"
            f"  Known: {', '.join(known)}\n"
            "  Your own: file.py:Class, file.py where it holds one, package.module:Class, "
            f"or an entry point in the group '{group}'."
        )
    place, _, attribute = (path, "", "") if path.endswith(".py") else path.rpartition(":")
    module = _module(place, name, what)
    if path not in shipped.values():
        _own_files.add(str(module.__file__))
    if not attribute:
        return _only_class(module, kind, members, what=what, name=name)
    found: Any = getattr(module, attribute, None)
    if found is None:
        near = did_you_mean(attribute, [each.__name__ for each in _own_classes(module, kind)])
        raise UsageError(f"{what} '{name}': {place} has no '{attribute}'{near}")
    if not (isinstance(found, type) and issubclass(found, kind)):
        wanted = "class" if kind is object else f"{kind.__name__} class"
        raise UsageError(f"{what} '{name}': {attribute} is no {wanted}")
    return found


def crosses_own_code(error: BaseException) -> bool:
    """Whether an exception came through code that is not shipped."""
    frames = traceback.extract_tb(error.__traceback__)
    return any(frame.filename in _own_files for frame in frames)


def is_own_code(name: str) -> bool:
    """Whether a name can be that of code of one's own: `module:Class`, `file.py`, `file.py:Class`.

    Names with blanks are none: `command:claude -p {prompt}` is an agent with its arguments.
    """
    return re.fullmatch(r".+\.py(:\w+)?|[^\W\d][\w.]*:[^\W\d]\w*", name) is not None


def _only_class(
    module: ModuleType, kind: type[KindT], members: Sequence[str], *, what: str, name: str
) -> type[KindT]:
    fitting = [
        each
        for each in _own_classes(module, kind)
        if not members or any(hasattr(each, member) for member in members)
    ]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        like = kind.__name__ if kind is not object else f"class with {' or '.join(members)}()"
        raise UsageError(f"{what} '{name}': the file defines no {like}")
    choices = ", ".join(f"{name}:{each.__name__}" for each in fitting)
    raise UsageError(f"{what} '{name}': the file defines several; name one of: {choices}")


def _own_classes(module: ModuleType, kind: type[KindT]) -> list[type[KindT]]:
    """The classes of a kind that a module defines itself and that can be made."""
    return [
        value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, kind)
        and value.__module__ == module.__name__
        and not inspect.isabstract(value)
        and not name.startswith("_")
    ]


def entry_point_names(group: str) -> Collection[str]:
    """The names that installed packages give classes of theirs."""
    return _entry_points(group)


def _entry_points(group: str) -> dict[str, str]:
    return {entry.name: entry.value for entry in entry_points(group=group)}


def _module(module: str, name: str, what: str) -> ModuleType:
    """A module by its dotted name, installed or in the current directory, or a file's path."""
    if module.endswith(".py"):
        return _file_module(Path(module).expanduser(), name, what)
    top = module.partition(".")[0]
    if (Path(top).is_dir() or Path(f"{top}.py").is_file()) and importlib.util.find_spec(
        top
    ) is None:
        _search(Path.cwd())
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:  # code of one's own may raise anything
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and module.startswith(missing):
            place = f"no module '{module}' is installed or in {Path.cwd()}"
            raise UsageError(f"{what} '{name}': {place}") from None
        raise UsageError(f"{what} '{name}' cannot be loaded: {fault(error)}") from error


def _search(folder: Path) -> None:
    """Let modules of a folder be imported, after all that is installed."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
        importlib.invalidate_caches()


def _file_module(file: Path, name: str, what: str) -> ModuleType:
    """A file as a module that other processes find under the same name (`pickle` needs that)."""
    if not file.is_file():
        raise UsageError(f"{what} '{name}': no file {file}")
    stem = file.stem
    with _loading:  # a second thread must not take a module that is half there
        loaded = sys.modules.get(stem)
        if loaded is not None and loaded.__file__ == str(file.resolve()):
            return loaded
        spec = importlib.util.spec_from_file_location(stem, file.resolve())
        if spec is None or spec.loader is None or loaded is not None:
            raise UsageError(f"{what} '{name}': {file} cannot be loaded as the module '{stem}'")
        _search(file.resolve().parent)  # for what lies beside it
        module = importlib.util.module_from_spec(spec)
        sys.modules[stem] = module
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            del sys.modules[stem]
            if isinstance(error, KeyboardInterrupt):
                raise
            raise UsageError(f"{what} '{name}' cannot be loaded: {fault(error)}") from error
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
            near = did_you_mean(name, parameters)
            raise UsageError(f"{owner} has no option '{key}'{near}\n  It has: {known}")
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
    if origin is float and math.isnan(float(text)):
        raise ValueError  # compares with nothing, so that no bound holds
    if origin in (int, float, Path):
        return origin(text)
    if origin is Literal:
        return next((each for each in arguments if str(each) == text), text)
    if origin is not str and isinstance(origin, type) and issubclass(origin, Iterable):
        element = arguments[0] if arguments else str
        return [convert(part.strip(), element, key) for part in text.split(",") if part.strip()]
    return text
