"""Anthropic's messages: turns of blocks that alternate, with thinking that must come back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chimera.providers.base import DEFAULT_MAX_TOKENS, Request
from chimera.providers.sdk import malformed, status_failure, tool_arguments
from chimera.providers.settings import ModelSettings
from chimera.providers.wire.common import count, objects, sendable, text_of, told, usage_of
from chimera.tools.base import Tool
from chimera.types import JSON, Image, Message, Native, Response, ToolCall, Usage

PROTOCOL = "messages"
EMPTY = "(empty)"  # the interface refuses empty texts
STOP_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
#: Blocks that text and calls say all of; any other goes back as it came.
PLAIN_BLOCKS = ("text", "tool_use")
CACHED: Mapping[str, JSON] = {"type": "ephemeral"}
Blocks = list[dict[str, JSON]]


def request_body(model: str, request: Request, settings: ModelSettings) -> dict[str, Any]:
    """The body; the tokens of thought come on top of those that the answer may have."""
    system, turns = wire_turns(sendable(request))
    body: dict[str, Any] = {
        "model": model,
        "messages": turns,
        "max_tokens": (request.max_tokens or DEFAULT_MAX_TOKENS) + (settings.thinking_tokens or 0),
    }
    if system:
        body["system"] = [{"type": "text", "text": system}]
    if request.tools:
        body["tools"] = wire_tools(request.tools)
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    for name, value in (("temperature", request.temperature), ("top_p", settings.top_p)):
        if value is not None:
            body[name] = value
    if settings.thinking_tokens is not None:
        body["thinking"] = {"type": "enabled", "budget_tokens": settings.thinking_tokens}
    elif settings.reasoning_effort is not None:
        body["thinking"] = {"type": "adaptive"}
    if settings.reasoning_effort is not None:
        body["output_config"] = {"effort": settings.reasoning_effort}
    return body


def set_cache_marks(body: dict[str, Any]) -> None:
    """Have the stable prefix cached: tools and system, and the conversation so far.

    A conversation is one that goes on, with tools or an earlier turn: what is asked once would
    only pay for the writing. The mark before the last serves a turn of more blocks than the
    service looks back.
    """
    turns = body["messages"]
    if not body.get("tools") and len(turns) < 2:
        return
    marked = [body["system"][-1]] if body.get("system") else []
    users = [turn for turn in turns if turn["role"] == "user"]
    marked += [turn["content"][-1] for turn in users[-2:]]
    for block in marked:
        block["cache_control"] = dict(CACHED)


def wire_turns(messages: Sequence[Message]) -> tuple[str, list[dict[str, JSON]]]:
    """The system prompt, and turns that alternate as the interface demands.

    Results of tools belong into one user turn; a system message later on becomes part of one too.
    """
    system: list[str] = []
    turns: list[dict[str, JSON]] = []
    for message in messages:
        if message.role == "system" and not turns:
            system.append(message.content)
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"].extend(_blocks(message))
        else:
            turns.append({"role": role, "content": _blocks(message)})
    return "\n\n".join(system), turns


def _blocks(message: Message) -> Blocks:
    if message.native is not None and message.native.protocol == PROTOCOL:
        return list(message.native.content)
    pictures = [_picture(image) for image in message.images]
    if message.role == "tool":
        content: JSON = message.content or EMPTY
        if pictures:
            content = [{"type": "text", "text": content}, *pictures]
        result = {"type": "tool_result", "tool_use_id": message.call_id or "", "content": content}
        return [result]
    blocks: Blocks = [*pictures]
    if message.content.strip():
        blocks.append({"type": "text", "text": message.content})
    for call in message.tool_calls:
        value = dict(call.arguments or {})
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": value})
    return blocks or [{"type": "text", "text": EMPTY}]


def _picture(image: Image) -> dict[str, JSON]:
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return {"type": "image", "source": source}


def wire_tools(tools: Sequence[Tool]) -> list[dict[str, JSON]]:
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": dict(tool.parameters),
        }
        for tool in tools
    ]


def read_reply(name: str, body: dict[str, JSON], request: Request) -> Response:
    """The answer in a message; an answer without one is a failure that can pass."""
    if body.get("type") == "error" or "error" in body:
        raise status_failure(name, 500, {}, body.get("error"))
    blocks = body.get("content")
    if not isinstance(blocks, list) or len(objects(blocks)) != len(blocks):
        raise malformed(name, f"the answer has no content: {body}")
    if not isinstance(body.get("usage"), dict):
        raise malformed(name, "the answer does not say how many tokens it took")
    said = _assistant(blocks)
    reason = str(body.get("stop_reason") or "stop")
    return Response(
        content=said.content,
        tool_calls=said.tool_calls,
        usage=_usage(body["usage"], request, said),
        stop_reason=STOP_REASONS.get(reason, reason),
        model=str(body.get("model") or ""),
        reasoning=said.reasoning,
        native=said.native,
    )


def read_conversation(body: Mapping[str, JSON]) -> list[Message]:
    """The messages of a request that somebody made."""
    system = text_of(body.get("system"))
    found = [Message.system(system)] if system else []
    for turn in objects(body.get("messages")):
        content = turn.get("content")
        text = [{"type": "text", "text": content}]
        blocks = text if isinstance(content, str) else objects(content)
        if turn.get("role") == "assistant":
            found.append(_assistant(blocks))
        else:
            found += _of_user(blocks)
    return found


def _of_user(blocks: Blocks) -> list[Message]:
    results = [block for block in blocks if block.get("type") == "tool_result"]
    found = [
        Message.tool(
            text_of(result.get("content")),
            str(result.get("tool_use_id") or ""),
            _images(objects(result.get("content"))),
        )
        for result in results
    ]
    rest = [block for block in blocks if block.get("type") != "tool_result"]
    return [*found, Message.user(text_of(rest), _images(rest))] if rest else found


def _images(blocks: Blocks) -> list[Image]:
    sources = [block["source"] for block in blocks if isinstance(block.get("source"), dict)]
    return [
        Image(str(source.get("media_type")), str(source["data"]))
        for source in sources
        if source.get("type") == "base64" and source.get("data")
    ]


def _assistant(blocks: Blocks) -> Message:
    texts, thoughts, calls = [], [], []
    for block in blocks:
        kind = block.get("type")
        if kind == "text":
            texts.append(str(block.get("text") or ""))
        elif kind == "thinking":
            thoughts.append(str(block.get("thinking") or ""))
        elif kind == "tool_use":
            arguments, raw = tool_arguments(block.get("input"))
            calls.append(ToolCall(str(block.get("id")), str(block.get("name")), arguments, raw))
    reasoning = "\n\n".join(thought for thought in thoughts if thought)
    return Message(
        "assistant", "".join(texts), tuple(calls), reasoning=reasoning, native=_native(blocks)
    )


def _native(blocks: Blocks) -> Native | None:
    """The blocks as they came, without empty texts, where more than text and calls is in them."""
    if all(block.get("type") in PLAIN_BLOCKS for block in blocks):
        return None
    kept = [block for block in blocks if block.get("type") != "text" or _says(block)]
    return Native(PROTOCOL, kept)


def _says(block: Mapping[str, JSON]) -> bool:
    return bool(str(block.get("text") or "").strip())


def _usage(usage: Mapping[str, JSON], request: Request, said: Message) -> Usage:
    cached = count(usage, "cache_read_input_tokens")
    written = count(usage, "cache_creation_input_tokens")
    rest, details = told(usage, "input_tokens"), usage.get("output_tokens_details")
    return usage_of(
        request,
        said,
        None if rest is None else rest + cached + written,
        told(usage, "output_tokens"),
        cached=cached,
        cache_written=written,
        reasoning=count(details, "thinking_tokens", "reasoning_tokens"),
    )
