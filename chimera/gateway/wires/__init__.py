"""The wire formats that clients may speak, and how their addresses are told apart."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chimera.gateway.wires.anthropic import AnthropicWire
from chimera.gateway.wires.base import Wire
from chimera.gateway.wires.chat import ChatWire
from chimera.gateway.wires.gemini import GeminiWire
from chimera.gateway.wires.responses import ResponsesWire

WIRES: dict[str, Wire] = {
    wire.name: wire for wire in (ChatWire(), ResponsesWire(), AnthropicWire(), GeminiWire())
}
_PATHS = (
    ("chat", re.compile(r"/(?:v1/)?chat/completions")),
    ("responses", re.compile(r"/(?:v1/)?responses")),
    ("anthropic", re.compile(r"/v1/messages(?P<count>/count_tokens)?")),
    (
        "gemini",
        re.compile(
            r"/v1(?:beta|alpha)?/models/(?P<model>[\w.:@-]+):"
            r"(?:(?P<stream>streamGenerateContent)|generateContent|(?P<count>countTokens))"
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Target:
    """What an address asks for."""

    wire: Wire
    model: str | None = None  # where the address names it
    stream: bool = False  # where the address asks for it
    count: bool = False  # only the tokens are to be counted


def target_of(path: str) -> Target | None:
    for name, pattern in _PATHS:
        found = pattern.fullmatch(path)
        if found:
            parts = found.groupdict()
            return Target(
                WIRES[name], parts.get("model"), bool(parts.get("stream")), bool(parts.get("count"))
            )
    return None


__all__ = ["WIRES", "Target", "Wire", "target_of"]
