"""OpenAI's Responses interface, without state there: everything goes along with each request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chimera.errors import UsageError
from chimera.providers.base import Request
from chimera.providers.sdk import malformed, status_failure, tool_arguments
from chimera.providers.settings import ModelSettings
from chimera.providers.wire.common import (
    count,
    data_url,
    image_of_url,
    objects,
    sendable,
    text_of,
    told,
    usage_of,
)
from chimera.tools.base import Tool
from chimera.types import JSON, Image, Message, Native, Response, ToolCall, Usage

PROTOCOL = "responses"
#: How the names of OpenAI's models begin that do not reason, and refuse to be asked for it.
NOT_REASONING = ("gpt-3", "gpt-4", "chatgpt")
STOP_REASONS = {"max_output_tokens": "length", "content_filter": "content_filter"}


def request_body(model: str, request: Request, settings: ModelSettings) -> dict[str, Any]:
    if request.stop:
        raise UsageError(f"'{model}': the Responses interface has no stop sequences")
    body: dict[str, Any] = {
        "model": model,
        "input": wire_items(sendable(request)),
        "store": False,
    }
    if request.tools:
        body["tools"] = wire_tools(request.tools)
    if reasons(model):
        body["include"] = ["reasoning.encrypted_content"]
    if settings.reasoning_effort is not None:
        body["reasoning"] = {"effort": settings.reasoning_effort}
    values = {
        "temperature": request.temperature,
        "max_output_tokens": request.max_tokens,
        "top_p": settings.top_p,
    }
    return body | {name: value for name, value in values.items() if value is not None}


def reasons(model: str) -> bool:
    """Whether a model of OpenAI's is one that reasons."""
    return not model.startswith(NOT_REASONING) and "-chat" not in model


def wire_items(messages: Sequence[Message]) -> list[dict[str, JSON]]:
    """The conversation as items; a turn that the service sent goes back item for item."""
    items: list[dict[str, JSON]] = []
    for message in messages:
        if message.role == "tool":
            output = _parts(message.content, message.images) if message.images else message.content
            items.append(
                {
                    "type": "function_call_output",
                    "call_id": message.call_id or "",
                    "output": output,
                }
            )
        elif message.native is not None and message.native.protocol == PROTOCOL:
            items.extend(message.native.content)
        elif message.images:
            items.append({"role": message.role, "content": _parts(message.content, message.images)})
        else:
            if message.content or not message.tool_calls:
                items.append({"role": message.role, "content": message.content})
            items.extend(_wire_call(call) for call in message.tool_calls)
    return items


def _parts(text: str, images: Sequence[Image]) -> list[dict[str, JSON]]:
    pictures = [{"type": "input_image", "image_url": data_url(image)} for image in images]
    return [{"type": "input_text", "text": text}, *pictures] if text else pictures


def _wire_call(call: ToolCall) -> dict[str, JSON]:
    arguments = call.raw_arguments if call.arguments is not None else "{}"
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": arguments,
    }


def wire_tools(tools: Sequence[Tool]) -> list[dict[str, JSON]]:
    return [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.parameters),
            "strict": False,  # else optional parameters would become required ones
        }
        for tool in tools
    ]


def read_reply(name: str, body: dict[str, JSON], request: Request) -> Response:
    """The answer in a response; one that failed is a failure that can pass."""
    if body.get("error"):
        raise status_failure(name, 500, {}, body["error"])
    items = objects(body.get("output"))
    if not isinstance(body.get("output"), list) or not isinstance(body.get("usage"), dict):
        raise malformed(name, f"the answer has no output or does not say its tokens: {body}")
    said = _turn(name, items)
    details = body.get("incomplete_details")
    cut = details.get("reason") if isinstance(details, dict) else None
    reason = STOP_REASONS.get(str(cut), str(cut)) if cut else "stop"
    return Response(
        content=said.content,
        tool_calls=said.tool_calls,
        usage=_usage(body["usage"], request, said),
        stop_reason="tool_calls" if said.tool_calls and not cut else reason,
        model=str(body.get("model") or ""),
        reasoning=said.reasoning,
        native=said.native,
    )


def read_conversation(body: Mapping[str, JSON]) -> list[Message]:
    """The messages of a request that somebody made."""
    found: list[Message] = []
    if body.get("instructions"):
        found.append(Message.system(str(body["instructions"])))
    if isinstance(body.get("input"), str):
        return [*found, Message.user(body["input"])]
    turn: list[dict[str, JSON]] = []
    for item in objects(body.get("input")):
        if _is_models(item):
            turn.append(item)
            continue
        if turn:
            found.append(_turn("a request", turn))
            turn = []
        found.append(_of_others(item))
    return [*found, _turn("a request", turn)] if turn else found


def _is_models(item: Mapping[str, JSON]) -> bool:
    kind = item.get("type", "message")
    return item.get("role") == "assistant" if kind == "message" else not kind.endswith("_output")


def _of_others(item: Mapping[str, JSON]) -> Message:
    content = item.get("content", item.get("output"))
    urls = (part.get("image_url") for part in objects(content))
    images = [image for url in urls if (image := image_of_url(url)) is not None]
    if item.get("role") in ("system", "developer"):
        return Message.system(text_of(content))
    if item.get("role") == "user":
        return Message.user(text_of(content), images)
    return Message.tool(text_of(content), str(item.get("call_id") or ""), images)


def _turn(name: str, items: list[dict[str, JSON]]) -> Message:
    texts, thoughts, calls = [], [], []
    for item in items:
        kind = item.get("type", "message")
        if kind == "message":
            parts = objects(item.get("content"))
            texts.append(text_of(item.get("content")))
            texts += [str(part["refusal"]) for part in parts if part.get("refusal")]
        elif kind == "reasoning":
            thoughts += [text_of(item.get("summary")), text_of(item.get("content"))]
        elif kind == "function_call":
            calls.append(_call(name, item))
    reasoning = "\n\n".join(thought for thought in thoughts if thought)
    native = Native(PROTOCOL, items)
    content = "\n\n".join(text for text in texts if text)
    return Message("assistant", content, tuple(calls), reasoning=reasoning, native=native)


def _call(name: str, item: Mapping[str, JSON]) -> ToolCall:
    if not isinstance(item.get("call_id"), str) or not isinstance(item.get("name"), str):
        raise malformed(name, f"a function call without an id or a name: {item}")
    arguments, raw = tool_arguments(item.get("arguments"))
    return ToolCall(item["call_id"], item["name"], arguments, raw)


def _usage(usage: Mapping[str, JSON], request: Request, said: Message) -> Usage:
    details = usage.get("input_tokens_details")
    return usage_of(
        request,
        said,
        told(usage, "input_tokens"),
        told(usage, "output_tokens"),
        cached=count(details, "cached_tokens"),
        cache_written=count(details, "cache_write_tokens"),
        reasoning=count(usage.get("output_tokens_details"), "reasoning_tokens"),
    )
