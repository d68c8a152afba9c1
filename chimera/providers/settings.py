"""How a model is asked, beside the messages: effort, budget of thought, any field or header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chimera.errors import UsageError
from chimera.providers.secrets import PLACEHOLDER, remember_secret
from chimera.types import JSON

HEADER = "header."
PROTOCOL = "protocol"
#: Fields that the conversation decides, which no option may put in its place.
OWN_FIELDS = frozenset({"contents", "input", "messages", "model", "stream", "tools"})
#: Headers whose values must be in no record.
_SECRET_HEADERS = ("key", "authorization", "token", "secret")


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What a user sets of a model. `body` holds further fields of the request by dotted name."""

    reasoning_effort: str | None = None
    thinking_tokens: int | None = None
    top_p: float | None = None
    body: tuple[tuple[str, JSON], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    protocol: str | None = None  # where a service speaks several

    def identity(self) -> dict[str, JSON]:
        """What of it is set, as it changes answers; secret headers count by their name alone."""
        values: dict[str, JSON] = {
            "reasoning_effort": self.reasoning_effort,
            "thinking_tokens": self.thinking_tokens,
            "top_p": self.top_p,
            "body": dict(self.body) or None,
            "headers": {name: "…" if secret(name) else value for name, value in self.headers},
            "protocol": self.protocol,
        }
        return {name: value for name, value in values.items() if value}

    def fields(self) -> dict[str, JSON]:
        """The further fields of a request, nested as their dotted names say."""
        fields: dict[str, JSON] = {}
        for name, value in self.body:
            merge(fields, nested(name, value))
        return fields


def model_settings(
    options: Mapping[str, str],
    *,
    reasoning_effort: str | None = None,
    thinking_tokens: int | None = None,
    top_p: float | None = None,
) -> ModelSettings:
    """Settings with `--model-option` texts: `header.NAME=TEXT`, `protocol=NAME`, `FIELD=JSON`."""
    body: list[tuple[str, JSON]] = []
    headers: list[tuple[str, str]] = []
    for name, text in options.items():
        if PLACEHOLDER in text:
            raise UsageError(f"--model-option {name} is a secret and not stored: give it again")
        if name.startswith(HEADER) and name != HEADER:
            headers.append((name.removeprefix(HEADER).lower(), text))
            if secret(name):
                remember_secret(text)
        elif name.partition(".")[0] in OWN_FIELDS:
            raise UsageError(f"--model-option {name}: this field is the conversation's own")
        elif name != PROTOCOL:
            body.append((name, _value(text)))
    return ModelSettings(
        reasoning_effort,
        thinking_tokens,
        top_p,
        tuple(body),
        tuple(headers),
        options.get(PROTOCOL),
    )


def secret(header: str) -> bool:
    return any(word in header.lower() for word in _SECRET_HEADERS)


def merge(fields: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Put `more` into `fields`, objects into objects; what is there already is replaced."""
    for name, value in more.items():
        there = fields.get(name)
        if isinstance(there, dict) and isinstance(value, Mapping):
            merge(there, value)
        else:
            fields[name] = value


def nested(name: str, value: JSON) -> dict[str, JSON]:
    """`reasoning.summary` → `{"reasoning": {"summary": value}}`."""
    head, dot, rest = name.partition(".")
    return {head: nested(rest, value)} if dot and head and rest else {name: value}


def _value(text: str) -> JSON:
    """A JSON value, or the text itself where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text
