"""An adapter's options: one frozen dataclass, from which everything else about them is read.

The constructor's signature, the conversion of `--option KEY=VALUE`, validation, what resume
matches on and the table on the adapter's page all come from the fields:

    @dataclass(frozen=True, slots=True)
    class MineOptions(Options):
        split: Literal["test", "dev"] = option("test", "which part of the data set")
        keep: bool = option(False, "leave images behind", outcome=False)
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from chimera.errors import UsageError
from chimera.plugins import convert
from chimera.text import did_you_mean
from chimera.types import JSON


def option(
    default: Any,
    text: str,
    *,
    outcome: bool = True,
    quiet: bool = False,
    least: float | None = None,
) -> Any:
    """A field of an options dataclass, with what it means.

    `outcome`: whether it can change a verdict; `quiet`: told apart only when it is not the default
    (an option that came later, so that older runs can be resumed); `least`: the smallest number.
    """
    told = {"text": text, "outcome": outcome, "quiet": quiet, "least": least}
    return field(default=default, metadata=told)


@dataclass(frozen=True, slots=True)
class Options:
    """No options; adapters subclass it. Values are checked by their annotations when it is made."""

    def __post_init__(self) -> None:
        hints = field_types(type(self))
        for each in fields(self):
            value = checked(getattr(self, each.name), hints[each.name], each.name)
            least = each.metadata.get("least")
            if least is not None and value is not None and value < least:
                raise UsageError(f"{each.name} must be at least {least:g}, got {value}")
            object.__setattr__(self, each.name, value)

    def outcome(self) -> dict[str, JSON]:
        """The options that can change an outcome, as plain values."""
        found = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.metadata.get("outcome", True) and not (
                each.metadata.get("quiet") and value == each.default
            ):
                found[each.name] = plain(value)
        return found


def ordered_fields(options: type[Options]) -> list[Field[Any]]:
    """The fields as people meet them: keyword-only ones, which bases bring, come last."""
    return sorted(fields(options), key=lambda each: bool(each.kw_only))


def field_types(options: type) -> dict[str, Any]:
    return typing.get_type_hints(options)


def checked(value: Any, annotation: Any, name: str) -> Any:
    """The value in the form its annotation asks for, or a `UsageError` that says what is wrong."""
    arguments = typing.get_args(annotation)
    if type(None) in arguments:
        if value is None:
            return None
        rest = [argument for argument in arguments if argument is not type(None)]
        annotation = rest[0] if len(rest) == 1 else typing.Union[tuple(rest)]  # noqa: UP007
        arguments = typing.get_args(annotation)
    origin = typing.get_origin(annotation) or annotation
    if origin is Literal:
        if value not in arguments:
            *most, last = map(str, arguments)
            known = f"{', '.join(most)} or {last}" if most else last
            raise UsageError(f"{name} must be {known}, got {value!r}")
    elif origin is bool and not isinstance(value, bool):
        raise UsageError(f"{name} must be true or false, got {value!r}")
    elif origin in (int, float):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UsageError(f"{name} must be a number, got {value!r}")
        if origin is int and value != int(value):
            raise UsageError(f"{name} must be a whole number, got {value!r}")
        return origin(value)
    elif origin is str and not isinstance(value, (str, Path)):
        raise UsageError(f"{name} must be a text, got {value!r}")
    elif origin is Path:
        return Path(value)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(value)
    elif origin in (Sequence, tuple, list):
        raise UsageError(f"{name} must be a list, got {value!r}")
    return value


def plain(value: Any) -> JSON:
    """A value as JSON writes it."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(inner) for inner in value]
    return value


def from_texts(options: type[Options], given: Mapping[str, str], owner: str) -> dict[str, Any]:
    """Values for the constructor, from the KEY=VALUE texts of a command line."""
    hints = field_types(options)
    names = [each.name for each in fields(options)]
    values = {}
    for key, text in given.items():
        name = key.replace("-", "_")
        if name not in names:
            known = ", ".join(names) or "none"
            near = did_you_mean(name, names)
            raise UsageError(f"'{owner}' has no option '{key}'{near}\n  It has: {known}")
        values[name] = convert(text, hints[name], key)
    return values


def described(options: type[Options]) -> Iterator[tuple[str, str, str]]:
    """(name, default, meaning with the choices) of every option."""
    hints = field_types(options)
    for each in ordered_fields(options):
        meaning = each.metadata.get("text", "")
        if choices := _choices(hints[each.name]):
            meaning += f" ({', '.join(choices)})"
        default = "" if each.default in (None, "", ()) else str(plain(each.default))
        yield each.name, default, meaning


def table(options: type[Options]) -> str:
    """The options as a Markdown table: name, default, meaning."""
    lines = ["| option | default | what it does |", "|---|---|---|"]
    for name, default, meaning in described(options):
        lines.append(f"| `{name}` | {f'`{default}`' if default else '–'} | {meaning} |")
    return "\n".join(lines) + "\n"


def _choices(annotation: Any) -> list[str]:
    for each in (annotation, *typing.get_args(annotation)):
        if typing.get_origin(each) is Literal:
            return [str(choice) for choice in typing.get_args(each)]
    return []
