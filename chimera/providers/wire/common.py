"""What the wire formats share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from chimera.providers.base import Request, most_input_tokens
from chimera.types import JSON, Image, Message, Usage

#: More than any call has: a larger number is none that was counted.
MOST_TOKENS = 10**9
#: What every service takes for a tool's name.
_NAME, _NO_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}"), re.compile(r"[^A-Za-z0-9_-]")
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


def told(values: JSON, *names: str) -> int | None:
    """A number of tokens by the first of its names that has one; None where nothing credible is
    told."""
    for name in names if isinstance(values, Mapping) else ():
        value = values.get(name, None)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return int(value) if 0 <= value <= MOST_TOKENS else None
    return None


def count(values: JSON, *names: str) -> int:
    """A number of tokens that need not be told."""
    return told(values, *names) or 0


def usage_of(
    request: Request,
    said: Message,
    read: int | None,
    written: int | None,
    *,
    cached: int = 0,
    cache_written: int = 0,
    reasoning: int = 0,
) -> Usage:
    """The tokens as a service counts them; where it does not, at most as many as bytes. No part of
    them is more than the whole: a price would be less than nothing."""
    if read is None:
        read = most_input_tokens(request)
    if written is None:
        text = said.content + said.reasoning + "".join(c.raw_arguments for c in said.tool_calls)
        written = max(reasoning, len(text.encode("utf-8", "replace")))
    cached = min(cached, read)
    return Usage(read, written, cached, min(cache_written, read - cached), min(reasoning, written))


def sendable(request: Request) -> list[Message]:
    """The conversation as services take it. A model may call a tool by any words; what has words
    that are no name among its calls is refused as a whole, unless a tool was offered by them."""
    offered = {tool.name for tool in request.tools}

    def name(said: str) -> str:
        taken = said in offered or _NAME.fullmatch(said)
        return said if taken else _NO_NAME.sub("_", said)[:64] or "unknown"

    return [
        message
        if all(name(call.name) == call.name for call in message.tool_calls)
        else _renamed(message, name)
        for message in request.messages
    ]


def _renamed(message: Message, name: Callable[[str], str]) -> Message:
    calls = tuple(replace(call, name=name(call.name)) for call in message.tool_calls)
    native = message.native
    if native is not None:
        native = replace(native, content=_renamed_content(native.content, name))
    return replace(message, tool_calls=calls, native=native)


def _renamed_content(content: JSON, name: Callable[[str], str]) -> JSON:
    """The calls of a turn as its service sent it, in any of the formats."""

    def renamed(call: dict[str, JSON]) -> dict[str, JSON]:
        return {**call, "name": name(str(call.get("name")))}

    if isinstance(content, dict):
        calls = objects(content.get("tool_calls"))
        return content | {"tool_calls": [{**c, "function": renamed(c["function"])} for c in calls]}
    return [
        renamed(part)
        if part.get("type") in ("tool_use", "function_call")
        else {**part, "functionCall": renamed(part["functionCall"])}
        if isinstance(part.get("functionCall"), dict)
        else part
        for part in objects(content)
    ]


def call_names(messages: Sequence[Message]) -> Iterable[tuple[Message, dict[str, str]]]:
    """Each message with the names of the calls before it, by their ids."""
    names: dict[str, str] = {}
    for message in messages:
        yield message, names
        names |= {call.id: call.name for call in message.tool_calls}
