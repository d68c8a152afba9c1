"""What the wire formats share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from chimera.types import JSON, Image, Message

_DATA_URL = re.compile(r"data:(image/[a-z0-9.+-]+);base64,", re.IGNORECASE)


def data_url(image: Image) -> str:
    return f"data:{image.media_type};base64,{image.data}"


def image_of_url(url: object) -> Image | None:
    """The picture in a data URL; None of an address elsewhere."""
    match = _DATA_URL.match(url) if isinstance(url, str) else None
    return Image(match[1], url[match.end() :]) if match and isinstance(url, str) else None


def objects(value: JSON) -> list[dict[str, JSON]]:
    """The JSON objects of a list; nothing of anything else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def text_of(content: JSON) -> str:
    """The text of a content that is a text or a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in objects(content) if isinstance(part.get("text"), str))


def count(values: JSON, *names: str) -> int:
    """A number of tokens by the first of its names that is there; 0 where none is."""
    if isinstance(values, Mapping):
        for name in names:
            if isinstance(values.get(name), (int, float)):
                return max(0, int(values[name]))
    return 0


def call_names(messages: Sequence[Message]) -> Iterable[tuple[Message, dict[str, str]]]:
    """Each message with the names of the calls before it, by their ids."""
    names: dict[str, str] = {}
    for message in messages:
        yield message, names
        names |= {call.id: call.name for call in message.tool_calls}
